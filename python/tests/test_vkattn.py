"""The package against NumPy in float64."""
import gc
import pathlib
import threading

import numpy
import pytest

import vkattn
from vkattn import context as context_module, handles


def random(*shape, dtype="float32", seed=0):
    return numpy.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def reference(query, key, value, mask=None, causal=False, scale=None):
    """attention in float64; mask bool, True = attend, or added."""
    query, key, value = (array.astype(numpy.float64) for array in (query, key, value))
    group = query.shape[1] // key.shape[1]
    key, value = numpy.repeat(key, group, axis=1), numpy.repeat(value, group, axis=1)
    scores = query @ key.swapaxes(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = numpy.where(mask, scores, -numpy.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = numpy.where(numpy.tri(*scores.shape[-2:], dtype=bool), scores, -numpy.inf)
    highest = scores.max(axis=-1, keepdims=True)
    weights = numpy.exp(scores - highest)
    total = weights.sum(axis=-1, keepdims=True)
    return weights @ value / total, (highest + numpy.log(total))[..., 0]


def nmse(actual, expected):
    return ((actual - expected) ** 2).sum() / (expected ** 2).sum()


@pytest.mark.parametrize("dtype, bound", [("float32", 1e-10), ("float16", 1e-6)])
def test_grouped_causal_attention(dtype, bound):
    query, key, value = random(2, 6, 19, 32, dtype=dtype), random(2, 3, 19, 32, dtype=dtype), random(2, 3, 19, 24, dtype=dtype)
    output, lse = vkattn.attention(query, key, value, is_causal=True, enable_gqa=True, return_lse=True)
    expected, expected_lse = reference(query, key, value, causal=True)
    assert output.dtype == query.dtype and output.shape == (2, 6, 19, 24)
    assert nmse(output, expected) < bound
    assert nmse(lse, expected_lse) < bound


@pytest.mark.parametrize("shape", [(7, 9), (1, 9), (4, 7, 9), (2, 1, 7, 9), (2, 4, 7, 9)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks_broadcast_from_the_right(shape, kind):
    query, key, value = random(2, 4, 7, 16), random(2, 4, 9, 16), random(2, 4, 9, 16)
    mask = random(*shape)
    if kind == "bool":
        mask = mask > -1
        mask[..., 0] = True
    expected, _ = reference(query, key, value, mask, scale=0.3)
    assert nmse(vkattn.attention(query, key, value, attn_mask=mask, scale=0.3), expected) < 1e-10


def test_block_mask_hides_whole_blocks_and_keeps_attn_mask_out_of_full_ones():
    query, key, value = random(2, 4, 70, 16), random(2, 4, 90, 16), random(2, 4, 90, 16)
    states = numpy.arange(2 * 4 * 3 * 6).reshape(2, 4, 3, 6) % 3
    states[..., 0] = 2
    blocks = states.repeat(32, axis=2).repeat(16, axis=3)[:, :, :70, :90]
    mask = random(70, 90) > 0
    expected, _ = reference(query, key, value, (blocks == 2) | ((blocks == 1) & mask))
    output = vkattn.attention(query, key, value, attn_mask=mask, block_mask=states, block_size=(32, 16))
    assert nmse(output, expected) < 1e-10
    expected, _ = reference(query, key, value, blocks[:1, :1] > 0)
    assert nmse(vkattn.attention(query, key, value, block_mask=states[0, 0], block_size=(32, 16)), expected) < 1e-10


def test_fewer_dimensions_and_other_strides():
    query, key, value = random(5, 16), random(9, 16), random(9, 16)
    expected, _ = reference(query[None, None], key[None, None], value[None, None])
    assert nmse(vkattn.attention(query, key, value), expected[0, 0]) < 1e-10
    transposed = numpy.ascontiguousarray(query.T).T  # not contiguous
    assert nmse(vkattn.attention(transposed, key, value), expected[0, 0]) < 1e-10


def test_windows_lengths_and_padding():
    query, key, value = random(2, 2, 6, 8), random(2, 2, 12, 8), random(2, 2, 12, 8)
    i, j = numpy.ogrid[:6, :12]
    window = (j >= i - 2) & (j <= i + 1)
    expected, _ = reference(query, key, value, window)
    assert nmse(vkattn.attention(query, key, value, window=(2, 1)), expected) < 1e-10
    lengths = numpy.array([5, 12])
    expected, _ = reference(query, key, value, j < lengths[:, None, None, None])
    assert nmse(vkattn.attention(query, key, value, key_lengths=lengths), expected) < 1e-10
    padding = numpy.arange(12) >= lengths[:, None]
    assert nmse(vkattn.attention(query, key, value, key_padding_mask=padding), expected) < 1e-10


def test_packed_and_paged_sequences():
    queries, keys = [3, 1, 5], [9, 20, 4]
    each = [(random(1, 4, n, 16, seed=1), random(1, 2, m, 16, seed=2), random(1, 2, m, 16, seed=3))
            for n, m in zip(queries, keys)]
    expected = [reference(*sequence) for sequence in each]
    query, key, value = (numpy.concatenate([sequence[i] for sequence in each], axis=2) for i in range(3))
    bounds = [numpy.concatenate([[0], numpy.cumsum(lengths)]) for lengths in (queries, keys)]
    output, lse = vkattn.attention(query, key, value, enable_gqa=True, cu_seqlens_q=bounds[0], cu_seqlens_k=bounds[1],
                                   max_seqlen_q=5, max_seqlen_k=20, return_lse=True)
    assert nmse(output, numpy.concatenate([o for o, _ in expected], axis=2)) < 1e-10
    assert lse.shape == (4, 9) and nmse(lse, numpy.concatenate([s for _, s in expected], axis=2)[0]) < 1e-10
    pool = numpy.full((7, 2, 8, 16), numpy.nan, "float32"), numpy.full((7, 2, 8, 16), numpy.nan, "float32")
    table = numpy.array([[4, 1, -1], [6, 0, 3], [2, -1, -1]], "int32")
    for sequence, pages in zip(each, table):
        for position in range(sequence[1].shape[2]):
            for pages_of, part in zip(pool, sequence[1:]):
                pages_of[pages[position // 8], :, position % 8] = part[0, :, position]
    output = vkattn.attention(query, *pool, enable_gqa=True, cu_seqlens_q=bounds[0], block_table=table,
                              key_lengths=numpy.array(keys))
    assert nmse(output, numpy.concatenate([o for o, _ in expected], axis=2)) < 1e-10


def test_packed_queries_of_no_sequence_see_no_key():
    secret, ones = random(1, 1, 6, 8) + 100, numpy.ones((1, 1, 6, 8), "f4")
    for bounds, longest, strays in (([0, 2], 0, [2, 3, 4, 5]), ([1, 3, 3, 5], 0, [0, 5]), ([0, 4, 6], 2, [2, 3]),
                                    ([0, 0], 0, range(6))):
        vkattn.attention(secret, secret, secret, return_lse=True)  # whose memory the next call may use
        arguments = {"cu_seqlens_q": bounds, "cu_seqlens_k": [0] + [6] * (len(bounds) - 1), "max_seqlen_q": longest,
                     "return_lse": True}
        context = vkattn.default_context()
        output, lse = vkattn.attention(ones, ones, ones, **arguments)
        on_device = [each.numpy() for each in vkattn.attention(context.array(ones), ones, ones, **arguments)]
        also = [each.numpy() for each in vkattn.attention(
            context.array(ones), ones, ones, **{**arguments, "cu_seqlens_q": context.array(numpy.array(bounds, "i4"))})]
        for result, sums in ((output, lse), on_device, also):
            rows = numpy.isin(range(6), list(strays))
            assert (result[0, 0, rows] == 0).all() and (sums[0, rows] == -numpy.inf).all()
            assert numpy.isin(result[0, 0, ~rows].round(6), (0, 1)).all()  # 0 where the sequence has no keys
    out = vkattn.default_context().array(secret)
    bounds = vkattn.default_context().array(numpy.array([0, 4, 2], "i4"))  # what ends before it begins is empty
    _, sums = vkattn.attention(ones, ones, ones, cu_seqlens_q=bounds, cu_seqlens_k=[0, 6, 6], out=out, return_lse=True)
    assert (out.numpy()[0, 0, 4:] == secret[0, 0, 4:]).all() and (out.numpy()[0, 0, :4] == 1).all()
    assert (sums.numpy()[0, 4:] == -numpy.inf).all() and (abs(sums.numpy()[0, :4]) < 10).all()
    out.assign(secret)
    vkattn.attention(ones, ones, ones, cu_seqlens_q=[0, 2], out=out)
    assert (out.numpy()[0, 0, 2:] == secret[0, 0, 2:]).all() and (out.numpy()[0, 0, :2] == 1).all()
    for name, bounds in (("cu_seqlens_q", [3, 1]), ("cu_seqlens_q", [0, 7]), ("cu_seqlens_q", [-1, 6]), ("cu_seqlens_k", [4, 2])):
        with pytest.raises(ValueError, match=name + ": .*expected numbers that do not fall, from 0 to 6"):
            vkattn.attention(ones, ones, ones, **{"cu_seqlens_q": [0, 6], name: bounds})


def test_parts_merge_to_the_whole():
    query, key, value = random(2, 2, 3, 8), random(2, 2, 12, 8), random(2, 2, 12, 8)
    parts = [vkattn.attention(query, key[:, :, i:i + 4], value[:, :, i:i + 4], return_lse=True) for i in (0, 4, 8)]
    output, lse = vkattn.merge([o for o, _ in parts], [s for _, s in parts], return_lse=True)
    expected, expected_lse = reference(query, key, value)
    assert nmse(output, expected) < 1e-10 and nmse(lse, expected_lse) < 1e-10
    out = vkattn.default_context().empty(output.shape)
    assert vkattn.merge([o for o, _ in parts], [s for _, s in parts], out=out) is out and (out.numpy() == output).all()
    with pytest.raises(ValueError, match="expected .parts,B,Hq,Lq,Dv."):
        vkattn.merge(output, lse)
    with pytest.raises(ValueError, match=r"out: shape \[2, 2, 3, 4\] of float32, expected \[2, 2, 3, 8\]"):
        vkattn.merge([o for o, _ in parts], [s for _, s in parts], out=out[..., :4])


def test_linear_norm_and_embedding():
    x, weight, bias, other = random(2, 5, 24), random(40, 24), random(40), random(2, 5, 40)
    product = x.astype("float64") @ weight.T.astype("float64") + bias
    assert nmse(vkattn.linear(x, weight, bias), product) < 1e-10
    gated = product / (1 + numpy.exp(-product)) * other + other
    assert nmse(vkattn.linear(x, weight, bias, activation="silu", multiplier=other, residual=other), gated) < 1e-10
    assert vkattn.linear(x[0, 0], weight).shape == (40,)
    both, biases = numpy.stack([weight, random(40, 24)]), random(2, 40)
    gate, up = (x.astype("float64") @ matrix.T + own for matrix, own in zip(both, biases))
    gated = gate / (1 + numpy.exp(-gate)) * up + other
    assert nmse(vkattn.linear(x, both, biases, activation="silu", residual=other), gated) < 1e-10
    with pytest.raises(vkattn.InvalidArgumentError, match="multiplier: given with a weight"):
        vkattn.linear(x, both, multiplier=other)
    scale = random(24)
    expected = x / numpy.sqrt((x.astype("float64") ** 2).mean(-1, keepdims=True) + 1e-6) * scale
    assert nmse(vkattn.norm(x, scale), expected) < 1e-10
    for rows in (x, numpy.tile(x, (1, 9, 1))):  # few, and many
        expected = rows / numpy.sqrt((rows.astype("float64") ** 2).mean(-1, keepdims=True) + 1e-3) * scale
        assert nmse(vkattn.linear(rows, weight, bias, norm=scale, norm_epsilon=1e-3), expected @ weight.T + bias) < 1e-10
    layer = vkattn.Layer("mha", {f"{name}_proj.weight": random(24, 24) for name in ("q", "k", "v", "out")}, embed_dim=24, num_heads=2)
    assert nmse(layer(x, norm=scale), layer(vkattn.norm(x, scale))) < 1e-10
    with pytest.raises(vkattn.InvalidArgumentError, match=r"norm: given beside key and value"):
        layer(x, x, x, norm=scale)
    centred = x - x.astype("float64").mean(-1, keepdims=True)
    expected = centred / numpy.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-3) * scale + scale
    assert nmse(vkattn.norm(x, scale, scale, kind="layer", epsilon=1e-3), expected) < 1e-10
    rows = vkattn.embedding([[3, 0, 40], [-1, 39, 7]], weight)
    assert (rows == numpy.where(numpy.array([[1, 1, 0], [0, 1, 1]])[..., None], weight[[[3, 0, 0], [0, 39, 7]]], 0)).all()
    with pytest.raises(ValueError, match="activation: 'tanh', expected one of none, relu"):
        vkattn.linear(x, weight, activation="tanh")
    with pytest.raises(ValueError, match="residual: shape"):
        vkattn.linear(x, weight, residual=x)
    with pytest.raises(vkattn.InvalidArgumentError, match="input: shape"):
        vkattn.linear(x, weight[:, :20])


def test_mistakes_are_named():
    query, key = random(1, 4, 3, 8), random(1, 2, 3, 8)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        vkattn.attention(query, key, key)
    with pytest.raises(TypeError, match="query: dtype int64"):
        vkattn.attention(query.astype(int), query, query)
    with pytest.raises(ValueError, match="query: 1 dimensions"):
        vkattn.attention(query.ravel(), query, query)
    with pytest.raises(ValueError, match="kernel: 'fast', expected one of auto"):
        vkattn.attention(query, query, query, kernel="fast")
    with pytest.raises(vkattn.InvalidArgumentError, match="key"):
        vkattn.attention(query, random(1, 4, 3, 9), query)
    with pytest.raises(vkattn.InvalidArgumentError, match="dropout_p"):
        vkattn.attention(query, query, query, dropout_p=1.5)
    with pytest.raises(vkattn.NoDeviceError, match="no such"):
        vkattn.Context("no such device")


def test_layer_with_cache_goes_on_where_it_was():
    width, heads = 32, 4
    weights = {f"{name}.weight": random(width, width, seed=seed) / 8 for seed, name in
               enumerate(("q_proj", "k_proj", "v_proj", "out_proj"))}
    layer = vkattn.Layer("mha", weights, embed_dim=width, num_heads=heads)
    tokens = random(1, 6, width)
    whole = layer(tokens, is_causal=True)
    cache = layer.cache(16, key_type="f32")
    steps = numpy.concatenate([layer(tokens[:, i:i + 1], cache=cache, is_causal=True) for i in range(6)], axis=1)
    assert nmse(steps, whole.astype(numpy.float64)) < 1e-10
    assert cache.lengths == [6] and cache.nbytes >= 2 * 16 * width * 4
    cache.rewind(0, 3)
    assert nmse(layer(tokens[:, 3:], cache=cache, is_causal=True), whole[:, 3:].astype(numpy.float64)) < 1e-10
    with pytest.raises(vkattn.InvalidArgumentError, match="out_proj"):
        vkattn.Layer("mha", {"q_proj.weight": weights["q_proj.weight"]}, embed_dim=width, num_heads=heads)
    with pytest.raises(TypeError, match="heads: no member"):
        vkattn.Layer("mha", weights, embed_dim=width, heads=heads)


def test_longrope_takes_a_factor_for_every_pair():
    random = numpy.random.default_rng(0)
    weights = {f"{name}.weight": random.normal(size=(16, 16)).astype("float32") for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    x = random.normal(size=(1, 5, 16)).astype("float32")

    def output(**scaling):
        return vkattn.Layer("mha", weights, embed_dim=16, num_heads=2, rope_theta=1e4, rope_scaling=scaling)(x)
    longrope = {"kind": "longrope", "factor": 4, "original_max_position": 32, "attention_factor": 1}
    assert numpy.array_equal(output(**longrope, factors=[4] * 4), output(kind="linear", factor=4))
    assert not numpy.allclose(output(**longrope, factors=[4, 4, 4, 1]), output(kind="linear", factor=4))
    with pytest.raises(vkattn.InvalidArgumentError, match="3 factors, expected 4"):
        output(**longrope, factors=[4] * 3)


def layer_of(width, heads, **more):
    weights = {f"{name}.weight": random(width, width, seed=seed) / 8 for seed, name in
               enumerate(("q_proj", "k_proj", "v_proj", "out_proj"))}
    return vkattn.Layer("mha", weights, embed_dim=width, num_heads=heads, **more)


def test_layer_with_pages_shares_them():
    layer, tokens = layer_of(32, 4), random(2, 12, 32)
    cache = layer.cache(16, batch=2, key_type="float32", pages=3, page_size=8)
    assert (cache.free_pages, cache.capacity, cache.page_size) == (3, 16, 8)
    layer(tokens[:, :3], cache=cache, is_causal=True)
    assert cache.free_pages == 1 and cache.lengths == [3, 3]
    cache.rewind(1, 0)
    cache.share_prefix(0, 1, 3)
    assert cache.free_pages == 2
    steps = layer(tokens[:, 3:6], cache=cache, is_causal=True)
    assert cache.free_pages == 1 and cache.lengths == [6, 6]
    history = numpy.concatenate([tokens[[0, 0], :3], tokens[:, 3:6]], axis=1)
    assert nmse(steps, layer(history, is_causal=True)[:, 3:].astype("f8")) < 1e-10
    with pytest.raises(vkattn.NoRoomError, match="page"):
        layer(tokens[:, :5], cache=cache, is_causal=True)  # two pages, where one is free
    assert cache.free_pages == 1 and cache.lengths == [6, 6]
    for mistake, error, message in (
            (lambda: layer.cache(16, pages=3, page_size=12), ValueError, "page_size: 12, expected a power of two"),
            (lambda: layer.cache(16, key_type="bool"), ValueError, "key_type: 'bool', expected one of f32, f16"),
            (lambda: layer.cache(16, value_type="i32"), ValueError, "value_type: 'i32', expected one of f32"),
            (lambda: cache.share_prefix(0, 1, 1.5), TypeError, "length: 1.5, expected a whole number"),
            (lambda: cache.copy_sequence(0, None, 1), TypeError, "to: NoneType, expected what Layer.cache gives"),
            (lambda: layer(tokens, cache=tokens), TypeError, "cache: ndarray, expected what Layer.cache gives")):
        with pytest.raises(error, match=message):
            mistake()


@pytest.mark.parametrize("pages", [0, 6])
def test_packed_tokens_of_layers(pages):
    layer, counts = layer_of(32, 4), [3, 0, 5]
    packed, bounds = random(1, 8, 32), [0, 3, 3, 8]
    expected = numpy.concatenate([layer(packed[:, :3], is_causal=True), layer(packed[:, 3:], is_causal=True)], axis=1)
    assert nmse(layer(packed, cu_seqlens=bounds, is_causal=True), expected.astype("f8")) < 1e-10
    cache = layer.cache(16, batch=3, key_type="f32", pages=pages, page_size=8)
    assert nmse(layer(packed, cu_seqlens=bounds, max_seqlen=5, cache=cache, is_causal=True), expected.astype("f8")) < 1e-10
    assert cache.lengths == counts
    step = layer(packed[:, :2], cu_seqlens=[0, 1, 1, 2], cache=cache, is_causal=True)
    for sequence, (first, token) in {0: (packed[:, :3], 0), 2: (packed[:, 3:], 1)}.items():
        whole = layer(numpy.concatenate([first, packed[:, token:token + 1]], axis=1), is_causal=True)
        assert nmse(step[:, token], whole[:, -1].astype("f8")) < 1e-10
    assert cache.lengths == [4, 0, 6]
    with pytest.raises(vkattn.InvalidArgumentError):
        layer(packed, cu_seqlens=bounds, cache=cache, kernel="coopmat", is_causal=True, window=(-5, 0))
    with pytest.raises(vkattn.NoRoomError):
        layer(random(1, 17, 32), cu_seqlens=[0, 17, 17, 17], cache=cache)
    assert cache.lengths == [4, 0, 6]
    for bounds, longest, message in (([0, 3, 3, 7], 0, "cu_seqlens: .*expected every token to be of a sequence, from 0 to 8"),
                                     ([0, 3, 2, 8], 0, "cu_seqlens: .*expected numbers that do not fall"),
                                     ([0, 3, 3, 8], 4, "max_seqlen: 4, expected at least the longest sequence, 5")):
        with pytest.raises(ValueError, match=message):
            layer(packed, cu_seqlens=bounds, max_seqlen=longest, cache=cache)


def test_threads_share_a_cache_of_a_layer():
    layer, tokens = layer_of(32, 4), random(1, 8, 32)
    cache = layer.cache(64, key_type="f32")
    layer(tokens, cache=cache, is_causal=True)
    wrong = []

    def work():
        for _ in range(10):
            with cache.context.lock:
                layer(tokens[:, :2], cache=cache, is_causal=True)
                cache.rewind(0, 8)
            if not 8 <= cache.lengths[0] <= 10:
                wrong.append(cache.lengths)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and cache.lengths == [8]


def test_estimates():
    small = vkattn.estimate("gqa-8", d_model=4096, num_heads=32, context_len=4096)
    assert small.cache_bytes_per_token == 2 * 8 * 128 * 2
    config = vkattn.layer_config("mha", embed_dim=4096, num_heads=32, num_kv_heads=8)
    assert vkattn.estimate(config, context_len=4096) == small
    scaled = vkattn.estimate(config, context_len=4096, cache_type="f8_e4m3", key_scales="row", value_scales="row")
    assert scaled.cache_bytes_per_token == 2 * 8 * (128 + 4)
    with pytest.raises(vkattn.InvalidArgumentError, match="gqa-"):
        vkattn.estimate("gqa-5", d_model=4096, num_heads=32)


def test_contexts_devices_and_what_they_learn():
    assert vkattn.version().count(".") == 2
    assert len(vkattn.devices()) >= 1
    context = vkattn.Context(0)
    assert context.facts["name"] == vkattn.devices()[0]["name"]
    assert {kernel.name for kernel in context.facts["kernels"]} >= {"flash", "decode", "unfused"}
    checks = vkattn.Context(0, traits="specialised_modules=0,specialised_arrays=0,matrix_units=0").self_test()  # of few shaders
    assert len(checks) > 20 and all(check.passed for check in checks)
    query = random(1, 2, 5, 16)
    candidates = context.tune(vkattn.problem(query, query, query))
    assert sum(candidate.kept for candidate in candidates) == 1
    rows, weight = random(9, 24), random(16, 24)
    candidates = context.tune(vkattn.linear_problem(rows, weight, activation="silu", residual=random(9, 16)))
    assert sum(candidate.kept for candidate in candidates) == 1
    assert nmse(vkattn.linear(rows, weight, context=context), rows.astype("f8") @ weight.T.astype("f8")) < 1e-10
    candidates = context.tune(vkattn.attention_backward_problem(query, query, query, query, ("query", "value"), is_causal=True))
    assert sum(candidate.kept for candidate in candidates) == 2 and {each.tile.split(",")[0] for each in candidates} >= {"backward_queries"}
    again = vkattn.Context(0, saved=context.save())
    expected, _ = reference(query, query, query)
    assert nmse(vkattn.attention(query, query, query, context=again), expected) < 1e-10
    with pytest.warns(UserWarning, match="saved_data"):
        vkattn.Context(0, saved=b"nothing of the kind")


def test_tuning_reaches_the_plans_of_layers():
    context = vkattn.Context(0)
    weights = {f"{name}.weight": numpy.eye(16, dtype="f4") for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    layer, x = vkattn.Layer("mha", weights, embed_dim=16, num_heads=1, context=context), random(1, 2, 16)
    cache = layer.cache(8)
    before = layer(x), layer(x, cache=cache)
    plans = [layer._plans, *cache.plans.values()]
    made = [list(each.values()) for each in plans]
    cache.rewind(0, 0)
    layer(x)
    assert [len(each) for each in made] == [1, 1] and list(layer._plans.values()) == made[0]
    context.tune(vkattn.linear_problem(x, numpy.eye(16, dtype="f4")))
    after = layer(x), layer(x, cache=cache)
    assert all(len(each) == 1 and list(each.values()) != old for each, old in zip(plans, made))
    assert numpy.allclose(before, after, rtol=1e-5)


def test_what_fails_first_is_told(monkeypatch):
    weights = {f"{name}.weight": numpy.eye(16, dtype="f4") for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    layer = vkattn.Layer("mha", weights, embed_dim=16, num_heads=1)
    cache = layer.cache(8)

    def lost(*_, **__):
        raise vkattn.DeviceLostError("vkattn_run: the device is lost")

    monkeypatch.setattr("vkattn.calls.Call.run", lost)
    monkeypatch.setattr(cache, "rewind", lambda *_: (_ for _ in ()).throw(vkattn.DeviceLostError("rewind: the device is lost")))
    with pytest.raises(vkattn.DeviceLostError, match="vkattn_run"):
        layer(random(1, 3, 16), cache=cache, cu_seqlens=[0, 3])


def test_saving_is_tried_again_where_the_state_grows_meanwhile(monkeypatch):
    context, refused = vkattn.Context(0), []

    def growing(function, *arguments):
        if arguments[-2] is not None and len(refused) < 2:  # what the library says of too little room
            refused.append(function)
            raise vkattn.NoRoomError("bytes: room for fewer bytes")
        return handles.call(function, *arguments)

    monkeypatch.setattr("vkattn.context.call", growing)
    assert len(context.save()) > 0 and refused == ["vkattn_context_save"] * 2


def test_a_budget_is_spent_once_and_what_it_found_is_kept(monkeypatch):
    query = random(1, 2, 5, 16)
    expected, _ = reference(query, query, query)
    assert vkattn.Context(0).tune_budget == vkattn.TuneBudget(0, 0, 0, 0, 0)
    first = vkattn.Context(0, tune_budget_ms=3_600_000)
    for _ in range(2):
        assert nmse(vkattn.attention(query, query, query, context=first), expected) < 1e-9
    spent = first.tune_budget
    assert spent.budget_ms == 3_600_000 and spent.spent_ms > 0 and (spent.classes, spent.left_out) == (1, 0) and spent.candidates > 1
    assert str(spent).startswith("tuned within the budget: 1 class, ") and str(spent).endswith(" of 3600000 ms")
    second = vkattn.Context(0, tune_budget_ms=3_600_000, saved=first.save())
    assert nmse(vkattn.attention(query, query, query, context=second), expected) < 1e-9
    assert second.tune_budget == vkattn.TuneBudget(3_600_000, 0, 0, 0, 0)
    is_cpu = first.facts["device_type"] == 4  # VK_PHYSICAL_DEVICE_TYPE_CPU
    assert vkattn.Context(0, tune_budget_ms=5, tune_gpus_alone=True).tune_budget.budget_ms == (0 if is_cpu else 5)
    with pytest.raises(ValueError, match="tune_budget_ms: -1, expected a whole number from 0"):
        vkattn.Context(0, tune_budget_ms=-1)


def test_a_journal_notes_what_is_tried_once(tmp_path, monkeypatch):
    query = random(1, 2, 5, 16)
    expected, _ = reference(query, query, query)
    notes = []
    for _ in range(2):
        context = vkattn.Context(0, journal=tmp_path / "journal")
        assert nmse(vkattn.attention(query, query, query, context=context), expected) < 1e-10
        notes.append((tmp_path / "journal").read_text())
    assert "\n+ " in notes[0] and "\n- " in notes[0] and "\n!" not in notes[0] and notes[1] == notes[0]
    with pytest.raises(vkattn.InvalidArgumentError, match="cannot be opened"):
        vkattn.Context(0, journal=tmp_path / "no folder" / "journal")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    vkattn.Context(0, journal=True)
    assert pathlib.Path(context_module.journal_file()).is_file()


def test_kernels_of_a_newer_library_are_numbers():
    assert context_module._kernel_name(2) == "flash" and context_module._kernel_name(99) == "kernel 99"


def test_threads_share_a_context():
    query = random(1, 2, 33, 16)
    expected, _ = reference(query, query, query, causal=True)
    errors = []

    def work():
        for _ in range(5):
            errors.append(nmse(vkattn.attention(query, query, query, is_causal=True), expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 20 and max(errors) < 1e-10


@pytest.mark.parametrize("traits", ["max_loop_iterations=777,push_descriptors=0",
                                    {"max_loop_iterations": 777, "push_descriptors": 0}])
def test_traits_as_text_and_as_dict(traits):
    facts = vkattn.Context(traits=traits).facts
    assert facts["max_loop_iterations"] == 777 and facts["push_descriptors"] == 0


@pytest.mark.parametrize("traits, message", [
    ("self_test", '"self_test", expected name=number'), ("self_test=1,,", '"", expected name=number'),
    ("speed=9", '"speed" is unknown, expected one of max_loop_iterations, '), ({"self_test": -1}, "self_test -1, expected"),
    ({"max_shared_memory_bytes": 4294967295}, "max_shared_memory_bytes 4294967295, expected at most that of")])
def test_bad_traits_are_named(traits, message):
    with pytest.raises(ValueError, match="traits: " + message):
        vkattn.Context(traits=traits)


def test_heads_by_modulo_and_batches_that_do_not_matter():
    query, key = random(3, 6, 5, 16), random(3, 2, 9, 16)
    expected, _ = reference(query, numpy.tile(key, (1, 3, 1, 1)), numpy.tile(key, (1, 3, 1, 1)))
    output = vkattn.attention(query, key, key, enable_gqa=True, kv_head_mapping="modulo")
    assert nmse(output, expected) < 1e-10
    whole = vkattn.attention(query, key, key, enable_gqa=True, batch_invariant=True)
    alone = vkattn.attention(query[1:2], key[1:2], key[1:2], enable_gqa=True, batch_invariant=True)
    assert (whole[1:2] == alone).all()
    with pytest.raises(ValueError, match="kv_head_mapping: 'random', expected one of grouped, modulo"):
        vkattn.attention(query, key, key, enable_gqa=True, kv_head_mapping="random")


def test_problems_are_prewarmed():
    context, query = vkattn.Context(), random(1, 2, 5, 16)
    context.prewarm([vkattn.problem(query, query, query), vkattn.problem(query, query, query, is_causal=True)], threads=2)
    expected, _ = reference(query, query, query, causal=True)
    assert nmse(vkattn.attention(query, query, query, is_causal=True, context=context), expected) < 1e-10
    wrong = vkattn.problem(query, query, query)
    wrong.softcap = -1
    with pytest.raises(vkattn.InvalidArgumentError, match=r"descs\[1\]: softcap: -1"):
        context.prewarm([vkattn.problem(query, query, query), wrong])


@pytest.mark.parametrize("made", [7, None])
def test_what_an_interrupt_leaves_behind_is_destroyed(monkeypatch, made):
    """Ctrl-C during a call of C raises as soon as that returns, with what it made."""
    destroyed = []
    monkeypatch.setattr(handles.library, "destroy_it", lambda raw: destroyed.append(raw.value), raising=False)

    def create(raw):
        raw.value = made
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        handles.Handle(create, "destroy_it")
    gc.collect()
    assert destroyed == [made] * (made is not None)


def test_what_a_call_takes_is_told_before_it_is_made():
    context, query, key = vkattn.default_context(), random(1, 4, 3, 64), random(1, 2, 90, 64)
    described = vkattn.problem(query, key, key, enable_gqa=True, kernel="unfused")
    measured = context.measure(described)
    bound = {each.role: each for each in context.bindings(described)}
    assert measured.kernel == "unfused" and measured.dispatches > 1
    assert list(bound) == ["workspace", "query", "key", "value", "output"]
    assert bound["workspace"].bytes == measured.workspace_bytes > 0
    assert (bound["key"].bytes, bound["key"].alignment, bound["key"].is_written) == (key.nbytes, 16, False)
    assert bound["output"].is_written and bound["output"].bytes == query.nbytes
    product = vkattn.linear_problem(random(3, 64), random(32, 64))
    assert context.measure(product).kernel == "auto" and {each.role for each in context.bindings(product)} >= {"input", "weight", "output"}
    gradients = vkattn.attention_backward_problem(query, key, key, query, "key", enable_gqa=True)
    assert context.measure(gradients).dispatches > 1
    roles = {each.role: each.is_written for each in context.bindings(gradients)}
    assert {role for role, is_written in roles.items() if is_written} == {"d_key", "workspace"}
    assert {"output", "log_sum_exp", "d_output"} <= set(roles)
    layer = vkattn.layer_problem(vkattn.layer_config("mha", embed_dim=64, num_heads=4), random(1, 7, 64), is_causal=True)
    assert context.measure(layer).workspace_bytes > 0
    for mistake, error, message in (
            (lambda: context.measure(query), TypeError, "problem: ndarray, expected what one of these returns: problem, linear_problem, attention_backward_problem, layer_p"),
            (lambda: context.bindings(layer), TypeError, "problem: tuple, expected what one of these returns: problem, linear_p.*_backward_problem$"),
            (lambda: vkattn.attention_backward_problem(query, query, query, query, "sinks"), ValueError, "gradients: 'sinks', expected some of query"),
            (lambda: vkattn.attention_backward_problem(query, query, None, query), TypeError, "value: None, expected an array"),
            (lambda: vkattn.attention_backward_problem(query[0, 0], query[0, 0], query[0, 0], query), ValueError, "d_output: 4 dimensions, expected 2"),
            (lambda: vkattn.attention_backward_problem(query, query, query, query, return_lse=True), TypeError, "return_lse: no argument"),
            (lambda: vkattn.layer_problem(layer[0], query[0], cache=None), TypeError, "cache: no argument of a layer without a cache"),
            (lambda: context.measure(vkattn.problem(query, query, key)), vkattn.InvalidArgumentError, "value: shape"),
            (lambda: context.measure(vkattn.problem(query, query, query, kernel="latent_decode")), vkattn.UnsupportedError, "latent_decode")):
        with pytest.raises(error, match=message):
            mistake()


def test_errors_say_what_is_at_fault():
    query = random(1, 1, 2, 8)
    with pytest.raises(vkattn.InvalidArgumentError) as raised:
        vkattn.attention(query, query, random(1, 1, 3, 8))
    assert (raised.value.member, raised.value.entry, raised.value.line, raised.value.column) == ("value", None, None, None)
    wrong = [vkattn.problem(query, query, query), vkattn.problem(query, query, query, softcap=-1.0)]
    with pytest.raises(vkattn.InvalidArgumentError) as raised:
        vkattn.default_context().prewarm(wrong)
    assert raised.value.entry == 1


def test_numbers_that_are_left_out_are_none_and_zero_is_zero():
    x, weight = random(1, 3, 16), random(16, seed=1)
    unnormalised = x.astype("f8") / numpy.sqrt((x.astype("f8") ** 2).mean(-1, keepdims=True)) * weight
    tiny = x * 1e-6
    assert nmse(vkattn.norm(tiny, weight, epsilon=0), unnormalised) < 1e-10 < nmse(vkattn.norm(tiny, weight), unnormalised)
    assert (vkattn.norm(tiny, weight) == vkattn.norm(tiny, weight, epsilon=1e-6)).all()
    query, key = random(1, 1, 2, 8), random(1, 1, 5, 8, seed=2)
    causal = dict(is_causal=True, causal_alignment="bottom_right")
    assert (vkattn.attention(query, key, key, **causal) == vkattn.attention(query, key, key, past_len=3, **causal)).all()
    assert (vkattn.attention(query, key, key, past_len=0, **causal) == vkattn.attention(query, key, key, is_causal=True)).all()
    with pytest.raises(TypeError, match="past_len: 1.5, expected a whole number"):
        vkattn.attention(query, key, key, past_len=1.5)
