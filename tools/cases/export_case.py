#!/usr/bin/env python3
"""Turns attention in PyTorch into a case file for vkattn check: what went in, what the weights are, and what came out.

    import export_case
    export_case.attention("case.safetensors", query, key, value, is_causal=True, enable_gqa=True)
    export_case.module("case.safetensors", torch.nn.MultiheadAttention(64, 4, batch_first=True), hidden_states)
    export_case.module("case.safetensors", model.model.layers[3].self_attn, hidden_states, num_heads=32, num_kv_heads=8)

The first takes what torch.nn.functional.scaled_dot_product_attention takes. The second takes a torch.nn.MultiheadAttention,
or any module whose linears are called q_proj, k_proj, v_proj and o_proj or out_proj (Llama, Mistral, Qwen, ...), and
computes the answer from those weights, without a cache. Needs PyTorch alone.
"""
import json
import struct

import torch
import torch.nn.functional as F

NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL", torch.int32: "I32"}


def write(path, config, tensors):
    """Writes a case file: config is the JSON of its operation, tensors are by their names there."""
    header, data = {"__metadata__": {"vkattn": json.dumps(config)}}, b""
    for name, tensor in tensors.items():
        if tensor.dtype not in NAMES:
            raise TypeError(f"{name}: {tensor.dtype}, expected one of {', '.join(map(str, NAMES))}")
        tensor = tensor.detach().cpu().contiguous()
        raw = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def attention(path, query, key, value, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    """One call of scaled_dot_product_attention: query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv]. Its answer is computed
    in float64 from the tensors as they are, and stored as float32. Returns it."""
    config = {"op": "attention", "is_causal": bool(is_causal)}
    if scale is not None:
        config["scale"] = float(scale)
    tensors = {"q": query, "k": key, "v": value}
    mask = attn_mask
    if attn_mask is not None:
        tensors["attn_mask"] = attn_mask
        mask = attn_mask if attn_mask.dtype == torch.bool else attn_mask.double()
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError(f"query has {query.shape[1]} heads and key {key.shape[1]}: expected enable_gqa=True")
    groups = query.shape[1] // key.shape[1]
    wide = [x.double().repeat_interleave(n, 1) for x, n in ((query, 1), (key, groups), (value, groups))]
    answer = F.scaled_dot_product_attention(*wide, attn_mask=mask, is_causal=is_causal, scale=scale)
    answer = torch.nan_to_num(answer, nan=0.0)  # a query that sees no key
    write(path, config, {**tensors, "expected.output": answer.float()})
    return answer


def weights_of(layer):
    """The linears of a module by vkattn's names, and the number of heads where the module knows it."""
    if isinstance(layer, torch.nn.MultiheadAttention):
        if layer.in_proj_weight is None:
            raise TypeError("module: MultiheadAttention with kdim or vdim, expected one of a single width")
        out = {"out_proj.weight": layer.out_proj.weight}
        for name, weight in zip(("q_proj", "k_proj", "v_proj"), layer.in_proj_weight.chunk(3)):
            out[f"{name}.weight"] = weight
        if layer.in_proj_bias is not None:
            out["out_proj.bias"] = layer.out_proj.bias
            for name, bias in zip(("q_proj", "k_proj", "v_proj"), layer.in_proj_bias.chunk(3)):
                out[f"{name}.bias"] = bias
        return out, layer.num_heads
    out = {}
    for theirs, ours in (("q_proj", "q_proj"), ("k_proj", "k_proj"), ("v_proj", "v_proj"), ("o_proj", "out_proj"), ("out_proj", "out_proj")):
        linear = getattr(layer, theirs, None)
        if linear is None:
            continue
        out[f"{ours}.weight"] = linear.weight
        if linear.bias is not None:
            out[f"{ours}.bias"] = linear.bias
    missing = {f"{name}.weight" for name in ("q_proj", "k_proj", "v_proj", "out_proj")} - out.keys()
    if missing:
        raise TypeError(f"module: {type(layer).__name__} has no {', '.join(sorted(missing))}, expected q_proj, k_proj, v_proj and o_proj")
    return out, None


def rotated(x, theta, dim):
    """The first `dim` elements of each head, turned, beside the others."""
    frequencies = theta ** (-torch.arange(0, dim, 2, dtype=x.dtype) / dim)
    angles = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * frequencies
    a, b, rest = x.split([dim // 2, dim // 2, x.shape[-1] - dim], -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos(), rest], -1)


def module(path, layer, hidden_states, num_heads=None, num_kv_heads=None, rope_theta=0.0, rotary_dim=None, is_causal=False):
    """Self-attention of a module on hidden_states [B,L,width]. rope_theta: the base of a rotary embedding (pairs i, i + D/2), 0
    for none; rotary_dim: the first D elements of each head that it rotates, None: all. The answer is computed in float64 from the module's weights, and stored as float32. Returns it."""
    weights, heads = weights_of(layer)
    num_heads = num_heads or heads
    if num_heads is None:
        raise ValueError("num_heads: missing, expected it, since the module does not say")
    num_kv_heads = num_kv_heads or num_heads
    head_dim = weights["q_proj.weight"].shape[0] // num_heads
    wide = {name: weight.detach().double() for name, weight in weights.items()}

    def linear(name, x):
        return F.linear(x, wide[f"{name}.weight"], wide.get(f"{name}.bias"))

    x = hidden_states.double()
    q, k, v = (linear(name, x).unflatten(-1, (count, head_dim)).transpose(1, 2)
               for name, count in (("q_proj", num_heads), ("k_proj", num_kv_heads), ("v_proj", num_kv_heads)))
    if rope_theta:
        q, k = rotated(q, rope_theta, rotary_dim or head_dim), rotated(k, rope_theta, rotary_dim or head_dim)
    k, v = (x.repeat_interleave(num_heads // num_kv_heads, 1) for x in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    answer = linear("out_proj", out.transpose(1, 2).flatten(-2))
    config = {"op": "mha", "embed_dim": hidden_states.shape[-1], "num_heads": num_heads, "num_kv_heads": num_kv_heads,
              "head_dim": head_dim, "is_causal": bool(is_causal)}
    if rope_theta:
        config["rope_theta"] = float(rope_theta)
        config["rotary_dim"] = rotary_dim or head_dim
    write(path, config, {"hidden_states": hidden_states, **weights, "expected.output": answer.float()})
    return answer
