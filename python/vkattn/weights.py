"""Weights of a layer by its own names, from those of PyTorch's modules and of Hugging Face's models."""
import re

import numpy

from .arrays import WEIGHTS, as_array
from .device_array import Array

_MHA = {  # a part of a name, from its beginning to .weight or .bias: the layer's own
    "o_proj": "out_proj",                                                        # Llama and models like it
    "query": "q_proj", "key": "k_proj", "value": "v_proj", "dense": "out_proj",  # BERT's attention.self, attention.output
}
_SELF_ATTENTION = {f"self_attn.{other}": f"self_attn.{own}" for other, own in _MHA.items()}
_NAMES = {
    "mha": _MHA,
    "encoder_layer": {
        **_SELF_ATTENTION,
        "linear1": "ffn.fc1", "linear2": "ffn.fc2",                              # torch.nn.TransformerEncoderLayer
        "attention.self.query": "self_attn.q_proj", "attention.self.key": "self_attn.k_proj",
        "attention.self.value": "self_attn.v_proj", "attention.output.dense": "self_attn.out_proj",
        "attention.output.LayerNorm": "norm1", "intermediate.dense": "ffn.fc1", "output.dense": "ffn.fc2",
        "output.LayerNorm": "norm2",                                             # BERT
        "self_attn_layer_norm": "norm1", "fc1": "ffn.fc1", "fc2": "ffn.fc2", "final_layer_norm": "norm2",  # BART
    },
    "mla": {  # DeepSeek of transformers
        "q_proj": "wq", "q_a_proj": "wq_a", "q_a_layernorm": "q_norm", "q_b_proj": "wq_b", "kv_a_proj_with_mqa": "wkv_a",
        "kv_a_layernorm": "kv_norm", "kv_b_proj": "wkv_b", "o_proj": "wo"},
}
_PACKED = re.compile(r"(.*\.)?in_proj_(weight|bias)")       # of torch.nn.MultiheadAttention: Q, K and V, one below the other
_SEPARATE = re.compile(r"(.*\.)?([qkv]_proj)_(weight)")     # the same where sizes of keys or values differ
_NO_WEIGHT = re.compile(r"(.*\.)?rotary_emb\.inv_freq")     # what older models keep beside their weights


def layer_weights(kind, weights, prefix=""):
    """The weights of a layer by the names that vkattn_layer_create lists, as contiguous NumPy arrays, and Arrays where such
    are given.

    kind     the layer's: of mha, encoder_layer and mla other names are known, of the rest only their own
    weights  arrays by name, perhaps a state_dict: of torch.nn.MultiheadAttention and torch.nn.TransformerEncoderLayer, or of
             the attention of Llama and models like it (mha), a layer of BERT or of BART's encoder (encoder_layer), the attention of
             DeepSeek (mla) as Hugging Face's transformers name them
    prefix   only the weights whose names begin with it are taken, without it: "model.layers.0.self_attn." of a whole model
    Raises ValueError for what is no part of the layer, and TypeError for types that the library has not.
    """
    chosen = {name[len(prefix):]: value for name, value in weights.items() if name.startswith(prefix)}
    if not chosen and weights:
        raise ValueError(f"prefix: {prefix!r}, expected the beginning of a weight's name, of which {next(iter(weights))} is one")
    if kind in ("mha", "mla"):
        chosen = _inside_self_attention(chosen)
    named = {}
    for name, value in chosen.items():
        if _NO_WEIGHT.fullmatch(name):
            continue
        for own, array in _own(name, as_array(value, name, WEIGHTS), _NAMES.get(kind, {})):
            if own in named:
                raise ValueError(f"{name}: is {own}, which is given by another name too, expected one of them")
            named[own] = _bindable(array) if isinstance(array, Array) else numpy.ascontiguousarray(array)
    return named


def _bindable(array):
    """An Array whose numbers lie one after the other from where a binding may begin: itself, or a copy."""
    array = array.contiguous()
    if array.bound_offset == 0:
        return array
    copy = array.context.empty(array.shape, array.dtype)
    array.context.convert(array, copy)
    return copy


def _inside_self_attention(weights):
    """The weights of the attention of a model's layer, where there is nothing besides."""
    inside = {name: value for name, value in weights.items() if name.startswith("self_attn.")}
    if inside and len(inside) < len(weights):
        other = next(name for name in weights if name not in inside)
        raise ValueError(f'weights: {other} beside those of self_attn, expected these alone: see prefix="self_attn."')
    return {name[len("self_attn."):]: value for name, value in inside.items()} or weights


def _own(name, array, names):
    """(the layer's own name, array) of a weight; several where it is packed."""
    packed, separate = _PACKED.fullmatch(name), _SEPARATE.fullmatch(name)
    if packed and names:
        if array.shape[0] % 3:
            raise ValueError(f"{name}: shape {list(array.shape)}, expected the rows of Q, K and V, as many of each")
        rows = array.shape[0] // 3
        return [(f"{packed[1] or ''}{part}.{packed[2]}", array[i * rows:(i + 1) * rows])
                for i, part in enumerate(("q_proj", "k_proj", "v_proj"))]
    if separate and names:
        return [(f"{separate[1] or ''}{separate[2]}.{separate[3]}", array)]
    module, _, parameter = name.rpartition(".")
    return [(f"{names[module]}.{parameter}" if module in names else name, array)]
