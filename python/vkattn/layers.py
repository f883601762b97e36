"""Layers with their weights on the device, and caches of earlier tokens."""
import collections
import contextlib
import ctypes
import inspect
import types

import numpy

from . import _abi
from .arrays import FLOATS, MASKS, broadcastable, checked_bounds, describe, dtype_of, is_contiguous, set_masks
from .calls import Call
from .compiled import outside_graphs
from .context import default_context
from .device_array import Array
from .errors import VkattnError
from .handles import Handle, call, library, type_infos
from .operators import rope_scaling_of
from .weights import layer_weights

_STORED = {name: info.type for name, info in type_infos().items() if info.cache}
_CACHE_TYPES = tuple(_STORED)
_STORED.update(float32=_STORED["f32"], float16=_STORED["f16"], bfloat16=_STORED["bf16"])
_FLOAT_TYPES = {name: _STORED[name] for name in ("float32", "float16", "bfloat16")}


def layer_config(kind, **members):
    """A vkattn_layer_config from its members by name.

    kind     a layer's: see Layer
    members  num_heads, embed_dim and the rest, as layers.h lists them for the kind; enumerations by their lower-case names
             (activation="gelu"), rope_scaling as a dict of its members, of longrope
             with the list "factors"; rope_sections as a list, of pairs of each stream of positions; index_n_heads, index_head_dim, index_topk and index_rope_interleaved give mla and
             mla_block an indexer
    """
    config = _abi.LayerConfig()
    for name, value in {"kind": kind, **members}.items():
        if name not in config._kinds_:
            raise TypeError(f"{name}: no member of a layer's configuration, expected one of {', '.join(sorted(config._kinds_))}")
        if name == "rope_scaling":
            value = rope_scaling_of(value)
        setattr(config, name, value)
    return config


def _raw_weight(name, array):
    """A vkattn_weight, in host memory or in an Array's buffer."""
    if not isinstance(array, Array):
        return _abi.Weight(name=name.encode(), tensor=describe(array, name), data=array.ctypes.data, bytes=array.nbytes)
    return _abi.Weight(name=name.encode(), tensor=describe(array, name), region=array.buffer.region(array.bound_byte))


class Layer:
    """A layer, for instance Layer("mha", {"q_proj.weight": ...}, embed_dim=512, num_heads=8).

    kind     mha, latent_mha, latent_query, mla, compressed_kv, encoder_layer (encoder is the same) or mla_block
    weights  arrays by the names that vkattn_layer_create lists, [out, in], or a state_dict of PyTorch's or Hugging Face's
             modules, as layer_weights takes them; uploaded once. An Array stays where it is, and is not to be
             changed
    prefix   where a state_dict has more: only the weights whose names begin with it, without it
    context  None: that of default_context()
    config   the members of vkattn_layer_config, as layer_config takes them
    Missing, unknown and misshapen weights are all named in one InvalidArgumentError.
    """

    def __init__(self, kind, weights, *, prefix="", context=None, **config):
        self.context = context or default_context()
        self.config = layer_config(kind, **config)
        kind = {number: name for name, number in _abi.LAYER_KINDS.items()}[self.config.kind]  # the last of its names
        arrays = layer_weights(kind, weights, prefix)
        buffers = [self.context.own(array, name).buffer for name, array in arrays.items() if isinstance(array, Array)]
        raw_weights = (_abi.Weight * max(len(arrays), 1))(*(_raw_weight(name, array) for name, array in arrays.items()))
        with self.context.lock:
            self._handle = Handle(lambda raw: call("vkattn_layer_create", self.context.raw, self.config, raw_weights, len(arrays),
                                                   raw),
                                  "vkattn_layer_destroy", self.context.handle, *buffers)
        self._plans = collections.OrderedDict()
        self._weights = {name: (array.shape, dtype_of(array)) for name, array in arrays.items()}

    @outside_graphs
    def __call__(self, query, key=None, value=None, *, cache=None, attn_mask=None, block_mask=None, block_size=128,
                 key_padding_mask=None, key_lengths=None, is_causal=False, window=None, causal_alignment="top_left", past_len=0,
                 cu_seqlens=None, max_seqlen=0, positions=None, residual=None, norm=None, norm_epsilon=None, output_shape=None, out=None,
                 kernel="auto", intermediate_dtype=None, tree_mask=None, activations=None):
        """Computes the layer.

        query         [B,Lq,width]: float32, float16 or bfloat16
        key, value    [B,Lk,width], for cross attention; None: taken from query
        cache         a Cache that the tokens are appended to, and attended with what it holds
        cu_seqlens    [B+1] int32: query is packed, [1,total,width], rows cu_seqlens[b] to cu_seqlens[b+1] of sequence b, from
                      0 to total; with a cache each sequence appends its own. max_seqlen: the longest, 0: not known
        positions     [S,B,Lq] int32, [S,1,total] of packed tokens: what the rotary embedding turns the tokens by, in the S streams of
                      rope_sections (1 without); None: their places in the sequence
        residual      [B,Lq,width], added to the result, of mha and mla
        norm          [width]: the query is first normalised (rms) and weighed so, of mha without key and of mla; norm_epsilon: None:
                      1e-6
        output_shape  of the result, where the layer changes it (latent_query)
        out           an Array for the result, which may be the residual
        intermediate_dtype  of what lies between the layer's steps: float32, float16 or bfloat16, where the device computes in it;
                      None: the query's
        activations   an Array that Layer.activations gave: receives what Layer.backward reads of this call
        Masks as in attention(), and results of the kinds that it gives: [B,Lq,width] in the query's type.
        """
        arguments = locals()
        del arguments["self"], arguments["cache"], arguments["activations"]
        given, layer_call = _described(self.context, arguments)
        if activations is not None:
            given.outputs["activations"] = self._checked(activations)
            layer_call.activations = describe(activations, "activations")
        tokens = None
        if cu_seqlens is not None:
            tokens = _tokens_of(given.inputs["cu_seqlens_q"], given.inputs["query"], max_seqlen)
        self._run(given, layer_call, cache, tokens)
        return given.given_back("output")

    def _checked(self, activations):
        if not isinstance(activations, Array):
            raise TypeError(f"activations: {type(activations).__name__}, expected an Array of Layer.activations")
        return self.context.own(activations, "activations")

    def activations(self, query, key=None, value=None, **arguments):
        """An Array for what a call saves for its backward pass, of mha and mla without a cache; arguments: the call's, but out."""
        _, layer_call = _described(self.context, {"query": query, "key": key, "value": value, **arguments})
        tensor = _abi.Tensor()
        with self.context.lock:
            call("vkattn_layer_activations", self._handle.raw, layer_call, tensor)
        return self.context.result((tensor.shape[0], tensor.shape[1]))

    @outside_graphs
    def backward(self, query, d_output, key=None, value=None, *, gradients=("query",), activations=None, residual=None, into=None,
                 accumulate=False, **arguments):
        """The gradients of sum(output * d_output), where output is that of the layer with the same arguments, of mha and mla without a cache.

        d_output     [B,Lq,width]: float32, float16 or bfloat16; also the gradient of the call's residual
        gradients    names: "query", of self attention the hidden states; "key" and "value" of cross attention; "norm" where the call has one;
                     weights by the layer's names ("q_proj.weight"), float32, float16 or bfloat16
        activations  the Array that the call saved to; None: what is needed is computed again, to the same bits
        residual     [B,Lq,width]: the gradient of another branch, added to the query's
        into         {name: Array} for results; of weights without gaps, from where a binding may begin. Without one of a weight the call makes
                     a new Array, and a plan that it does not keep
        accumulate   True: gradients of weights and of the norm are added to what into's Arrays of float32 hold
        Returns {name: gradient}, each in the shape and type of what it is the gradient of, or into's; of the kind that results are.
        """
        for name in {"out", "output_shape", "cache"} & arguments.keys():
            raise TypeError(f"{name}: no argument of a layer's backward pass")
        names = (gradients,) if isinstance(gradients, str) else tuple(gradients)
        into = dict(into or {})
        self._check_names(names, into, accumulate)
        arguments = {"query": query, "key": key, "value": value, "residual": residual, **arguments}
        given, layer_call = _described(self.context, arguments, d_output)
        desc = _abi.LayerBackwardDesc(call=ctypes.pointer(layer_call), accumulate=_abi.flag("accumulate", accumulate),
                                      d_output=describe(given.take("d_output", d_output), "d_output"), residual=layer_call.residual)
        if activations is not None:
            given.inputs["activations"] = self._checked(activations)
            desc.activations = describe(activations, "activations")
        made = {name: self._take_result(given, desc, name, into.get(name)) for name in names if name in _INPUTS}
        weights = {name: into[name] if name in into else self.context.result(*self._weights[name]) for name in names if name not in _INPUTS}
        self._run_backward(given, desc, layer_call, weights, keeps_plan=all(name in into for name in weights))
        made = {name: given.given_back(role) for name, role in made.items()}
        for name, array in weights.items():
            made[name] = array if given.on_device or name in into else given.of_kind(array.download())
        return {name: made[name] for name in names}

    def _check_names(self, names, into, accumulate):
        known = (*_INPUTS, *self._weights)
        for name in (*names, *into):
            if name not in known:
                raise ValueError(f"gradients: {name!r}, expected some of {', '.join(known)}")
        if not names or len(set(names)) != len(names):
            raise ValueError(f"gradients: {names}, expected one at least, each once")
        for name, array in into.items():
            if name not in names:
                raise ValueError(f"into: {name!r}, expected names that are among gradients")
            if not isinstance(array, Array):
                raise TypeError(f"into: {type(array).__name__} for {name}, expected Arrays")
            self.context.own(array, name)
            if name in self._weights and (array.shape != self._weights[name][0] or not is_contiguous(array)):
                raise ValueError(f"into: {name} of shape {list(array.shape)}, expected {list(self._weights[name][0])} without gaps")
            if name in self._weights and array.bound_offset != 0:
                raise ValueError(f"into: {name} begins {array.bound_offset} elements behind where a binding may begin, expected none")
        missing = [name for name in names if name not in ("query", "key", "value") and name not in into]
        if accumulate and missing:
            raise ValueError(f"into: without {missing[0]}, expected an Array to add to, with accumulate")

    def _take_result(self, given, desc, name, array):
        """The role of the gradient of an input."""
        of, role = _INPUTS[name]
        if of not in given.inputs:
            raise ValueError(f"gradients: {name!r}, expected an argument {name}")
        like = given.inputs[of]
        made = given.result(role, like.shape, dtype_of(like) if array is None else array.dtype, array)
        setattr(desc, role, describe(made, role))
        return role

    def _run_backward(self, given, desc, layer_call, weights, keeps_plan):
        entries = (_abi.WeightGradient * max(len(weights), 1))(*(
            _abi.WeightGradient(name=name.encode(), tensor=describe(array, name), region=array.buffer.region(array.bound_byte))
            for name, array in weights.items()))
        apart = _abi.LayerBackwardDesc.from_buffer_copy(desc)
        apart.call = None
        described = bytes(layer_call) + bytes(apart) + b"".join(
            name.encode() + bytes(entry.tensor) + bytes(entry.region) for name, entry in zip(weights, entries))
        desc.gradients, desc.gradient_count = entries, len(weights)
        given.run("vkattn_layer_backward_plan", desc, may_share=(("d_query", "residual"),), written=weights.values(), layer=self._handle,
                  plans=self._plans if keeps_plan else collections.OrderedDict(), described=described,
                  keep=[array.buffer for array in weights.values()])

    def _run(self, given, layer_call, cache, tokens):
        """tokens: of each sequence, where they may differ: the library must know it before."""
        if cache is None:
            given.run("vkattn_layer_plan", layer_call, may_share=("residual",), layer=self._handle, plans=self._plans)
            return
        if not isinstance(cache, Cache):
            raise TypeError(f"cache: {type(cache).__name__}, expected what Layer.cache gives")
        layer_call.cache = cache.handle.raw
        plans = cache.plans.setdefault(self._handle, collections.OrderedDict())  # which go with the cache
        with self.context.lock:
            held = cache.lengths
            if tokens is not None:  # which a replay would not count
                self.context.refuse_recording("cu_seqlens with a cache")
                cache.reserve(tokens)
            try:
                given.run("vkattn_layer_plan", layer_call, may_share=("residual",), layer=self._handle, plans=plans)
            except Exception:
                if tokens is not None:
                    for sequence, length in enumerate(held):
                        with contextlib.suppress(VkattnError):  # of a lost device: what failed first is told
                            cache.rewind(sequence, length)
                raise

    def cache(self, capacity, *, batch=1, key_type="f16", value_type=None, pages=0, page_size=16, kv_rotation=None,
              key_scales=None, value_scales=None):
        """An empty Cache of the layer's sizes.

        capacity  tokens of each of `batch` sequences, at most
        key_type, value_type  of cache_types(); value_type None: key_type. Of mla key_type is that of the latents, and
                              value_type that of an indexer's keys
        pages     0: every sequence has memory for its capacity. Else it is a pool of so many pages of page_size tokens, a
                  power of two from 8, that sequences take as they grow, and may share: Cache.share_prefix
        kv_rotation  "hadamard": keys and values are stored rotated, which costs quantised types less of what they hold; or two
                  names, of keys and of values. Not for compressed_kv and naive mla
        key_scales, value_scales  of the types f8_e4m3 and f8_e5m2: "row": appends make one of each token and head; a number:
                  that of all; a sequence: one of each head. Not for compressed_kv and naive mla
        """
        return Cache(layer=self, capacity=capacity, batch=batch, key_type=key_type, value_type=value_type, pages=pages,
                     page_size=page_size, kv_rotation=kv_rotation, key_scales=key_scales, value_scales=value_scales)


# Of the signature above, which is the only one.
_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(Layer.__call__).parameters.items()
             if name not in ("self", "cache", "activations")}

_INPUTS = {"query": ("query", "d_query"), "key": ("key", "d_key"), "value": ("value", "d_value"),  # by their names as gradients
           "norm": ("norm_weight", "d_norm_weight")}


def _described(context, arguments, d_output=None):
    """The Call of a use of a layer and its description, by arguments of Layer.__call__ but the cache. d_output: given to its backward
    pass, which has no output."""
    unknown = arguments.keys() - _DEFAULTS.keys()
    if unknown:
        raise TypeError(f"{min(unknown)}: no argument of a layer without a cache, expected one of {', '.join(_DEFAULTS)}")
    its = types.SimpleNamespace(**{**_DEFAULTS, **arguments})
    given = Call(context, [(name, getattr(its, name)) for name in (
        "query", "key", "value", "attn_mask", "block_mask", "key_padding_mask", "key_lengths", "tree_mask", "positions",
        "residual", "norm", "out")] + [("d_output", d_output)])
    for role in ("query", "key", "value", "attn_mask", "residual"):
        if getattr(its, role) is not None:
            given.take(role, getattr(its, role), MASKS[:3] if role == "attn_mask" else FLOATS)
    given.take_named(block_mask=its.block_mask, key_padding_mask=its.key_padding_mask, key_lengths=its.key_lengths,
                     tree_mask=its.tree_mask)
    if its.attn_mask is not None:
        given.inputs["attn_mask"] = broadcastable(given.inputs["attn_mask"], "attn_mask")
    query = given.inputs["query"]
    outputs = {} if d_output is not None else {"output": given.result("output", its.output_shape or query.shape, query, its.out)}
    desc = _abi.LayerCall(kernel=its.kernel, past_len=its.past_len, max_seqlen=its.max_seqlen)
    set_masks(desc, its.is_causal, its.window, its.causal_alignment, its.block_size)
    for role, array in {**given.inputs, **outputs}.items():
        setattr(desc, role, describe(array, role))
    given.take_norm(desc, its.norm, its.norm_epsilon)
    if its.intermediate_dtype is not None:
        desc.intermediate_type = _abi.choose("intermediate_dtype", _FLOAT_TYPES, its.intermediate_dtype)
    if its.positions is not None:
        desc.positions = describe(given.take("positions", its.positions, dtype="int32"), "positions")
    if its.cu_seqlens is not None:
        desc.cu_seqlens = describe(given.take("cu_seqlens_q", its.cu_seqlens, name="cu_seqlens", dtype="int32"), "cu_seqlens")
    return given, desc


def layer_problem(config, query, **arguments):
    """The C description of a use of a layer that need not be made, for Context.measure.

    config     what layer_config or config_from_name returns
    query      [B,Lq,width]; arguments: those of a Layer's call, but the cache
    """
    return config, _described(None, {"query": query, **arguments})[1]


def cache_types():
    """The types that a Cache can hold keys and values in, by the library's names."""
    return _CACHE_TYPES


class Cache:
    """Keys and values of earlier tokens on the device, of `batch` sequences; made by Layer.cache. May be used from several
    threads: its calls take turns, with those of its context."""

    def __init__(self, *, layer, capacity, batch, key_type, value_type, pages=0, page_size=16, kv_rotation=None, key_scales=None,
                 value_scales=None):
        if pages and (_abi.whole(ctypes.c_uint32, "page_size", page_size) < 8 or page_size & (page_size - 1)):
            raise ValueError(f"page_size: {page_size}, expected a power of two from 8")
        key = _abi.choose("key_type", _STORED, key_type)
        info = _abi.CacheInfo(layer=layer._handle.raw, batch=batch, capacity=capacity, key_type=key,
                              value_type=key if value_type is None else _abi.choose("value_type", _STORED, value_type),
                              page_count=pages, page_len=page_size if pages else 0)
        info.key_rotation, info.value_rotation = _abi.rotations("kv_rotation", kv_rotation)
        for part, scales in (("key", key_scales), ("value", value_scales)):
            scaling, numbers = _abi.scaling(f"{part}_scales", scales)
            setattr(info, f"{part}_scaling", scaling)
            if numbers is not None:
                setattr(info, f"{part}_scales", numbers)
                setattr(info, f"{part}_scale_count", len(numbers))
        self.context, self.batch, self.capacity, self.page_size = layer.context, batch, capacity, page_size if pages else 0
        with self.context.lock:
            self.handle = Handle(lambda raw: call("vkattn_cache_create", layer.context.raw, info, raw), "vkattn_cache_destroy",
                                 layer.context.handle)
        self.plans = {}  # by layer

    @property
    def nbytes(self):
        """Bytes of device memory."""
        return library.vkattn_cache_bytes(self.handle.raw)

    @property
    def free_pages(self):
        """Pages that no sequence holds; 0 without pages."""
        with self.context.lock:
            return library.vkattn_cache_free_pages(self.handle.raw)

    @property
    def lengths(self):
        """Tokens that each sequence holds."""
        numbers = (ctypes.c_uint32 * self.batch)()
        with self.context.lock:
            call("vkattn_cache_lengths", self.handle.raw, numbers, len(numbers))
        return list(numbers)

    def reserve(self, tokens):
        """Counts so many new tokens of each sequence, and gives them pages. Layer.__call__ does it itself."""
        numbers = [_abi.whole(ctypes.c_uint32, "tokens", number) for number in tokens]
        with self.context.lock:
            self.context.refuse_recording("reserve")
            call("vkattn_cache_reserve", self.handle.raw, (ctypes.c_uint32 * len(numbers))(*numbers), len(numbers))

    def rewind(self, sequence, length):
        """Forgets all tokens of a sequence but its first `length`, and gives back pages that it needs no more."""
        self._change("vkattn_cache_rewind", sequence=sequence, length=length)

    def keep(self, sequence, length, tokens):
        """Keeps of a sequence its first `length` tokens and, behind them, those at the places `tokens`, ascending: the accepted
        path of a tree of drafts."""
        tokens = [_abi.whole(ctypes.c_uint32, "tokens", number) for number in tokens]
        self._change("vkattn_cache_keep", (ctypes.c_uint32 * len(tokens))(*tokens), len(tokens), sequence=sequence, length=length)

    def share_prefix(self, sequence, to_sequence, length):
        """Makes an empty sequence hold the first `length` tokens of another, in the same pages: nothing is copied before one
        of the two writes to a page that both hold. Only with pages."""
        self._change("vkattn_cache_share_prefix", sequence=sequence, to_sequence=to_sequence, length=length)

    def copy_sequence(self, sequence, to, to_sequence):
        """Makes a sequence of a cache, this one or one of the same heads, sizes and types, hold what this one's holds."""
        if not isinstance(to, Cache):
            raise TypeError(f"to: {type(to).__name__}, expected what Layer.cache gives")
        sequence, to_sequence = (_abi.whole(ctypes.c_uint32, name, number) for name, number in
                                 (("sequence", sequence), ("to_sequence", to_sequence)))
        with self.context.lock:
            self.context.refuse_recording("copy_sequence")
            self.context.wait()
            call("vkattn_cache_copy_sequence", self.handle.raw, sequence, to.handle.raw, to_sequence)

    def _change(self, function, *more, **numbers):
        numbers = [_abi.whole(ctypes.c_uint32, name, number) for name, number in numbers.items()]
        with self.context.lock:
            self.context.refuse_recording(function.removeprefix("vkattn_cache_"))
            self.context.wait()  # for replays
            call(function, self.handle.raw, *numbers, *more)


def _tokens_of(bounds, query, longest):
    """The tokens of each packed sequence; all belong to one."""
    total = query.shape[1] if query.ndim == 3 else 0
    host = checked_bounds(bounds.download() if isinstance(bounds, Array) else bounds, "cu_seqlens", total)
    tokens = numpy.diff(host).tolist()
    if host[0] != 0 or host[-1] != total:
        raise ValueError(f"cu_seqlens: {host.tolist()}, expected every token to be of a sequence, from 0 to {total}")
    if longest and max(tokens, default=0) > longest:
        raise ValueError(f"max_seqlen: {longest}, expected at least the longest sequence, {max(tokens)}")
    return tokens
