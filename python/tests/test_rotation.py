"""Keys and values that are stored rotated, against NumPy in float64."""
import numpy
import pytest

import vkattn
from test_vkattn import nmse


def hadamard(size):
    block = size & -size
    matrix = numpy.ones((1, 1))
    while len(matrix) < block:
        matrix = numpy.block([[matrix, matrix], [matrix, -matrix]])
    return numpy.kron(numpy.eye(size // block), matrix / block ** 0.5)


def drawn(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("f4")


def test_appended_and_attended():
    context = vkattn.default_context()
    query, key, value = drawn(2, 4, 3, 96), drawn(2, 2, 9, 96, seed=1), drawn(2, 2, 9, 64, seed=2)
    expected = vkattn.attention(query, key, value, enable_gqa=True)
    keys, values = context.empty((2, 2, 9, 96), "float32"), context.empty((2, 2, 9, 64), "float32")
    vkattn.kv_append(key, keys, rotation="hadamard")
    vkattn.kv_append(value, values, rotation="hadamard")
    assert numpy.allclose(keys.numpy(), key @ hadamard(96), atol=1e-5)
    output = vkattn.attention(query, keys, values, enable_gqa=True, kv_rotation="hadamard").numpy()
    assert nmse(output, expected) < 1e-10
    output = vkattn.attention(query, keys, context.array(value), enable_gqa=True, kv_rotation=("hadamard", "none")).numpy()
    assert nmse(output, expected) < 1e-10


def test_caches_lose_less_of_outliers():
    context = vkattn.default_context()
    key, value, query = drawn(1, 1, 40, 64, seed=3), drawn(1, 1, 40, 64, seed=4), drawn(1, 1, 1, 64, seed=5)
    key[..., 5] += 20  # in every key: no weight changes
    expected = vkattn.attention(query, key, value)
    error = {}
    for rotation in (None, "hadamard"):
        cache = context.kv_cache(1, 64, pages=6, page_size=8, key_dtype="q4_0", value_dtype="float32", kv_rotation=rotation)
        sequence = cache.add()
        cache.append([sequence], key, value)
        error[rotation] = nmse(cache.attend(query, [sequence]), expected)
    assert error["hadamard"] < error[None] / 2


def test_layers_caches():
    weights = {name: drawn(64, 64, seed=6) / 8 for name in ("q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight")}
    layer = vkattn.Layer("mha", weights, embed_dim=64, num_heads=4, num_kv_heads=4, rope_theta=10000.0)
    x = drawn(1, 7, 64, seed=7)
    cache = layer.cache(16, key_type="f32", kv_rotation="hadamard")
    expected = layer(x, is_causal=True)
    actual = numpy.concatenate([layer(x[:, :5], is_causal=True, cache=cache), layer(x[:, 5:], is_causal=True, cache=cache)], 1)
    assert nmse(actual, expected) < 1e-10


def test_wrong_rotations_are_named():
    query = drawn(1, 1, 2, 8)
    for wrong in ("fourier", 7, ("hadamard",), ("hadamard", None), 1.5):
        with pytest.raises(ValueError, match="kv_rotation: "):
            vkattn.attention(query, query, query, kv_rotation=wrong)
    with pytest.raises(ValueError, match="rotation: 'fourier', expected one of none, hadamard"):
        vkattn.kv_append(query, vkattn.default_context().empty((1, 1, 2, 8), "float32"), rotation="fourier")
