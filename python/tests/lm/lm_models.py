"""Small models of random weights, as GGUF files and as folders, and what they compute by NumPy in float64."""
import json

import gguf
import numpy
import safetensors.numpy
import tokenizers

TEXT = "the cat sat on the mat, the dog sat on the log; 12 cats and 34 dogs sat there. What is it? It is a cat\n" * 4
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
SIZES = {"layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 32, "hidden": 96, "context": 64}


def byte_level():
    """A tokenizers.Tokenizer of byte-level BPE, trained on TEXT, that cuts text as SmolLM2's does."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True), tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)])
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    inner.train_from_iterator([TEXT], trainer)
    return inner


def weights_of(vocabulary, layers, width, heads, kv_heads, head_dim, hidden, context, seed=3):
    """A Llama's by GGUF's names, rows of q and k in the order of halves, float32."""
    random = numpy.random.default_rng(seed)

    def matrix(rows, columns):
        return (random.standard_normal((rows, columns)) / columns ** 0.5).astype("f4")
    weights = {"token_embd.weight": matrix(vocabulary, width) * 4, "output_norm.weight": 1 + matrix(1, width)[0]}
    for i in range(layers):
        shapes = {"attn_q": (heads * head_dim, width), "attn_k": (kv_heads * head_dim, width),
                  "attn_v": (kv_heads * head_dim, width), "attn_output": (width, heads * head_dim), "ffn_gate": (hidden, width),
                  "ffn_up": (hidden, width), "ffn_down": (width, hidden)}
        weights.update({f"blk.{i}.{name}.weight": matrix(*shape) for name, shape in shapes.items()})
        weights.update({f"blk.{i}.{name}.weight": 1 + matrix(1, width)[0] for name in ("attn_norm", "ffn_norm")})
    return weights


def pairs_of_halves(rows, heads):
    """The order in which GGUF keeps a Llama's rows of q and k: of each head the pairs (2i, 2i+1), not (i, i + size/2)."""
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(path, weights, sizes, kind="F32", inner=None, name="llama", more=None, template=TEMPLATE, kinds=None):
    """Writes a GGUF file, its matrices in blocks of a kind, or of that which kinds has for their part of a layer; returns the weights
    as they are in it."""
    inner = inner or byte_level()
    writer = gguf.GGUFWriter(path, name)
    for add, size in ((writer.add_block_count, "layers"), (writer.add_embedding_length, "width"), (writer.add_head_count, "heads"),
                      (writer.add_head_count_kv, "kv_heads"), (writer.add_key_length, "head_dim"),
                      (writer.add_feed_forward_length, "hidden"), (writer.add_context_length, "context")):
        add(sizes[size])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    add_vocabulary(writer, inner)
    if template:
        writer.add_chat_template(template)
    for add, value in (more or {}).items():
        for each in value if isinstance(value, list) else [value]:  # a list: of several calls
            getattr(writer, add)(*each) if isinstance(each, tuple) else getattr(writer, add)(each)
    held = {}
    for each, values in weights.items():
        part = each.split(".")[-2]
        of_heads = {"attn_q": sizes["heads"], "attn_k": sizes["kv_heads"]}.get(part) if name == "llama" else None
        stored = pairs_of_halves(values, of_heads) if of_heads else values
        own = gguf.GGMLQuantizationType[(kinds or {}).get(part, kind)]
        if values.ndim == 2 and "conv1d" not in each and own != gguf.GGMLQuantizationType.F32:
            writer.add_tensor(each, gguf.quantize(stored, own), raw_dtype=own)
            held[each] = gguf.dequantize(gguf.quantize(values, own), own).reshape(values.shape).astype("f4")
        else:
            writer.add_tensor(each, stored)
            held[each] = values
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    return held


def latent_facts(sizes, rank, query_rank, plain, rotated, values, of_latents):
    """(sizes, more) for write_gguf of DeepSeek's attention, whose layers have no experts: as older files say its sizes, or as those do
    that speak of its latents."""
    more = {"add_kv_lora_rank": rank, "add_rope_dimension_count": rotated, "add_leading_dense_block_count": sizes["layers"]}
    if query_rank:
        more["add_q_lora_rank"] = query_rank
    if of_latents:
        more |= {"add_value_length": rank, "add_key_length_mla": plain + rotated, "add_value_length_mla": values}
        return {**sizes, "head_dim": rank + rotated, "kv_heads": 1}, more
    return {**sizes, "head_dim": plain + rotated}, {**more, "add_value_length": values}


def latent_weights_of(vocabulary, sizes, rank, query_rank, plain, rotated, values):
    """A DeepSeek's without experts by GGUF's names, float32."""
    weights, random = weights_of(vocabulary, **sizes), numpy.random.default_rng(4)
    for i in range(sizes["layers"]):
        for part in "qkv":
            del weights[f"blk.{i}.attn_{part}.weight"]
        shapes = {"q_a": (query_rank, sizes["width"]), "q_b": (sizes["heads"] * (plain + rotated), query_rank),
                  "kv_a_mqa": (rank + rotated, sizes["width"]), "kv_b": (sizes["heads"] * (plain + values), rank),
                  "output": (sizes["width"], sizes["heads"] * values)}
        weights.update({f"blk.{i}.attn_{name}.weight": (random.standard_normal(shape) / shape[1] ** 0.5).astype("f4")
                        for name, shape in shapes.items()})
        weights.update({f"blk.{i}.attn_{name}_norm.weight": 1 + random.standard_normal(size).astype("f4") / 8
                        for name, size in (("q_a", query_rank), ("kv_a", rank))})
    return weights


def split_latents(weights, heads, plain):
    """The same weights with attn_k_b and attn_v_b in place of each attn_kv_b."""
    split = {}
    for name, value in weights.items():
        if "attn_kv_b" in name:
            of_heads = value.reshape(heads, -1, value.shape[1])
            split[name.replace("kv_b", "k_b")] = numpy.ascontiguousarray(of_heads[:, :plain].swapaxes(1, 2))
            split[name.replace("kv_b", "v_b")] = numpy.ascontiguousarray(of_heads[:, plain:])
        else:
            split[name] = value
    return split


def hybrid_in_gguf(arch, layers, weights, tiled_heads=None, one_of_norms=0):
    """A hybrid's weights by GGUF's names, as llama.cpp's converter makes them of a folder's. tiled_heads: (key heads, value heads,
    value size), whose value heads are brought in the order of ggml's broadcasts; one_of_norms: added to weights of norms."""
    table, named = gguf.get_tensor_name_map(arch, layers), {}

    def tiled(values, axis, size):
        key_heads, heads, _ = tiled_heads
        parts = (*values.shape[:axis], key_heads, heads // key_heads, size, *values.shape[axis + 1:])
        return numpy.ascontiguousarray(values.reshape(parts).swapaxes(axis, axis + 1).reshape(values.shape))

    for own, values in weights.items():
        if own.endswith("norm.weight") and "linear_attn.norm" not in own:
            values = values + numpy.float32(one_of_norms)
        elif own.endswith("A_log"):
            values = -numpy.exp(values.reshape(-1))
        elif "conv1d" in own:  # Kimi Linear's converter leaves dimensions of 1
            values = values.reshape(1, -1, 1, values.shape[-1]) if "_conv1d" in own else values.reshape(-1, values.shape[-1])
        part = own.rpartition("linear_attn.")[2]
        if tiled_heads and part != own:
            key_heads, heads, size = tiled_heads
            if part in ("A_log", "dt_bias", "in_proj_a.weight", "in_proj_b.weight"):
                values = tiled(values, 0, 1)
            elif part == "in_proj_z.weight":
                values = tiled(values, 0, size)
            elif part == "out_proj.weight":
                values = tiled(values, 1, size)
            elif part in ("in_proj_qkv.weight", "conv1d.weight"):
                values = numpy.concatenate([values[:-heads * size], tiled(values[-heads * size:], 0, size)])
        layer = own.removeprefix("model.layers.").split(".")[0]
        mlp = own.split(".")[-2].removesuffix("_proj")
        named[f"blk.{layer}.ssm_dt.bias" if own.endswith("dt_bias") else f"blk.{layer}.ffn_{mlp}.weight"
              if "mlp." in own or "block_sparse_moe." in own else table.get_name(own, (".weight", ".bias"))] = values
    return named


_FOLDER_NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
                 "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
                 "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
                 "ffn_norm": "post_attention_layernorm"}


def write_folder(path, weights, sizes, begin=None):
    """Writes the folder of a Llama. begin: the token that its tokenizer begins all text with."""
    inner, named = byte_level(), {}
    for name, value in weights.items():
        blk, i, part, *_ = (*name.split("."), "", "")
        named[f"model.layers.{i}.{_FOLDER_NAMES[part]}.weight" if blk == "blk" else
              {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]] = value
    safetensors.numpy.save_file(named, path / "model.safetensors")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(weights["token_embd.weight"]),
              "hidden_act": "silu", "num_hidden_layers": sizes["layers"],
              "hidden_size": sizes["width"], "num_attention_heads": sizes["heads"], "num_key_value_heads": sizes["kv_heads"],
              "head_dim": sizes["head_dim"], "intermediate_size": sizes["hidden"], "max_position_embeddings": sizes["context"],
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True}
    (path / "config.json").write_text(json.dumps(config))
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 9]}))
    tokens = {"bos_token": {"content": begin or "<|im_start|>"}, "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(tokens))
    if begin:
        inner.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, inner.token_to_id(begin))])
    inner.save(str(path / "tokenizer.json"))


def write_bert(path, inner, width=32, hidden=48, places=16):
    """Writes the folder of a BERT of one layer."""
    random, named = numpy.random.default_rng(0), {}

    def add(name, *shape, bias=False):
        named[f"{name}.weight"] = random.standard_normal(shape).astype("f4") / 4
        if bias:
            named[f"{name}.bias"] = random.standard_normal(shape[0]).astype("f4") / 4
    for name, rows in (("word", inner.get_vocab_size()), ("position", places), ("token_type", 2)):
        add(f"embeddings.{name}_embeddings", rows, width)
    add("embeddings.LayerNorm", width, bias=True)
    for name, outs, ins in (("attention.self.query", width, width), ("attention.self.key", width, width),
                            ("attention.self.value", width, width), ("attention.output.dense", width, width),
                            ("intermediate.dense", hidden, width), ("output.dense", width, hidden)):
        add(f"encoder.layer.0.{name}", outs, ins, bias=True)
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        add(f"encoder.layer.0.{name}", width, bias=True)
    safetensors.numpy.save_file(named, path / "model.safetensors")
    config = {"architectures": ["BertModel"], "hidden_size": width, "num_attention_heads": 2, "intermediate_size": hidden,
              "num_hidden_layers": 1, "layer_norm_eps": 1e-12, "max_position_embeddings": places}
    (path / "config.json").write_text(json.dumps(config))
    inner.save(str(path / "tokenizer.json"))


def add_vocabulary(writer, inner):
    state = json.loads(inner.to_str())
    tokens = sorted(inner.get_vocab(), key=inner.get_vocab().get)
    special = {each["content"] for each in state["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) if isinstance(pair, list) else pair for pair in state["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def logits_of(weights, sizes, tokens):
    """What a Llama of these weights makes of every token [L, vocabulary], by NumPy in float64; rope_freqs.weight divides the
    frequencies."""
    w = {name: value.astype("f8") for name, value in weights.items()}
    heads, kv_heads, size = sizes["heads"], sizes["kv_heads"], sizes["head_dim"]
    angles = numpy.arange(len(tokens))[:, None] * 10000.0 ** (-numpy.arange(0, size, 2) / size) / w.get("rope_freqs.weight", 1)

    def norm(name, x):
        return x / numpy.sqrt((x ** 2).mean(-1, keepdims=True) + numpy.float32(1e-5)) * w[f"{name}.weight"]

    def turned(x):
        first, second = x[..., :size // 2], x[..., size // 2:]
        return numpy.concatenate([first * numpy.cos(angles) - second * numpy.sin(angles),
                                  second * numpy.cos(angles) + first * numpy.sin(angles)], axis=-1)

    def split(name, x, count):
        return (x @ w[f"{name}.weight"].T).reshape(len(x), count, size).swapaxes(0, 1)
    x = w["token_embd.weight"][tokens]
    for i in range(sizes["layers"]):
        blk, h = f"blk.{i}.", norm(f"blk.{i}.attn_norm", x)
        q, k, v = (split(f"{blk}attn_{part}", h, heads if part == "q" else kv_heads) for part in "qkv")
        k, v = (each.repeat(heads // kv_heads, axis=0) for each in (turned(k), v))
        scores = turned(q) @ k.swapaxes(1, 2) / size ** 0.5 + numpy.triu(numpy.full((len(tokens),) * 2, -numpy.inf), 1)
        shares = numpy.exp(scores - scores.max(-1, keepdims=True))
        attended = (shares / shares.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(tokens), -1)
        x = x + attended @ w[f"{blk}attn_output.weight"].T
        h = norm(f"{blk}ffn_norm", x)
        gate, up = (h @ w[f"{blk}ffn_{part}.weight"].T for part in ("gate", "up"))
        x = x + (gate / (1 + numpy.exp(-gate)) * up) @ w[f"{blk}ffn_down.weight"].T
    return norm("output_norm", x) @ w["token_embd.weight"].T
