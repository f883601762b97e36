"""The architectures that are computed: what differs between them is data."""
from __future__ import annotations

import dataclasses

from . import rope as rope_of
from .errors import ModelError, require
from .facts import Facts


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A family of decoders.

    classes        its names in config.json
    interleaved    whether GGUF's rows of q and k are in the order of RoPE on pairs (2i, 2i+1)
    qkv_bias       whether q, k and v must have a bias; where not, they may
    qk_norm        RMSNorm of each head of q and k
    post_norms     a norm after attention and after the feed-forward, before they are added
    activation     of the gate: silu or gelu_tanh
    norm_offset    what folders leave out of norms' weights (GGUF has it in them)
    scaled         embeddings are multiplied by sqrt(width)
    local_theta, pattern   layers but every pattern-th have a window, and this base of RoPE
    windowed       all layers have the window that a GGUF file says, if it says one
    fused          q, k and v are one matrix, and gate and up are one
    latent         DeepSeek's multi-head latent attention
    scalings       of RoPE that folders may ask for
    rotary_part    of a head that RoPE rotates, where a model does not say it; 0: it rotates all of every head
    positions      whether attention knows them, by RoPE
    gated          attention's result is multiplied by the sigmoid of a gate, which lies with each head of q
    recurrent      layers without softmax attention: "gated_delta" of Qwen3-Next, "by_channel" of Kimi Linear; "" for none
    forward_norm   the name of the norm before the feed-forward
    """
    classes: tuple
    interleaved: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    activation: str = "silu"
    norm_offset: float = 0.0
    scaled: bool = False
    local_theta: float = 0.0
    pattern: int = 0
    windowed: bool = False
    fused: bool = False
    latent: bool = False
    scalings: tuple = ("linear", "llama3", "yarn")
    rotary_part: float = 0.0
    positions: bool = True
    gated: bool = False
    recurrent: str = ""
    forward_norm: str = "ffn_norm"


ARCHITECTURES = {  # by general.architecture of GGUF
    "llama": Architecture(("LlamaForCausalLM", "MistralForCausalLM"), interleaved=True),
    "qwen2": Architecture(("Qwen2ForCausalLM",), qkv_bias=True),
    "qwen3": Architecture(("Qwen3ForCausalLM",), qk_norm=True),
    "gemma3": Architecture(("Gemma3ForCausalLM",), qk_norm=True, post_norms=True, activation="gelu_tanh", norm_offset=1.0,
                           scaled=True, local_theta=10000.0, pattern=6),
    "phi3": Architecture(("Phi3ForCausalLM",), fused=True, windowed=True, scalings=("longrope", "su")),
    "qwen3next": Architecture(("Qwen3NextForCausalLM",), qk_norm=True, norm_offset=1.0, rotary_part=0.25, gated=True,
                              recurrent="gated_delta", forward_norm="post_attention_norm", scalings=("yarn",)),
    "qwen35": Architecture(("Qwen3_5ForCausalLM",), qk_norm=True, norm_offset=1.0, rotary_part=0.25, gated=True,
                           recurrent="gated_delta", forward_norm="post_attention_norm", scalings=("yarn",)),
    "kimi-linear": Architecture(("KimiLinearForCausalLM",), latent=True, positions=False, recurrent="by_channel", scalings=()),
    "deepseek2": Architecture(("DeepseekV2ForCausalLM",), latent=True, scalings=("yarn",)),
}
_ACTIVATIONS = {"silu": ("silu",), "gelu_tanh": ("gelu_pytorch_tanh",)}


@dataclasses.dataclass(frozen=True)
class Latent:
    """The sizes of multi-head latent attention, by Layer's names. q_lora_rank: 0 for none."""
    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


@dataclasses.dataclass(frozen=True)
class Linear:
    """The sizes of layers that keep a state. kernel: tokens that the convolution sees; by_channel: decays are."""
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    by_channel: bool

    @property
    def channels(self):
        """Those that the convolution takes."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclasses.dataclass(frozen=True)
class Config:
    """The sizes of a decoder. windows: of each layer, 0 for none; ropes: of each layer; recurrent: which layers keep a state, of the
    sizes of linear; rotary_dim: elements of a head that RoPE rotates, 0 for all; tiled_values, rates_given: how a file has the weights
    of those that keep a state, see recurrent.py."""
    name: str
    architecture: Architecture
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    context: int
    epsilon: float
    scale: float | None
    interleaved: bool
    windows: tuple
    ropes: tuple
    norm_offset: float
    embedding_scale: float
    latent: Latent | None = None
    recurrent: tuple = ()
    linear: Linear | None = None
    rotary_dim: int = 0
    tiled_values: bool = False
    rates_given: bool = False

    @property
    def layers(self):
        return len(self.windows)

    @property
    def widest(self):
        """The most numbers that a token has anywhere in a layer."""
        of_head = self.latent.kv_lora_rank + self.latent.qk_rope_head_dim if self.latent else self.head_dim
        of_linear = self.linear.channels + self.linear.value_heads * self.linear.value_dim if self.linear else 0
        return max(self.width, self.hidden, self.heads * of_head, of_linear)


# What GGUF files say besides of an architecture, and what has nothing to do with numbers, or is looked at where it is used
_GGUF_KNOWN = {
    "block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "attention.sliding_window", "attention.sliding_window_pattern", "rope.dimension_count", "rope.freq_base",
    "rope.freq_base_swa", "rope.scale_linear", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
    "rope.scaling.attn_factor", "rope.scaling.finetuned", "expert_count", "expert_used_count", "attention.causal"}
# The same of DeepSeek's; those of experts are of no layer where all are dense
_GGUF_KNOWN_OF_LATENT = _GGUF_KNOWN | {
    "attention.q_lora_rank", "attention.kv_lora_rank", "attention.key_length_mla", "attention.value_length_mla",
    "rope.scaling.yarn_log_multiplier", "leading_dense_block_count", "expert_feed_forward_length", "expert_shared_count",
    "expert_weights_scale", "expert_weights_norm", "expert_gating_func", "expert_group_count", "expert_group_used_count"}
# Those of hybrids; sections of RoPE are the same for text
_GGUF_KNOWN_OF_RECURRENT = {
    "ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size", "kda.head_dim",
    "full_attention_interval", "rope.dimension_sections", "nextn_predict_layers"}


def from_gguf(facts):
    """The Config of a GGUF file's facts."""
    name = facts.words("general.architecture")
    architecture = _named(facts.where, "general.architecture", name, ARCHITECTURES)
    prefix, known = f"{name}.", _GGUF_KNOWN_OF_LATENT if architecture.latent else _GGUF_KNOWN
    if architecture.recurrent:
        facts.refuse(prefix + "expert_count", 0)
        facts.refuse(prefix + "nextn_predict_layers", 0)
        known = known | _GGUF_KNOWN_OF_RECURRENT
    for key in facts.values:
        if key.startswith(prefix) and key[len(prefix):] not in known:
            raise ModelError(f"{facts.where}: {key} is not computed, expected a model without it")
    if not architecture.latent:
        facts.refuse(prefix + "expert_count", 0)
    facts.refuse(prefix + "attention.causal", True)
    facts, recurrent, linear = _gguf_recurrent(facts, prefix, architecture)
    layers, width, heads, kv_heads, head_dim = _sizes(facts, *(prefix + key for key in (
        "block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "attention.key_length")))
    latent = _gguf_latent(facts, prefix, layers, heads) if architecture.latent else None
    if latent:
        head_dim = latent.qk_rope_head_dim
        factor = rope_of.gguf_score_factor(facts, prefix) if architecture.positions else 1.0
        scale = (latent.qk_nope_head_dim + head_dim) ** -0.5 * factor
    else:
        facts.refuse(prefix + "attention.value_length", head_dim)
        if not architecture.rotary_part:
            facts.refuse(prefix + "rope.dimension_count", head_dim)
        scale = _gemma_scale(layers, width, heads) if name == "gemma3" else None
    rope, local = rope_of.gguf(facts, prefix, architecture) if architecture.positions else (rope_of.Rope(0.0, None),) * 2
    windowed = _pattern(facts, prefix + "attention.sliding_window_pattern", architecture, layers)
    window = facts.whole(prefix + "attention.sliding_window") if any(windowed) else 0
    facts.refuse(prefix + "attention.sliding_window", window, 0)
    return _config(name, architecture, layers, width, heads, kv_heads, head_dim, windowed, window, rope, local,
                   hidden=facts.whole(prefix + "feed_forward_length"), context=facts.whole(prefix + "context_length"),
                   epsilon=facts.real(prefix + "attention.layer_norm_rms_epsilon"), interleaved=architecture.interleaved,
                   norm_offset=0.0, scale=scale, latent=latent, recurrent=recurrent, linear=linear,
                   rotary_dim=rope_of.gguf_rotary_dim(facts, prefix, architecture, head_dim), tiled_values=name == "qwen35",
                   rates_given=True)


def from_folder(facts):
    """The Config of a config.json's facts."""
    given = facts.list_of("architectures", str)
    known = {each: name for name, architecture in ARCHITECTURES.items() for each in architecture.classes}
    name = _named(facts.where, "architectures", given[0] if given else None, known)
    architecture = ARCHITECTURES[name]
    facts.refuse("hidden_act", *_ACTIVATIONS[architecture.activation])
    facts.refuse("hidden_activation", *_ACTIVATIONS[architecture.activation])
    facts.refuse("quantization_config")
    if not architecture.rotary_part:
        facts.refuse("partial_rotary_factor", 1)
    facts.refuse("attn_logit_softcapping")
    facts.refuse("final_logit_softcapping")
    facts.refuse("use_bidirectional_attention", False)
    layers, width, heads, kv_heads, head_dim = _sizes(
        facts, "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    recurrent, linear = _folder_recurrent(facts, architecture, layers)
    windowed = [False] * layers if linear else _folder_windows(facts, architecture, layers)
    latent = _folder_latent(facts, layers, heads) if architecture.latent else None
    head_dim = latent.qk_rope_head_dim if latent else head_dim
    rope, local = rope_of.folder(facts, architecture, head_dim) if architecture.positions else (rope_of.Rope(0.0, None),) * 2
    scale = facts.real("query_pre_attn_scalar", 256.0) ** -0.5 if name == "gemma3" else None
    if latent:
        scale = (latent.qk_nope_head_dim + head_dim) ** -0.5 * (rope_of.score_factor(facts) if architecture.positions else 1.0)
    return _config(name, architecture, layers, width, heads, kv_heads, head_dim, windowed,
                   facts.whole("sliding_window") if any(windowed) else 0, rope, local,
                   hidden=facts.whole("intermediate_size"),
                   context=facts.whole("max_position_embeddings", facts.raw("model_max_length")),
                   epsilon=facts.real("rms_norm_eps"), interleaved=False, norm_offset=architecture.norm_offset,
                   scale=scale, latent=latent, recurrent=recurrent, linear=linear,
                   rotary_dim=rope_of.rotary_dim(facts, architecture, head_dim))


def _named(where, fact, value, known):
    if value not in known:
        raise ModelError(f"{where}: {fact}: {str(value)[:80]!r}, expected one of {', '.join(known)}")
    return known[value]


def _sizes(facts, layers, width, heads, kv_heads, head_dim):
    layers, width, heads = facts.whole(layers, most=4096), facts.whole(width), facts.whole(heads, most=65536)
    of_kv = facts.whole(kv_heads, heads, most=heads)
    if heads % of_kv:
        raise ModelError(f"{facts.where}: {kv_heads}: {of_kv}, expected a number that divides {heads} heads")
    return layers, width, heads, of_kv, facts.whole(head_dim, max(width // heads, 1), most=65536)


def _config(name, architecture, layers, width, heads, kv_heads, head_dim, windowed, window, rope, local, **more):
    return Config(name=name, architecture=architecture, width=width, heads=heads, kv_heads=kv_heads, head_dim=head_dim,
                  windows=tuple(window if each else 0 for each in windowed),
                  ropes=tuple(local if each else rope for each in windowed),
                  embedding_scale=width ** 0.5 if architecture.scaled else 1.0, **more)


def _gemma_scale(layers, width, heads):
    """GGUF does not hold it: of Gemma 3 the model of 27B alone, of 62 layers, has another than 1/sqrt(head_dim)."""
    return (width / heads) ** -0.5 if layers == 62 else None


def _pattern(facts, key, architecture, layers):
    """Which layers have a window: as a list of the file says, else all but every so-manieth, or all where there is one."""
    if architecture.windowed:
        return [facts.raw(key.removesuffix("_pattern"), 0) != 0] * layers
    if isinstance(facts.raw(key), list):
        windowed = [bool(each) for each in facts.list_of(key, int)]
        if len(windowed) != layers:
            raise ModelError(f"{facts.where}: {key}: {len(windowed)} layers, expected {layers}")
        return windowed
    every = facts.whole(key, architecture.pattern or None, least=1) if architecture.pattern or key in facts else 0
    return [every > 0 and (i + 1) % every != 0 for i in range(layers)]


def _folder_windows(facts, architecture, layers):
    kinds = ("full_attention", "sliding_attention")
    if "layer_types" in facts:
        types = facts.list_of("layer_types", str)
        other = next((each for each in types if each not in kinds), None)
        if other is not None or len(types) != layers:
            raise ModelError(f"{facts.where}: layer_types: {len(types)} with {other!r}, expected {layers} of {' and '.join(kinds)}")
        return [each == kinds[1] for each in types]
    if architecture.pattern:
        return _pattern(facts, "sliding_window_pattern", architecture, layers)
    windowed = "sliding_window" in facts and facts.flag("use_sliding_window", True)
    if windowed and "max_window_layers" in facts and facts.whole("max_window_layers", least=0) > 0:
        raise ModelError(f"{facts.where}: max_window_layers without layer_types is not computed, expected layer_types")
    return [windowed] * layers


def _check_dense(facts, key, layers):
    """Layers without experts alone are computed."""
    dense = facts.whole(key, 0, least=0)
    if dense < layers:
        raise ModelError(f"{facts.where}: {key}: {dense}: Mixture-of-experts, of the layers from there on, is not computed, "
                         f"expected {layers}, the number of layers")


_UNNAMED = {  # what the package gguf has no names for, of a layer
    "linear_attn.dt_bias": "ssm_dt.bias", "self_attn.dt_bias": "ssm_dt.bias",
    **{f"{block}.{part}_proj.weight": f"ffn_{part}.weight" for block in ("mlp", "block_sparse_moe") for part in ("gate", "up", "down")}}


def names_in_gguf(config):
    """A function of the name of a folder's weight that gives the one that it has here: GGUF's; what has none there keeps its own."""
    gguf = require("gguf", "gguf")
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == config.name)
    table = gguf.get_tensor_name_map(arch, config.layers)

    def name_of(own):
        layer, _, part = own.removeprefix("model.layers.").partition(".")
        unnamed = f"blk.{layer}.{_UNNAMED[part]}" if part in _UNNAMED and own.startswith("model.layers.") else own
        return table.get_name(own, try_suffixes=(".weight", ".bias")) or unnamed
    return name_of


def _folder_recurrent(facts, architecture, layers):
    """(which layers keep a state, their sizes); ((), None) for none."""
    if not architecture.recurrent:
        return (), None
    _check_without_experts(facts, layers)
    group = facts.inside("linear_attn_config")  # of Kimi Linear's own files
    if architecture.recurrent == "by_channel":
        facts.refuse("mla_use_nope", True)
        group.refuse("gate_lower_bound")
    else:
        facts.refuse("attn_output_gate", True)
        facts.refuse("output_gate_type", "silu", "swish")
    kinds, given = ("linear_attention", "full_attention"), facts.list_of("layer_types", str, [])
    if "full_attn_layers" in group:
        of_keys = set(group.list_of("full_attn_layers", int))
        given = [kinds[i + 1 in of_keys] for i in range(layers)]
    elif not given:
        every = facts.whole("full_attention_interval", 4)
        given = [kinds[(i + 1) % every == 0] for i in range(layers)]
    other = next((each for each in given if each not in kinds), None)
    if other is not None or len(given) != layers:
        raise ModelError(f"{facts.where}: layer_types: {len(given)} with {other!r}, expected {layers} of {' and '.join(kinds)}")
    if architecture.recurrent == "by_channel":
        heads = group.whole("num_heads", facts.raw("linear_num_heads"), most=65536)
        size = group.whole("head_dim", facts.raw("linear_head_dim"), most=512)
        kernel = group.whole("short_conv_kernel_size", facts.raw("linear_conv_kernel_dim"), least=2, most=4)
        return _recurrent(facts, given, Linear(heads, heads, size, size, kernel, True))
    sizes = {f"{part}_{ours}": facts.whole(f"linear_{'num_' if ours == 'heads' else ''}{part}_{theirs}", most=65536)
             for part in ("key", "value") for ours, theirs in (("heads", "heads"), ("dim", "head_dim"))}
    return _recurrent(facts, given, Linear(**sizes, kernel=facts.whole("linear_conv_kernel_dim", least=2, most=4), by_channel=False))


def _gguf_recurrent(facts, prefix, architecture):
    """(the facts, with one number of K's and V's heads; which layers keep a state, their sizes); (facts, (), None) for none."""
    if not architecture.recurrent:
        return facts, (), None
    layers, key = facts.whole(prefix + "block_count", most=4096), prefix + "attention.head_count_kv"
    kernel = facts.whole(prefix + "ssm.conv_kernel", least=2, most=4)
    if architecture.recurrent == "by_channel":  # whose layers without K and V are those
        heads = facts.list_of(key, int)
        of_rows = {each for each in heads if each != 0}
        if len(heads) != layers or len(of_rows) != 1:
            raise ModelError(f"{facts.where}: {key}: {len(heads)} of {sorted(of_rows)}, expected {layers}, of one number and 0")
        facts = Facts(facts.where, {**facts.values, key: of_rows.pop()})
        size, count = facts.whole(prefix + "kda.head_dim", most=512), facts.whole(prefix + "attention.head_count", most=65536)
        kinds = ["full_attention" if each else "linear_attention" for each in heads]
        return facts, *_recurrent(facts, kinds, Linear(count, count, size, size, kernel, True))
    every = facts.whole(prefix + "full_attention_interval", 4)
    kinds = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(layers)]
    key_heads, value_heads = (facts.whole(prefix + f"ssm.{each}", most=65536) for each in ("group_count", "time_step_rank"))
    inner = facts.whole(prefix + "ssm.inner_size")
    if inner % value_heads:
        raise ModelError(f"{facts.where}: {prefix}ssm.inner_size: {inner}, expected a multiple of ssm.time_step_rank {value_heads}")
    return facts, *_recurrent(facts, kinds, Linear(key_heads, value_heads, facts.whole(prefix + "ssm.state_size", most=512),
                                                   inner // value_heads, kernel, False))


def _recurrent(facts, kinds, linear):
    if linear.value_heads % linear.key_heads:
        raise ModelError(f"{facts.where}: {linear.value_heads} value heads of linear attention, expected a multiple of its "
                         f"{linear.key_heads} key heads")
    if "full_attention" not in kinds:
        raise ModelError(f"{facts.where}: no layer has softmax attention, expected at least one")
    return tuple(kind == "linear_attention" for kind in kinds), linear


def _check_without_experts(facts, layers):
    """Of a folder of a hybrid."""
    if facts.raw("num_experts", 0) == 0 or "num_experts" not in facts:
        return
    dense = set(facts.list_of("mlp_only_layers", int, []))
    if "mlp_layer_types" in facts:
        dense = {i for i, kind in enumerate(facts.list_of("mlp_layer_types", str)) if kind == "dense"}
    elif "first_k_dense_replace" in facts:
        dense = set(range(facts.whole("first_k_dense_replace", least=0)))
    sparse = next((i for i in range(layers) if i not in dense), None)
    if sparse is not None:
        raise ModelError(f"{facts.where}: num_experts: {facts.raw('num_experts')}: Mixture-of-experts, of layer {sparse}, is not "
                         "computed, expected dense layers alone")


def _gguf_latent(facts, prefix, layers, heads):
    """Of DeepSeek V2's attention, and of Kimi Linear's. Newer files speak of its latents as the one head of K and V that all others
    share."""
    if prefix == "deepseek2.":
        _check_dense(facts, prefix + "leading_dense_block_count", layers)
    key = prefix + "attention."
    rank, rotated = facts.whole(key + "kv_lora_rank", most=65536), facts.whole(prefix + "rope.dimension_count", most=65536)
    of_latents = key + "key_length_mla" in facts
    facts.refuse(key + "head_count_kv", 1 if of_latents else heads, heads)
    if of_latents:
        facts.refuse(key + "key_length", rank + rotated)
        facts.refuse(key + "value_length", rank)
    ending = "_length_mla" if of_latents else "_length"
    return Latent(q_lora_rank=facts.whole(key + "q_lora_rank", most=65536) if key + "q_lora_rank" in facts else 0,
                  kv_lora_rank=rank, qk_rope_head_dim=rotated, v_head_dim=facts.whole(key + "value" + ending, most=65536),
                  qk_nope_head_dim=facts.whole(key + "key" + ending, least=rotated + 1, most=65536) - rotated)


def _folder_latent(facts, layers, heads):
    """Of DeepSeek V2's attention, and of Kimi Linear's."""
    if ARCHITECTURES["deepseek2"].classes[0] in facts.raw("architectures"):
        _check_dense(facts, "first_k_dense_replace", layers)
    facts.refuse("num_key_value_heads", heads)
    sizes = {name: facts.whole(name, most=65536) for name in (
        "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}
    return Latent(q_lora_rank=facts.whole("q_lora_rank") if "q_lora_rank" in facts else 0, **sizes)
