"""Rotary embeddings of a part of each head and in sections, against NumPy in float64 and the code of transformers."""
import types

import numpy
import pytest

import vkattn

WIDTH, HEADS, SIZE, THETA = 48, 4, 24, 10000.0


def rotated(x, positions, rotary_dim, streams):
    """[H,L,SIZE] whose first rotary_dim elements turn, pair i by positions[streams[i]]."""
    half = rotary_dim // 2
    angles = positions[streams].T * THETA ** (-2 * numpy.arange(half) / rotary_dim)
    a, b, rest = x[..., :half], x[..., half:rotary_dim], x[..., rotary_dim:]
    return numpy.concatenate([a * numpy.cos(angles) - b * numpy.sin(angles), a * numpy.sin(angles) + b * numpy.cos(angles), rest], -1)


def expected_output(weights, x, positions, rotary_dim, streams):
    """One sequence [L,WIDTH], causal."""
    q, k, v = ((x @ weights[name + "_proj.weight"].T).reshape(len(x), HEADS, SIZE).swapaxes(0, 1) for name in "qkv")
    q, k = (rotated(y, positions, rotary_dim, streams) for y in (q, k))
    scores = numpy.einsum("hid,hjd->hij", q, k) / SIZE ** 0.5
    scores = numpy.exp(numpy.where(numpy.tri(len(x), dtype=bool), scores, -numpy.inf))
    out = numpy.einsum("hij,hjd->ihd", scores / scores.sum(-1, keepdims=True), v)
    return out.reshape(len(x), -1) @ weights["out_proj.weight"].T


def random_weights(random):
    shapes = {**{f"{name}_proj.weight": (HEADS * SIZE, WIDTH) for name in "qkv"}, "out_proj.weight": (WIDTH, HEADS * SIZE)}
    return {name: (random.standard_normal(shape) / shape[-1] ** 0.5).astype("f4") for name, shape in shapes.items()}


@pytest.mark.parametrize("interleaved", [False, True])
def test_positions_in_sections_of_a_part_of_each_head(interleaved):
    random = numpy.random.default_rng(3)
    weights, x = random_weights(random), random.standard_normal((2, 9, WIDTH)).astype("f4")
    positions = random.integers(0, 5000, (3, 2, 9)).astype("i4")
    layer = vkattn.Layer("mha", weights, embed_dim=WIDTH, num_heads=HEADS, head_dim=SIZE, rope_theta=THETA, rotary_dim=16,
                         rope_sections=[4, 2, 2], rope_sections_interleaved=int(interleaved))
    streams = [0, 1, 2, 0, 1, 2, 0, 0] if interleaved else [0, 0, 0, 0, 1, 1, 2, 2]
    wide = {name: weight.astype("f8") for name, weight in weights.items()}
    expected = numpy.stack([expected_output(wide, x[b].astype("f8"), positions[:, b], 16, streams) for b in range(2)])
    assert numpy.allclose(layer(x, positions=positions, is_causal=True), expected, atol=2e-5)
    cache = layer.cache(16, batch=2, key_type="f32")
    steps = [layer(x[:, i:j], cache=cache, positions=positions[:, :, i:j], is_causal=True) for i, j in ((0, 4), (4, 5), (5, 9))]
    assert numpy.allclose(numpy.concatenate(steps, 1), expected, atol=2e-5)


@pytest.mark.parametrize("model, name", [("qwen2_vl", "Qwen2VLRotaryEmbedding"), ("qwen3_vl", "Qwen3VLTextRotaryEmbedding")])
def test_sections_are_those_of_transformers(model, name):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip(f"transformers.models.{model}.modeling_{model}")
    random = numpy.random.default_rng(4)
    sections, half = [6, 3, 3], SIZE // 2
    positions = random.integers(0, 5000, (3, 1, 7)).astype("i4")
    angles = torch.tensor(positions, dtype=torch.float64)[..., None] * THETA ** (-2 * torch.arange(half, dtype=torch.float64) / SIZE)
    q, k = (torch.tensor(random.standard_normal((1, HEADS, 7, SIZE))) for _ in range(2))
    order = types.SimpleNamespace(mrope_section=sections)
    cos, sin = (getattr(theirs, name).recomposition_frequencies(order, part) for part in (angles.cos(), angles.sin()))
    their_q, their_k = theirs.apply_rotary_pos_emb(q, k, cos, sin)
    expected = (their_q @ their_k.transpose(-1, -2) / SIZE ** 0.5).softmax(-1)
    # The layer's projections take q, k and q as values out of its input, and put the heads into the first half of its output.
    width = 2 * HEADS * SIZE
    eye = numpy.eye(width, dtype="f4")
    weights = {"q_proj.weight": eye[:width // 2], "k_proj.weight": eye[width // 2:], "v_proj.weight": eye[:width // 2],
               "out_proj.weight": eye[:, :width // 2]}
    layer = vkattn.Layer("mha", weights, embed_dim=width, num_heads=HEADS, head_dim=SIZE, rope_theta=THETA, rope_sections=sections,
                         rope_sections_interleaved=int(model == "qwen3_vl"))
    x = torch.cat([q, k], 1).transpose(1, 2).flatten(-2).float().numpy()
    attended = layer(x, positions=positions)[..., :width // 2].reshape(1, 7, HEADS, SIZE).swapaxes(1, 2)
    assert numpy.allclose(attended, (expected @ q).numpy(), atol=2e-5)


def test_what_cannot_be_is_named():
    random = numpy.random.default_rng(5)
    weights, x = random_weights(random), numpy.zeros((1, 3, WIDTH), "f4")
    sizes = dict(embed_dim=WIDTH, num_heads=HEADS, head_dim=SIZE, rope_theta=THETA)
    with pytest.raises(vkattn.InvalidArgumentError, match="rotary_dim: 26, expected an even number up to the head size 24"):
        vkattn.Layer("mha", weights, **sizes, rotary_dim=26)
    with pytest.raises(ValueError, match="rope_sections: 5 numbers, expected at most 4"):
        vkattn.Layer("mha", weights, **sizes, rope_sections=[1, 2, 3, 4, 5])
    layer = vkattn.Layer("mha", weights, **sizes, rope_sections=[4, 4, 4])
    with pytest.raises(vkattn.InvalidArgumentError, match=r"positions: type I32, shape \[1,1,3\], expected contiguous I32 \[3,1,3\]"):
        layer(x, positions=numpy.zeros((1, 1, 3), "i4"))
