"""Scales of keys and values in floats of 8 bits, against NumPy in float64."""
import numpy
import pytest

import vkattn
from test_vkattn import nmse

LARGEST = {"f8_e4m3": 448.0, "f8_e5m2": 57344.0}


def drawn(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("f4")


@pytest.mark.parametrize("dtype", LARGEST)
def test_appended_and_attended(dtype):
    context = vkattn.default_context()
    query, key, value = drawn(2, 4, 3, 96), drawn(2, 2, 9, 96, seed=1) * 5000, drawn(2, 2, 9, 64, seed=2) / 5000
    query /= 5000
    expected = vkattn.attention(query, key, value, enable_gqa=True)
    keys, values = context.empty((2, 2, 9, 96), dtype), context.empty((2, 2, 9, 64), dtype)
    key_scales, value_scales = (context.empty((2, 2, 9, 1), "float32") for _ in range(2))
    vkattn.kv_append(key, keys, scales=key_scales, makes_scales=True)
    vkattn.kv_append(value, values, scales=value_scales, makes_scales=True)
    assert numpy.allclose(key_scales.numpy()[..., 0], abs(key).max(-1) / LARGEST[dtype], rtol=1e-6)
    output = vkattn.attention(query, keys, values, enable_gqa=True, key_scales=key_scales, value_scales=value_scales).numpy()
    assert nmse(output, expected) < (2e-2 if dtype == "f8_e5m2" else 5e-3)
    # a number of the tensor and one of each head
    heads = numpy.array([2e-6, 3e-6], "f4").reshape(2, 1, 1)
    vkattn.kv_append(key, keys, scales=50.0)
    vkattn.kv_append(value, values, scales=heads)
    output = vkattn.attention(query, keys, values, enable_gqa=True, key_scales=50.0, value_scales=heads).numpy()
    assert nmse(output, expected) < (2e-2 if dtype == "f8_e5m2" else 5e-3)


def test_pages_keep_their_scales():
    context = vkattn.default_context()
    key, value, query = drawn(1, 2, 40, 64, seed=3), drawn(1, 2, 40, 64, seed=4), drawn(1, 2, 1, 64, seed=5)
    value *= 2000  # beyond the type
    cache = context.kv_cache(2, 64, pages=12, page_size=8, key_dtype="f8_e4m3", key_scales="row", value_scales="row")
    sequence = cache.add()
    cache.append([sequence], key[:, :, :37], value[:, :, :37])
    other = cache.fork(sequence)  # whose last page is copied, with its scales
    cache.append([other], key[:, :, 37:], value[:, :, 37:])
    assert nmse(cache.attend(query, [other]), vkattn.attention(query, key, value)) < 5e-3
    assert nmse(cache.attend(query, [sequence]), vkattn.attention(query, key[:, :, :37], value[:, :, :37])) < 5e-3


def test_a_paged_cache_takes_one_number():
    key, query = drawn(1, 2, 9, 64, seed=3), drawn(1, 2, 1, 64, seed=5)
    cache = vkattn.default_context().kv_cache(2, 64, pages=4, page_size=8, key_dtype="f8_e4m3", key_scales=0.05,
                                              value_scales=numpy.float32(0.05))
    sequence = cache.add()
    cache.append([sequence], key, key)
    assert nmse(cache.attend(query, [sequence]), vkattn.attention(query, key, key)) < 5e-3


def test_layers_caches():
    weights = {name: drawn(64, 64, seed=6) / 8 for name in ("q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight")}
    weights["v_proj.weight"] *= 1e-5  # below the least of the type
    weights["out_proj.weight"] *= 1e5
    layer = vkattn.Layer("mha", weights, embed_dim=64, num_heads=2, num_kv_heads=2)
    x = drawn(1, 7, 64, seed=7)
    expected = layer(x, is_causal=True)
    error = {}
    for scales in (None, "row", [1e-7, 1e-7]):
        cache = layer.cache(16, key_type="f8_e4m3", key_scales=None if scales is None else "row", value_scales=scales)
        error[str(scales)] = nmse(layer(x, is_causal=True, cache=cache), expected)
    assert error["None"] > 0.5 and error["row"] < 3e-3 and error["[1e-07, 1e-07]"] < 3e-3


def test_wrong_scales_are_named():
    context = vkattn.default_context()
    query, keys = drawn(1, 1, 2, 32), context.empty((1, 1, 2, 32), "f8_e4m3")
    with pytest.raises(vkattn.InvalidArgumentError, match=r"key_scales: shape \[1,1,3,1\], expected"):
        vkattn.attention(query, keys, keys, key_scales=numpy.ones((3, 1), "f4"))
    with pytest.raises(vkattn.InvalidArgumentError, match="value_scales: given beside F32"):
        vkattn.attention(query, keys, query, value_scales=1.0)
    with pytest.raises(TypeError, match="scales: ndarray, expected an Array"):
        vkattn.kv_append(query, keys, scales=numpy.ones((1, 1, 2, 1), "f4"), makes_scales=True)
    weights = {name: drawn(32, 32) for name in ("q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight")}
    layer = vkattn.Layer("mha", weights, embed_dim=32, num_heads=1)
    with pytest.raises(ValueError, match="key_scales: 'column', expected None, 'row', a number or one for each head"):
        layer.cache(8, key_type="f8_e4m3", key_scales="column")
    for given in ([1.0, 2.0, 3.0], numpy.ones(4, "f4"), []):
        with pytest.raises(ValueError, match=f"key_scales: {len(given)} numbers, expected 1"):
            layer.cache(8, key_type="f8_e4m3", key_scales=given)
    with pytest.raises(vkattn.InvalidArgumentError, match="value_scales: -1, expected finite numbers above 0"):
        layer.cache(8, key_type="f8_e4m3", value_scales=-1.0)
