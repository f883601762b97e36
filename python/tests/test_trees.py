"""Trees of drafts: attention, layers and caches."""
import numpy
import pytest
import vkattn

PARENTS = [-1, 0, 0, 1, 2, 2, 4]


def sees(parents):
    """bool [L,L]: which drafts each one sees."""
    seen = numpy.eye(len(parents), dtype=bool)
    for token, parent in enumerate(parents):
        if parent >= 0:
            seen[token] |= seen[parent]
    return seen


def random_parents(count, random):
    return numpy.array([random.integers(-1, token) for token in range(count)])


def test_bits():
    assert vkattn.tree_mask(PARENTS).tolist() == [[1], [3], [5], [11], [21], [37], [85]]
    both = vkattn.tree_mask([list(range(-1, 33)), [-1] * 34])
    assert both.shape == (2, 34, 2) and both.dtype == numpy.int32
    assert both[0, -1].tolist() == [-1, 3] and both[1, -1].tolist() == [0, 2]
    assert vkattn.tree_mask(numpy.zeros((2, 0), int)).shape == (2, 0, 0)


@pytest.mark.parametrize("parents", ([0], [-1, 1], [-2], [-1.0], [[[-1]]]))
def test_what_is_no_tree(parents):
    with pytest.raises(ValueError, match="parents"):
        vkattn.tree_mask(parents)


@pytest.mark.parametrize("drafts, past", ((1, 20), (7, 0), (33, 60)))
def test_attention(drafts, past):
    random = numpy.random.default_rng(drafts)
    query = random.standard_normal((2, 4, drafts, 32)).astype("f4")
    key, value = random.standard_normal((2, 2, 2, past + drafts, 32)).astype("f4")
    parents = [random_parents(drafts, random) for _ in range(2)]
    mask = numpy.ones((2, 1, drafts, past + drafts), bool)
    for sequence in range(2):
        mask[sequence, 0, :, past:] = sees(parents[sequence])
    expected = vkattn.attention(query, key, value, mask, enable_gqa=True)
    given = vkattn.attention(query, key, value, tree_mask=vkattn.tree_mask(parents), enable_gqa=True)
    assert numpy.abs(given - expected).max() < 1e-5


@pytest.mark.parametrize("rope_theta", (0.0, 1e4))
def test_the_path_that_is_kept(rope_theta):
    random = numpy.random.default_rng(4)
    layer = vkattn.Layer("mha", {f"{name}.weight": random.standard_normal((rows, 32)).astype("f4") / 6 for name, rows in (
        ("q_proj", 32), ("k_proj", 16), ("v_proj", 16), ("out_proj", 32))}, embed_dim=32, num_heads=2, num_kv_heads=1, rope_theta=rope_theta)
    depths = (4 + sees(PARENTS).sum(1, dtype="i4"))[None, None]  # behind the past
    past, drafts, after = (random.standard_normal((1, count, 32)).astype("f4") for count in (5, 7, 2))
    path = [0, 2, 4, 6]
    for pages in (0, 4):
        cache, straight = (layer.cache(24, key_type="f32", pages=pages, page_size=8 if pages else 16) for _ in range(2))
        for each in cache, straight:
            layer(past, cache=each, is_causal=True)
        given = layer(drafts, cache=cache, tree_mask=vkattn.tree_mask([PARENTS]), positions=depths if rope_theta else None)
        cache.keep(0, 5, [5 + place for place in path])
        assert cache.lengths == [9]
        expected = layer(drafts[:, path], cache=straight, is_causal=True)
        assert numpy.abs(given[:, path] - expected).max() < 1e-5
        given, expected = (layer(after, cache=each, is_causal=True) for each in (cache, straight))
        assert numpy.abs(given - expected).max() < 1e-5
        with pytest.raises(vkattn.InvalidArgumentError, match=r"tokens\[1\]: 6, expected at least 7 and less than the 11 tokens"):
            cache.keep(0, 5, [6, 6])
