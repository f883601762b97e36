#!/usr/bin/env python3
"""Trains the models of samples/textgen: four decoders of 2 to 2.3 million parameters that differ in their attention alone
(multi-head, multi-query, grouped-query, multi-head latent), on the King James Bible, 1611, whose copyright has expired.
Debian's package bible-kjv has the text (and no rights in it).

Writes samples/textgen/models: NAME/model.safetensors (f16, names of Hugging Face's Llama or DeepSeek V3), NAME/config.json,
vocabulary.json, and held_back.json: text that no model has seen, with PyTorch's negative log-likelihood of it per token.

Run as root from the repository, on Debian 12 (ten minutes a model on two cores that multiply bf16 matrices):

    apt install bible-kjv && scripts/modern-root install --peers
    bible -f Gen1:1-Rev22:21 >bible.txt
    scripts/modern-root run python3 samples/textgen/train.py bible.txt [--models gqa,mla] [--steps N]
"""
import argparse
import collections
import json
import math
import pathlib
import re
import struct
import time

import torch
import torch.nn.functional as F

OUTPUT = pathlib.Path(__file__).parent / "models"
VOCABULARY_SIZE = 1024  # 256 bytes, then pieces of words
WIDTH, LAYERS, HEADS, HEAD_DIM, HIDDEN = 192, 4, 6, 32, 640
WINDOW, BATCH = 256, 16  # tokens, sequences of a step
EPSILON, THETA = 1e-6, 10000.0
HELD_BACK = 8  # windows

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "head_dim": HEAD_DIM}
MODELS = {
    "mha": {**LLAMA, "num_key_value_heads": HEADS},
    "mqa": {**LLAMA, "num_key_value_heads": 1},
    "gqa": {**LLAMA, "num_key_value_heads": 2},
    "mla": {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "num_key_value_heads": HEADS,
            "q_lora_rank": None, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 32,
            "first_k_dense_replace": LAYERS},
}
COMMON = {"vocab_size": VOCABULARY_SIZE, "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "hidden_act": "silu", "rms_norm_eps": EPSILON, "rope_theta": THETA,
          "max_position_embeddings": WINDOW, "tie_word_embeddings": True, "attention_bias": False, "torch_dtype": "float16"}


# ---------------------------------------------------------------- text

def verses(path):
    """One verse a line, without its reference; an empty line before each chapter."""
    lines, last = [], None
    for line in path.read_text().splitlines():
        match = re.match(r"(\S+?)(\d+):(\d+) (.*)", line)
        if not match:
            continue
        chapter = match.group(1, 2)
        if last is not None and chapter != last:
            lines.append("")
        last = chapter
        lines.append(match.group(4).strip())
    return "\n".join(lines) + "\n"


def learn_pieces(text):
    """Byte pair encoding (Sennrich et al., 2016) over words, each with the space before it."""
    words = collections.Counter(re.findall(r" ?[A-Za-z]+|[^A-Za-z]", text))
    spelling = {word: list(word) for word in words if len(word) > 1}
    pieces = []
    while len(pieces) < VOCABULARY_SIZE - 256:
        pairs = collections.Counter()
        for word, parts in spelling.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        pieces.append("".join(best))
        for word, parts in spelling.items():
            joined, i = [], 0
            while i < len(parts):
                if tuple(parts[i:i + 2]) == best:
                    joined.append(parts[i] + parts[i + 1])
                    i += 2
                else:
                    joined.append(parts[i])
                    i += 1
            spelling[word] = joined
    return list(dict.fromkeys(pieces))


def encode(text, pieces):
    """The longest piece that the rest of the text begins with, again and again; bytes where there is none."""
    numbers = {piece.encode(): 256 + i for i, piece in enumerate(pieces)}
    longest = max(map(len, numbers))
    raw, tokens, at = text.encode(), [], 0
    while at < len(raw):
        length = next((n for n in range(longest, 1, -1) if raw[at:at + n] in numbers), 1)
        tokens.append(numbers[raw[at:at + length]] if length > 1 else raw[at])
        at += length
    return torch.tensor(tokens)


# ---------------------------------------------------------------- model

def rms_norm(x, weight):
    return F.rms_norm(x, weight.shape, weight, EPSILON)


def rotate(x, interleaved):
    """Rotary embedding of [B,H,L,D]: pairs (i, i + D/2) as Llama has them, or (2i, 2i + 1) as DeepSeek has."""
    length, dim = x.shape[-2:]
    frequencies = THETA ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = (torch.arange(length, dtype=torch.float64)[:, None] * frequencies).to(x.dtype)
    cos, sin = angles.cos(), angles.sin()
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = (a * cos - b * sin, a * sin + b * cos)
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def attention(config, weight, x):
    """Causal self-attention of x [B,L,width], before the residual."""
    if config["model_type"] == "llama":
        q = rotate(heads(F.linear(x, weight("self_attn.q_proj")), HEADS), False)
        k = rotate(heads(F.linear(x, weight("self_attn.k_proj")), config["num_key_value_heads"]), False)
        v = heads(F.linear(x, weight("self_attn.v_proj")), config["num_key_value_heads"])
    else:  # DeepSeek-V2, section 2.1
        nope, rope, rank = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["kv_lora_rank"]
        q_nope, q_pe = heads(F.linear(x, weight("self_attn.q_proj")), HEADS).split([nope, rope], -1)
        latent, k_pe = F.linear(x, weight("self_attn.kv_a_proj_with_mqa")).split([rank, rope], -1)
        latent = rms_norm(latent, weight("self_attn.kv_a_layernorm"))
        k_nope, v = heads(F.linear(latent, weight("self_attn.kv_b_proj")), HEADS).split([nope, config["v_head_dim"]], -1)
        k_pe = rotate(k_pe[:, None], True).expand(-1, HEADS, -1, -1)
        q, k = torch.cat([q_nope, rotate(q_pe, True)], -1), torch.cat([k_nope, k_pe], -1)
    k, v = (x.repeat_interleave(HEADS // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    out = scores.masked_fill(future, -math.inf).softmax(-1).to(v.dtype) @ v
    return F.linear(out.transpose(1, 2).flatten(-2), weight("self_attn.o_proj"))


def logits(config, weights, tokens):
    x = weights["model.embed_tokens.weight"][tokens]
    for layer in range(LAYERS):
        def weight(name):
            return weights[f"model.layers.{layer}.{name}.weight"]
        x = x + attention(config, weight, rms_norm(x, weight("input_layernorm")))
        y = rms_norm(x, weight("post_attention_layernorm"))
        x = x + F.linear(F.silu(F.linear(y, weight("mlp.gate_proj"))) * F.linear(y, weight("mlp.up_proj")), weight("mlp.down_proj"))
    return F.linear(rms_norm(x, weights["model.norm.weight"]), weights["model.embed_tokens.weight"])


def shapes(config):
    out = {"model.embed_tokens": (VOCABULARY_SIZE, WIDTH), "model.norm": (WIDTH,)}
    if config["model_type"] == "llama":
        kv = config["num_key_value_heads"] * HEAD_DIM
        block = {"q_proj": (HEADS * HEAD_DIM, WIDTH), "k_proj": (kv, WIDTH), "v_proj": (kv, WIDTH), "o_proj": (WIDTH, HEADS * HEAD_DIM)}
    else:
        nope, rope, rank, v = (config[key] for key in ("qk_nope_head_dim", "qk_rope_head_dim", "kv_lora_rank", "v_head_dim"))
        block = {"q_proj": (HEADS * (nope + rope), WIDTH), "kv_a_proj_with_mqa": (rank + rope, WIDTH), "kv_a_layernorm": (rank,),
                 "kv_b_proj": (HEADS * (nope + v), rank), "o_proj": (WIDTH, HEADS * v)}
    block = {f"self_attn.{name}": shape for name, shape in block.items()}
    block |= {"input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,), "mlp.gate_proj": (HIDDEN, WIDTH),
              "mlp.up_proj": (HIDDEN, WIDTH), "mlp.down_proj": (WIDTH, HIDDEN)}
    for layer in range(LAYERS):
        out |= {f"model.layers.{layer}.{name}": shape for name, shape in block.items()}
    return {f"{name}.weight": shape for name, shape in out.items()}


def initial(name, shape, generator):
    if len(shape) == 1:
        return torch.ones(shape)
    deviation = 0.02 if "embed" in name else shape[1] ** -0.5
    if name.endswith(("o_proj.weight", "down_proj.weight")):  # sums into the residual stream
        deviation /= math.sqrt(2 * LAYERS)
    return deviation * torch.randn(shape, generator=generator)


# ---------------------------------------------------------------- training

def loss_of(config, weights, tokens):
    """Mean negative log-likelihood, in nats, of every token of [B,L] after its first."""
    scores = logits(config, weights, tokens[:, :-1])
    return F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


def train(name, config, tokens, steps):
    generator = torch.Generator().manual_seed(1611)
    weights = {key: initial(key, shape, generator).requires_grad_() for key, shape in shapes(config).items()}
    matrices = [w for key, w in weights.items() if w.dim() == 2 and "embed" not in key]
    others = [w for key, w in weights.items() if w.dim() == 1 or "embed" in key]
    optimisers = [torch.optim.Muon(matrices, lr=4e-3, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
                  torch.optim.AdamW(others, lr=4e-3, betas=(0.9, 0.95), weight_decay=0.0)]
    rates = [optimiser.param_groups[0]["lr"] for optimiser in optimisers]
    start, mean = time.time(), None
    for step in range(steps):
        progress = step / steps
        scale = min(1.0, (step + 1) / 30) * (1.0 if progress < 0.5 else 2 * (1 - progress) + 0.02)
        for optimiser, rate in zip(optimisers, rates):
            optimiser.param_groups[0]["lr"] = rate * scale
        first = torch.randint(len(tokens) - WINDOW, (BATCH,), generator=generator)
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(config, weights, torch.stack([tokens[i:i + WINDOW + 1] for i in first]))
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        for optimiser in optimisers:
            optimiser.step()
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if step % 20 == 19 or step == steps - 1:
            print(f"{name} step {step + 1}/{steps} loss {mean:.4f} {time.time() - start:.0f} s", flush=True)
    return {key: w.detach().half() for key, w in weights.items()}


def held_back_loss(config, weights, tokens):
    """Of the weights as they are stored, in float64."""
    with torch.no_grad():
        return loss_of(config, {key: w.double() for key, w in weights.items()}, tokens.view(HELD_BACK, WINDOW)).item()


# ---------------------------------------------------------------- files

def save(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=True) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--steps", type=int, default=1200)
    arguments = parser.parse_args()

    text = verses(arguments.text)
    pieces = learn_pieces(text)
    tokens = encode(text, pieces)
    seen, held_back = tokens[:-HELD_BACK * WINDOW], tokens[-HELD_BACK * WINDOW:]
    print(f"{len(text)} bytes, {len(tokens)} tokens", flush=True)
    OUTPUT.mkdir(exist_ok=True)
    write_json(OUTPUT / "vocabulary.json", {"pieces": pieces})
    record_path = OUTPUT / "held_back.json"
    record = json.loads(record_path.read_text()) if record_path.exists() else {}
    record |= {"window": WINDOW, "tokens": held_back.tolist()}
    for name in arguments.models.split(","):
        config = {**COMMON, **MODELS[name]}
        weights = train(name, config, seen, arguments.steps)
        (OUTPUT / name).mkdir(exist_ok=True)
        save(OUTPUT / name / "model.safetensors", weights)
        write_json(OUTPUT / name / "config.json", config)
        record.setdefault("negative_log_likelihood", {})[name] = held_back_loss(config, weights, held_back)
        write_json(record_path, record)
        print(f"{name}: {sum(w.numel() for w in weights.values())} parameters, held back {record['negative_log_likelihood'][name]:.4f}", flush=True)


if __name__ == "__main__":
    main()
