"""Caches of the operators: appends to Arrays, and pages of sequences that come and go."""
import threading

import numpy
import pytest

import vkattn
from test_vkattn import nmse, random, reference

CONTEXT = vkattn.default_context()


def last_queries_see_all(query, key, value):
    """Causal attention in which the last query stands at the last key."""
    lengths = query.shape[2], key.shape[2]
    return reference(query, key, value, numpy.tri(*lengths, lengths[1] - lengths[0], dtype=bool))[0]


def test_appends_to_an_array():
    cache = CONTEXT.array(numpy.zeros((2, 3, 8, 32), "f4"))
    rows = random(2, 3, 4, 32)
    vkattn.kv_append(rows[:, :, :2], cache)
    vkattn.kv_append(CONTEXT.array(rows)[:, :, 2:], cache, past_lengths=[2, 5])
    expected = numpy.zeros((2, 3, 8, 32), "f4")
    expected[:, :, :2] = rows[:, :, :2]
    expected[0, :, 2:4], expected[1, :, 5:7] = rows[0, :, 2:], rows[1, :, 2:]
    assert (cache.numpy() == expected).all()
    packed = random(1, 3, 5, 32)
    vkattn.kv_append(packed, cache, cu_seqlens=[0, 1, 5], past_lengths=[7, 2], max_seqlen=4)
    expected[0, :, 7], expected[1, :, 2:6] = packed[0, :, 0], packed[0, :, 1:]
    assert (cache.numpy() == expected).all()
    vkattn.kv_append(rows.swapaxes(1, 2).copy().swapaxes(1, 2), cache, offset=4)
    expected[:, :, 4:] = rows
    assert (cache.numpy() == expected).all()
    pages = CONTEXT.array(numpy.zeros((4, 3, 8, 32), "f4"), "q8_0")
    vkattn.kv_append(rows, pages, block_table=[[2, 0], [-1, 3]], past_lengths=[6, 6])
    stored = pages.numpy()
    assert nmse(stored[2, :, 6:], rows[0, :, :2]) < 1e-4 and nmse(stored[0, :, :2], rows[0, :, 2:]) < 1e-4
    assert (stored[1] == 0).all() and nmse(stored[3, :, :2], rows[1, :, 2:]) < 1e-4
    for mistake, error, message in (
            (lambda: vkattn.kv_append(rows, expected), TypeError, "cache: ndarray, expected an Array"),
            (lambda: vkattn.kv_append(rows, cache, offset=5), vkattn.InvalidArgumentError, "offset: 5 with 4 rows, expected"),
            (lambda: vkattn.kv_append(rows, cache, past_lengths=[0.5, 1]), TypeError, "past_lengths: .* whole numbers"),
            (lambda: vkattn.kv_append(rows.astype("f8"), cache), TypeError, "source: dtype float64, expected float32"),
            (lambda: vkattn.kv_append(cache[:, :, :4], cache, offset=2), ValueError, "shares memory with")):
        with pytest.raises(error, match=message):
            mistake()


def test_attention_over_a_cache_of_fixed_capacity():
    keys, values = CONTEXT.empty((2, 2, 16, 32)), CONTEXT.empty((2, 2, 16, 32))
    key, value, query = random(2, 2, 6, 32, seed=1), random(2, 2, 6, 32, seed=2), random(2, 4, 2, 32)
    past = [3, 0]
    for array, rows in ((keys, key), (values, value)):
        vkattn.kv_append(rows[:, :, :4], array)
        vkattn.kv_append(rows[:, :, 4:], array, past_lengths=past)
    output = vkattn.attention(query, keys, values, enable_gqa=True, is_causal=True, past_lengths=past, keys_to_last_query=True)
    for b, length in enumerate(past):
        held = [numpy.concatenate([rows[b:b + 1, :, :length], rows[b:b + 1, :, 4:]], axis=2) for rows in (key, value)]
        assert nmse(output.numpy()[b:b + 1], last_queries_see_all(query[b:b + 1], *held)) < 1e-10
    same = vkattn.attention(query[:1], keys[:1], values[:1], enable_gqa=True, is_causal=True, past_len=3, keys_to_last_query=True)
    assert nmse(same.numpy(), output.numpy()[:1].astype("f8")) < 1e-10


@pytest.mark.parametrize("dtype, bound", [("float32", 1e-10), ("float16", 1e-6), ("q8_0", 1e-3)])
def test_sequences_that_come_and_go(dtype, bound):
    cache = CONTEXT.kv_cache(2, 32, pages=12, page_size=8, v_head_dim=64, key_dtype=dtype)
    assert cache.free_pages == 12 and cache.nbytes == cache.keys.nbytes + cache.values.nbytes
    held = {}

    def append(*counts):
        """Packed tokens of {sequence: count}."""
        counts = dict(counts)
        rows = [[random(1, 2, count, size, seed=len(held) + count + 7 * s) for s, count in counts.items()] for size in (32, 64)]
        bounds = numpy.concatenate([[0], numpy.cumsum(list(counts.values()))])
        cache.append(list(counts), *(numpy.concatenate(each, axis=2) for each in rows), bounds)
        for i, sequence in enumerate(counts):
            held[sequence] = [numpy.concatenate([old, new[i]], axis=2) for old, new in
                              zip(held.get(sequence, [new[i][:, :, :0] for new in rows]), rows)]

    def check(*counts):
        queries = [random(1, 4, count, 32, seed=s) for s, count in counts]
        bounds = numpy.concatenate([[0], numpy.cumsum([count for _, count in counts])])
        output = cache.attend(numpy.concatenate(queries, axis=2), [s for s, _ in counts], bounds)
        assert isinstance(output, numpy.ndarray)
        for i, (sequence, _) in enumerate(counts):
            assert nmse(output[:, :, bounds[i]:bounds[i + 1]], last_queries_see_all(queries[i], *held[sequence])) < bound

    first, second = cache.add(), cache.add()
    append((first, 11), (second, 3))
    assert (cache.length(first), cache.length(second), cache.free_pages) == (11, 3, 9)
    check((second, 1), (first, 11))
    third = cache.fork(first)
    held[third] = list(held[first])
    assert cache.free_pages == 9
    append((third, 2), (second, 9))  # into a page that two share, which becomes two
    check((first, 1), (third, 2), (second, 4))
    assert cache.free_pages == 7 and cache.sequences == [first, second, third]
    cache.rewind(third, 5)
    held[third] = [rows[:, :, :5] for rows in held[third]]
    append((third, 1))
    check((first, 2), (third, 1))
    cache.remove(first)
    assert cache.free_pages == 9 and cache.sequences == [second, third]
    check((second, 1), (third, 1))
    with pytest.raises(vkattn.NoRoomError, match="append: 10 pages are needed, 9 are free"):
        append((second, 8 * 10))
    with pytest.raises(vkattn.InvalidArgumentError):
        cache.append([second], numpy.zeros((1, 3, 9, 32), "f4"), numpy.zeros((1, 3, 9, 64), "f4"))
    assert cache.free_pages == 9 and cache.length(second) == 12
    check((second, 1), (third, 1))


def test_steps_of_equal_length_and_the_kind_of_results():
    cache = CONTEXT.kv_cache(1, 16, pages=4, page_size=8, key_dtype="float32")
    sequences = [cache.add(), cache.add()]
    key, query = random(2, 1, 5, 16), random(2, 1, 1, 16)
    cache.append(sequences, key[:, :, :4], key[:, :, :4])
    cache.append(sequences, CONTEXT.array(key[:, :, 4:]), key[:, :, 4:])
    output, lse = cache.attend(query, sequences, return_lse=True)
    expected, expected_lse = reference(query, key, key)
    assert nmse(output, expected) < 1e-10 and nmse(lse, expected_lse) < 1e-10
    assert (cache.attend(CONTEXT.array(query), sequences).numpy() == output).all()
    out = CONTEXT.empty(query.shape)
    assert cache.attend(query, sequences, out=out) is out and (out.numpy() == output).all()
    windowed = cache.attend(query, sequences, window=(1, 0), scale=0.0)
    assert nmse(windowed, key[:, :, 3:].astype("f8").mean(axis=2, keepdims=True)) < 1e-10


def test_the_last_holder_of_a_page_needs_no_copy():
    cache = CONTEXT.kv_cache(1, 8, pages=3, page_size=8, key_dtype="float32")
    row, first = random(1, 1, 1, 8), cache.add()
    cache.append([first], row, row)
    both = [first, cache.fork(first)]
    others = random(2, 1, 1, 8)
    cache.append(both, others, others)  # one copy: one free page is left
    assert cache.free_pages == 1
    query = random(2, 1, 1, 8, seed=3)
    keys = numpy.concatenate([numpy.concatenate([row, row]), others], axis=2)
    assert nmse(cache.attend(query, both), last_queries_see_all(query, keys, keys)) < 1e-10
    third, full = cache.fork(first), cache.add()
    cache.append([full], row, row)
    with pytest.raises(vkattn.NoRoomError, match="append: 1 pages are needed, 0 are free"):
        cache.append([third], row, row)
    cache.remove(both[1])
    cache.append([first, third], others, others)
    assert cache.free_pages == 0


def test_an_append_that_fails_loses_no_page():
    cache = CONTEXT.kv_cache(1, 8, pages=4, page_size=8, key_dtype="float32")
    row, first = random(1, 1, 1, 8), cache.add()
    cache.append([first], row, row)
    second = cache.fork(first)
    convert = cache.context.convert
    cache.context.convert = lambda *_: (_ for _ in ()).throw(vkattn.DeviceLostError("gone"))
    try:
        with pytest.raises(vkattn.DeviceLostError):
            cache.append([second], row, row)
    finally:
        cache.context.convert = convert
    assert cache.free_pages == 3 and cache.length(second) == 1
    cache.append([second], row, row)
    assert cache.free_pages == 2
    cache.remove(first)
    cache.remove(second)
    assert cache.free_pages == 4


def test_sequences_as_arrays_of_numpy():
    cache = CONTEXT.kv_cache(1, 8, pages=4, page_size=8, key_dtype="float32")
    sequences = numpy.array([cache.add(), cache.add()])
    row = random(2, 1, 1, 8)
    cache.append(sequences, row, row)
    assert nmse(cache.attend(row, sequences), row) < 1e-10 and cache.block_table(sequences).shape == (2, 1)
    assert cache.length(sequences[1]) == 1
    cache.rewind(sequences[0], numpy.int64(0))
    cache.remove(sequences[1])
    assert cache.sequences == [sequences[0]] and cache.free_pages == 4


def test_threads_share_a_pool():
    cache = CONTEXT.kv_cache(1, 16, pages=64, page_size=8, key_dtype="float32")
    results = {}

    def serve(name):
        key, query = random(1, 1, 20, 16, seed=name), random(1, 1, 1, 16, seed=name)
        sequence = cache.add()
        for token in range(20):
            cache.append([sequence], key[:, :, token:token + 1], key[:, :, token:token + 1])
        copy = cache.fork(sequence)
        results[name] = nmse(cache.attend(query, [copy]), reference(query, key, key)[0])
        cache.rewind(copy, 3)
        for each in (sequence, copy):
            cache.remove(each)

    threads = [threading.Thread(target=serve, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and max(results.values()) < 1e-10
    assert cache.free_pages == 64 and cache.sequences == []


def test_mistakes_with_pages_are_named():
    cache = CONTEXT.kv_cache(1, 16, pages=4)
    sequence, row = cache.add(), random(1, 1, 1, 16)
    for mistake, error, message in (
            (lambda: cache.append([sequence, 9], row, row), ValueError, r"sequence 9: not in the cache, expected one of \[0\]"),
            (lambda: cache.append([sequence, sequence], row, row), ValueError, "expected each once"),
            (lambda: cache.append([], row, row), ValueError, "sequences: none, expected at least 1"),
            (lambda: cache.append([sequence], row[0], row[0]), ValueError, "key: 3 dimensions, expected .B,heads,L,size."),
            (lambda: cache.append([sequence], row, row, [0, 2]), ValueError,
             r"cu_seqlens: \[0, 2\], expected 2 numbers that rise from 0 to 1"),
            (lambda: cache.append([sequence], row, row, [0, 0.5]), TypeError, "cu_seqlens: .* whole numbers"),
            (lambda: cache.attend(row, []), ValueError, "sequences: none"),
            (lambda: cache.append([sequence], numpy.repeat(row, 5, 2), numpy.repeat(row, 3, 2)), ValueError,
             r"value: shape \[1, 1, 3, 16\], expected \[1, 1, 5\] and v_head_dim"),
            (lambda: cache.append([sequence], row[:, :, :0], row), ValueError, "value: shape .1, 1, 1, 16., expected .1, 1, 0."),
            (lambda: cache.append(0, row, row), TypeError, "sequences: 0, expected a list of numbers"),
            (lambda: cache.append([0.5], row, row), TypeError, "sequences: 0.5, expected a whole number"),
            (lambda: cache.rewind(sequence, 1), ValueError, "length: 1, expected 0 to 0"),
            (lambda: cache.rewind(sequence, 0.5), TypeError, "length: 0.5, expected a whole number"),
            (lambda: cache.rewind(sequence, -1), ValueError, "length: -1, expected 0 to 0"),
            (lambda: cache.length(0.0), TypeError, "sequence: 0.0, expected a whole number"),
            (lambda: CONTEXT.kv_cache(1, 16, pages=4, key_dtype="bool"), TypeError, "key_dtype: bool, expected float32, float16"),
            (lambda: CONTEXT.kv_cache(1, 16, pages=4, value_dtype="int32"), TypeError, "value_dtype: int32, expected float32"),
            (lambda: CONTEXT.kv_cache(1, 16, pages=4, v_head_dim=0), ValueError, "v_head_dim: 0, expected at least 1"),
            (lambda: cache.fork(3), ValueError, "sequence 3: not in the cache"),
            (lambda: cache.remove(3), ValueError, "sequence 3"),
            (lambda: CONTEXT.kv_cache(1, 33, pages=4, key_dtype="q8_0"), ValueError, "a multiple of 32"),
            (lambda: CONTEXT.kv_cache(1, 16, pages=0), ValueError, "pages: 0"),
            (lambda: CONTEXT.kv_cache(1, 16, pages=4, page_size=12), ValueError, "page_size: 12, expected a power of two")):
        with pytest.raises(error, match=message):
            mistake()
    assert cache.free_pages == 4
    cache.append([sequence], row[:, :, :0], row[:, :, :0])
    assert cache.length(sequence) == 0 and (cache.attend(row, [sequence]) == 0).all()


def test_a_pool_that_no_kernel_reaches_is_refused_when_it_is_made():
    context = vkattn.Context(traits={"max_storage_buffer_range": 100000})
    assert context.kv_cache(2, 32, pages=24, page_size=32).nbytes == 2 * 24 * 32 * 2 * 32 * 2
    with pytest.raises(vkattn.UnsupportedError, match=r"pages: 25, whose keys take 102400 bytes .* expected at most 99744 bytes"):
        context.kv_cache(2, 32, pages=25, page_size=32)
    with pytest.raises(vkattn.UnsupportedError, match="pages: 24, whose values take 196608 bytes"):
        context.kv_cache(2, 32, pages=24, page_size=32, v_head_dim=64)


def test_more_than_65535_of_anything():
    n = 65537
    wide = numpy.arange(n, dtype="f4").reshape(1, n, 1) % 97
    normed = vkattn.norm(numpy.concatenate((wide, -wide - 1), 2), numpy.ones(2, "f4"), kind="rms")
    root = numpy.sqrt((wide[0, :, 0] ** 2 + (wide[0, :, 0] + 1) ** 2) / 2)
    assert numpy.allclose(normed[0, :, 0], wide[0, :, 0] / root, atol=1e-4)
    matrix = numpy.arange(4096 * 4096, dtype="f4").reshape(4096, 4096) % 2039
    assert (CONTEXT.array(matrix, "float16").numpy() == matrix).all()
