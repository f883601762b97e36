"""Models of Hugging Face's transformers with random weights: vkattn's attention beside the eager one."""
import copy

import pytest

import vkattn
from tested_packages import known

torch = known("torch")
transformers = known("transformers")

SIZES = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
MODELS = {
    "grouped heads and sliding windows": lambda: transformers.MistralConfig(**SIZES, sliding_window=5),
    "grouped heads, every key": lambda: transformers.LlamaConfig(**SIZES),
    "sinks, windows in every second layer": lambda: transformers.GptOssConfig(
        **SIZES, num_local_experts=2, num_experts_per_tok=1, sliding_window=5, layer_types=["sliding_attention", "full_attention"]),
    "softcap, windows in every second layer": lambda: transformers.Gemma2Config(
        **SIZES, sliding_window=5, attn_logit_softcapping=2.0, query_pre_attn_scalar=16),
}


@pytest.fixture(scope="module", autouse=True)
def registered():
    vkattn.transformers.register()
    with torch.no_grad():
        yield


def pair_of(config, kind=transformers.AutoModelForCausalLM):
    """A model of random weights with eager attention, and the same with vkattn's."""
    torch.manual_seed(11)
    eager = kind.from_config(config, attn_implementation="eager").eval()
    for name, parameter in eager.named_parameters():  # norms' and sinks' are constants, or not set
        torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.3)
    ours = kind.from_config(copy.deepcopy(config), attn_implementation="vkattn").eval()
    ours.load_state_dict(eager.state_dict())
    assert ours.config._attn_implementation == "vkattn"
    return eager, ours


def nmse(actual, expected):
    return float(((actual.double() - expected.double()) ** 2).sum() / (expected.double() ** 2).sum())


@pytest.fixture
def calls(monkeypatch):
    """What attention is asked for, so that a test knows that it was."""
    seen, attention = [], vkattn.transformers.attention
    monkeypatch.setattr(vkattn.transformers, "attention", lambda *given, **named: seen.append(named) or attention(*given, **named))
    return seen


@pytest.mark.parametrize("name", MODELS)
def test_models_give_what_eager_attention_gives(name, calls):
    eager, ours = pair_of(MODELS[name]())
    tokens = torch.randint(2, 97, (2, 11), generator=torch.Generator().manual_seed(3))
    assert nmse(ours(tokens).logits, eager(tokens).logits) < 1e-8
    assert len(calls) == 2
    assert any(call["sinks"] is not None for call in calls) == ("sinks" in name)
    assert any(call["softcap"] == 2 for call in calls) == ("softcap" in name)
    padding = torch.ones(2, 11, dtype=torch.int64)
    padding[1, :4] = 0  # left of a shorter sequence
    outputs = [model(tokens, attention_mask=padding).logits[padding.bool()] for model in (ours, eager)]
    assert nmse(*outputs) < 1e-8


@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_generated_from_a_cache(name, calls):
    eager, ours = pair_of(MODELS[name]())
    tokens = torch.randint(2, 97, (2, 7), generator=torch.Generator().manual_seed(4))
    padding = torch.ones_like(tokens)
    padding[0, :2] = 0
    given = {"attention_mask": padding, "max_new_tokens": 6, "do_sample": False, "return_dict_in_generate": True,
             "output_logits": True}
    expected, actual = eager.generate(tokens, **given), ours.generate(tokens, **given)
    assert len(calls) == 12 and (actual.sequences == expected.sequences).all()
    assert nmse(torch.stack(actual.logits), torch.stack(expected.logits)) < 1e-8


def test_encoders_see_both_sides_and_no_padding(calls):
    config = transformers.BertConfig(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
    eager, ours = pair_of(config, transformers.AutoModel)
    tokens = torch.randint(2, 97, (2, 11), generator=torch.Generator().manual_seed(5))
    padding = torch.ones_like(tokens)
    padding[1, 6:] = 0
    for mask in (None, padding):
        chosen = torch.ones_like(tokens).bool() if mask is None else padding.bool()
        outputs = [model(tokens, attention_mask=mask).last_hidden_state[chosen] for model in (ours, eager)]
        assert nmse(*outputs) < 1e-8
    assert not any(call["is_causal"] for call in calls)


def test_biases_of_positions(calls):
    config = transformers.T5Config(vocab_size=97, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, decoder_start_token_id=0)
    eager, ours = pair_of(config, transformers.AutoModelForSeq2SeqLM)
    tokens = torch.randint(2, 97, (2, 9), generator=torch.Generator().manual_seed(6))
    padding = torch.ones_like(tokens)
    padding[0, 7:] = 0
    given = {"input_ids": tokens, "attention_mask": padding, "decoder_input_ids": tokens[:, :5]}
    assert nmse(ours(**given).logits, eager(**given).logits) < 1e-8


def test_half_precision():
    config = transformers.LlamaConfig(**SIZES, dtype="bfloat16")
    eager, ours = pair_of(config)
    tokens = torch.randint(2, 97, (1, 9), generator=torch.Generator().manual_seed(7))
    outputs = [model.to(torch.bfloat16)(tokens).logits for model in (ours, eager)]
    assert outputs[0].dtype == torch.bfloat16 and nmse(*outputs) < 1e-3


def test_what_is_not_served_is_named():
    _, ours = pair_of(transformers.LlamaConfig(**SIZES))
    tokens = torch.ones(1, 4, dtype=torch.int64)
    with torch.enable_grad(), pytest.raises(ValueError, match="query: requires a gradient, .*torch.no_grad"):
        ours(tokens)
    attend = transformers.AttentionInterface()["vkattn"]
    rows = torch.ones(1, 2, 3, 8)
    with pytest.raises(ValueError, match="output_attentions: True, expected False"):
        attend(torch.nn.Identity(), rows, rows, rows, None, output_attentions=True)


def test_contexts_of_ones_own():
    context = vkattn.Context()
    vkattn.transformers.register("vkattn_of_a_context", context=context)
    attend = transformers.AttentionInterface()["vkattn_of_a_context"]
    rows = torch.ones(1, 2, 3, 8)
    assert (attend(torch.nn.Identity(), rows, rows, rows, None)[0] == 1).all() and len(context.plans) == 1


def test_a_layer_of_bert():
    from transformers.models.bert.modeling_bert import BertLayer
    config = transformers.BertConfig(hidden_size=64, intermediate_size=96, num_attention_heads=4, attn_implementation="eager")
    module = BertLayer(config).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(2, 7, 64, generator=torch.Generator().manual_seed(8))
    layer = vkattn.Layer("encoder", module.state_dict(), embed_dim=64, num_heads=4, ffn_dim=96, activation="gelu",
                         norm_epsilon=config.layer_norm_eps)
    expected = module(x)
    assert nmse(layer(x), expected[0] if isinstance(expected, tuple) else expected) < 1e-9


def test_a_layer_of_barts_encoder():
    from transformers.models.bart.modeling_bart import BartEncoderLayer
    config = transformers.BartConfig(d_model=64, encoder_ffn_dim=96, encoder_attention_heads=4, attn_implementation="eager")
    module = BartEncoderLayer(config).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(2, 7, 64, generator=torch.Generator().manual_seed(9))
    layer = vkattn.Layer("encoder", module.state_dict(), embed_dim=64, num_heads=4, ffn_dim=96, activation="gelu")
    expected = module(x, None)
    assert nmse(layer(x), expected[0] if isinstance(expected, tuple) else expected) < 1e-9


def test_the_attention_of_llama():
    eager, _ = pair_of(transformers.LlamaConfig(**SIZES, attention_bias=True))
    attention, x = eager.model.layers[1].self_attn, torch.randn(2, 7, 64, generator=torch.Generator().manual_seed(10))
    positions = eager.model.rotary_emb(x, torch.arange(7)[None])
    causal = torch.full((7, 7), -torch.inf).triu(1)[None, None]
    expected = attention(x, position_embeddings=positions, attention_mask=causal)[0]
    sizes = {"embed_dim": 64, "num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "rope_theta": 10000.0}
    decoder_layer = eager.model.layers[1].state_dict()
    for weights, prefix in ((attention.state_dict(), ""), (eager.state_dict(), "model.layers.1.self_attn."),
                            (decoder_layer, "self_attn."),
                            ({name: weight for name, weight in decoder_layer.items() if name.startswith("self_attn.")}, "")):
        layer = vkattn.Layer("mha", weights, prefix=prefix, **sizes)
        assert nmse(layer(x, is_causal=True), expected) < 1e-9
    with pytest.raises(ValueError, match='weights: mlp.gate_proj.weight beside those of self_attn, .* see prefix="self_attn."'):
        vkattn.Layer("mha", decoder_layer, **sizes)


def test_the_attention_of_deepseek():
    config = transformers.DeepseekV3Config(
        vocab_size=97, hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
        first_k_dense_replace=1, attn_implementation="eager")
    model = transformers.DeepseekV3Model(config).eval()
    attention, x = model.layers[0].self_attn, torch.randn(2, 7, 64, generator=torch.Generator().manual_seed(12))
    for name, parameter in attention.named_parameters():
        torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.3)
    positions = model.rotary_emb(x, torch.arange(7)[None])
    causal = torch.full((7, 7), -torch.inf).triu(1)[None, None]
    expected = attention(x, position_embeddings=positions, attention_mask=causal)[0]
    layer = vkattn.Layer("mla", attention.state_dict(), embed_dim=64, num_heads=4, q_lora_rank=24, kv_lora_rank=32,
                         qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, rope_theta=10000.0, rope_interleaved=True)
    assert nmse(layer(x, is_causal=True), expected) < 1e-9


@pytest.mark.parametrize("name, interleaved", [("DeepseekV32", False), ("GlmMoeDsa", True)])
def test_the_sparse_attention_of_deepseek_and_glm(name, interleaved):
    sizes = dict(num_attention_heads=4, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
                 index_n_heads=16, index_head_dim=16, index_topk=5)
    config = getattr(transformers, name + "Config")(
        vocab_size=97, hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=1, num_key_value_heads=4,
        first_k_dense_replace=1, n_routed_experts=8, attn_implementation="eager", rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        **sizes)
    model = getattr(transformers, name + "Model")(config).eval()
    attention, x = model.layers[0].self_attn, torch.randn(2, 23, 64, generator=torch.Generator().manual_seed(13))
    for parameter_name, parameter in attention.named_parameters():
        torch.nn.init.normal_(parameter, 1.0 if "norm.weight" in parameter_name else 0.0, 0.3)
    positions = model.rotary_emb(x, torch.arange(23)[None])
    causal = torch.full((23, 23), -torch.inf).triu(1)[None, None]
    expected = attention(x, position_embeddings=positions, attention_mask=causal)[0]
    sizes["num_heads"] = sizes.pop("num_attention_heads")
    layer = vkattn.Layer("mla", attention.state_dict(), embed_dim=64, rope_theta=10000.0, rope_interleaved=True,
                         index_rope_interleaved=interleaved, **sizes)
    assert nmse(layer(x, is_causal=True), expected) < 1e-9
