"""What NumPy and Python would take in silence: other orders of bytes, numbers that wrap, shapes that broadcast."""
import inspect
import re

import numpy
import pytest

import vkattn

QUERY = numpy.random.default_rng(5).standard_normal((2, 2, 3, 8)).astype("float32")
KEY = numpy.random.default_rng(6).standard_normal((2, 2, 5, 8)).astype("float32")


def attend(**arguments):
    return vkattn.attention(QUERY, KEY, KEY, **arguments)


def test_arrays_in_the_other_order_of_bytes_are_read_as_the_numbers_they_are():
    expected = attend()
    swapped = [array.astype(array.dtype.newbyteorder()) for array in (QUERY, KEY, KEY)]
    assert (vkattn.attention(*swapped) == expected).all()
    assert vkattn.attention(*swapped).dtype == numpy.dtype("float32")
    lengths = numpy.array([4, 2], ">i4")
    assert (attend(key_lengths=lengths) == attend(key_lengths=[4, 2])).all()
    weight = QUERY[0, 0].astype(">f4")
    assert (vkattn.linear(QUERY, weight) == vkattn.linear(QUERY, QUERY[0, 0])).all()


@pytest.mark.parametrize("name, value", [
    ("window", (2**32 + 1, 0)), ("window", (-2**31 - 1, 0)), ("dropout_seed", 2**64), ("dropout_seed", -1),
    ("max_seqlen_k", 2**32), ("block_size", -1), ("key_lengths", [2**32 + 4, 2]),
    ("key_lengths", numpy.array([2**32 + 4, 2]))])
def test_whole_numbers_that_would_wrap_are_refused(name, value):
    with pytest.raises(ValueError, match="expected .*whole number"):
        attend(**{name: value})


@pytest.mark.parametrize("name, value", [("window", (1.5, 0)), ("dropout_seed", 0.5), ("key_lengths", [1.5, 2.5])])
def test_numbers_that_are_not_whole_are_refused(name, value):
    with pytest.raises(TypeError, match="expected .*whole number"):
        attend(**{name: value})


@pytest.mark.parametrize("name, value, message", [
    ("window", 5, "window: 5, expected .left, right."), ("window", "12", "window: '12', expected .left, right."),
    ("window", (1, 2, 3), "window: .1, 2, 3., expected .left, right."),
    ("block_size", (64,), "block_size: .64,., expected a number, or"),
    ("block_size", "64", "block_q_len: '64', expected a whole number"), ("scale", "0.5", "scale: '0.5', expected a number"),
    ("softcap", [1, 2], "softcap: .1, 2., expected a number"), ("dropout_p", None, "dropout_p: None, expected a number"),
    ("is_causal", "no", "is_causal: 'no', expected True or False"),
    ("batch_invariant", 2, "batch_invariant: 2, expected True or False"),
    ("max_seqlen_q", "3", "max_seqlen_q: '3', expected a whole number"),
    ("past_len", 1.5, "past_len: 1.5, expected a whole number"),
    ("key_lengths", "45", "key_lengths: dtype <U2, expected whole numbers"),
    ("past_lengths", [None, 1], "past_lengths: dtype object, expected whole"),
    ("sinks", ["a", "b"], "sinks: dtype <U1, expected float32"), ("sinks", [1j, 2j], "sinks: dtype complex128, expected float32"),
    ("key_padding_mask", ["a"], "key_padding_mask: dtype str.*, expected bool"),
    ("key_padding_mask", [[1, 1, 1, 1, 0]] * 2, "key_padding_mask: dtype int64, expected bool"),
    ("key_padding_mask", numpy.zeros((2, 5), "f4"), "key_padding_mask: dtype float32, expected bool"),
    ("attn_mask", numpy.zeros((3, 5)), "attn_mask: dtype float64, expected bool, float32, float16 or bfloat16"),
    ("attn_mask", "mask", "attn_mask: dtype str.*, expected bool, float32"), ("out", QUERY, "out: ndarray, expected an Array")])
def test_values_of_another_kind_are_named(name, value, message):
    with pytest.raises(TypeError, match=message):
        attend(**{name: value})


@pytest.mark.parametrize("query, dtype", [
    (QUERY.astype("f8"), "float64"), (QUERY.astype("i8"), "int64"), (QUERY.astype("i4"), "int32"), (QUERY > 0, "bool"),
    (QUERY.astype("c8"), "complex64"), (QUERY.astype(object), "object"), ("query", "str"), (None, "object"),
    (QUERY.astype("u1"), "uint8"), (numpy.array(["2026-11-25"], "M8[D]"), "datetime64")])
def test_types_that_a_query_has_not(query, dtype):
    with pytest.raises(TypeError, match=f"query: dtype {dtype}.*, expected float32, float16 or bfloat16"):
        vkattn.attention(query, KEY, KEY)
    with pytest.raises(TypeError, match=f"query: dtype {dtype}.*, expected float32, float16 or bfloat16"):
        vkattn.scaled_dot_product_attention(query, KEY, KEY)
    with pytest.raises(TypeError, match=f"input: dtype {dtype}.*, expected float32, float16 or bfloat16"):
        vkattn.norm(query, QUERY[0, 0, 0])


def test_arguments_of_another_name_are_named():
    expected = "windows: no argument of attention, expected one of query, key, value, attn_mask, "
    with pytest.raises(TypeError, match="attention.* got an unexpected keyword argument 'windows'"):
        attend(windows=(1, 1))
    with pytest.raises(TypeError, match=expected):
        vkattn.problem(QUERY, KEY, KEY, windows=(1, 1))
    with pytest.raises(TypeError, match=expected):
        vkattn.flex_attention(QUERY, KEY, KEY, mask_mod=lambda b, h, q, k: k <= q, windows=(1, 1))
    signature = inspect.signature(vkattn.attention)  # as help() shows it
    assert signature.parameters["causal_alignment"].default == "top_left" and len(signature.parameters) > 35


def test_lists_without_a_shape_are_named():
    with pytest.raises(ValueError, match="query: .*inhomogeneous"):
        vkattn.attention([[1.0], [1.0, 2.0]], KEY, KEY)


@pytest.mark.parametrize("scale, expected", [(float("inf"), "a finite number"), (float("-inf"), "a finite number"),
                                             (float("nan"), "a finite number"), (-1e300, "a number that a float of 32 bits holds")])
def test_scales_that_are_no_numbers_are_named(scale, expected):
    with pytest.raises(ValueError, match=re.escape(f"scale: {scale}, expected {expected}")):
        attend(scale=scale)


def test_a_scale_of_zero_is_zero():
    for scale in (0, 0.0, -0.0):
        assert numpy.allclose(attend(scale=scale), KEY.mean(axis=2, keepdims=True), atol=1e-6)


def test_sizes_of_layers_caches_and_estimates_do_not_wrap():
    with pytest.raises(ValueError, match="embed_dim: -8, expected a whole number"):
        vkattn.layer_config("mha", embed_dim=-8, num_heads=1)
    with pytest.raises(ValueError, match="d_model: 4294967360, expected a whole number"):
        vkattn.estimate("mha", d_model=2**32 + 64, num_heads=4)
    with pytest.raises(ValueError, match="batch: -1, expected a whole number"):
        vkattn.estimate("mha", d_model=64, num_heads=4, batch=-1)
    with pytest.raises(TypeError, match="contxt_len: no member of vkattn_estimate_info, expected one of batch"):
        vkattn.estimate("mha", d_model=64, num_heads=4, contxt_len=9)
    weights = {f"{name}.weight": numpy.eye(16, dtype="float32") for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    cache = vkattn.Layer("mha", weights, embed_dim=16, num_heads=2).cache(4)
    with pytest.raises(ValueError, match="length: -1, expected a whole number"):
        cache.rewind(0, -1)
    with pytest.raises(ValueError, match="sequence: 4294967296, expected a whole number"):
        cache.rewind(2**32, 0)


def test_values_as_a_part_of_the_keys():
    expected = vkattn.attention(QUERY, KEY, KEY[..., :4])
    assert numpy.allclose(vkattn.attention(QUERY, KEY, None, v_head_dim=4), expected, atol=1e-6)
    with pytest.raises(TypeError, match="value: None, expected an array, or v_head_dim"):
        vkattn.attention(QUERY, KEY, None)


@pytest.mark.parametrize("shape", [(), (5,), (1,), (3, 1), (2, 1, 1, 1)])
@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_masks_of_every_shape_that_broadcasts(shape, kind):
    mask = numpy.random.default_rng(7).standard_normal(shape)
    mask = mask > -0.3 if kind == "bool" else mask.astype(kind)
    whole = numpy.broadcast_to(mask, (2, 2, 3, 5))
    assert (attend(attn_mask=mask) == attend(attn_mask=whole)).all()


def test_masks_of_too_many_dimensions_are_refused():
    with pytest.raises(ValueError, match="attn_mask: 5 dimensions, expected at most 4"):
        attend(attn_mask=numpy.ones((1, 1, 1, 3, 5), bool))


def test_masks_of_layers_broadcast_too():
    weights = {f"{name}.weight": numpy.eye(16, dtype="float32") for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    layer = vkattn.Layer("mha", weights, embed_dim=16, num_heads=2)
    tokens = QUERY.reshape(2, 3, 16)
    mask = numpy.array([True, False, True])
    assert (layer(tokens, attn_mask=mask) == layer(tokens, attn_mask=numpy.broadcast_to(mask, (3, 3)))).all()


def test_parts_are_at_least_one():
    for outputs, sums in (([], []), (numpy.zeros((0, 1, 1, 1, 8), "float32"), numpy.zeros((0, 1, 1, 1), "float32"))):
        with pytest.raises(ValueError, match="outputs: 0 parts, expected at least 1"):
            vkattn.merge(outputs, sums)


def test_sinks_are_a_part_of_their_own():
    sinks = numpy.array([0.5, -2.0], "float32")
    expected, expected_sums = attend(sinks=sinks, return_lse=True)
    parts = [vkattn.attention(QUERY, KEY[:, :, i:j], KEY[:, :, i:j], return_lse=True) for i, j in ((0, 2), (2, 5))]
    parts.append((numpy.zeros_like(expected), numpy.broadcast_to(sinks[:, None], expected_sums.shape)))
    output, sums = vkattn.merge([o for o, _ in parts], [s for _, s in parts], return_lse=True)
    assert numpy.allclose(output, expected, atol=1e-6) and numpy.allclose(sums, expected_sums, atol=1e-6)
