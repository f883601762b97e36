"""What a layer would cost, before one is built: no device is needed."""
import ctypes
import dataclasses

from . import _abi
from .arrays import TYPES
from .handles import call


@dataclasses.dataclass(frozen=True)
class Estimate:
    """See vkattn_estimate_result for what each figure counts."""
    parameters: int
    weight_bytes: int
    cache_bytes_per_token: int
    cache_bytes: int
    prefill_projection_flops: float
    prefill_attention_flops: float
    decode_projection_flops: float
    decode_attention_flops: float
    decode_bytes: int
    decode_intensity: float
    max_context_len: int
    max_sequences: int


def config_from_name(name, d_model, num_heads):
    """The usual sizes of "mha", "mqa", "gqa-N", "mla", ... as a vkattn_layer_config."""
    config = _abi.LayerConfig()
    call("vkattn_layer_config_from_name", name.encode(), _abi.whole(ctypes.c_uint32, "d_model", d_model),
         _abi.whole(ctypes.c_uint32, "num_heads", num_heads), config)
    return config


def estimate(config, *, d_model=0, num_heads=0, weight_type="f16", cache_type=None, key_scales=None, value_scales=None, **info):
    """Estimates a layer: config a name, with d_model and num_heads, or what layer_config returns.

    key_scales, value_scales   as Layer.cache takes them, of a cache in f8_e4m3 or f8_e5m2: those of rows take room
    info: batch, prefill_len, context_len, memory_bytes, num_layers, with_biases, causal; see vkattn_estimate_info.
    """
    if isinstance(config, str):
        config = config_from_name(config, d_model, num_heads)
    weight = _abi.choose("weight_type", TYPES, weight_type)
    raw_info = _abi.EstimateInfo(weight_type=weight,
                                 cache_type=weight if cache_type is None else _abi.choose("cache_type", TYPES, cache_type),
                                 key_scaling=_abi.scaling("key_scales", key_scales)[0],
                                 value_scaling=_abi.scaling("value_scales", value_scales)[0], **info)
    result = _abi.EstimateResult()
    call("vkattn_estimate", config, raw_info, result)
    return Estimate(**{name: getattr(result, name) for name in result._kinds_})
