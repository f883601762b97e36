"""vkattn_lm on small models that the tests make: beside NumPy, and beside transformers where that is."""
import functools
import io
import json
import shutil
import tracemalloc

import numpy
import pytest
from tested_packages import known

for module in ("gguf", "tokenizers", "jinja2", "safetensors", "tqdm"):
    known(module)

import gguf  # noqa: E402
import lm_models  # noqa: E402
import safetensors.numpy  # noqa: E402
import vkattn  # noqa: E402
from vkattn_lm import chat, command, device, encoder, errors, files, model, sampling, tokenizer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # which a command would print


class NoBar:
    def update(self, count):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


@functools.cache
def context_with(halves):
    """halves: 1: what lies between the steps of a layer is in float16, where the device computes in it."""
    return vkattn.Context(traits={"half_workspaces": halves})


def decoder_of(path, capacity=32, kv_type="f32", halves=0):
    source = files.open_model(path)
    return model.Decoder(source, source.config(), context_with(halves), capacity=capacity, kv_type=kv_type, progress=NoBar())


def nmse(values, expected):
    return float(((values - expected) ** 2).sum() / (expected ** 2).sum())


@pytest.fixture(scope="module")
def inner():
    return lm_models.byte_level()


@pytest.fixture(scope="module")
def llama(tmp_path_factory, inner):
    """(a GGUF file, its weights)"""
    path = tmp_path_factory.mktemp("lm") / "llama.gguf"
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    return path, lm_models.write_gguf(path, weights, lm_models.SIZES)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_a_gguf_file_is_numpys(tmp_path, inner, kind):
    bound = 1e-10
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    held = lm_models.write_gguf(tmp_path / "model.gguf", weights, lm_models.SIZES, kind)
    tokens = inner.encode("the cat sat on the log").ids
    expected = lm_models.logits_of(held, lm_models.SIZES, tokens)
    decoder = decoder_of(tmp_path / "model.gguf")
    assert decoder.weight_bytes < (tmp_path / "model.gguf").stat().st_size  # blocks stay blocks
    assert nmse(decoder.logits(tokens[:4]), expected[3]) < bound
    for i in range(4, len(tokens)):  # one by one, from the cache
        assert nmse(decoder.logits(tokens[i:i + 1]), expected[i]) < bound
    decoder.rewind(2)
    assert decoder.length == 2 and nmse(decoder.logits(tokens[2:]), expected[-1]) < bound


def test_neighbours_of_one_type_are_one_product(tmp_path, inner):
    """Of queries, keys and values, some of which files hold in wider types."""
    weights, tokens = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES), inner.encode("the cat sat").ids
    dispatches = []
    for number, kinds in enumerate(({}, {"attn_v": "Q8_0"}, {"attn_q": "Q8_0"}, {"attn_k": "Q8_0"})):
        path = tmp_path / f"{number}.gguf"
        held = lm_models.write_gguf(path, weights, lm_models.SIZES, "Q5_0", kinds=kinds)
        decoder = decoder_of(path)
        decoder.logits(tokens[:-1])
        assert nmse(decoder.logits(tokens[-1:]), lm_models.logits_of(held, lm_models.SIZES, tokens)[-1]) < 1e-10
        dispatches.append(decoder._step._program.report.dispatches)
    layers = lm_models.SIZES["layers"]
    assert [count - dispatches[0] for count in dispatches] == [0, layers, layers, 2 * layers]


def test_factors_of_rope_are_numpys(tmp_path, inner):
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    weights["rope_freqs.weight"] = numpy.linspace(1, 8, 16, dtype="f4")
    held = lm_models.write_gguf(tmp_path / "model.gguf", weights, lm_models.SIZES)
    tokens = inner.encode("the cat sat on the log").ids
    assert nmse(decoder_of(tmp_path / "model.gguf").logits(tokens), lm_models.logits_of(held, lm_models.SIZES, tokens)[-1]) < 1e-10


@pytest.mark.parametrize("more", [
    {"add_rope_scaling_factor": 4.0}, {"add_float32": ("llama.rope.scale_linear", 4.0)},
    {"add_rope_scaling_factor": 4.0, "add_rope_scaling_type": gguf.RopeScalingType.LINEAR}])
@pytest.mark.parametrize("factors", [False, True])
def test_a_factor_of_rope_is_linear_unless_it_says_otherwise(tmp_path, inner, more, factors):
    """As in llama.cpp, also in older files, and beside factors of each frequency."""
    weights, by = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES), numpy.linspace(1, 8, 16, dtype="f4")
    held = lm_models.write_gguf(tmp_path / "model.gguf", {**weights, **({"rope_freqs.weight": by} if factors else {})}, lm_models.SIZES,
                                more=more)
    held["rope_freqs.weight"] = by * 4 if factors else numpy.full(16, 4, "f4")
    tokens = inner.encode("the cat sat on the log").ids
    assert nmse(decoder_of(tmp_path / "model.gguf").logits(tokens), lm_models.logits_of(held, lm_models.SIZES, tokens)[-1]) < 1e-10


def test_a_factor_of_a_scaling_of_none_is_none(tmp_path, inner):
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    held = lm_models.write_gguf(tmp_path / "model.gguf", weights, lm_models.SIZES, more={
        "add_rope_scaling_factor": 4.0, "add_rope_scaling_type": gguf.RopeScalingType.NONE})
    tokens = inner.encode("the cat sat on the log").ids
    assert nmse(decoder_of(tmp_path / "model.gguf").logits(tokens), lm_models.logits_of(held, lm_models.SIZES, tokens)[-1]) < 1e-10


def split(folder, weights, parts, change=lambda number, more: more):
    """A model in files of its parts: (their paths, the weights)."""
    names = sorted(weights)
    paths = [folder / f"model-{i + 1:05}-of-{parts:05}.gguf" for i in range(parts)]
    for i, path in enumerate(paths):
        more = change(i, {"split.no": i, "split.count": parts, "split.tensors.count": len(names)})
        lm_models.write_gguf(path, {name: weights[name] for name in names[i::parts]}, lm_models.SIZES, more={
            "add_key_value": [(name, value, gguf.GGUFValueType.UINT16 if "tensors" not in name else gguf.GGUFValueType.INT32)
                              for name, value in more.items()]})
    return paths


def test_split_files_are_read_together(tmp_path, inner):
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    weights["output.weight"] = weights["token_embd.weight"][::-1].copy()
    held = lm_models.write_gguf(tmp_path / "whole.gguf", weights, lm_models.SIZES)
    expected = decoder_of(tmp_path / "whole.gguf").logits([5, 6, 7])
    assert held["output.weight"].shape == weights["output.weight"].shape
    for path in split(tmp_path, weights, 3):
        assert (decoder_of(path).logits([5, 6, 7]) == expected).all()


@pytest.mark.parametrize("harm, says", [
    (lambda paths: paths[1].unlink(), "model-00002-of-00003.gguf: no such file, expected all 3 parts beside model-00001-of-00003.gguf"),
    (lambda paths: paths[0].rename(paths[0].with_name("model.gguf")),
     "model.gguf: is part 1 of a split file, expected a name that ends in -00001-of-00003.gguf"),
    (lambda paths: paths[1].write_bytes(paths[2].read_bytes()), "model-00002-of-00003.gguf: split.no: 2, expected 1"),
    (lambda paths: paths[2].write_bytes(b"GGUF"), "model-00003-of-00003.gguf: "),
])
def test_split_files_that_are_not_whole_are_refused_by_name(tmp_path, inner, run, harm, says):
    paths = split(tmp_path, lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES), 3)
    harm(paths)
    status, _, err = run("complete", paths[0] if paths[0].exists() else tmp_path / "model.gguf", "x")
    assert status == 2 and len(err) == 1 and says in err[0] and err[0].count("expected") == 1


def test_split_files_hold_each_weight_once(tmp_path, inner, run):
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    paths = split(tmp_path, weights, 2)
    split(tmp_path, weights, 2, lambda number, more: {**more, "split.tensors.count": 7})
    status, _, err = run("complete", paths[0], "x")
    assert status == 2 and "split.tensors.count: 7, expected 20" in err[0]
    more = {"add_uint16": ("split.count", 2)}
    for number, path in enumerate(paths):
        lm_models.write_gguf(path, weights, lm_models.SIZES, more={**more, "add_key_value": [
            ("split.no", number, gguf.GGUFValueType.UINT16)]})
    status, _, err = run("complete", paths[0], "x")
    assert status == 2 and "is in another part, too, expected it in one" in err[0]


def test_a_file_of_the_other_byte_order_is_refused_by_name(tmp_path, run):
    writer = gguf.GGUFWriter(tmp_path / "big.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    writer.add_tensor("m.weight", numpy.zeros((4, 34), "u1"), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    status, _, err = run("complete", tmp_path / "big.gguf", "x")
    assert status == 2 and err == [f"vkattn-lm: error: {tmp_path / 'big.gguf'}: is big-endian, expected a GGUF file for this machine, "
                                   "little-endian"]


def test_a_folder_of_gguf_files_is_told_from_one_of_hugging_face(llama, run):
    status, _, err = run("complete", llama[0].parent, "x")
    assert status == 2 and f"or a GGUF file, as {llama[0]} is" in err[0]


def test_a_vocabulary_in_parts_is_the_whole(llama, inner, monkeypatch):
    path, held = llama
    tokens = inner.encode("a dog and a cat").ids

    def in_parts(matrix):
        return [(first, matrix[first:first + 64]) for first in range(0, len(matrix), 64)]
    monkeypatch.setattr(model, "reachable_parts", in_parts)
    assert nmse(decoder_of(path).logits(tokens), lm_models.logits_of(held, lm_models.SIZES, tokens)[-1]) < 1e-10


def test_weights_are_loaded_a_part_at_a_time(tmp_path, inner):
    sizes = {**lm_models.SIZES, "layers": 1, "hidden": 65536}
    path = tmp_path / "wide.gguf"
    lm_models.write_gguf(path, lm_models.weights_of(inner.get_vocab_size(), **sizes), sizes)
    decoder_of(path)  # what is made once is not counted
    tracemalloc.start()
    decoder = decoder_of(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 48e6 and most < path.stat().st_size * 0.3
    assert decoder.weight_bytes < path.stat().st_size


def longrope():
    return {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1 + i / 8 for i in range(8)],
            "long_factor": [1 + i for i in range(8)]}


CONFIGS = ("llama", "tied", "biases", "llama3 scaling", "yarn", "mistral", "qwen2", "qwen3", "gemma3", "phi3",
           "phi3, few tokens", "phi3, many tokens", "deepseek v2", "deepseek v2, low rank", "deepseek v2, yarn", "qwen3-next",
           "qwen3-next, a key head of each value head", "qwen3.5", "kimi linear", "kimi linear, low rank")


def configs():
    transformers = known("transformers")
    sizes = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}
    scaled = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 16, "rope_theta": 10000.0}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 10000.0}
    latent = {**sizes, "num_key_value_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
              "v_head_dim": 24, "q_lora_rank": None, "first_k_dense_replace": 3}
    hybrid = {**sizes, "num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention"] * 2}
    states = {"linear_key_head_dim": 16, "linear_value_head_dim": 24, "linear_num_key_heads": 2, "linear_num_value_heads": 6}
    channels = {**hybrid, "num_key_value_heads": 4, "linear_head_dim": 16, "linear_num_heads": 4, "mlp_layer_types": ["dense"] * 4,
                "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24, "pad_token_id": 0}
    headless = {**{name: size for name, size in sizes.items() if name != "head_dim"}, "pad_token_id": 0}
    return {
        "llama": transformers.LlamaConfig(**sizes), "tied": transformers.LlamaConfig(**sizes, tie_word_embeddings=True),
        "biases": transformers.LlamaConfig(**sizes, attention_bias=True, mlp_bias=True),
        "llama3 scaling": transformers.LlamaConfig(**sizes, rope_parameters=scaled),
        "mistral": transformers.MistralConfig(**sizes, sliding_window=5), "qwen2": transformers.Qwen2Config(**sizes),
        "qwen3": transformers.Qwen3Config(**sizes), "yarn": transformers.LlamaConfig(**sizes, rope_parameters=yarn),
        "phi3": transformers.Phi3Config(**headless, sliding_window=5),
        "phi3, few tokens": transformers.Phi3Config(**headless, rope_parameters=longrope(), original_max_position_embeddings=32),
        "phi3, many tokens": transformers.Phi3Config(**headless, rope_parameters=longrope(), original_max_position_embeddings=16),
        "deepseek v2": transformers.DeepseekV2Config(**latent),
        "deepseek v2, low rank": transformers.DeepseekV2Config(**{**latent, "q_lora_rank": 24, "rms_norm_eps": 1e-3},
                                                              attention_bias=True),
        "deepseek v2, yarn": transformers.DeepseekV2Config(**latent, rope_parameters={
            **yarn, "mscale": 0.9, "mscale_all_dim": 0.707}),
        "qwen3-next": transformers.Qwen3NextConfig(**hybrid, **states, mlp_only_layers=[0, 1, 2, 3]),
        "qwen3-next, a key head of each value head": transformers.Qwen3NextConfig(
            **hybrid, **{**states, "linear_num_value_heads": 2, "linear_conv_kernel_dim": 2}, num_experts=0),
        "qwen3.5": transformers.Qwen3_5TextConfig(**hybrid, **states),
        "kimi linear": transformers.KimiLinearConfig(**channels),
        "kimi linear, low rank": transformers.KimiLinearConfig(**channels, q_lora_rank=24),
        "gemma3": transformers.Gemma3TextConfig(**sizes, sliding_window=5, query_pre_attn_scalar=16, layer_types=[
            "sliding_attention", "full_attention", "sliding_attention"]),
    }


def save(kind, config, folder):
    """A model of random weights, norms and biases among them, saved as a folder."""
    torch = known("torch")
    torch.manual_seed(5)
    made = kind.from_config(config, attn_implementation="eager").eval()
    for name, parameter in made.named_parameters():
        norm = "norm" in name.lower()
        of_zero = config.model_type.startswith(("gemma", "qwen3_next", "qwen3_5")) and "linear_attn" not in name
        mean = 1.0 if norm and "weight" in name and not of_zero else 0.0
        torch.nn.init.normal_(parameter, mean, 0.1 if norm else 0.5 if "embed" in name else 0.15)
    made.save_pretrained(folder)
    lm_models.byte_level().save(str(folder / "tokenizer.json"))
    return torch, made


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtype, halves", [("float32", 0), ("bfloat16", 0), ("float32", 1)])
def test_a_folder_is_what_transformers_has(tmp_path, name, dtype, halves):
    transformers = known("transformers")
    if dtype == "bfloat16":
        known("ml_dtypes")
    torch, made = save(transformers.AutoModelForCausalLM, configs()[name], tmp_path)
    if dtype == "bfloat16":
        made.to(torch.bfloat16).save_pretrained(tmp_path)
        made = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = torch.arange(3, 27)[None] * 11 % 300
    with torch.no_grad():
        expected = made(tokens).logits[0].numpy()
    decoder, given = decoder_of(tmp_path, halves=halves), tokens[0].tolist()
    bound = 1e-9
    if context_with(halves).facts["half_workspaces"]:  # of float16 in three layers; a state sums what is rounded
        bound = 1e-4 if decoder.config.recurrent else 1e-5
    found = [decoder.logits(given[:20]), *(decoder.logits([token]) for token in given[20:])]
    assert max(nmse(each, row) for each, row in zip(found, expected[19:])) < bound
    decoder.rewind(5)
    for start, end in ((5, 12), (12, 13), (13, 24)):
        assert nmse(decoder.logits(given[start:end]), expected[end - 1]) < bound


def test_gemma_in_gguf_is_transformers(tmp_path):
    transformers = known("transformers")
    config = configs()["gemma3"]
    config.query_pre_attn_scalar, config.layer_types = 32, ["sliding_attention", "sliding_attention", "full_attention"]
    torch, made = save(transformers.AutoModelForCausalLM, config, tmp_path)
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA3, 3)
    weights = {table.get_name(name, (".weight", ".bias")): value.detach().numpy() + (1 if "norm" in name else 0)
               for name, value in made.state_dict().items() if name != "lm_head.weight"}
    sizes = {"layers": 3, "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 32, "hidden": 96, "context": 64}
    lm_models.write_gguf(tmp_path / "g.gguf", weights, sizes, name="gemma3", more={
        "add_sliding_window": 5, "add_rope_freq_base": 1e6, "add_layer_norm_rms_eps": 1e-6,
        "add_array": ("gemma3.attention.sliding_window_pattern", [1, 1, 0])})
    tokens = torch.arange(3, 27)[None] * 11 % 300
    with torch.no_grad():
        expected = made(tokens).logits[0, -1].numpy()
    assert nmse(decoder_of(tmp_path / "g.gguf").logits(tokens[0].tolist()), expected) < 1e-9


def test_deepseeks_cache_holds_latents(tmp_path):
    transformers = known("transformers")
    config = configs()["deepseek v2"]
    config.kv_lora_rank, config.qk_rope_head_dim, config.head_dim = 64, 32, 32  # in blocks of 32
    save(transformers.AutoModelForCausalLM, config, tmp_path)
    plain, quantised, given = decoder_of(tmp_path), decoder_of(tmp_path, kv_type="q8_0"), [i * 11 % 300 for i in range(24)]
    numbers = 3 * 32 * (64 + 32)  # of 3 layers, for 32 tokens
    assert numbers * 4 <= plain.cache_bytes < numbers * 5 and numbers * 34 / 32 <= quantised.cache_bytes < numbers * 2
    assert 1e-8 < nmse(quantised.logits(given), plain.logits(given)) < 1e-2


@pytest.mark.parametrize("of_latents", [False, True], ids=["one matrix", "of latents"])
@pytest.mark.parametrize("name, kind", [("deepseek v2", "F32"), ("deepseek v2", "Q8_0"), ("deepseek v2, low rank", "F32"),
                                        ("deepseek v2, yarn", "F32")])
def test_deepseek_in_gguf_is_transformers(tmp_path, name, kind, of_latents):
    transformers = known("transformers")
    config = configs()[name]
    config.attention_bias, config.rms_norm_eps = False, 1e-5
    if name == "deepseek v2, yarn":
        config.rope_parameters["mscale"] = config.rope_parameters["mscale_all_dim"]  # a file has one number of both
    torch, made = save(transformers.AutoModelForCausalLM, config, tmp_path)
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.DEEPSEEK2, 3)
    own = {table.get_name(each, (".weight",)): each for each in made.state_dict()}
    weights = {each: made.state_dict()[other].detach().numpy() for each, other in own.items()}
    sizes, more = lm_models.latent_facts({**lm_models.SIZES, "layers": 3, "kv_heads": 4}, config.kv_lora_rank, config.q_lora_rank,
                                         16, 8, 24, of_latents)
    if name == "deepseek v2, yarn":
        more |= {"add_rope_scaling_type": gguf.RopeScalingType.YARN, "add_rope_scaling_factor": 4.0,
                 "add_rope_scaling_orig_ctx_len": 16, "add_rope_scaling_yarn_log_mul": 0.0707}
    written = lm_models.split_latents(weights, 4, 16) if of_latents else weights
    held = lm_models.write_gguf(tmp_path / "d.gguf", written, sizes, kind, name="deepseek2", more=more)
    made.load_state_dict({other: torch.from_numpy(held.get(each, weights[each]).copy()) for each, other in own.items()})
    tokens = torch.arange(3, 27)[None] * 11 % 300
    with torch.no_grad():
        expected = made(tokens).logits[0].numpy()
    decoder, given, bound = decoder_of(tmp_path / "d.gguf"), tokens[0].tolist(), 1e-9 if kind == "F32" else 1e-6  # float16's
    assert nmse(decoder.logits(given[:23]), expected[22]) < bound and nmse(decoder.logits(given[23:]), expected[23]) < bound


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory):
    """(the folder of a hybrid, what a list of tokens gives last)"""
    transformers = known("transformers")
    folder = tmp_path_factory.mktemp("hybrid")
    torch, made = save(transformers.AutoModelForCausalLM, configs()["qwen3-next"], folder)

    def expected(tokens):
        with torch.no_grad():
            return made(torch.tensor([tokens])).logits[0, -1].numpy()
    return folder, expected


def test_a_state_goes_back_by_a_copy(hybrid, monkeypatch):
    folder, expected = hybrid
    decoder, given = decoder_of(folder), [i * 11 % 300 for i in range(3, 27)]
    computed, layers = [], decoder.layers

    def counted(hidden, progress=None):
        computed.append(hidden.shape[1])
        return layers(hidden, progress)
    monkeypatch.setattr(decoder, "layers", counted)

    def check(tokens, appended, again):
        """Appended tokens give what all of them would, and so many were computed once more."""
        computed.clear()
        decoder.rewind(len(tokens) - len(appended))
        assert sum(computed) == again and decoder.length == len(tokens) - len(appended)
        assert nmse(decoder.logits(appended), expected(tokens)) < 1e-9
    check(given[:6], given[:6], 0)
    check(given[:10], given[6:10], 0)  # whose beginning is copied
    check(given[:11], given[10:11], 0)
    check([*given[:9], 7, 8], [7, 8], 3)  # from the copy, of 6 tokens
    check([*given[:9], 5], [5], 0)  # in front of what was just computed: a copy is made of its beginning
    check([*given[:4], 9], [9], 4)  # before it: from the beginning
    check(given[:2], given[:2], 0)
    with pytest.raises(errors.ModelError, match="rewind: 3 tokens, expected at most 2"):
        decoder.rewind(3)


def test_a_state_that_was_interrupted_is_not_gone_on_from(hybrid, monkeypatch):
    folder, expected = hybrid
    decoder, given = decoder_of(folder), [i * 11 % 300 for i in range(3, 27)]
    decoder.logits(given[:6])
    fed, calls = decoder._fed_forward, []

    def interrupted(block, hidden):
        calls.append(block)
        if len(calls) == 2:  # behind the first state, before the second
            raise KeyboardInterrupt
        return fed(block, hidden)
    monkeypatch.setattr(decoder, "_fed_forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decoder.logits(given[6:9])
    calls.clear()
    with pytest.raises(KeyboardInterrupt):  # while it computes tokens once more
        decoder.rewind(4)
    monkeypatch.undo()
    decoder.rewind(4)
    assert decoder.length == 4 and nmse(decoder.logits(given[4:6]), expected(given[:6])) < 1e-9
    assert decoder.length == 6 and nmse(decoder.logits(given[6:12]), expected(given[:12])) < 1e-9


def test_a_state_does_not_grow_with_the_context(hybrid):
    short, long = (decoder_of(hybrid[0], capacity=capacity) for capacity in (32, 320))
    sizes = short.config.linear
    of_layer = 4 * (sizes.value_heads * sizes.key_dim * sizes.value_dim + (sizes.kernel - 1) * sizes.channels)  # as estimate counts
    for decoder in (short, long):
        states = [cache for cache in decoder.caches if hasattr(cache, "state")]
        assert len(states) == 2 and all(each.nbytes == 2 * of_layer for each in states)  # with a copy
    rows = [decoder.cache_bytes - 4 * of_layer for decoder in (short, long)]
    assert rows[1] > 5 * rows[0]


@pytest.mark.parametrize("name, changes, says", [
    ("qwen3-next", {"num_experts": 4, "mlp_only_layers": [0, 2]}, "num_experts: 4: Mixture-of-experts, of layer 1, is not computed"),
    ("kimi linear", {"mlp_layer_types": ["dense", "dense", "sparse", "dense"]}, "of layer 2, is not computed, expected dense layers"),
    ("qwen3.5", {"layer_types": ["linear_attention"] * 4}, "no layer has softmax attention, expected at least one"),
    ("qwen3.5", {"layer_types": ["linear_attention", "mamba"] * 2}, "layer_types: 4 with 'mamba', expected 4 of linear_attention"),
    ("qwen3.5", {"linear_num_value_heads": 5}, "5 value heads of linear attention, expected a multiple of its 2 key heads"),
    ("qwen3.5", {"linear_conv_kernel_dim": 5}, "linear_conv_kernel_dim: 5, expected a whole number from 2 to 4"),
    ("qwen3.5", {"rope_parameters": {"partial_rotary_factor": 0.1}}, "partial_rotary_factor: 0.1, expected an even number"),
    ("qwen3.5", {"output_gate_type": "sigmoid"}, "output_gate_type: 'sigmoid', expected none, or 'silu', or 'swish'"),
    ("kimi linear", {"mla_use_nope": False}, "mla_use_nope: False, expected none, or True"),
    ("kimi linear", {"linear_attn_config": {"gate_lower_bound": -5.0}}, "gate_lower_bound: -5.0, expected none"),
])
def test_what_of_hybrids_is_not_computed_is_refused_by_name(tmp_path, run, name, changes, says):
    transformers = known("transformers")
    save(transformers.AutoModelForCausalLM, configs()[name], tmp_path)
    document = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**document, **changes}))
    status, _, err = run("complete", tmp_path, "x")
    assert status == 2 and len(err) == 1 and says in err[0] and err[0].count("expected") == 1


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
@pytest.mark.parametrize("name, architecture", [("qwen3-next", "qwen3next"), ("qwen3.5", "qwen35"), ("kimi linear", "kimi-linear")])
def test_hybrids_in_gguf_are_transformers(tmp_path, name, architecture, kind):
    transformers = known("transformers")
    config = configs()[name]
    of_channels = name == "kimi linear"
    config.linear_head_dim = config.linear_value_head_dim = 32  # in blocks of 32
    config.layer_types = ["linear_attention"] * 3 + ["full_attention"]
    torch, made = save(transformers.AutoModelForCausalLM, config, tmp_path)
    held, kinds = safetensors.numpy.load_file(tmp_path / "model.safetensors"), gguf.GGMLQuantizationType
    for own, values in held.items():
        if values.ndim == 2 and kind != "F32":
            held[own] = gguf.dequantize(gguf.quantize(values, kinds[kind]), kinds[kind]).astype("f4")
    safetensors.numpy.save_file(held, tmp_path / "model.safetensors", metadata={"format": "pt"})
    made = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, attn_implementation="eager").eval()
    arch = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    weights = lm_models.hybrid_in_gguf(arch, 4, held, (2, 6, 32) if architecture == "qwen35" else None, 0 if of_channels else 1)
    sizes, more = {**lm_models.SIZES, "layers": 4}, {"add_ssm_conv_kernel": 4}
    if of_channels:
        sizes, latent = lm_models.latent_facts({**sizes, "kv_heads": 4}, 32, None, 16, 8, 24, True)
        sizes |= {"kv_heads": [0, 0, 0, 1]}
        more |= latent | {"add_kda_head_dim": 32, "add_expert_count": 0}
        weights = lm_models.split_latents(weights, 4, 16)
    else:
        more |= {"add_ssm_state_size": 16, "add_ssm_group_count": 2, "add_ssm_time_step_rank": 6, "add_ssm_inner_size": 192,
                 "add_rope_dimension_count": 8, "add_layer_norm_rms_eps": 1e-6}
    lm_models.write_gguf(tmp_path / "h.gguf", weights, sizes, kind, name=architecture, more=more)
    tokens = torch.arange(3, 27)[None] * 11 % 300
    with torch.no_grad():
        expected = made(tokens).logits[0].numpy()
    decoder, given, bound = decoder_of(tmp_path / "h.gguf"), tokens[0].tolist(), 1e-9 if kind == "F32" else 1e-6  # float16's
    assert nmse(decoder.logits(given[:22]), expected[21]) < bound
    for i in (22, 23):
        assert nmse(decoder.logits(given[i:i + 1]), expected[i]) < bound


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_1"])
@pytest.mark.parametrize("name", ["phi3", "phi3, few tokens", "phi3, many tokens"])
def test_phi_in_gguf_is_transformers(tmp_path, name, kind):
    transformers = known("transformers")
    config = configs()[name]
    torch, made = save(transformers.AutoModelForCausalLM, config, tmp_path)
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.PHI3, 3)
    own = {table.get_name(each, (".weight",)): each for each in made.state_dict()}
    weights = {each: made.state_dict()[other].detach().numpy() for each, other in own.items()}
    sizes, more = {**lm_models.SIZES, "layers": 3, "head_dim": 16}, {"add_rope_dimension_count": 16}
    if name == "phi3":
        more["add_sliding_window"] = 5
    else:
        original, rope = config.original_max_position_embeddings, config.rope_parameters
        more |= {"add_rope_scaling_orig_ctx_len": original, "add_sliding_window": 0,
                 "add_rope_scaling_attn_factors": numpy.sqrt(1 + numpy.log(64 / original) / numpy.log(original)).item()}
        weights |= {f"rope_factors_{each}.weight": numpy.array(rope[f"{each}_factor"], "f4") for each in ("short", "long")}
    held = lm_models.write_gguf(tmp_path / "p.gguf", weights, sizes, kind, name="phi3", more=more)
    made.load_state_dict({other: torch.from_numpy(held[each].copy()) for each, other in own.items()})
    tokens = torch.arange(3, 27)[None] * 11 % 300
    with torch.no_grad():
        expected = made(tokens).logits[0].numpy()
    decoder, given = decoder_of(tmp_path / "p.gguf"), tokens[0].tolist()
    assert nmse(decoder.logits(given[:23]), expected[22]) < 1e-9 and nmse(decoder.logits(given[23:]), expected[23]) < 1e-9


def test_phis_special_tokens_take_the_white_space_after_them():
    pieces = ["<unk>", "<s>", "<|end|>", *(f"<0x{i:02X}>" for i in range(256)), "▁", "a"]
    facts = {"general.architecture": "phi3", "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces,
             "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, 1, 1], "tokenizer.ggml.scores": [0.0] * len(pieces),
             "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.add_space_prefix": False}
    for architecture, expected in (("phi3", ["<s>", "a", "<|end|>", "a"]), ("llama", ["<s>", "a", "<|end|>", "<0x0A>", "a"])):
        read = tokenizer.from_gguf(files.Facts("here", {**facts, "general.architecture": architecture}))
        assert [pieces[i] for i in read.encode("a<|end|>\na")] == expected


def test_an_encoder_is_what_transformers_has(tmp_path):
    transformers = known("transformers")
    config = transformers.BertConfig(vocab_size=300, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=96, max_position_embeddings=24, architectures=["BertModel"])
    torch, made = save(transformers.AutoModel, config, tmp_path)
    texts = ["the cat", "the dog sat on the log; 12 cats and 34 dogs sat there. What is it? It is a cat", "it"]
    made_here = encoder.Encoder(files.open_model(tmp_path), vkattn.default_context(), NoBar())
    for text, vector in zip(texts, made_here.embed(texts)):
        tokens = torch.tensor([lm_models.byte_level().encode(text).ids[:24]])
        with torch.no_grad():
            expected = made(tokens).last_hidden_state[0].mean(0).numpy()
        assert numpy.abs(vector - expected).max() < 1e-4


@pytest.fixture(scope="module")
def bert(tmp_path_factory, inner):
    folder = tmp_path_factory.mktemp("bert")
    lm_models.write_bert(folder, inner)
    return folder


POOLING = {"embedding_dimension": 32, "include_prompt": True}
PROMPTS = {"prompts": {"query": "the cat ", "document": ""}, "default_prompt_name": "query"}


def embedded(tmp_path, bert, texts, changes, **more):
    folder = tmp_path / f"folder{len(list(tmp_path.iterdir()))}"
    shutil.copytree(bert, folder)
    for name, document in changes.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(document))
    made = encoder.Encoder(files.open_model(folder), vkattn.default_context(), NoBar(), **more)
    return made.embed(texts)


def test_pooling_is_as_every_sentence_transformers_writes_it(tmp_path, bert):
    texts = ["the cat sat", "a dog"]
    other = [{"type": "sentence_transformers.models.Transformer", "path": ""},
             {"type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling", "path": "pool"}]
    plain = embedded(tmp_path, bert, texts, {})
    flags = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    first = [embedded(tmp_path, bert, texts, changes) for changes in (
        {"1_Pooling/config.json": flags}, {"1_Pooling/config.json": {**POOLING, "pooling_mode": "cls"}},
        {"1_Pooling/config.json": {**POOLING, "pooling_mode": ["cls"]}}, {"pool/config.json": flags, "modules.json": other})]
    means = [embedded(tmp_path, bert, texts, {"1_Pooling/config.json": document}) for document in (
        {**POOLING, "pooling_mode": "mean"}, {"pooling_mode_mean_tokens": True}, POOLING)]
    assert all((each == first[0]).all() for each in first) and all((each == plain).all() for each in means)
    assert numpy.abs(first[0] - plain).max() > 1e-2


def test_prompts_begin_texts_as_sentence_transformers_has_it(tmp_path, bert):
    changes = {"config_sentence_transformers.json": PROMPTS}
    plain, prompted = (embedded(tmp_path, bert, [text], {}) for text in ("sat", "the cat sat"))
    assert (embedded(tmp_path, bert, ["sat"], changes) == prompted).all()
    assert (embedded(tmp_path, bert, ["sat"], changes, prompt_name="document") == plain).all()
    assert (embedded(tmp_path, bert, ["THE CAT sat"], {"sentence_bert_config.json": {"do_lower_case": True}}) == prompted).all()


@pytest.mark.parametrize("changes, says", [
    ({"1_Pooling/config.json": {**POOLING, "pooling_mode": "max"}}, "1_Pooling/config.json: pooling_mode: 'max', expected one of mean, cls"),
    ({"1_Pooling/config.json": {"pooling_mode_max_tokens": True}}, "'pooling_mode_max_tokens'"),
    ({"1_Pooling/config.json": {**POOLING, "pooling_mode": ["cls", "mean"]}}, "pooling_mode: \"['cls', 'mean']\", expected one of"),
    ({"1_Pooling/config.json": {**POOLING, "include_prompt": False}, "config_sentence_transformers.json": PROMPTS}, "include_prompt: False"),
    ({"modules.json": [{"type": "Transformer"}, {"type": "Pooling", "path": "../x"}]}, "expected '' and a folder in this one"),
    ({"modules.json": [{"type": "Transformer"}, {"type": "Pooling", "path": "pool"}]}, "has no pool/config.json"),
    ({"modules.json": {}}, "modules.json: no list of objects"),
    ({"config_sentence_transformers.json": {"prompts": {}, "default_prompt_name": "query"}}, "prompts: query is missing"),
    ({"config.json": {"num_attention_heads": 5}}, ""), ({"sentence_bert_config.json": {"max_seq_length": 0}}, "max_seq_length: 0"),
])
def test_what_embed_does_not_compute_is_refused_by_name(tmp_path, bert, run, changes, says):
    folder = tmp_path / "folder"
    shutil.copytree(bert, folder)
    for name, document in changes.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        known = json.loads(path.read_text()) if path.exists() and isinstance(document, dict) else {}
        path.write_text(json.dumps({**known, **document} if isinstance(document, dict) and name != "modules.json" else document))
    status, out, err = run("embed", folder, "the cat")
    assert status == 2 and not out and len(err) == 1 and says in err[0] and err[0].count("expected") == 1


def test_embed_tells_what_it_leaves_out(bert, run):
    status, out, err = run("embed", bert, "a cat", "the cat sat on the mat " * 9)
    assert status == 0 and len(out.splitlines()) == 2
    assert err == ["vkattn-lm: text 2: longer than the model's 16 tokens: the rest is left out"]
    status, out, err = run("embed", bert, given="a cat\n\n")
    assert status == 2 and err == ["vkattn-lm: error: text '': no tokens, expected at least 1"]


def test_embed_refuses_tokens_that_the_embeddings_have_not(tmp_path, bert, run):
    folder = tmp_path / "folder"
    shutil.copytree(bert, folder)
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    document["model"]["vocab"]["a"] = 2**32 - 1
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    status, _, err = run("embed", folder, "a")
    assert status == 2 and len(err) == 1 and "token 4294967295 of kind 0, expected what the embeddings have" in err[0]


def test_texts_are_the_tokens_that_they_were_trained_to(llama, inner):
    read = files.open_model(llama[0]).tokenizer()
    for text in ("the cat sat", "What is it? 1234, 5", "<|im_start|>user\nthe dog<|im_end|>", "ünï ☃ \n\n  x", ""):
        assert read.encode(text) == inner.encode(text).ids
        piece = read.stream()
        assert "".join(map(piece, read.encode(text))) == text.replace("<|im_start|>", "").replace("<|im_end|>", "")
    assert read.ends == {0, 2} and read.begin is None


def test_marks_belong_to_words_in_qwen35():
    pieces = ["Ì", "ģ", "e", "a", "eÌ", "eÌģ", "eÌģa"]  # the bytes of an accent are Ì and ģ in GPT-2's names
    facts = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.token_type": [1] * len(pieces),
             "tokenizer.ggml.merges": ["e Ì", "eÌ ģ", "eÌģ a"], "tokenizer.ggml.eos_token_id": 3}
    for pre, count in (("qwen2", 4), ("qwen35", 1)):
        read = tokenizer.from_gguf(files.Facts("here", {**facts, "tokenizer.ggml.pre": pre}))
        assert len(read.encode("e\u0301a")) == count


def test_pieces_merge_by_their_scores():
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "▁", "a", "b", "ab", "▁ab", "ba"]
    types = [2, 3, 3, *[6] * 256, *[1] * 6]
    scores = [0.0, 0.0, 0.0, *[0.0] * 256, -10.0, -10.0, -10.0, -2.0, -3.0, -1.0]
    facts = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.token_type": types,
             "tokenizer.ggml.scores": scores, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
             "tokenizer.ggml.add_space_prefix": False}
    read = tokenizer.from_gguf(files.Facts("here", facts))
    names = [pieces[i] for i in read.encode("ab aba é")]
    assert names == ["<s>", "ab", "▁", "a", "ba", "▁", "<0xC3>", "<0xA9>"]  # ba scores higher than ab
    piece = read.stream()
    assert "".join(map(piece, read.encode("ab aba é"))) == "ab aba é"


@pytest.fixture
def run(capsys, monkeypatch):
    """A command's exit status, output and lines of errors."""
    def of(*words, given=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        capsys.readouterr()
        status = command.main([str(word) for word in words])
        said = capsys.readouterr()
        return status, said.out, said.err.splitlines()
    return of


def test_complete_goes_on_as_numpy_would(llama, inner, run):
    path, held = llama
    tokens = inner.encode("the cat").ids
    while len(tokens) < len(inner.encode("the cat").ids) + 8:
        tokens.append(int(lm_models.logits_of(held, lm_models.SIZES, tokens)[-1].argmax()))
    assert not {0, 2} & set(tokens)
    read = files.open_model(path).tokenizer()
    piece = read.stream()
    expected = "".join(map(piece, tokens[len(inner.encode("the cat").ids):]))
    status, out, err = run("complete", path, "the cat", "--temperature", 0, "--tokens", 8, "--kv-type", "f32")
    assert (status, out, err[0]) == (0, expected + "\n", "vkattn-lm: ended after 8 tokens; see --tokens")
    same = [run("complete", path, "-", "--seed", 4, "--tokens", 8, given="the cat")[1] for _ in range(2)]
    assert same[0] == same[1] != run("complete", path, "-", "--seed", 5, "--tokens", 8, given="the cat")[1]


def test_what_a_budget_finds_serves_the_next_start(llama, run, monkeypatch, tmp_path, recwarn):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    query = numpy.random.default_rng(5).standard_normal((1, 2, 5, 16), "f4")

    def start(budget):
        """What a run that attends once says and keeps."""
        own = device.Device("", budget)
        vkattn.attention(query, query, query, context=own.context)
        return own.keep()

    assert start(0) == "" and not list((tmp_path / "vkattn").glob("*.saved*"))
    assert start(3_600_000).startswith("tuned within the budget: 1 class, ")
    assert [path.name for path in (tmp_path / "vkattn").glob("*.saved*")] == ["vkattn-lm.saved"]
    assert start(3_600_000) == ""
    (tmp_path / "vkattn" / "vkattn-lm.saved").write_bytes(b"vkattn of another time")
    assert start(0) == "" and not recwarn.list
    assert run("complete", llama[0], "x", "--tune-budget", "x")[0] == 2


def test_a_folder_goes_on_as_its_gguf_file_does(llama, tmp_path, run):
    lm_models.write_folder(tmp_path, llama[1], lm_models.SIZES)
    words = ("the cat", "--temperature", 0, "--tokens", 8, "--kv-type", "f32", "--quiet")
    assert run("complete", tmp_path, *words) == run("complete", llama[0], *words)
    chats = [run("chat", path, "--seed", 1, "--tokens", 4, given="it\n") for path in (tmp_path, llama[0])]
    assert chats[0][:2] == chats[1][:2] and chats[0][0] == 0
    read = files.open_model(tmp_path).tokenizer()
    assert read.ends == {0, 2, 9} and read.begin is None
    lm_models.write_folder(tmp_path, llama[1], lm_models.SIZES, begin="<|endoftext|>")
    read = files.open_model(tmp_path).tokenizer()
    assert read.encode("a") == read.encode("<|endoftext|>a") == [0, *lm_models.byte_level().encode("a").ids]


def test_the_context_is_obeyed_and_said(llama, run):
    status, _, err = run("complete", llama[0], "the cat", "--temperature", 0, "--context", 12, "--quiet")
    assert status == 0 and err == ["vkattn-lm: the context of 12 tokens is full; see --context"]
    status, _, err = run("complete", llama[0], "the cat " * 20, "--context", 12)
    assert status == 2 and "expected fewer than 12" in err[0]
    status, _, err = run("complete", llama[0], "the cat", "--context", 65)
    assert status == 2 and "--context 65: expected at most 64" in err[0]


def test_chat_renders_the_models_template(llama, run, monkeypatch):
    seen, write = [], chat.Writer.write
    monkeypatch.setattr(chat.Writer, "write", lambda self, tokens, *rest: seen.append((list(tokens), list(self._held)))
                        or write(self, tokens, *rest))
    status, out, err = run("chat", llama[0], "--system", "it", "--tokens", 3, "--seed", 1, given="the cat\n\nit\n")
    assert status == 0 and len(err) == 5 and len(out.splitlines()) >= 2
    read = files.open_model(llama[0]).tokenizer()
    first, second = ([read.inner.id_to_token(token) for token in tokens] for tokens, _ in seen)
    text = read.inner.decode(seen[0][0], skip_special_tokens=False)
    assert text == "<|im_start|>system\nit<|im_end|>\n<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\n"
    assert second[:len(first)] == first and seen[1][1][:len(first)] == seen[0][0]


def test_values_may_have_a_type_of_their_own(llama, inner):
    path, held = llama
    tokens = inner.encode("the cat sat on the log").ids
    expected, decoder = lm_models.logits_of(held, lm_models.SIZES, tokens)[-1], decoder_of(path)
    found = {}
    for types in (("f32",), ("f32", "q8_0"), ("q8_0", "f32"), ("q8_0",)):
        decoder.empty_caches(*types)
        assert decoder.length == 0
        decoder.logits(tokens[:-1])
        found[types] = decoder.cache_bytes, nmse(decoder.logits(tokens[-1:]), expected)
    assert found["f32",][0] > found["f32", "q8_0"][0] == found["q8_0", "f32"][0] > found["q8_0",][0]
    assert found["f32",][1] < 1e-10 and all(1e-8 < error < 1e-2 for types, (_, error) in found.items() if types != ("f32",))
    assert found["f32", "q8_0"][1] != found["q8_0", "f32"][1]


def test_what_is_held_is_not_computed_again(llama):
    decoder = decoder_of(llama[0])
    counted, next_token = [], decoder.next_token
    decoder.next_token = lambda tokens, *more: counted.append(len(tokens)) or next_token(tokens, *more)
    writer = chat.Writer(decoder, files.open_model(llama[0]).tokenizer(), sampling.Sampler(0, 0, 1, 0), lambda total: NoBar())
    first, _ = writer.write([5, 6, 7, 8], 2, lambda piece: None)
    assert counted == [4, 1]
    again, _ = writer.write([5, 6, 7, 8], 2, lambda piece: None)
    assert counted == [4, 1, 1, 1] and again == first


def test_perplexity_is_numpys(llama, inner, run, tmp_path):
    path, held = llama
    (tmp_path / "text").write_text(lm_models.TEXT)
    tokens, lost = inner.encode(lm_models.TEXT).ids, []
    for start in range(0, len(tokens) // 16 * 16, 16):
        part = tokens[start:start + 16]
        logits = lm_models.logits_of(held, lm_models.SIZES, part)
        shares = numpy.log(numpy.exp(logits).sum(-1)) - logits[range(16), [*part[1:], 0]]
        lost += shares[8:15].tolist()
    status, out, err = run("perplexity", path, tmp_path / "text", "--context", 16, "--kv-type", "f32")
    assert status == 0 and err == [] and f"of {len(lost)} tokens" in out
    assert abs(float(out.split()[1]) / numpy.exp(numpy.mean(lost)) - 1) < 1e-4
    (tmp_path / "marked").write_text("<|im_end|>" * 40)  # text as any other, as in llama-perplexity
    assert f"of {len(files.open_model(path).tokenizer().encode('<|im_end|>' * 40, markers=False)) // 16 * 7} tokens" in run(
        "perplexity", path, tmp_path / "marked", "--context", 16)[1]
    status, _, err = run("perplexity", path, tmp_path / "text", "--context", 64, "--kv-type", "q8_0")
    assert status == 0


def test_bench_counts_what_it_holds(llama, run):
    status, out, err = run("bench", llama[0], "--prompt", 16, "--tokens", 4, "--json")
    found = json.loads(out)
    assert status == 0 and err == [] and found["new_tokens"] == 4
    assert found["weight_bytes"] == sum(value.nbytes for value in llama[1].values()) and found["new_tokens_per_second"] > 0


def test_samples_have_the_chances_that_they_are_to_have():
    logits = numpy.log(numpy.array([0.5, 0.3, 0.15, 0.05], "f4"))

    def shares(**options):
        sampler = sampling.Sampler(**{"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 7, **options})
        return numpy.bincount([sampler(logits) for _ in range(4000)], minlength=4) / 4000
    assert numpy.abs(shares() - [0.5, 0.3, 0.15, 0.05]).max() < 0.03
    assert numpy.abs(shares(top_k=2) - [0.625, 0.375, 0, 0]).max() < 0.03
    assert numpy.abs(shares(top_p=0.9) - [0.5263, 0.3158, 0.1579, 0]).max() < 0.03
    assert (shares(temperature=0) == [1, 0, 0, 0]).all() and (shares(top_p=0.0) == [1, 0, 0, 0]).all()
    assert numpy.abs(shares(temperature=0.5) - numpy.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365).max() < 0.03


@pytest.mark.parametrize("temperature", [5e-324, 1e-310, 1e-308, 1e-30])
def test_a_temperature_near_0_takes_the_most_likely(temperature):
    logits = numpy.array([0.5, 3.0, -100.0, 2.9, -3e38], "f4")
    assert {sampling.Sampler(temperature, top_k, 0.95, 1)(logits) for top_k in (0, 3)} == {1}


@pytest.mark.parametrize("wrong", [numpy.nan, numpy.inf])
def test_logits_that_are_not_finite_are_refused(wrong):
    logits = numpy.array([0.0, wrong, 1.0], "f4")
    for temperature in (0.0, 1.0):
        with pytest.raises(errors.ModelError, match="not finite numbers"):
            sampling.Sampler(temperature, 0, 1.0, 1)(logits)
    with pytest.raises(errors.ModelError, match="not finite numbers"):
        sampling.log_likelihoods(logits[None], [0])


def changed(tmp_path, **more):
    """A GGUF file with a fact more, or another."""
    inner = lm_models.byte_level()
    template, name = more.pop("template", lm_models.TEMPLATE), more.pop("name", "llama")
    sizes = {**lm_models.SIZES, **more.pop("sizes", {})}
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    weights.update(more.pop("weights", {}))
    weights = {name: value for name, value in weights.items() if value is not None}
    lm_models.write_gguf(tmp_path / "model.gguf", weights, sizes, more=more, template=template, name=name)
    return tmp_path / "model.gguf"


LATENT = {"add_leading_dense_block_count": 2, "add_kv_lora_rank": 32, "add_rope_dimension_count": 8, "add_value_length": 24}  # DeepSeek's


@pytest.mark.parametrize("more, says", [
    ({"add_expert_count": 8}, "llama.expert_count: 8, expected none"),
    ({"add_logit_scale": 2.0}, "llama.logit_scale is not computed"),
    ({"add_rope_scaling_type": gguf.RopeScalingType.YARN}, "'yarn' is not computed"),
    ({"name": "deepseek2", **LATENT, "sizes": {"kv_heads": 4}, "add_rope_scaling_type": gguf.RopeScalingType.YARN,
      "add_rope_scaling_factor": 4.0, "add_rope_scaling_orig_ctx_len": 16, "add_rope_scaling_yarn_log_mul": 0.0707,
      "weights": {"rope_freqs.weight": numpy.ones(4, "f4")}}, "'yarn' beside factors"),
    ({"add_rope_dimension_count": 16}, "rope.dimension_count: 16"),
    ({"name": "phi3", "add_rope_dimension_count": 24}, "phi3.rope.dimension_count: 24"),
    ({"name": "phi3", "add_rope_scaling_attn_factors": 1.2}, "rope.scaling.attn_factor, or one of rope_factors_short.weight and"),
    ({"name": "phi3", "weights": {"rope_factors_long.weight": numpy.ones(16, "f4")}}, "without the rest, expected all or none"),
    ({"name": "deepseek2"}, "deepseek2.leading_dense_block_count: 0: Mixture-of-experts, of the layers from there"),
    ({"name": "deepseek2", "add_leading_dense_block_count": 2}, "deepseek2.attention.kv_lora_rank is missing"),
    ({"name": "deepseek2", **LATENT, "sizes": {"kv_heads": 4}, "add_rope_dimension_count": 32}, "attention.key_length: 32, expected a whole number from 33"),
    ({"name": "deepseek2", **LATENT, "add_key_length_mla": 48}, "attention.head_count_kv: 2, expected none, or 1"),
    ({"name": "deepseek2", **LATENT, "sizes": {"kv_heads": 4}, "add_rope_scaling_type": gguf.RopeScalingType.YARN,
      "add_rope_scaling_factor": 4.0},
     "deepseek2.rope.scaling.yarn_log_multiplier is missing"),
    ({"add_rope_scaling_attn_factors": 1.2}, "rope.scaling.attn_factor: 1.2"),
    ({"weights": {"rope_factors_long.weight": numpy.ones(16, "f4")}}, "rope_factors_long.weight is not computed"),
    ({"add_tokenizer_pre": "tekken"}, "tokenizer.ggml.pre: 'tekken'"),
    ({"add_head_count_kv": 3}, "expected a number that divides 4 heads"),
    ({"sizes": {"hidden": 95}}, "expected [95, 64]"),
    ({"sizes": {"layers": 3}}, "blk.2.attn_q.weight is missing"),
    ({"weights": {"blk.0.ffn_gate_inp.weight": numpy.zeros((2, 64), "f4")}}, "blk.0.ffn_gate_inp.weight is not computed"),
    ({"weights": {"output_norm.weight": None}}, "output_norm.weight is missing"),
    ({"template": ""}, "has no chat template"),
    ({"template": "{{ raise_exception('no user') }}"}, "its chat template says: no user"),
    ({"template": "{% for %}"}, "chat template: TemplateSyntaxError"),
    ({"template": "{{ ''.__class__.__mro__ }}"}, "chat template: SecurityError"),
])
def test_what_is_not_computed_is_refused_by_name(tmp_path, run, more, says):
    status, _, err = run("chat", changed(tmp_path, **more), given="the cat\n")
    errors = [line for line in err if line.startswith("vkattn-lm: error: ")]
    assert status == 2 and len(errors) == 1 and errors == err[-1:] and says in errors[0]


@pytest.mark.parametrize("words, says", [
    (["complete", "no-such-file", "x"], "no-such-file: no such file"), (["complete", "FOLDER", "x"], "has no config.json"),
    (["complete", "FOLDER/text", "x"], "begins with b'some'"), (["complete", "MODEL", ""], "prompt: no tokens"),
    (["complete", "MODEL", "x", "--temperature", "hot"], "--temperature: 'hot', expected a number from 0 to 100"),
    (["complete", "MODEL", "x", "--top-p", "2"], "--top-p: '2'"), (["complete", "MODEL", "x", "--kv-type", "q3"], "--kv-type"),
    (["complete", "MODEL", "x", "--device", "no such"], "no such"), (["talk", "MODEL"], "talk"), ([], "COMMAND"),
    (["perplexity", "MODEL", "no-such-text"], "no-such-text"), (["perplexity", "MODEL", "FOLDER/bytes"], "bytes: byte 0 is no UTF-8, expected a text in UTF-8"),
    (["perplexity", "MODEL", "FOLDER/text"], "expected at least 64"),
    (["perplexity", "MODEL", "FOLDER"], "Is a directory, expected a text in UTF-8"),
    (["complete", "MODEL", "x", "--kv-scales", "row"], "error: kv_scales: 'row' beside f16, expected a type f8_e4m3 or f8_e5m2"),
    (["embed", "MODEL", "x"], "a GGUF file, expected the folder"),
])
def test_bad_input_gets_one_line(tmp_path, llama, run, words, says):
    (tmp_path / "text").write_text("some text")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    status, _, err = run(*(word.replace("FOLDER", str(tmp_path)).replace("MODEL", str(llama[0])) for word in words))
    assert status == 2 and len(err) == 1 and err[0].startswith("vkattn-lm: error: ") and says in err[0]
    assert err[0].count("expected") == 1


PHI = {"architectures": ["Phi3ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2,
       "intermediate_size": 96, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}


@pytest.mark.parametrize("files_of, says", [
    ({"config.json": "{"}, "Expecting property name"), ({"config.json": "[]"}, "config.json: holds a list, expected"),
    ({"config.json": '{"architectures": ["MixtralForCausalLM"]}'}, "'MixtralForCausalLM'"),
    ({"config.json": '{"architectures": ["LlamaForCausalLM"], "quantization_config": {}}'}, "quantization_config"),
    ({"config.json": '{"architectures": ["LlamaForCausalLM"], "hidden_act": "relu"}'}, "hidden_act: 'relu'"),
    ({"config.json": '{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": -1}'}, "num_hidden_layers: -1"),
    ({"config.json": '{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1e9}'}, "num_hidden_layers: 1000000000.0"),
    ({"config.json": "{}"}, "architectures is missing"),
    ({"config.json": '{"architectures": ["Phi3ForCausalLM"], "partial_rotary_factor": 0.75}'}, "partial_rotary_factor: 0.75"),
    ({"config.json": json.dumps({**PHI, "rope_scaling": {"type": "yarn"}})}, "'yarn' is not computed, expected default or one of"),
    ({"config.json": json.dumps({**PHI, "rope_scaling": {"type": "su", "short_factor": [1.0], "long_factor": [1.0] * 16}})},
     "short_factor: [1.0], expected a list of 16 numbers"),
    ({"config.json": json.dumps({**PHI, "architectures": ["DeepseekV2ForCausalLM"], "first_k_dense_replace": 1})},
     "first_k_dense_replace: 1: Mixture-of-experts, of the layers from there on, is not computed, expected 2"),
    ({"config.json": json.dumps({**PHI, "architectures": ["DeepseekV2ForCausalLM"], "first_k_dense_replace": 2,
                                 "kv_lora_rank": 0})}, "kv_lora_rank: 0, expected a whole number from 1"),
    ({"config.json": "{}", "model.safetensors": "x"}, "a whole safetensors file"),
])
def test_a_bad_folder_gets_one_line(tmp_path, run, files_of, says):
    safetensors = pytest.importorskip("safetensors.numpy")
    if "model.safetensors" not in files_of:
        safetensors.save_file({"x": numpy.zeros(2, "f4")}, tmp_path / "model.safetensors")
    for name, text in files_of.items():
        (tmp_path / name).write_text(text)
    status, _, err = run("complete", tmp_path, "x")
    assert status == 2 and len(err) == 1 and says in err[0]
