"""What vkattn_lm computes of folders and of GGUF files is what transformers does."""
import numpy
import pytest
from tested_packages import known

for module in ("gguf", "tokenizers", "jinja2", "safetensors", "tqdm"):
    known(module)

import gguf  # noqa: E402
import lm_cases  # noqa: E402
import lm_models  # noqa: E402
import safetensors.numpy  # noqa: E402
from vkattn_lm import files, tokenizer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # which a command would print


@pytest.mark.parametrize("name", lm_cases.CONFIGS)
@pytest.mark.parametrize("dtype, halves", [("float32", 0), ("bfloat16", 0), ("float32", 1)])
def test_a_folder_is_what_transformers_has(tmp_path, name, dtype, halves):
    transformers = known("transformers")
    if dtype == "bfloat16":
        known("ml_dtypes")
    torch, made = lm_cases.save(transformers.AutoModelForCausalLM, lm_cases.configs()[name], tmp_path)
    if dtype == "bfloat16":
        made.to(torch.bfloat16).save_pretrained(tmp_path)
        made = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = torch.arange(3, 27)[None] * 11 % 300
    with torch.no_grad():
        expected = made(tokens).logits[0].numpy()
    decoder, given = lm_cases.decoder_of(tmp_path, halves=halves), tokens[0].tolist()
    bound = 1e-9
    if lm_cases.context_with(halves).facts["half_workspaces"]:  # of float16 in three layers; a state sums what is rounded
        bound = 1e-4 if decoder.config.recurrent else 1e-5
    found = [decoder.logits(given[:20]), *(decoder.logits([token]) for token in given[20:])]
    assert max(lm_cases.nmse(each, row) for each, row in zip(found, expected[19:])) < bound
    decoder.rewind(5)
    for start, end in ((5, 12), (12, 13), (13, 24)):
        assert lm_cases.nmse(decoder.logits(given[start:end]), expected[end - 1]) < bound


def test_gemma_in_gguf_is_transformers(tmp_path):
    transformers = known("transformers")
    config = lm_cases.configs()["gemma3"]
    config.query_pre_attn_scalar, config.layer_types = 32, ["sliding_attention", "sliding_attention", "full_attention"]
    torch, made = lm_cases.save(transformers.AutoModelForCausalLM, config, tmp_path)
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
    assert lm_cases.nmse(lm_cases.decoder_of(tmp_path / "g.gguf").logits(tokens[0].tolist()), expected) < 1e-9


def test_deepseeks_cache_holds_latents(tmp_path):
    transformers = known("transformers")
    config = lm_cases.configs()["deepseek v2"]
    config.kv_lora_rank, config.qk_rope_head_dim, config.head_dim = 64, 32, 32  # in blocks of 32
    lm_cases.save(transformers.AutoModelForCausalLM, config, tmp_path)
    plain, quantised, given = lm_cases.decoder_of(tmp_path), lm_cases.decoder_of(tmp_path, kv_type="q8_0"), [i * 11 % 300 for i in range(24)]
    numbers = 3 * 32 * (64 + 32)  # of 3 layers, for 32 tokens
    assert numbers * 4 <= plain.cache_bytes < numbers * 5 and numbers * 34 / 32 <= quantised.cache_bytes < numbers * 2
    assert 1e-8 < lm_cases.nmse(quantised.logits(given), plain.logits(given)) < 1e-2


@pytest.mark.parametrize("of_latents", [False, True], ids=["one matrix", "of latents"])
@pytest.mark.parametrize("name, kind", [("deepseek v2", "F32"), ("deepseek v2", "Q8_0"), ("deepseek v2, low rank", "F32"),
                                        ("deepseek v2, yarn", "F32")])
def test_deepseek_in_gguf_is_transformers(tmp_path, name, kind, of_latents):
    transformers = known("transformers")
    config = lm_cases.configs()[name]
    config.attention_bias, config.rms_norm_eps = False, 1e-5
    if name == "deepseek v2, yarn":
        config.rope_parameters["mscale"] = config.rope_parameters["mscale_all_dim"]  # a file has one number of both
    torch, made = lm_cases.save(transformers.AutoModelForCausalLM, config, tmp_path)
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
    decoder, given, bound = lm_cases.decoder_of(tmp_path / "d.gguf"), tokens[0].tolist(), 1e-9 if kind == "F32" else 1e-6  # float16's
    assert lm_cases.nmse(decoder.logits(given[:23]), expected[22]) < bound and lm_cases.nmse(decoder.logits(given[23:]), expected[23]) < bound


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
@pytest.mark.parametrize("name, architecture", [("qwen3-next", "qwen3next"), ("qwen3.5", "qwen35"), ("kimi linear", "kimi-linear")])
def test_hybrids_in_gguf_are_transformers(tmp_path, name, architecture, kind):
    transformers = known("transformers")
    config = lm_cases.configs()[name]
    of_channels = name == "kimi linear"
    config.linear_head_dim = config.linear_value_head_dim = 32  # in blocks of 32
    config.layer_types = ["linear_attention"] * 3 + ["full_attention"]
    torch, made = lm_cases.save(transformers.AutoModelForCausalLM, config, tmp_path)
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
    decoder, given, bound = lm_cases.decoder_of(tmp_path / "h.gguf"), tokens[0].tolist(), 1e-9 if kind == "F32" else 1e-6  # float16's
    assert lm_cases.nmse(decoder.logits(given[:22]), expected[21]) < bound
    for i in (22, 23):
        assert lm_cases.nmse(decoder.logits(given[i:i + 1]), expected[i]) < bound


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_1"])
@pytest.mark.parametrize("name", ["phi3", "phi3, few tokens", "phi3, many tokens"])
def test_phi_in_gguf_is_transformers(tmp_path, name, kind):
    transformers = known("transformers")
    config = lm_cases.configs()[name]
    torch, made = lm_cases.save(transformers.AutoModelForCausalLM, config, tmp_path)
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
    decoder, given = lm_cases.decoder_of(tmp_path / "p.gguf"), tokens[0].tolist()
    assert lm_cases.nmse(decoder.logits(given[:23]), expected[22]) < 1e-9 and lm_cases.nmse(decoder.logits(given[23:]), expected[23]) < 1e-9


def test_phis_special_tokens_take_the_white_space_after_them():
    pieces = ["<unk>", "<s>", "<|end|>", *(f"<0x{i:02X}>" for i in range(256)), "▁", "a"]
    facts = {"general.architecture": "phi3", "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces,
             "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, 1, 1], "tokenizer.ggml.scores": [0.0] * len(pieces),
             "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.add_space_prefix": False}
    for architecture, expected in (("phi3", ["<s>", "a", "<|end|>", "a"]), ("llama", ["<s>", "a", "<|end|>", "<0x0A>", "a"])):
        read = tokenizer.from_gguf(files.Facts("here", {**facts, "general.architecture": architecture}))
        assert [pieces[i] for i in read.encode("a<|end|>\na")] == expected
