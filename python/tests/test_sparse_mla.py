"""MLA with an indexer (DSA) against NumPy in float64."""
import numpy
import pytest

import vkattn

HEADS, NOPE, ROPE, VALUES, RANK, LORA, WIDTH = 3, 8, 4, 6, 16, 12, 24
INDEX = dict(index_n_heads=4, index_head_dim=10, index_topk=5)
SIZES = dict(embed_dim=WIDTH, num_heads=HEADS, qk_nope_head_dim=NOPE, qk_rope_head_dim=ROPE, v_head_dim=VALUES, kv_lora_rank=RANK,
             q_lora_rank=LORA, rope_theta=10000.0, rope_interleaved=1, mla_form="absorb", **INDEX)
SHAPES = {"q_a_proj": (LORA, WIDTH), "q_b_proj": (HEADS * (NOPE + ROPE), LORA), "kv_a_proj_with_mqa": (RANK + ROPE, WIDTH),
          "kv_b_proj": (HEADS * (NOPE + VALUES), RANK), "o_proj": (WIDTH, HEADS * VALUES), "q_a_layernorm": (LORA,),
          "kv_a_layernorm": (RANK,), "indexer.wq_b": (40, LORA), "indexer.wk": (10, WIDTH), "indexer.weights_proj": (4, WIDTH),
          "indexer.k_norm": (10,)}


def rotated(x, interleaved):
    """[..., L, ROPE] by its positions."""
    angles = numpy.arange(x.shape[-2])[:, None] * 10000.0 ** (-2 * numpy.arange(ROPE // 2) / ROPE)
    pairs = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, ROPE // 2), slice(ROPE // 2, None))
    a, b = x[..., pairs[0]], x[..., pairs[1]]
    out = numpy.empty_like(x)
    out[..., pairs[0]], out[..., pairs[1]] = a * numpy.cos(angles) - b * numpy.sin(angles), a * numpy.sin(angles) + b * numpy.cos(angles)
    return out


def expected_output(w, x):
    """One sequence [L,WIDTH], as DeepSeek-V3.2's code has it."""
    def rms(name, y):
        return y / numpy.sqrt((y ** 2).mean(-1, keepdims=True) + 1e-6) * w[name + ".weight"]

    low_rank = rms("q_a_layernorm", x @ w["q_a_proj.weight"].T)
    q = (low_rank @ w["q_b_proj.weight"].T).reshape(len(x), HEADS, -1).swapaxes(0, 1)
    q = numpy.concatenate([q[..., :NOPE], rotated(q[..., NOPE:], True)], -1)
    latent = x @ w["kv_a_proj_with_mqa.weight"].T
    kv = (rms("kv_a_layernorm", latent[:, :RANK]) @ w["kv_b_proj.weight"].T).reshape(len(x), HEADS, -1).swapaxes(0, 1)
    key_rope = numpy.broadcast_to(rotated(latent[:, RANK:], True), (HEADS, len(x), ROPE))
    k, v = numpy.concatenate([kv[..., :NOPE], key_rope], -1), kv[..., NOPE:]

    iq = (low_rank @ w["indexer.wq_b.weight"].T).reshape(len(x), 4, 10).swapaxes(0, 1)
    ik = x @ w["indexer.wk.weight"].T
    ik = (ik - ik.mean(-1, keepdims=True)) / numpy.sqrt(ik.var(-1, keepdims=True) + 1e-6)
    ik = ik * w["indexer.k_norm.weight"] + w["indexer.k_norm.bias"]
    iq, ik = (numpy.concatenate([rotated(y[..., :ROPE], False), y[..., ROPE:]], -1) for y in (iq, ik))
    chosen = numpy.einsum("ih,hij->ij", x @ w["indexer.weights_proj.weight"].T, numpy.maximum(iq @ ik.T, 0))
    heads = numpy.zeros((len(x), HEADS, VALUES))
    for i in range(len(x)):
        keys = numpy.argsort(-chosen[i, :i + 1], kind="stable")[:INDEX["index_topk"]]
        scores = numpy.exp(numpy.einsum("hd,hjd->hj", q[:, i], k[:, keys]) / (NOPE + ROPE) ** 0.5)
        heads[i] = numpy.einsum("hj,hjd->hd", scores / scores.sum(-1, keepdims=True), v[:, keys])
    return heads.reshape(len(x), -1) @ w["o_proj.weight"].T


def test_a_layer_of_transformers_names_prompt_and_steps():
    random = numpy.random.default_rng(7)
    weights = {name + ".weight": (random.standard_normal(shape) / (shape[-1] ** 0.5 if len(shape) > 1 else 1)).astype("f4")
               for name, shape in SHAPES.items()}
    weights["indexer.k_norm.bias"] = random.standard_normal(10).astype("f4")
    x = random.standard_normal((2, 23, WIDTH)).astype("f4")
    exact = {name: array.astype("f8") for name, array in weights.items()}
    expected = numpy.stack([expected_output(exact, tokens.astype("f8")) for tokens in x])
    layer = vkattn.Layer("mla", weights, **SIZES)
    assert numpy.allclose(layer(x, is_causal=True), expected, atol=1e-5)
    cache = layer.cache(30, batch=2, key_type="f32", pages=8, page_size=8)
    for first, last in ((0, 11), (11, 12), (12, 13), (13, 23)):
        assert numpy.allclose(layer(x[:, first:last], cache=cache, is_causal=True), expected[:, first:last], atol=1e-5)


def test_an_indexer_that_cannot_be_is_named():
    with pytest.raises(vkattn.InvalidArgumentError, match="index_topk: 0, expected 1 to 2048"):
        vkattn.Layer("mla", {}, **{**SIZES, "index_topk": 0})
    with pytest.raises(vkattn.InvalidArgumentError, match="config: with an indexer"):
        vkattn.Layer("mha", {}, embed_dim=8, num_heads=2, index_topk=4)
