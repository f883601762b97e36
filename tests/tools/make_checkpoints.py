#!/usr/bin/env python3
"""Writes tests/data/checkpoints: small random checkpoints under Hugging Face's names, and the answers of one layer's
attention, computed here in plain PyTorch float64 from the models' published equations; and a case file of a layer with an
indexer, tests/data/lists/mla_indexer.safetensors. Nothing of vkattn is used.

Run from anywhere, with PyTorch and NumPy: tests/tools/make_checkpoints.py
"""
import json
import math
import pathlib
import struct

import torch

ROOT = pathlib.Path(__file__).parents[1] / "data" / "checkpoints"
NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


def save(path, tensors, metadata=None):
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, tensor in tensors.items():
        tensor = tensor.contiguous()
        raw = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


# ---------------------------------------------------------------- rotary frequencies, each scaling by its own paper

def unscaled(dim, theta):
    return torch.tensor([theta ** (-2.0 * i / dim) for i in range(dim // 2)], dtype=torch.float64)


def llama3(dim, theta, scaling):
    """Llama 3.1: wavelengths over original/low are divided, under original/high kept, a ramp between."""
    out = []
    for frequency in unscaled(dim, theta).tolist():
        wavelength = 2 * math.pi / frequency
        ratio = scaling["original_max_position_embeddings"] / wavelength
        if ratio < scaling["low_freq_factor"]:
            out.append(frequency / scaling["factor"])
        elif ratio > scaling["high_freq_factor"]:
            out.append(frequency)
        else:
            smooth = (ratio - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"])
            out.append((1 - smooth) * frequency / scaling["factor"] + smooth * frequency)
    return torch.tensor(out, dtype=torch.float64)


def yarn(dim, theta, scaling):
    """YaRN, section 3.2: a ramp over the pair's index between the numbers of rotations beta_fast and beta_slow."""
    original = scaling["original_max_position_embeddings"]

    def index_of(rotations):
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(index_of(scaling.get("beta_fast", 32))), 0)
    high = min(math.ceil(index_of(scaling.get("beta_slow", 1))), dim - 1)
    if low == high:
        high += 0.001
    out = []
    for i, frequency in enumerate(unscaled(dim, theta).tolist()):
        interpolated = min(max((i - low) / (high - low), 0.0), 1.0)
        out.append(frequency / scaling["factor"] * interpolated + frequency * (1 - interpolated))
    return torch.tensor(out, dtype=torch.float64)


def yarn_mscale(factor, weight):
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def rotary(config, dim):
    """Returns the frequencies and what multiplies the rotated vectors."""
    theta, scaling = config["rope_theta"], config.get("rope_scaling")
    if scaling is None:
        return unscaled(dim, theta), 1.0
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        return unscaled(dim, theta) / scaling["factor"], 1.0
    if kind == "llama3":
        return llama3(dim, theta, scaling), 1.0
    if "mscale" in scaling:
        factor = yarn_mscale(scaling["factor"], scaling["mscale"]) / yarn_mscale(scaling["factor"], scaling["mscale_all_dim"])
    else:
        factor = yarn_mscale(scaling["factor"], 1.0)
    return yarn(dim, theta, scaling), factor


def rotate_half(x, frequencies, factor):
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequencies
    cos, sin = torch.cos(angles) * factor, torch.sin(angles) * factor
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def rotate_interleaved(x, frequencies, factor):
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequencies
    turn = torch.polar(torch.full_like(angles, factor), angles)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * turn).flatten(-2)


# ---------------------------------------------------------------- attention

def rms_norm(x, weight, epsilon=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def attend(q, k, v, scale, causal=True, window=0, softcap=0.0, hidden=None):
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    v = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    scores = scale * q @ k.transpose(-1, -2)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    i = torch.arange(q.shape[2])[:, None]
    j = torch.arange(k.shape[2])[None]
    if causal:
        scores = scores.masked_fill(j > i, -math.inf)
    if window:
        scores = scores.masked_fill(j <= i - window, -math.inf)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ v


def linear(weights, name, x):
    y = x @ weights[name + ".weight"].T
    return y + weights[name + ".bias"] if name + ".bias" in weights else y


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(-2)


def decoder(config, weights, x, head_dim, norm=None, scale=None, window=0, softcap=0.0, theta=None):
    hq, hkv = config["num_attention_heads"], config["num_key_value_heads"]
    if "qkv_proj.weight" in weights:
        q, k, v = linear(weights, "qkv_proj", x).split([hq * head_dim, hkv * head_dim, hkv * head_dim], -1)
    else:
        q, k, v = (linear(weights, name, x) for name in ("q_proj", "k_proj", "v_proj"))
    q, k, v = heads(q, hq), heads(k, hkv), heads(v, hkv)
    if norm is not None:
        q, k = rms_norm(q, norm + weights["q_norm.weight"]), rms_norm(k, norm + weights["k_norm.weight"])
    part = int(head_dim * config.get("partial_rotary_factor", 1))
    frequencies, factor = rotary(config if theta is None else {"rope_theta": theta}, part)
    q, k = (torch.cat([rotate_half(x[..., :part], frequencies, factor), x[..., part:]], -1) for x in (q, k))
    out = attend(q, k, v, scale or head_dim ** -0.5, True, window, softcap)
    return linear(weights, "o_proj", joined(out))


def bert(config, weights, x):
    n = config["num_attention_heads"]
    q, k, v = (heads(linear(weights, "self." + name, x), n) for name in ("query", "key", "value"))
    return linear(weights, "output.dense", joined(attend(q, k, v, q.shape[-1] ** -0.5, causal=False)))


def deepseek(config, weights, x):
    n, nope, rope = config["num_attention_heads"], config["qk_nope_head_dim"], config["qk_rope_head_dim"]
    if "q_proj.weight" in weights:
        q = linear(weights, "q_proj", x)
    else:
        compressed = rms_norm(linear(weights, "q_a_proj", x), weights["q_a_layernorm.weight"])
        q = linear(weights, "q_b_proj", compressed)
    q_nope, q_rope = heads(q, n).split([nope, rope], -1)
    latent, k_rope = linear(weights, "kv_a_proj_with_mqa", x).split([config["kv_lora_rank"], rope], -1)
    latent = rms_norm(latent, weights["kv_a_layernorm.weight"])
    k_nope, v = heads(linear(weights, "kv_b_proj", latent), n).split([nope, config["v_head_dim"]], -1)
    frequencies, factor = rotary(config, rope)
    q_rope = rotate_interleaved(q_rope, frequencies, factor)
    k_rope = rotate_interleaved(heads(k_rope, 1), frequencies, factor).expand(-1, n, -1, -1)
    scale = (nope + rope) ** -0.5
    scaling = config.get("rope_scaling")
    if scaling:
        scale *= yarn_mscale(scaling["factor"], scaling["mscale_all_dim"]) ** 2
    hidden = not_chosen(config, weights, x, compressed, frequencies, factor) if "index_topk" in config else None
    out = attend(torch.cat([q_nope, q_rope], -1), torch.cat([k_nope, k_rope], -1), v, scale, hidden=hidden)
    return linear(weights, "o_proj", joined(out))


def not_chosen(config, weights, x, compressed, frequencies, factor):
    """What the indexer of DeepSeek-V3.2 (its report, section 2.1) hides [B,1,L,L]; GLM-5's rotates neighbours."""
    rotate = rotate_interleaved if config["model_type"] == "glm_moe_dsa" else rotate_half
    rope = config["qk_rope_head_dim"]

    def rotated(t):
        return torch.cat([rotate(t[..., :rope], frequencies, factor), t[..., rope:]], -1)

    k = torch.nn.functional.layer_norm(linear(weights, "indexer.wk", x), (config["index_head_dim"],),
                                       weights["indexer.k_norm.weight"], weights["indexer.k_norm.bias"], 1e-6)
    q = rotated(heads(linear(weights, "indexer.wq_b", compressed), config["index_n_heads"]))
    score = (q @ rotated(k[:, None]).transpose(-1, -2)).relu() * linear(weights, "indexer.weights_proj", x).transpose(1, 2)[..., None]
    length = x.shape[1]
    score = score.sum(1, keepdim=True).masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
    best = score.sort(dim=-1, descending=True, stable=True).indices[..., :config["index_topk"]]  # of ties the first
    return torch.ones_like(score, dtype=torch.bool).scatter(-1, best, False)


# ---------------------------------------------------------------- checkpoints

def random_weights(shapes, generator, dtype):
    return {name: (torch.randn(shape, generator=generator) * (0.3 if len(shape) == 1 else shape[-1] ** -0.5)).to(dtype)
            for name, shape in shapes.items()}


def projection_shapes(width, hq, hkv, d, bias=()):
    shapes = {"q_proj.weight": (hq * d, width), "k_proj.weight": (hkv * d, width), "v_proj.weight": (hkv * d, width),
              "o_proj.weight": (width, hq * d)}
    rows = {"q_proj": hq * d, "k_proj": hkv * d, "v_proj": hkv * d, "o_proj": width}
    return {**shapes, **{name + ".bias": (rows[name],) for name in bias}}


def write(name, config, prefix, weights, x, answer, layer, shards=1, extra=None):
    folder = ROOT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layer + 1}, indent=1) + "\n")
    tensors = {prefix + key: value for key, value in weights.items()}
    tensors.update(extra or {})
    if shards == 1:
        save(folder / "model.safetensors", tensors)
    else:
        names, index = sorted(tensors), {}
        for shard in range(shards):
            file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
            part = names[shard::shards]
            save(folder / file, {key: tensors[key] for key in part})
            index.update({key: file for key in part})
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}, indent=1) + "\n")
    save(folder / "input.safetensors", {"hidden_states": x})
    save(folder / "expected.safetensors", {"output": answer.to(torch.float32)})


def make(name, config, shapes, function, layer=1, dtype=torch.float32, prefix="model.layers.{}.self_attn.", length=9,
         seed=0, shards=1, extra=None):
    generator = torch.Generator().manual_seed(seed)
    weights = random_weights(shapes, generator, dtype)
    x = torch.randn((2, length, config["hidden_size"]), generator=generator)
    answer = function(config, {key: value.to(torch.float64) for key, value in weights.items()}, x.to(torch.float64))
    write(name, config, prefix.format(layer), weights, x, answer, layer, shards, extra)
    return weights, x, answer


OURS = {"q_a_proj": "wq_a", "q_a_layernorm": "q_norm", "q_b_proj": "wq_b", "kv_a_proj_with_mqa": "wkv_a",
        "kv_a_layernorm": "kv_norm", "kv_b_proj": "wkv_b", "o_proj": "wo"}


def write_case(path, config, weights, x, answer):
    """The same layer as a case file has it."""
    names = {name: name.rsplit(".", 1) for name in weights}
    tensors = {f"{OURS.get(module, module)}.{part}": weights[name] for name, (module, part) in names.items()}
    keys = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "q_lora_rank", "kv_lora_rank", "rope_theta", "index_n_heads",
            "index_head_dim", "index_topk")
    case = {"op": "mla", "dim": config["hidden_size"], "n_heads": config["num_attention_heads"], "attn_impl": "absorb",
            "rope_interleaved": True, "is_causal": True, **{key: config[key] for key in keys}}
    save(path, {**tensors, "hidden_states": x, "expected.output": answer.to(torch.float32)}, {"vkattn": json.dumps(case)})


def main():
    width, hq, hkv, d = 64, 4, 2, 16
    base = {"hidden_size": width, "num_attention_heads": hq, "num_key_value_heads": hkv, "rope_theta": 10000.0,
            "max_position_embeddings": 64}
    scalings = {"linear": {"type": "linear", "factor": 4.0},
                "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_max_position_embeddings": 32},
                "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}}
    plain = projection_shapes(width, hq, hkv, d)
    make("llama", {**base, "model_type": "llama"}, plain, lambda c, w, x: decoder(c, w, x, d), seed=1,
         extra={"model.layers.1.mlp.down_proj.weight": torch.zeros(2, 2), "model.layers.1.self_attn.rotary_emb.inv_freq": torch.zeros(8)})
    for number, (kind, scaling) in enumerate(scalings.items()):
        make("llama_" + kind, {**base, "model_type": "llama", "rope_scaling": scaling}, plain,
             lambda c, w, x: decoder(c, w, x, d), seed=2 + number, length=40)
    make("mistral_bf16_sharded", {**base, "model_type": "mistral", "sliding_window": 4, "head_dim": 24},
         projection_shapes(width, hq, hkv, 24), lambda c, w, x: decoder(c, w, x, 24, window=4), dtype=torch.bfloat16,
         shards=3, seed=6)
    make("qwen2_f16", {**base, "model_type": "qwen2"}, projection_shapes(width, hq, hkv, d, ("q_proj", "k_proj", "v_proj")),
         lambda c, w, x: decoder(c, w, x, d), dtype=torch.float16, seed=7)
    norms = {"q_norm.weight": (d,), "k_norm.weight": (d,)}
    make("qwen3", {**base, "model_type": "qwen3", "head_dim": d}, {**plain, **norms},
         lambda c, w, x: decoder(c, w, x, d, norm=0.0), seed=8)
    gemma = {**base, "head_dim": d, "query_pre_attn_scalar": 32, "sliding_window": 5}
    make("gemma2", {**gemma, "model_type": "gemma2", "attn_logit_softcapping": 2.0}, plain,
         lambda c, w, x: decoder(c, w, x, d, scale=32 ** -0.5, window=5, softcap=2.0), layer=0, seed=9)
    make("gemma3", {**gemma, "model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 1e4,
                    "sliding_window_pattern": 2}, {**plain, **norms},
         lambda c, w, x: decoder(c, w, x, d, norm=1.0, scale=32 ** -0.5), seed=10)
    make("phi3", {**base, "model_type": "phi3"}, {"qkv_proj.weight": ((hq + 2 * hkv) * d, width), "o_proj.weight": (width, hq * d)},
         lambda c, w, x: decoder(c, w, x, d), seed=11)
    make("phi3_partial", {**base, "model_type": "phi3", "partial_rotary_factor": 0.75, "rope_scaling": scalings["yarn"]},
         {"qkv_proj.weight": ((hq + 2 * hkv) * d, width), "o_proj.weight": (width, hq * d)}, lambda c, w, x: decoder(c, w, x, d),
         length=40, seed=17)
    biased = {name + suffix: shape for name in ("self.query", "self.key", "self.value", "output.dense")
              for suffix, shape in ((".weight", (width, width)), (".bias", (width,)))}
    make("bert", {"model_type": "bert", "hidden_size": width, "num_attention_heads": hq}, biased, bert,
         prefix="bert.encoder.layer.{}.attention.", seed=12,
         extra={"bert.encoder.layer.1.attention.output.LayerNorm.weight": torch.ones(width)})
    latent = {"hidden_size": width, "num_attention_heads": hq, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
              "kv_lora_rank": 20, "rope_theta": 10000.0, "max_position_embeddings": 64}
    shared = {"kv_a_proj_with_mqa.weight": (28, width), "kv_a_layernorm.weight": (20,), "kv_b_proj.weight": (hq * 28, 20),
              "o_proj.weight": (width, hq * 12)}
    make("deepseek_v2_lite", {**latent, "model_type": "deepseek_v2", "q_lora_rank": None},
         {"q_proj.weight": (hq * 24, width), **shared}, deepseek, seed=13)
    make("deepseek_v3_yarn", {**latent, "model_type": "deepseek_v3", "q_lora_rank": 24,
                              "rope_scaling": {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32, "beta_fast": 32,
                                               "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.7}},
         {"q_a_proj.weight": (24, width), "q_a_layernorm.weight": (24,), "q_b_proj.weight": (hq * 24, 24), **shared}, deepseek,
         length=40, seed=14)
    sparse = {**latent, "q_lora_rank": 24, "index_n_heads": 8, "index_head_dim": 16, "index_topk": 7}
    indexed = {"q_a_proj.weight": (24, width), "q_a_layernorm.weight": (24,), "q_b_proj.weight": (hq * 24, 24), **shared,
               "indexer.wq_b.weight": (128, 24), "indexer.wk.weight": (16, width), "indexer.k_norm.weight": (16,),
               "indexer.k_norm.bias": (16,), "indexer.weights_proj.weight": (8, width)}
    config = {**sparse, "model_type": "deepseek_v32"}
    write_case(ROOT.parent / "lists/mla_indexer.safetensors", config, *make("deepseek_v32", config, indexed, deepseek, length=40, seed=15))
    make("glm_moe_dsa", {**sparse, "model_type": "glm_moe_dsa", "indexer_types": ["shared", "full"]}, indexed, deepseek, length=40,
         seed=16)


if __name__ == "__main__":
    main()
