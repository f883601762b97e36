"""Lists of keys, their choice, and the greatest numbers of rows, against NumPy."""
import numpy
import pytest

import vkattn


def softmax(scores):
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def test_attention_over_the_keys_that_index_chose():
    random = numpy.random.default_rng(1)
    query, key, value = (random.standard_normal(shape).astype("f4") for shape in ((1, 4, 3, 32), (1, 1, 90, 32), (1, 1, 90, 32)))
    weights = random.standard_normal((1, 3, 4)).astype("f4")
    chosen = vkattn.index(query, key, weights, top_k=7)
    products = numpy.einsum("bhid,bgjd->bhij", query, key) / numpy.sqrt(32)
    scores = numpy.einsum("bih,bhij->bij", weights, numpy.maximum(products, 0))
    expected = numpy.sort(numpy.argsort(-scores, axis=-1, kind="stable")[..., :7])
    assert chosen.dtype == numpy.int32 and (chosen[:, 0] == expected).all()
    output = vkattn.attention(query, key, value, enable_gqa=True, key_indices=chosen)
    for i in range(3):
        keys = expected[0, i]
        wanted = softmax(products[0, :, i, keys].T) @ value[0, 0, keys]
        assert numpy.allclose(output[0, :, i], wanted, atol=1e-5)


def test_the_order_of_a_list_and_what_pads_it_change_nothing():
    random = numpy.random.default_rng(2)
    query, key, value = (random.standard_normal((1, 2, 40, 16)).astype("f4") for _ in range(3))
    lists = numpy.stack([random.permutation(10)[:6] for _ in range(40)]).astype("i4").reshape(1, 1, 40, 6)
    lists[..., 4] = -1
    output = vkattn.attention(query, key, value, key_indices=lists, key_block_len=4)
    assert (output == vkattn.attention(query, key, value, key_indices=lists[..., ::-1], key_block_len=4)).all()


def test_lists_of_what_a_mask_shows():
    random = numpy.random.default_rng(4)
    shown = random.random((1, 1, 5, 300)) < 0.1
    lists = vkattn.mask_indices(shown, 40, (2, 3, 5))
    assert lists.shape == (2, 3, 5, 40) and lists.dtype == numpy.int32
    for i in range(5):
        keys = numpy.flatnonzero(shown[0, 0, i])[:40]
        assert (lists[:, :, i, :len(keys)] == keys).all() and (lists[:, :, i, len(keys):] == -1).all()
    added = numpy.where(shown, random.standard_normal(shown.shape), -numpy.inf).astype("f2")
    assert (vkattn.mask_indices(added, 40) == lists[:1, :1]).all()
    query, key, value = (random.standard_normal((1, 2, length, 16)).astype("f4") for length in (5, 300, 300))
    dense = vkattn.attention(query, key, value, added)
    assert numpy.allclose(vkattn.attention(query, key, value, added, key_indices=lists[:1, :1]), dense, atol=1e-5)


def test_a_mask_times_slopes_and_of_some_heads():
    random = numpy.random.default_rng(5)
    query, key, value = (random.standard_normal((1, 4, length, 16)).astype("f4") for length in (5, 30, 30))
    slopes, mask = random.random(4).astype("f4"), random.standard_normal((1, 2, 5, 30)).astype("f4")
    mask[..., 3] = -numpy.inf
    whole = numpy.tile(mask, (1, 2, 1, 1))
    expected = vkattn.attention(query, key, value, whole * slopes[:, None, None])
    got = vkattn.attention(query, key, value, mask, alibi_slopes=slopes, mask_times_slopes=True)
    assert numpy.allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("k", [1, 5])
def test_top_k(k):
    numbers = numpy.random.default_rng(3).standard_normal((2, 3, 70)).astype("f4")
    numbers[0, 0, [3, 60]] = 9.0
    values, indices = vkattn.top_k(numbers, k)
    expected = numpy.argsort(-numbers, axis=-1, kind="stable")[..., :k]
    assert (indices == expected).all() and (values == numpy.take_along_axis(numbers, expected, -1)).all()
    assert (vkattn.argmax(numbers) == numbers.argmax(-1)).all()


def test_wrong_arguments_are_named():
    numbers = numpy.zeros((2, 3), "f4")
    with pytest.raises(ValueError, match="k: 4, expected 1 to 3, the numbers of a row"):
        vkattn.top_k(numbers, 4)
    query = numpy.zeros((1, 1, 2, 8), "f4")
    with pytest.raises(vkattn.InvalidArgumentError, match=r"key_indices: shape \[1,1,3,1\], expected \[1,1\|1,2,N\]"):
        vkattn.attention(query, query, query, key_indices=numpy.zeros((1, 1, 3, 1), "i4"))
    with pytest.raises(ValueError, match="activation"):
        vkattn.index(query, query, top_k=1, activation="gelu")
