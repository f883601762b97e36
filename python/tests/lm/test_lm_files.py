"""Files of models: what vkattn_lm computes of them beside NumPy, and what of them it refuses."""
import json
import tracemalloc

import numpy
import pytest
from tested_packages import known

for module in ("gguf", "tokenizers", "jinja2", "safetensors", "tqdm"):
    known(module)

import gguf  # noqa: E402
import lm_cases  # noqa: E402
import lm_models  # noqa: E402
from vkattn_lm import model  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # which a command would print


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_a_gguf_file_is_numpys(tmp_path, inner, kind):
    bound = 1e-10
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    held = lm_models.write_gguf(tmp_path / "model.gguf", weights, lm_models.SIZES, kind)
    tokens = inner.encode("the cat sat on the log").ids
    expected = lm_models.logits_of(held, lm_models.SIZES, tokens)
    decoder = lm_cases.decoder_of(tmp_path / "model.gguf")
    assert decoder.weight_bytes < (tmp_path / "model.gguf").stat().st_size  # blocks stay blocks
    assert lm_cases.nmse(decoder.logits(tokens[:4]), expected[3]) < bound
    for i in range(4, len(tokens)):  # one by one, from the cache
        assert lm_cases.nmse(decoder.logits(tokens[i:i + 1]), expected[i]) < bound
    decoder.rewind(2)
    assert decoder.length == 2 and lm_cases.nmse(decoder.logits(tokens[2:]), expected[-1]) < bound


def test_neighbours_of_one_type_are_one_product(tmp_path, inner):
    """Of queries, keys and values, some of which files hold in wider types."""
    weights, tokens = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES), inner.encode("the cat sat").ids
    dispatches = []
    for number, kinds in enumerate(({}, {"attn_v": "Q8_0"}, {"attn_q": "Q8_0"}, {"attn_k": "Q8_0"})):
        path = tmp_path / f"{number}.gguf"
        held = lm_models.write_gguf(path, weights, lm_models.SIZES, "Q5_0", kinds=kinds)
        decoder = lm_cases.decoder_of(path)
        decoder.logits(tokens[:-1])
        assert lm_cases.nmse(decoder.logits(tokens[-1:]), lm_models.logits_of(held, lm_models.SIZES, tokens)[-1]) < 1e-10
        dispatches.append(decoder._step._program.report.dispatches)
    layers = lm_models.SIZES["layers"]
    assert [count - dispatches[0] for count in dispatches] == [0, layers, layers, 2 * layers]


def test_factors_of_rope_are_numpys(tmp_path, inner):
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    weights["rope_freqs.weight"] = numpy.linspace(1, 8, 16, dtype="f4")
    held = lm_models.write_gguf(tmp_path / "model.gguf", weights, lm_models.SIZES)
    tokens = inner.encode("the cat sat on the log").ids
    assert lm_cases.nmse(lm_cases.decoder_of(tmp_path / "model.gguf").logits(tokens), lm_models.logits_of(held, lm_models.SIZES, tokens)[-1]) < 1e-10


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
    assert lm_cases.nmse(lm_cases.decoder_of(tmp_path / "model.gguf").logits(tokens), lm_models.logits_of(held, lm_models.SIZES, tokens)[-1]) < 1e-10


def test_a_factor_of_a_scaling_of_none_is_none(tmp_path, inner):
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    held = lm_models.write_gguf(tmp_path / "model.gguf", weights, lm_models.SIZES, more={
        "add_rope_scaling_factor": 4.0, "add_rope_scaling_type": gguf.RopeScalingType.NONE})
    tokens = inner.encode("the cat sat on the log").ids
    assert lm_cases.nmse(lm_cases.decoder_of(tmp_path / "model.gguf").logits(tokens), lm_models.logits_of(held, lm_models.SIZES, tokens)[-1]) < 1e-10


def test_split_files_are_read_together(tmp_path, inner):
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    weights["output.weight"] = weights["token_embd.weight"][::-1].copy()
    held = lm_models.write_gguf(tmp_path / "whole.gguf", weights, lm_models.SIZES)
    expected = lm_cases.decoder_of(tmp_path / "whole.gguf").logits([5, 6, 7])
    assert held["output.weight"].shape == weights["output.weight"].shape
    for path in lm_cases.split(tmp_path, weights, 3):
        assert (lm_cases.decoder_of(path).logits([5, 6, 7]) == expected).all()


@pytest.mark.parametrize("harm, says", [
    (lambda paths: paths[1].unlink(), "model-00002-of-00003.gguf: no such file, expected all 3 parts beside model-00001-of-00003.gguf"),
    (lambda paths: paths[0].rename(paths[0].with_name("model.gguf")),
     "model.gguf: is part 1 of a split file, expected a name that ends in -00001-of-00003.gguf"),
    (lambda paths: paths[1].write_bytes(paths[2].read_bytes()), "model-00002-of-00003.gguf: split.no: 2, expected 1"),
    (lambda paths: paths[2].write_bytes(b"GGUF"), "model-00003-of-00003.gguf: "),
])
def test_split_files_that_are_not_whole_are_refused_by_name(tmp_path, inner, run, harm, says):
    paths = lm_cases.split(tmp_path, lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES), 3)
    harm(paths)
    status, _, err = run("complete", paths[0] if paths[0].exists() else tmp_path / "model.gguf", "x")
    assert status == 2 and len(err) == 1 and says in err[0] and err[0].count("expected") == 1


def test_split_files_hold_each_weight_once(tmp_path, inner, run):
    weights = lm_models.weights_of(inner.get_vocab_size(), **lm_models.SIZES)
    paths = lm_cases.split(tmp_path, weights, 2)
    lm_cases.split(tmp_path, weights, 2, lambda number, more: {**more, "split.tensors.count": 7})
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
    assert lm_cases.nmse(lm_cases.decoder_of(path).logits(tokens), lm_models.logits_of(held, lm_models.SIZES, tokens)[-1]) < 1e-10


def test_weights_are_loaded_a_part_at_a_time(tmp_path, inner):
    sizes = {**lm_models.SIZES, "layers": 1, "hidden": 65536}
    path = tmp_path / "wide.gguf"
    lm_models.write_gguf(path, lm_models.weights_of(inner.get_vocab_size(), **sizes), sizes)
    lm_cases.decoder_of(path)  # what is made once is not counted
    tracemalloc.start()
    decoder = lm_cases.decoder_of(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 48e6 and most < path.stat().st_size * 0.3
    assert decoder.weight_bytes < path.stat().st_size


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
