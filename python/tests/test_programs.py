"""Recorded programs: what is called is replayed as one submission; what cannot be recorded is refused."""
import contextlib
import gc
import threading

import numpy
import pytest

import vkattn

CONTEXT = vkattn.default_context()
RANDOM = numpy.random.default_rng(11)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype("f4")


class Model:
    """A token's way through two layers with caches; everything but the token is the same every time."""

    def __init__(self, layers=2, width=32):
        random = numpy.random.default_rng(5)
        made = lambda *shape: CONTEXT.array((random.standard_normal(shape) / 6).astype("f4"))
        names = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight")
        self.embedding, self.norm, self.up, self.down = made(50, width), made(width), made(64, width), made(width, 64)
        self.layers = [vkattn.Layer("mha", {name: made(width, width) for name in names}, embed_dim=width, num_heads=2)
                       for _ in range(layers)]
        self.caches = [layer.cache(16) for layer in self.layers]

    def __call__(self, token):
        hidden = vkattn.embedding(token, self.embedding)
        for layer, cache in zip(self.layers, self.caches):
            hidden = layer(vkattn.norm(hidden, self.norm), cache=cache, is_causal=True, residual=hidden)
            up = vkattn.linear(hidden, self.up)
            gate = vkattn.linear(hidden, self.up, activation="silu", multiplier=up)
            hidden = vkattn.linear(gate, self.down) + hidden
        return vkattn.linear(hidden, self.embedding)


def test_results_are_zeros_before_the_first_replay():
    x = CONTEXT.array(numbers(1, 300, 64))
    for _ in range(3):  # the memory of one may be that of the one before
        with vkattn.record() as program:
            result = vkattn.norm(x, x[0, 0])
        assert (result.numpy() == 0).all()
        program.replay()
        assert (result.numpy() != 0).any()
        del result, program


def test_memory_of_results_that_are_let_go_serves_later_ones(monkeypatch):
    made = []

    class Counted(vkattn.context._Buffer):
        def __init__(self, context_handle, size, handle=None):
            super().__init__(context_handle, size, handle)
            made.append(handle is None)

    x, weight = CONTEXT.array(numbers(1, 7, 64)), CONTEXT.array(numbers(64, 64) / 8)

    def chain():
        hidden = vkattn.linear(x, weight)
        early = hidden
        for _ in range(20):
            hidden = vkattn.linear(hidden, weight, residual=x) + early
        return early, hidden
    expected = [each.numpy() for each in chain()]
    monkeypatch.setattr(vkattn.context, "_Buffer", Counted)
    with vkattn.record() as program:
        results = chain()
    assert len(made) > 60 and sum(made) - 40 <= 5  # but for the ones that sums take, which are constants
    for _ in range(2):
        program.replay()
        assert all((each.numpy() == wanted).all() for each, wanted in zip(results, expected))


def test_a_recording_ends_in_the_thread_that_began_it():
    said = []

    def end(program):
        try:
            program.__exit__(None, None, None)
        except vkattn.VkattnError as error:
            said.append(str(error))

    x = CONTEXT.array(numbers(1, 3, 8))
    with vkattn.record() as program:
        result = vkattn.norm(x, x[0, 0])
        other = threading.Thread(target=end, args=(program,))
        other.start()
        other.join()
    end(program)
    assert said == ["record: ended where it was not begun, expected the thread that began it, once"] * 2
    program.replay()
    assert (result.numpy() == vkattn.norm(x, x[0, 0]).numpy()).all()


def test_a_model_is_replayed_token_after_token():
    eager, recorded = Model(), Model()
    token = CONTEXT.empty((1, 1), "int32")
    with vkattn.record() as program:
        logits = recorded(token)
        chosen = vkattn.argmax(logits)
    assert recorded.caches[0].lengths == [0]  # nothing is computed yet
    for i, number in enumerate((3, 41, 7, 7)):
        token.assign(numpy.array([[number]], "i4"))
        program.replay()
        expected = eager(CONTEXT.array(numpy.array([[number]], "i4"))).numpy()
        assert (logits.numpy() == expected).all() and recorded.caches[1].lengths == [i + 1]
        assert chosen.numpy()[0, 0] == expected.argmax()
    report = program.report
    assert report.submissions == 1 and report.plans >= 14 and report.barriers < report.dispatches
    assert report.workspace_bytes > 0


def test_a_program_keeps_what_it_needs():
    given, result = CONTEXT.array(numbers(1, 8)), None

    def recorded():
        model = Model()
        with vkattn.record() as program:
            inner = vkattn.linear(given, CONTEXT.array(numpy.eye(8, dtype="f4")))
            result = vkattn.linear(inner, numpy.eye(8, dtype="f4") * 2)  # an array of the host becomes a part
            model(CONTEXT.array(numpy.array([[1]], "i4")))
        return program, result

    program, result = recorded()
    gc.collect()
    CONTEXT.plans.clear()
    for _ in range(2):
        given.assign(numbers(1, 8))
        program.replay()
        assert numpy.allclose(result.numpy(), given.numpy() * 2)


def test_a_full_cache_ends_it_and_counts_nothing():
    model, token = Model(), CONTEXT.array(numpy.array([[1]], "i4"))
    model.caches[1].reserve([15])
    with vkattn.record() as program:
        model(token)
    program.replay()
    with pytest.raises(vkattn.NoRoomError, match="exceed its capacity"):
        program.replay()
    assert model.caches[0].lengths == [1]
    model.caches[1].rewind(0, 2)
    program.replay()
    assert [cache.lengths for cache in model.caches] == [[2], [3]]


ARRAY = CONTEXT.array(numbers(1, 2, 8))
CACHE = Model().caches[0]


@pytest.mark.parametrize("body, words", [
    (lambda: ARRAY.numpy(), "reading an Array: inside a recording, expected before or after it"),
    (lambda: numpy.asarray(ARRAY), "reading an Array: inside a recording"),
    (lambda: ARRAY.assign(numbers(1, 2, 8)), "assign: inside a recording"),
    (lambda: CACHE.rewind(0, 0), "rewind: inside a recording"),
    (lambda: CACHE.reserve([1]), "reserve: inside a recording"),
    (lambda: vkattn.norm(numbers(2, 8), numbers(8)), "record: output would be an array of the host, expected an Array"),
    (lambda: vkattn.record().__enter__(), "record: inside a recording"),
    (lambda: CONTEXT.kv_cache(1, 8, pages=4).attend(ARRAY.reshape(1, 1, 2, 8), [0]), "PagedCache.attend: inside a recording"),
    (lambda: None, "record: nothing was called, expected calls on Arrays"),
])
def test_what_cannot_be_recorded_is_refused(body, words):
    with pytest.raises(vkattn.VkattnError) as raised:
        with vkattn.record() as program:
            body()
    assert str(raised.value).startswith(words) and "\n" not in str(raised.value)
    with pytest.raises(vkattn.VkattnError, match="replay: nothing is recorded"):
        program.replay()
    assert vkattn.norm(ARRAY, numbers(8)).numpy().shape == (1, 2, 8)  # the context goes on


def test_replays_and_reports_in_their_order():
    program = vkattn.record()
    with pytest.raises(vkattn.VkattnError, match="replay: nothing is recorded"):
        program.replay()
    with program:
        result = vkattn.norm(ARRAY, CONTEXT.array(numbers(8)))
        with pytest.raises(vkattn.VkattnError, match="replay: inside a recording"):
            program.replay()
    with pytest.raises(vkattn.VkattnError, match="record: the program is recorded"):
        program.__enter__()
    program.replay()
    assert numpy.isfinite(result.numpy()).all()


def test_other_threads_wait_for_the_end_of_a_recording():
    found, begun = [], threading.Event()

    def work():
        begun.set()
        found.append(vkattn.norm(ARRAY, numbers(8)).numpy())

    thread = threading.Thread(target=work)
    with vkattn.record() as program:
        thread.start()
        begun.wait()
        thread.join(0.05)
        vkattn.norm(ARRAY, CONTEXT.array(numbers(8)))
        assert not found
    thread.join()
    assert program.report.plans == 1 and len(found) == 1


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_argmax_is_numpys(dtype):
    rows = RANDOM.integers(-5, 6, (2, 3, 20000)).astype(dtype)
    rows[1, 1, 777] = numpy.nan
    assert (vkattn.argmax(rows) == rows.argmax(-1)).all()
    places, values = vkattn.argmax(CONTEXT.array(rows), return_values=True)
    assert places.dtype == "int32" and (places.numpy() == rows.argmax(-1)).all()
    assert numpy.array_equal(values.numpy(), rows.max(-1).astype("f4"), equal_nan=True)
    out = CONTEXT.empty((2, 3), "int32")
    assert vkattn.argmax(CONTEXT.array(rows), out=out) is out and (out.numpy() == rows.argmax(-1)).all()
    with pytest.raises(ValueError, match="input: 1 dimensions, expected at least 2"):
        vkattn.argmax(rows[0, 0])


def test_a_replay_without_a_wait_is_waited_for():
    context = vkattn.Context(0)
    with pytest.raises(ValueError, match="timeout: -1, expected seconds, at least 0, or None"):
        context.wait(-1)
    context.wait(0)  # for nothing
    rows, weight = context.array(numbers(1, 64, 256)), context.array(numbers(256, 256) / 16)
    with vkattn.record(context) as program:
        result = rows
        for _ in range(8):
            result = vkattn.linear(result, weight)
    program.replay()
    expected, late = result.numpy(), 0
    for _ in range(8):
        result.assign(numpy.zeros(result.shape, "f4"))
        program.replay(wait=False)
        with contextlib.suppress(vkattn.WaitTimeoutError):
            context.wait(0)
            late += 1
        context.wait(3600)
        assert (result.numpy() == expected).all()
    assert late < 8
    program.replay(wait=False)
    together = [program, rows, weight, result, context]
    together.append(together)
    del program, rows, weight, result, context, together
    gc.collect()  # which waits before their memory goes, in whatever order


def test_replays_that_append_to_a_cache_are_waited_for_before_it_changes():
    eager, recorded = Model(layers=1), Model(layers=1)
    token = CONTEXT.array(numpy.array([[7]], "i4"))
    with vkattn.record() as program:
        logits = recorded(token)
    for _ in range(3):
        program.replay(wait=False)
    assert recorded.caches[0].lengths == [3]
    recorded.caches[0].rewind(0, 1)
    program.replay(wait=False)
    for _ in range(2):
        expected = eager(token)
    assert (logits.numpy() == expected.numpy()).all()


def test_a_program_keeps_what_its_calls_need():
    """Layers, caches, their weights and the buffers that only it has."""
    eager, recorded = Model(layers=1), Model(layers=1)
    token = CONTEXT.array(numpy.array([[7]], "i4"))
    with vkattn.record() as program:
        logits = recorded(token)
    del recorded
    gc.collect()
    for _ in range(2):
        filled = [CONTEXT.array(numbers(64, 64)) for _ in range(8)]  # which may take what was let go
        program.replay()
        assert (logits.numpy() == eager(token).numpy()).all()
    assert len(filled) == 8
