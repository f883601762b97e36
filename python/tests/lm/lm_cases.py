"""What the tests of vkattn_lm share: decoders of files, and the models of transformers that theirs are compared with."""
import functools

import gguf
import lm_models
import vkattn
from tested_packages import known
from vkattn_lm import files, model


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
