"""Arrays on the device: what they show, what operators make of them, and what is refused."""
import gc
import weakref

import numpy
import pytest

import vkattn
from vkattn import arrays, dlpack
from vkattn.attention import Problem
from test_vkattn import nmse, random, reference

CONTEXT = vkattn.default_context()
NUMBERS = numpy.arange(120, dtype="float32").reshape(2, 3, 4, 5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "int32"])
def test_to_the_device_and_back(dtype):
    numbers = (NUMBERS % 7).astype(dtype)
    array = CONTEXT.array(numbers)
    assert isinstance(array, vkattn.Array) and array.shape == numbers.shape and array.dtype == dtype
    assert array.ndim == 4 and array.size == 120 and array.nbytes == numbers.nbytes and len(array) == 2
    assert array.numpy().dtype == dtype and (array.numpy() == numbers).all() and (numpy.asarray(array) == numbers).all()
    assert repr(array) == f"<vkattn.Array [2, 3, 4, 5] {dtype}>"


def test_views_are_those_of_numpy():
    array = CONTEXT.array(NUMBERS)
    for view in (lambda a: a[1], lambda a: a[-1, :, 2], lambda a: a[..., 3], lambda a: a[:, 1:3, ::2, -1],
                 lambda a: a[0, ..., 1:4], lambda a: a.transpose(0, 2, 1, 3), lambda a: a.transpose((3, 1, 0, 2))[2:],
                 lambda a: a.reshape(6, 20)[1:, 3:], lambda a: a.reshape(2, -1)[1], lambda a: a[:, 1].reshape(2, 1, 4, 5, 1),
                 lambda a: a.transpose(), lambda a: a.T, lambda a: a[0].T, lambda a: a[:, 3:3], lambda a: a[2:],
                 lambda a: a.reshape(numpy.int64(-1)), lambda a: a.reshape((numpy.int64(6), -1)),
                 lambda a: a.transpose(numpy.int64(1), 0, 2, 3), lambda a: a[2:].reshape(5, 0)):
        expected = view(NUMBERS)
        assert view(array).shape == expected.shape and (view(array).numpy() == expected).all()
        assert (view(array).contiguous().numpy() == expected).all()
    assert (array[0, :1].broadcast_to((3, 4, 5)).numpy() == numpy.broadcast_to(NUMBERS[0, :1], (3, 4, 5))).all()
    for mistake, error, message in (
            (lambda: array[2], IndexError, "out of range"),
            (lambda: array[0, 0, 0, 0, 0], IndexError, "5 indices, expected at most 4"),
            (lambda: array[1.5], TypeError, "index 1.5, expected whole numbers"),
            (lambda: array[::-1], IndexError, "step"),
            (lambda: array.reshape(7, -1), ValueError, "expected 120 elements"),
            (lambda: array.transpose().reshape(120), ValueError, "expected contiguous memory: see contiguous"),
            (lambda: array.transpose(0, 0, 1, 2), ValueError, "each of the 4 axes once"),
            (lambda: array.transpose(0, 1, 2, 7), ValueError, "each of the 4 axes once"),
            (lambda: array.broadcast_to((2, 2, 4, 5)), ValueError, "expected a shape that")):
        with pytest.raises(error, match=message):
            mistake()


def test_memory_is_shared_and_goes_with_the_last_array():
    array = CONTEXT.array(NUMBERS)
    array[1].assign(NUMBERS[0])
    assert (array.numpy() == NUMBERS[[0, 0]]).all()
    part, buffer = array[1, 2], weakref.ref(array.buffer)
    del array
    gc.collect()
    assert (part.numpy() == NUMBERS[0, 2]).all() and buffer() is not None
    del part
    gc.collect()
    assert buffer() is None
    array = CONTEXT.empty((4, 6))
    with pytest.raises(ValueError, match=r"values: shape \[6\], expected \[4, 6\]"):
        array.assign(NUMBERS[0, 0, 0, :1].repeat(6))
    with pytest.raises(TypeError, match="values: dtype int64, expected float32"):
        array.assign(numpy.zeros((4, 6), "i8"))
    array.transpose()[1:5].assign(NUMBERS[0, 0, :, :4])
    assert (array.numpy()[:, 1:5] == NUMBERS[0, 0, :, :4].T).all()
    with pytest.raises(ValueError, match="of int32, expected an Array whose numbers lie one after the other"):
        CONTEXT.empty((4, 6), "int32").transpose().assign(numpy.zeros((6, 4), "i4"))


def test_types_are_converted_on_the_device():
    numbers = random(3, 7, 64)
    half = CONTEXT.array(numbers, "float16")
    assert (half.numpy() == numbers.astype("float16")).all()
    assert (CONTEXT.array(half, "float32").numpy() == numbers.astype("float16")).all()
    bits = CONTEXT.array(numbers, "bfloat16").download()["bfloat16"]
    assert (abs((bits.astype("u4") << 16).view("f4") - numbers) <= abs(numbers) / 256).all()
    for dtype, block_bytes, step in (("q8_0", 34, 127), ("q4_0", 18, 8), ("q4_1", 20, 15), ("q5_0", 22, 16), ("q5_1", 24, 31),
                                     ("iq4_nl", 18, 7), ("f8_e4m3", 32, 16), ("f8_e5m2", 32, 8)):
        stored = CONTEXT.array(numbers, dtype)
        assert stored.nbytes == 3 * 7 * 2 * block_bytes
        largest = abs(numbers.reshape(-1, 32)).max(axis=1).repeat(32).reshape(numbers.shape)
        assert (abs(stored.numpy() - numbers) <= largest / step * 1.01).all()
        assert (stored[1, 2:].numpy() == stored.numpy()[1, 2:]).all()
        with pytest.raises(IndexError, match="expected whole rows"):
            stored[..., :32]
        with pytest.raises(ValueError, match=f"expected the rows of {dtype} to stay the last axis"):
            stored.transpose()
    deep = CONTEXT.array(random(2, 1, 3, 2, 8), "float16")
    assert (CONTEXT.array(deep, "float32").numpy() == deep.numpy()).all()
    for values, dtype in (([1, 2], "int32"), ([1.5, 2], numpy.float32), ([0, 2], bool)):
        assert (CONTEXT.array(values, dtype).numpy() == numpy.array(values, dtype)).all()
    for values, dtype, error, message in (
            (numpy.zeros(4, "i4"), "float16", TypeError, "values: int32 for float16, expected float32, float16 or bfloat16"),
            ([2**40], "int32", ValueError, "values: 1099511627776, expected whole numbers"),
            ([0.5], "int32", TypeError, "values: dtype float64, expected whole numbers"),
            ([1.0], "half-precision", TypeError, "dtype: half-precision, expected float32, float16"),
            (["1"], "float32", TypeError, "values: dtype <?U?str.*, expected float32")):
        with pytest.raises(error, match=message):
            CONTEXT.array(values, dtype)


def test_sums_are_those_of_numpy():
    numbers = random(3, 4, 5)
    array = CONTEXT.array(numbers)
    for total, expected in (
            (array + array, numbers + numbers), (array + numbers, numbers + numbers), (numbers + array, numbers + numbers),
            (array + 1, numbers + 1), (0.5 + array, numbers + numpy.float32(0.5)), (array + numbers[1, 2], numbers + numbers[1, 2]),
            (array.T + array[0, 0, :3], numbers.T + numbers[0, 0, :3]), (array[:, :1] + array[0], numbers[:, :1] + numbers[0]),
            (array + numbers[0, 0, 0], numbers + numbers[0, 0, 0]), (array[3:] + array[3:], numbers[3:])):
        assert isinstance(total, vkattn.Array) and total.dtype == "float32" and total.shape == expected.shape
        assert (total.numpy() == expected).all()
    half = array.astype("float16")
    assert (half + half).dtype == "float16" and (half + 1).dtype == "float16" and (half + array).dtype == "float32"
    assert ((half + half).numpy() == half.numpy() + half.numpy()).all()
    for mistake, error, message in ((lambda: array + numbers[:, 0], ValueError, r"shapes \[3, 4, 5\] and \[3, 5\], expected some"),
                                    (lambda: array + CONTEXT.empty(5, "int32"), TypeError, "second: dtype int32, expected float32"),
                                    (lambda: array + "1", TypeError, "values: dtype str")):
        with pytest.raises(error, match=message):
            mistake()


def test_types_of_arrays_are_changed():
    numbers = random(3, 64)
    array = CONTEXT.array(numbers)
    assert array.astype("float32") is array and (array.T.astype("float16").numpy() == numbers.T.astype("float16")).all()
    stored = array.astype("q8_0")
    assert stored.dtype == "q8_0" and (stored.astype("float32").numpy() == stored.numpy()).all()
    assert (stored.astype("float16").numpy() == stored.numpy().astype("float16")).all()
    whole = CONTEXT.array(numpy.array([0, 1, -70000], "i4"))
    assert (whole.astype("float32").numpy() == [0, 1, -70000]).all() and (whole.astype(bool).numpy() == [False, True, True]).all()
    assert (CONTEXT.array(numpy.array([True, False])).astype("float16").numpy() == [1, 0]).all()
    with pytest.raises(TypeError, match="values: float32 for int32, expected float32, float16"):
        array.astype("int32")
    with pytest.raises(TypeError, match="dtype: float64, expected float32"):
        array.astype("float64")


def test_failures_say_what_was_to_be_done(monkeypatch):
    context = vkattn.Context()
    array = context.array(NUMBERS)

    def refuse(*_, **__):
        raise vkattn.UnsupportedError("kv_append: too many heads")

    monkeypatch.setattr(context, "run", refuse)
    with pytest.raises(vkattn.UnsupportedError, match=r"\[2, 3, 4, 5\] of float32 as float16: kv_append: too many heads"):
        context.array(NUMBERS, "float16")
    with pytest.raises(vkattn.UnsupportedError, match=r"the sum of \[2, 3, 4, 5\]: kv_append"):
        array + array


def test_what_is_broadcast_is_copied_on_the_device():
    numbers = random(2, 3, 4, 8)
    array = CONTEXT.array(numbers)
    context = vkattn.Context()
    array = context.array(numbers)
    context.download = None  # nothing comes to the host
    many = array.reshape(2, 3, 1, 4, 8).broadcast_to((2, 3, 2, 4, 8)).contiguous()
    del context.download
    assert (many.reshape(2, 6, 4, 8).numpy() == numpy.repeat(numbers, 2, axis=1)).all()
    one = array[:1, :1, :1, :1].broadcast_to((2, 3, 4, 8))
    assert (one.contiguous().numpy() == numbers[0, 0, 0, 0]).all()
    assert nmse(vkattn.attention(array, array, one).numpy(), numpy.full_like(numbers, numbers[0, 0, 0, 0])) < 1e-10


@pytest.mark.parametrize("shape, dtype, error, message", [
    ((), "float32", ValueError, r"shape: \[\], expected at least one size"), ((-1,), "float32", ValueError, "shape: -1, expected"),
    ((2, 2.5), "float32", TypeError, "shape: 2.5, expected a whole number"),
    ((2, 4), "float64", TypeError, "dtype: float64, expected float32, float16, bfloat16"),
    ((17408, 858001, 308761441), "float32", vkattn.OutOfMemoryError, "takes 18446744073709555712 bytes, expected less"),
    ((2**31, 2**31, 4), "float32", vkattn.OutOfMemoryError, "takes 73786976294838206464 bytes, expected less"),
    ((2, 33), "q8_0", ValueError, "a multiple of 32")])
def test_empty_arrays_that_cannot_be(shape, dtype, error, message):
    with pytest.raises(error, match=message):
        CONTEXT.empty(shape, dtype)


def test_results_stay_where_the_arguments_are():
    x, weight, bias = random(2, 5, 24), random(40, 24), random(40)
    expected = vkattn.linear(x, weight, bias, activation="relu")
    on_device = CONTEXT.array(weight)
    output = vkattn.linear(x, on_device, bias, activation="relu")
    assert isinstance(output, vkattn.Array) and (output.numpy() == expected).all()
    out = CONTEXT.empty((2, 5, 40))
    assert vkattn.linear(x, weight, bias, activation="relu", out=out) is out and (out.numpy() == expected).all()
    assert (vkattn.linear(x, weight, residual=out, out=out).numpy() == vkattn.linear(x, weight, residual=expected)).all()
    rows = CONTEXT.array(x)
    expected = vkattn.norm(x, weight[0])
    residual = CONTEXT.array(weight[:10].reshape(2, 5, 24))
    assert numpy.abs(vkattn.norm(rows, weight[0], residual=residual, out=residual).numpy()
                     - (expected + weight[:10].reshape(2, 5, 24))).max() < 1e-6
    assert (vkattn.norm(rows, weight[0], out=rows).numpy() == expected).all()
    assert (vkattn.embedding([[1, 2], [3, 50]], on_device).numpy() == vkattn.embedding([[1, 2], [3, 50]], weight)).all()
    for mistake, error, message in (
            (lambda: vkattn.linear(rows, on_device[:24], out=rows), ValueError, "out: shares memory with input"),
            (lambda: vkattn.norm(x, weight[0], residual=x[0]), ValueError, r"residual: shape \[5, 24\], expected \[2, 5, 24\]"),
            (lambda: vkattn.linear(x, weight, out=out[:1]), ValueError,
             r"out: shape \[1, 5, 40\] of float32, expected \[2, 5, 40\]"),
            (lambda: vkattn.linear(CONTEXT.array(random(2, 24, 5)).transpose(0, 2, 1), weight), ValueError,
             "input: reshape: .*expected contiguous memory: see contiguous"),
            (lambda: vkattn.linear(x, weight, out=expected), TypeError, "out: ndarray, expected an Array"),
            (lambda: vkattn.linear(x, on_device, context=vkattn.Context()), ValueError, "weight: an Array of another context")):
        with pytest.raises(error, match=message):
            mistake()


def test_attention_on_arrays():
    query, key, value = random(2, 6, 19, 32), random(2, 3, 23, 32), random(2, 3, 23, 24)
    mask = random(6, 19, 23) > -0.5
    expected, expected_lse = vkattn.attention(query, key, value, mask, enable_gqa=True, return_lse=True)
    q, k, v, m = map(CONTEXT.array, (query, key, value, mask))
    output, lse = vkattn.attention(q, k, v, m, enable_gqa=True, return_lse=True)
    assert (output.numpy() == expected).all() and (lse.numpy() == expected_lse).all()
    out = CONTEXT.empty((2, 19, 6, 24))  # the layout of a model
    vkattn.attention(q, key, v, mask, enable_gqa=True, out=out.transpose(0, 2, 1, 3))
    assert (out.numpy() == expected.transpose(0, 2, 1, 3)).all()
    part = vkattn.attention(q[1, 2:4], k[1, 1:2], v[1, 1:2], enable_gqa=True)
    assert nmse(part.numpy(), reference(query[1:, 2:4], key[1:, 1:2], value[1:, 1:2])[0][0]) < 1e-10
    parts = [vkattn.attention(q, k[:, :, i:j], v[:, :, i:j], enable_gqa=True, return_lse=True) for i, j in ((0, 9), (9, 23))]
    joined = vkattn.merge([o for o, _ in parts], [s for _, s in parts])
    assert isinstance(joined, vkattn.Array) and nmse(joined.numpy(), reference(query, key, value)[0]) < 1e-10
    outputs = CONTEXT.empty((2, 2, *joined.shape))  # every second part of these
    sums = CONTEXT.empty((2, 2, *joined.shape[:3]))
    for i, (o, s) in enumerate(parts):
        CONTEXT.convert(o, outputs[i, 1])
        CONTEXT.convert(s, sums[i, 1])
    assert (vkattn.merge(outputs[:, 1], sums[:, 1]).numpy() == joined.numpy()).all()


def test_layers_on_arrays():
    weights = {f"{name}.weight": random(16, 16, seed=seed) / 4 for seed, name in
               enumerate(("q_proj", "k_proj", "v_proj", "out_proj"))}
    layer = vkattn.Layer("mha", weights, embed_dim=16, num_heads=2)
    same = vkattn.Layer("mha", {name: CONTEXT.array(weight) for name, weight in weights.items()}, embed_dim=16, num_heads=2)
    tokens = random(2, 5, 16)
    expected = layer(tokens, residual=tokens)
    hidden = CONTEXT.array(tokens)
    assert (same(hidden, residual=tokens).numpy() == expected).all()
    out = CONTEXT.array(tokens)
    assert layer(hidden, residual=out, out=out) is out and (out.numpy() == expected).all()


def test_weights_of_layers_stay_where_they_are_on_the_device():
    weights = {f"{name}.weight": random(16, 16, seed=seed) / 4 for seed, name in
               enumerate(("q_proj", "k_proj", "v_proj", "out_proj"))}
    tokens = random(2, 5, 16)
    expected = vkattn.Layer("mha", weights, embed_dim=16, num_heads=2)(tokens)
    arrays = {name: CONTEXT.array(weight) for name, weight in weights.items()}
    layer = vkattn.Layer("mha", dict(arrays), embed_dim=16, num_heads=2)
    arrays.pop("out_proj.weight").assign(2 * weights["out_proj.weight"])  # seen by the layer: there is no copy
    arrays.clear()                                                       # which holds them itself
    assert numpy.abs(layer(tokens) - 2 * expected).max() < 1e-5
    padded = numpy.zeros((4, 16 * 16 + 1), "f4")                        # rows that begin where no binding can
    padded[:, 1:] = [weight.ravel() for weight in weights.values()]
    parts = CONTEXT.array(padded.ravel())
    views = {name: parts[i * 257 + 1:(i + 1) * 257].reshape(16, 16) for i, name in enumerate(weights)}
    for each in (views, {name: CONTEXT.array(numpy.ascontiguousarray(weight.T)).T for name, weight in weights.items()}):
        assert (vkattn.Layer("mha", each, embed_dim=16, num_heads=2)(tokens) == expected).all()
    with pytest.raises(ValueError, match="an Array of another context"):
        vkattn.Layer("mha", views, embed_dim=16, num_heads=2, context=vkattn.Context())


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a.transpose(0, 2, 1, 3), lambda a: a[:, ::2],
                                  lambda a: a[..., ::-1, :], lambda a: numpy.broadcast_to(a[:, :1], a.shape),
                                  lambda a: numpy.broadcast_to(a[..., :1], a.shape), lambda a: a.transpose(0, 1, 3, 2)])
def test_strides_of_numpy(view):
    numbers = view(random(2, 4, 8, 8))
    expected, _ = reference(numbers, numbers, numbers)
    assert nmse(vkattn.attention(numbers, numbers, numbers), expected) < 1e-10


def test_nothing_is_copied_or_uploaded_that_need_not_be():
    numbers = random(2, 4, 8, 6)
    for view in (numbers, numbers.transpose(0, 2, 1, 3), numbers.transpose(2, 1, 0, 3)):
        given = arrays.uploadable(view)
        assert numpy.shares_memory(given, numbers) and arrays.span(given) == numbers.size
    assert arrays.span(arrays.uploadable(numpy.broadcast_to(numbers[:1, :1], numbers.shape))) == 48
    for view, size in ((numbers[:, :, ::2], 192), (numbers[..., 1:3], 128), (numbers[:, 1:2], 96)):
        assert arrays.span(arrays.uploadable(view)) == size
    mask = numpy.broadcast_to(random(8, 8) > 0, (2, 4, 8, 8))
    problem = Problem({"query": numbers, "key": numbers, "value": numbers, "attn_mask": mask})
    assert arrays.span(problem.call.inputs["attn_mask"]) == 64


BIG = numpy.arange(1, 1025, dtype="f4").reshape(8, 128)  # of which the first number is seen again and again


def shown_again(array, *shape):
    """The first number of an Array, seen in every element: what lies behind it is none of theirs."""
    return array[0, :1].broadcast_to(shape)


def test_one_number_that_is_shown_again_and_again_is_read_as_one():
    big, ones = CONTEXT.array(BIG), numpy.ones((1, 2, 3, 32), "f4")
    one = shown_again(big, 4, 64)
    for dtype in ("float16", "bfloat16", "float32"):
        assert (CONTEXT.array(one, dtype).astype("float32").numpy() == 1).all() and (one.astype(dtype).astype("float32").numpy() == 1).all()
    assert (one.contiguous().numpy() == 1).all() and (one + one).numpy().min() == (one + one).numpy().max() == 2
    assert (shown_again(big, 4, 1).contiguous().numpy() == 1).all() and (shown_again(big, 2, 2, 2, 2, 2).contiguous().numpy() == 1).all()
    zero = CONTEXT.array(BIG - 1)
    parts, sums = [CONTEXT.array(ones), shown_again(zero, 1, 2, 3, 32)], [CONTEXT.array(ones[..., 0]), shown_again(big, 1, 2, 3)]
    assert vkattn.merge(parts, sums).numpy() == pytest.approx(0.5)
    assert vkattn.merge(shown_again(big, 2, 1, 2, 3, 32), shown_again(zero, 2, 1, 2, 3)).numpy() == pytest.approx(1)
    each = big[:2, :1].reshape(2, 1, 1, 1, 1).broadcast_to((2, 1, 2, 3, 32))  # of which a part is one number
    assert vkattn.merge(each, shown_again(zero, 2, 1, 2, 3)).numpy() == pytest.approx(65)
    with vkattn.record(CONTEXT) as program:
        recorded = one.contiguous()
    program.replay()
    assert (recorded.numpy() == 1).all()


def test_one_number_that_is_shown_again_and_again_is_no_result():
    room = CONTEXT.array(BIG)
    x, weight, qkv = CONTEXT.array(numpy.ones((1, 3, 32), "f4")), CONTEXT.array(numpy.ones((16, 32), "f4")), numpy.ones((1, 1, 3, 16), "f4")
    for call in (lambda: vkattn.linear(x, weight, out=shown_again(room, 1, 3, 16)),
                 lambda: vkattn.attention(qkv, qkv, qkv, out=shown_again(room, 1, 1, 3, 16)),
                 lambda: vkattn.merge(qkv[None], qkv[None, ..., 0], out=shown_again(room, 1, 1, 3, 16)),
                 lambda: shown_again(room, 3, 16).assign(numpy.zeros((3, 16), "f4")),
                 lambda: CONTEXT.convert(x, shown_again(room, 1, 3, 32)),
                 lambda: vkattn.kv_append(CONTEXT.array(qkv), shown_again(room, 1, 1, 3, 16))):
        with pytest.raises(ValueError, match="one number that is shown 4|one number that is shown 96|expected contiguous memory"):
            call()
    assert (room.numpy() == BIG).all()


def test_numbers_do_not_become_blocks_without_a_kernel():
    with pytest.raises(TypeError, match="values: float32 for q4_K, expected its blocks as GGUF files hold them, bytes in uint8"):
        CONTEXT.array(numpy.ones((1, 256), "f4"), "q4_K")


def test_dlpack_both_ways():
    array = CONTEXT.array(NUMBERS)
    assert array.__dlpack_device__() == (1, 0)
    copy = numpy.from_dlpack(array)
    assert (copy == NUMBERS).all()
    assert (vkattn.from_dlpack(copy[:, ::2].transpose(2, 0, 1, 3)).numpy() == NUMBERS[:, ::2].transpose(2, 0, 1, 3)).all()
    for refused in ({"stream": 1}, {"copy": False}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError, match="expected a copy on the CPU"):
            array.__dlpack__(**refused)


class Exporter:
    """What has nothing but DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        return dlpack.capsule_of(self.array)


def test_exporters_are_taken_as_arrays():
    bits = (NUMBERS.view("u4") >> 16).astype("u2").view(dlpack.BFLOAT16)
    array = vkattn.from_dlpack(Exporter(bits))
    assert array.dtype == "bfloat16" and (array.download() == bits).all()
    assert (dlpack.array_of(array, "array") == bits).all()
    assert (dlpack.array_of(CONTEXT.array(NUMBERS > 7), "array") == (NUMBERS > 7)).all()
    assert (vkattn.norm(Exporter(NUMBERS), numpy.ones(5, "f4")) == vkattn.norm(NUMBERS, numpy.ones(5, "f4"))).all()
    with pytest.raises(TypeError, match="exporter: on a device of the kind CUDA, expected memory of the CPU"):
        dlpack.array_of(Exporter(NUMBERS, (2, 0)), "exporter")
    with pytest.raises(TypeError, match="values: dtype complex64, expected float32"):
        CONTEXT.array(Exporter(NUMBERS.astype("c8")))
    with pytest.raises(TypeError, match="values: dtype int8, expected float32"):
        CONTEXT.array(Exporter(NUMBERS.astype("i1")))


def test_bfloat16_of_numpy_takes_ml_dtypes():
    half = CONTEXT.array(NUMBERS, "bfloat16")
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(TypeError, match="NumPy has no bfloat16 of its own, expected the package ml_dtypes"):
            half.numpy()
        with pytest.raises(TypeError, match="output: NumPy has no bfloat16"):
            vkattn.norm(Exporter(half.download()), numpy.ones(5, "f4"))
    else:
        assert half.numpy().dtype == ml_dtypes.bfloat16 and (half.numpy() == NUMBERS).all()
        assert vkattn.norm(half.numpy(), numpy.ones(5, "f4")).dtype == ml_dtypes.bfloat16
