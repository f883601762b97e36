"""Weights of linear and embedding in ggml's blocks, beside the package gguf's numbers of them."""
import numpy
import pytest
import vkattn
from tested_packages import known

gguf = known("gguf")
_QUANTISED = [name for name in vkattn.weight_types() if hasattr(gguf.GGMLQuantizationType, name.upper())
              and name.upper() not in ("F32", "F16", "BF16")]


def _blocks(name, rows, features):
    """Random blocks of a type with scales that are small numbers, and gguf's numbers of them."""
    kind = gguf.GGMLQuantizationType[name.upper() if name[-1] != "K" else name[:-1].upper() + "K"]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    random = numpy.random.default_rng(len(name) + features)
    blocks = random.integers(0, 256, (rows, features // elements, size), "uint8")
    places = {"q4_1": (0, 2), "q5_1": (0, 2), "q4_K": (0, 2), "q5_K": (0, 2), "q6_K": (208,)}.get(name, (0,))
    for at in places:
        halves = random.uniform(0.0005, 0.001, blocks.shape[:2]).astype("f2")
        blocks[..., at:at + 2] = halves[..., None].view("u1")
    blocks = blocks.reshape(rows, -1)
    return blocks, gguf.dequantize(blocks, kind)


@pytest.mark.parametrize("name", _QUANTISED)
def test_linear_and_embedding_of_blocks(name):
    context = vkattn.default_context()
    blocks, numbers = _blocks(name, 37, 512)
    weight = context.array(blocks, name)
    assert weight.shape == (37, 512) and weight.dtype == name and weight.nbytes == blocks.nbytes
    assert numpy.array_equal(weight.numpy(), numbers)
    for rows in (1, 5, 40):
        x = numpy.random.default_rng(rows).normal(0, 1, (rows, 512)).astype("f4")
        result = vkattn.linear(x, weight).numpy()
        expected = x.astype("f8") @ numbers.T.astype("f8")
        assert numpy.square(result - expected).sum() <= 1e-10 * numpy.square(expected).sum()
    rows = vkattn.embedding(context.array(numpy.array([[3, 36, -1]], "i4")), weight)
    assert rows.dtype == "float32"
    assert numpy.allclose(rows.numpy()[0, :2], numbers[[3, 36]], rtol=1e-6, atol=1e-9) and not rows.numpy()[0, 2].any()
    part = vkattn.linear(context.array(x), weight[8:24]).numpy()
    assert numpy.allclose(part, (x @ numbers[8:24].T), rtol=1e-3, atol=1e-4)


def test_blocks_that_do_not_fit_are_named():
    context = vkattn.default_context()
    with pytest.raises(ValueError, match="expected rows of whole blocks of q4_K, 144 bytes each"):
        context.array(numpy.zeros((2, 100), "u1"), "q4_K")
    with pytest.raises(ValueError, match=r"values: shape \[1, 144\], expected \[2, 144\]"):
        context.empty((2, 256), "q4_K").assign(numpy.zeros((1, 144), "u1"))
    with pytest.raises(TypeError, match="values: dtype float32, expected uint8"):
        context.empty((2, 256), "q4_K").assign(numpy.zeros((2, 256), "f4"))
    weight = context.array(numpy.zeros((4, 144), "u1"), "q4_K")
    with pytest.raises(TypeError, match="key: dtype q4_K, expected"):
        keys = weight.reshape(1, 1, 4, 256)
        vkattn.attention(numpy.zeros((1, 1, 1, 256), "f4"), keys, keys)
