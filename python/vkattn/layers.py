"""Layers with their weights on the device, and caches of earlier tokens."""
import collections
import ctypes

import numpy

from . import _abi
from .arrays import FLOATS, MASKS, as_array, broadcastable, describe, set_masks
from .calls import Call
from .context import Handle, _library, call, default_context
from .device_array import Array

_ENUMERATIONS = {"kind": _abi.LAYER_KINDS, "kv_head_mapping": _abi.KV_HEAD_MAPPINGS, "mla_form": _abi.MLA_FORMS,
                 "activation": _abi.ACTIVATIONS}


def _number(value, names, what):
    if not isinstance(value, str):
        return value
    if value not in names:
        raise ValueError(f"{what}: {value!r}, expected one of {', '.join(names)}")
    return names[value]


def _rope_scaling(kind, factors=None, **members):
    """The scaling, and what it points to: the factors of longrope."""
    scaling = _abi.RopeScaling(kind=_number(kind, _abi.ROPE_SCALINGS, "rope_scaling"), **members)
    if factors is None:
        return scaling, None
    values = (ctypes.c_float * len(factors))(*(_abi.real("factors", factor) for factor in factors))
    extension = _abi.RopeFactors(_abi.Extension(_abi.EXTENSION_ROPE_FACTORS), ctypes.addressof(values), len(values))
    scaling.next = ctypes.addressof(extension)
    return scaling, (values, extension)


def layer_config(kind, **members):
    """A vkattn_layer_config from its members by name; enumerations by their lower-case names; rope_scaling as a dict, of longrope
    with the list "factors"."""
    known = {name for name, _ in _abi.LayerConfig._fields_}
    config = _abi.LayerConfig()
    for name, value in {"kind": kind, **members}.items():
        if name not in known:
            raise TypeError(f"{name}: no member of a layer's configuration, expected one of {', '.join(sorted(known))}")
        if name == "rope_scaling":
            value, kept = _rope_scaling(**value)
            object.__setattr__(config, "_kept", kept)
        setattr(config, name, _number(value, _ENUMERATIONS.get(name, {}), name))
    return config


def _host_weight(value, name):
    array = as_array(value, name, FLOATS)
    return numpy.ascontiguousarray(array.download() if isinstance(array, Array) else array)


class Layer:
    """A layer, for instance Layer("mha", {"q_proj.weight": ...}, embed_dim=512, num_heads=8).

    weights: arrays by the names that vkattn_layer_create lists, [out, in]; uploaded once. A state_dict of PyTorch's serves.
    """

    def __init__(self, kind, weights, *, context=None, **config):
        self.context = context or default_context()
        self.config = layer_config(kind, **config)
        arrays = {name: _host_weight(array, name) for name, array in weights.items()}
        raw_weights = (_abi.Weight * max(len(arrays), 1))(*(
            _abi.Weight(name.encode(), describe(array, name), array.ctypes.data) for name, array in arrays.items()))
        raw = ctypes.c_void_p()
        call("vkattn_layer_create", self.context.raw, self.config, raw_weights, len(arrays), raw)
        self._handle = Handle(raw, "vkattn_layer_destroy", self.context.handle)
        self._plans = collections.OrderedDict()

    def __call__(self, query, key=None, value=None, *, cache=None, attn_mask=None, block_mask=None, block_size=128,
                 key_padding_mask=None, key_lengths=None, is_causal=False, window=None, causal_alignment="top_left", past_len=0,
                 residual=None, output_shape=None, out=None, kernel="auto"):
        """Computes the layer: query [B,Lq,width] in, the same shape out (output_shape where the layer changes it).

        cache: a Cache that the tokens are appended to, and attended with what it holds. residual: added to the result, of mha
        and mla. Masks, out and the kind of the result as in attention().
        """
        given = Call(self.context, (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask),
                                   ("block_mask", block_mask), ("key_padding_mask", key_padding_mask),
                                   ("key_lengths", key_lengths), ("residual", residual), ("out", out)))
        for role, array, types in (("query", query, FLOATS), ("key", key, FLOATS), ("value", value, FLOATS),
                                   ("attn_mask", attn_mask, MASKS[:3]), ("residual", residual, FLOATS)):
            if array is not None:
                given.take(role, array, types)
        for role, array, dtype in (("block_mask", block_mask, "int32"), ("key_padding_mask", key_padding_mask, "bool"),
                                   ("key_lengths", key_lengths, "int32")):
            if array is not None:
                given.take(role, array, dtype=dtype)
        for role in {"attn_mask", "block_mask"} & given.inputs.keys():
            given.inputs[role] = broadcastable(given.inputs[role], role)
        query = given.inputs["query"]
        output = given.result("output", output_shape or query.shape, query, out)
        layer_call = _abi.LayerCall(kernel=_number(kernel, _abi.KERNELS, "kernel"), past_len=past_len)
        set_masks(layer_call, is_causal, window, causal_alignment, block_size)
        for role, array in {**given.inputs, "output": output}.items():
            setattr(layer_call, role, describe(array, role))
        parents, plans = [], self._plans
        if cache is not None:  # whose plans go with it
            layer_call.cache = cache.handle.raw
            parents.append(cache.handle)
            plans = cache.plans.setdefault(self._handle, collections.OrderedDict())
        given.run("vkattn_layer_plan", layer_call, may_share=("residual",), layer=self._handle, parents=parents, plans=plans)
        return given.given_back("output")

    def cache(self, capacity, *, batch=1, key_type="f16", value_type=None):
        """An empty cache of the layer's sizes; types f32, f16, bf16, q8_0, q4_0."""
        return Cache(layer=self, capacity=capacity, batch=batch, key_type=key_type, value_type=value_type)


class Cache:
    """Keys and values of earlier tokens on the device; made by Layer.cache."""

    def __init__(self, *, layer, capacity, batch, key_type, value_type):
        key = _number(key_type, _abi.TYPES, "key_type")
        info = _abi.CacheInfo(layer=layer._handle.raw, batch=batch, capacity=capacity, key_type=key,
                              value_type=key if value_type is None else _number(value_type, _abi.TYPES, "value_type"))
        raw = ctypes.c_void_p()
        call("vkattn_cache_create", layer.context.raw, info, raw)
        self.handle, self.batch = Handle(raw, "vkattn_cache_destroy", layer.context.handle), batch
        self.plans = {}  # by layer

    @property
    def nbytes(self):
        """Bytes of device memory."""
        return _library.vkattn_cache_bytes(self.handle.raw)

    @property
    def lengths(self):
        """Tokens that each sequence holds."""
        numbers = (ctypes.c_uint32 * self.batch)()
        call("vkattn_cache_lengths", self.handle.raw, ctypes.c_uint32(len(numbers)), numbers)
        return list(numbers)

    def rewind(self, sequence, length):
        """Forgets all tokens of a sequence but its first `length`."""
        call("vkattn_cache_rewind", self.handle.raw, _abi.whole(ctypes.c_uint32, "sequence", sequence),
             _abi.whole(ctypes.c_uint32, "length", length))

    def copy_sequence(self, sequence, to, to_sequence):
        """Makes a sequence of another cache hold what this one's holds."""
        call("vkattn_cache_copy_sequence", self.handle.raw, _abi.whole(ctypes.c_uint32, "sequence", sequence),
             to.handle.raw, _abi.whole(ctypes.c_uint32, "to_sequence", to_sequence))
