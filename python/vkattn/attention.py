"""The operator: softmax(scale * Q K^T + masks) V."""
import inspect
import types

import numpy

from . import _abi
from .arrays import (MASKS, STORED, broadcastable, checked_bounds, describe, dtype_of, float32_of, repeated,
                     rows_of_sequences, set_masks)
from .calls import Call
from .compiled import outside_graphs
from .device_array import Array


def _four_dimensional(array, name):
    if not 2 <= array.ndim <= 4:
        raise ValueError(f"{name}: {array.ndim} dimensions, expected [L,D], [H,L,D] or [B,H,L,D]")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


# What queries that see no key have.
_UNSEEING = {"output": 0.0, "log_sum_exp": -numpy.inf}


class Problem:
    """A described call: its C description, its arrays by role."""

    def __init__(self, arguments, call=None):
        """arguments: those of attention by name. call: what takes the arrays, where they do not decide the kind of the results."""
        unknown = arguments.keys() - _DEFAULTS.keys()
        if unknown:
            raise TypeError(f"{min(unknown)}: no argument of attention, expected one of {', '.join(_DEFAULTS)}")
        given = types.SimpleNamespace(**{**_DEFAULTS, **arguments})
        named = {name: getattr(given, name) for name in _ARRAYS}
        call = self.call = call or Call(given.context, named.items())
        query, key, v_head_dim = self._take_rows(given)
        given.batch_invariant = _abi.flag("batch_invariant", given.batch_invariant)
        desc = self.desc = _abi.AttentionDesc(**{name: getattr(given, name) for name in _MEMBERS})
        set_masks(desc, given.is_causal, given.window, given.causal_alignment, given.block_size)
        desc.key_rotation, desc.value_rotation = _abi.rotations("kv_rotation", given.kv_rotation)
        if _abi.flag("keys_to_last_query", given.keys_to_last_query):
            desc.mask_flags |= _abi.MASK_KEYS_TO_LAST_QUERY
        if _abi.flag("mask_times_slopes", given.mask_times_slopes):
            desc.mask_flags |= _abi.MASK_TIMES_SLOPES
        if given.query_rounding is not None:
            desc.query_rounding = _abi.choose("query_rounding", {"float16": _abi.TYPE_F16, "bfloat16": _abi.TYPE_BF16},
                                              given.query_rounding)
        call.take_named(**{name: array for name, array in named.items() if _abi.ATTENTION_TENSORS.get(name)})
        for name in ("key_scales", "value_scales"):
            call.take_scales(name, named[name])
        if given.attn_mask is not None:
            key_len = key.shape[2] * (1 if given.block_table is None else call.inputs["block_table"].shape[-1])
            self._take_mask(given.attn_mask, min(key_len, given.max_seqlen_k) if given.max_seqlen_k > 0 else key_len)
        call.result("output", (*query.shape[:3], v_head_dim), query, given.out)
        if given.return_lse:
            call.result("log_sum_exp", query.shape[1 if given.cu_seqlens_q is not None else 0:3], "float32")
        self.keep = ()  # handles that the plan must not outlive
        self.out, self.longest, self.packed = given.out, given.max_seqlen_q, given.cu_seqlens_q is not None
        for name, rows in (("cu_seqlens_q", "query"), ("cu_seqlens_k", "key")) if self.packed else ():
            if isinstance(call.inputs.get(name), numpy.ndarray):
                checked_bounds(call.inputs[name], name, call.inputs[rows].shape[2])
        for role, array in {**call.inputs, **call.outputs}.items():
            setattr(desc, role, describe(array, role))

    def _take_rows(self, given):
        """Takes query, key and value. Returns the first two, and the size of the values."""
        inputs, take = self.call.inputs, self.call.take
        query = take("query", given.query, strided=True)
        self.missing = 4 - query.ndim  # dimensions
        query = inputs["query"] = _four_dimensional(query, "query")
        key = inputs["key"] = _four_dimensional(take("key", given.key, STORED, strided=True), "key")
        v_head_dim = given.v_head_dim
        if given.value is not None:
            inputs["value"] = _four_dimensional(take("value", given.value, STORED, strided=True), "value")
            v_head_dim = inputs["value"].shape[3]
        elif v_head_dim is None:
            raise TypeError("value: None, expected an array, or v_head_dim where the values are the first elements of the keys")
        if query.shape[1] != key.shape[1] and not _abi.flag("enable_gqa", given.enable_gqa):
            raise ValueError(f"query has {query.shape[1]} heads and key {key.shape[1]}, expected as many, or enable_gqa=True")
        return query, key, v_head_dim

    def _strays(self):
        """Which packed queries are of no sequence, whose rows the library leaves as they are; None: none. Inside a recording all may be:
        bounds on the device are read by its replays."""
        inputs = self.call.inputs
        if not self.packed or all(array is self.out for array in self.call.outputs.values()):
            return None
        bounds, total = inputs["cu_seqlens_q"], inputs["query"].shape[2]
        if isinstance(bounds, Array):
            if bounds.context.recording is not None:
                return numpy.ones(total, bool)
            bounds = bounds.download().clip(0, total)
        strays = ~rows_of_sequences(bounds, self.longest, total)
        return strays if strays.any() else None

    def run(self):
        """Computes it, and returns the call. Memory may hold what earlier calls left there: rows of no sequence become those
        of queries that see no key, but in an `out`, where they stay as they are."""
        strays = self._strays()
        unwritten = {} if strays is None else {role: array for role, array in self.call.outputs.items() if array is not self.out}
        for role, array in unwritten.items():
            if isinstance(array, Array):
                array.context.fill(array, _UNSEEING[role])
        self.call.run("vkattn_attention_plan", self.desc, keep=self.keep)
        for role, array in unwritten.items():
            if not isinstance(array, Array):
                array[(..., strays, slice(None)) if role == "output" else (..., strays)] = _UNSEEING[role]
        return self.call

    def missing_of(self, role):
        """Dimensions that a result has not: log_sum_exp of packed queries never has that of sequences."""
        return max(self.missing - 1, 0) if role == "log_sum_exp" and self.packed else self.missing

    def results(self):
        """Computes it, and returns the output, with log_sum_exp where that was asked for, in the kind that the caller has."""
        call = self.run()
        results = tuple(call.given_back(role, array.shape[self.missing_of(role):]) for role, array in call.outputs.items())
        return results if len(results) > 1 else results[0]

    def _take_mask(self, attn_mask, key_len):
        mask = self.call.take("attn_mask", attn_mask, MASKS, strided=True)
        if dtype_of(mask) == "bfloat16":
            mask = float32_of(mask)
        mask = broadcastable(mask, "attn_mask")
        if mask.shape[-1] == 1 and key_len != 1:  # which the library takes for a mask of one key
            mask = repeated(mask, -1, key_len)
        if isinstance(mask, numpy.ndarray) and mask.strides[-1] != mask.itemsize:
            mask = numpy.ascontiguousarray(mask)
        self.call.inputs["attn_mask"] = mask


def problem(query, key, value, **arguments):
    """The C description of a call of attention, for Context.tune and Context.prewarm."""
    return Problem({"query": query, "key": key, "value": value, **arguments}).desc


@outside_graphs
def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, *,
              window=None, softcap=0.0, key_lengths=None, past_lengths=None, past_len=None, key_padding_mask=None,
              alibi_slopes=None, mask_times_slopes=False, sinks=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=0,
              max_seqlen_k=0, block_table=None, block_mask=None, block_size=128, key_indices=None, key_block_len=1,
              kv_rotation=None, key_scales=None, value_scales=None, dropout_seed=0, causal_alignment="top_left",
              keys_to_last_query=False, v_head_dim=None, kv_head_mapping="grouped", batch_invariant=False, kernel="auto",
              query_rounding=None, tree_mask=None, return_lse=False, out=None, context=None):
    """Attention in the terms of torch.nn.functional.scaled_dot_product_attention, and with what the library has beyond it.

    query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv]; leading dimensions may be missing from all three. float32,
        float16 or bfloat16 (ml_dtypes' or PyTorch's); key and value, as Arrays, also quantised blocks (q8_0 ...). NumPy arrays whose rows
        are contiguous are read where they lie, in any order of the other axes
    attn_mask  bool, True = attend, or float32, float16 or bfloat16, added to the scores; broadcast from the right to
        [B,Hq,Lq,Lk]; of a divisor of B or Hq, entry b and head h read those of b and h modulo it
    is_causal  key j is visible to query i when j <= i (causal_alignment "bottom_right": j <= i + the sequence's keys, its
        key_lengths where given, - Lq); may be combined with a mask
    scale      None: 1 / sqrt(D)
    enable_gqa True: Hq is a multiple of Hkv; kv_head_mapping "modulo": query head h reads head h % Hkv, not h / (Hq / Hkv)
    window     (left, right): keys i - left to i + right; None for either: unbounded
    key_lengths [B] int32; key_padding_mask [B,Lk] bool, True = ignore (numbers are refused: what is to be added to the scores
        is an attn_mask [B,1,1,Lk]); alibi_slopes, sinks [Hq]; mask_times_slopes: alibi_slopes multiply attn_mask, and not
        distances; softcap; dropout_p with dropout_seed; batch_invariant: see vkattn_attention_desc
    past_lengths [B] int32, or past_len: keys before the first query, from where masks count; keys_to_last_query: hides the
        keys after the last query
    cu_seqlens_q, cu_seqlens_k [B+1] int32: sequences packed one after the other, query [1,Hq,total,D], key and value
        [1,Hkv,total,D]; max_seqlen_q, max_seqlen_k: the longest, 0: not known
    block_table [B,N] int32: key and value lie in pages [pages,Hkv,P,D], P a power of two and at least 8; give key_lengths too
    block_mask int32, a number for every block of block_size (queries, keys; or one for both): 0 hidden and not visited, 1
        visible as attn_mask says, 2 visible without a look at attn_mask; broadcast from the right to [B,Hq,blocks,blocks]
    key_indices [B,Hkv or 1,Lq,N] int32: the blocks of key_block_len keys that each query may see, in any order, -1 for none; the
        cost follows N. index chooses them
    tree_mask  [B,Lq,ceil(Lq/32)] int32, of packed queries [total,ceil(max_seqlen_q/32)]: of the queries' own keys, the last Lq of a
        sequence or those from its past on, query i sees key j where bit j%32 of word j/32 of its row is set, and all earlier keys:
        what tree_mask makes of a draft
    kv_rotation "hadamard": key and value are stored rotated, as kv_append and caches do it; or two names, of keys and of values
    key_scales, value_scales  float32, of key and value of f8_e4m3 or f8_e5m2, what their elements are multiplied with:
        broadcast from the right to [B,Hkv,Lk,1], so that a number is of the tensor and [Hkv,1,1] one of each head
    query_rounding "float16" or "bfloat16": of a float32 query, which may be rounded to it on its way to matrix units, where key
        and value are of that type or, beside float16, quantised. None: it is not
    value None with v_head_dim: the values are the first elements of the keys
    return_lse True: returns (output, log_sum_exp [B,Hq,Lq] float32; of packed queries [Hq,total])
    out        an Array for the output, of four dimensions; packed queries of no sequence leave its rows as they are
    Returns the output [B,Hq,Lq,Dv] in the query's type, with as many dimensions as the query had: an Array where any argument
    is one, else a PyTorch tensor where any is one, else a NumPy array. A query that sees no key gives 0. Raises
    InvalidArgumentError, UnsupportedError and the rest of vkattn.errors; TypeError and ValueError for what is not even a
    tensor.
    """
    return Problem(locals()).results()


def tree_mask(parents):
    """The tree_mask of drafts of tokens in trees, int32 [B,L,ceil(L/32)]; of parents [L] without B, as packed queries of one sequence take
    it.

    parents  [B,L] or [L] whole numbers: the place in the draft of the token that each one follows, before its own; -1: it follows what
             the sequence holds already
    """
    parents = numpy.asarray(parents)
    if parents.ndim not in (1, 2) or parents.dtype.kind not in "iu":
        raise ValueError(f"parents: {parents.dtype} {list(parents.shape)}, expected whole numbers, [L] or [B,L]")
    places = numpy.arange(parents.shape[-1])
    if ((parents < -1) | (parents >= places)).any():
        raise ValueError("parents: expected of each token the place of an earlier one, or -1")
    seen = numpy.zeros((*parents.shape, 32 * ((len(places) + 31) // 32)), bool)
    for place in places:
        follows = parents[..., place, None] >= 0
        branch = numpy.take_along_axis(seen, numpy.maximum(parents[..., place], 0)[..., None, None], -2)[..., 0, :]
        seen[..., place, :] = branch & follows
        seen[..., place, place] = True
    return numpy.packbits(seen, axis=-1, bitorder="little").view("<i4")


# Of the signature above, which is the only one: what every argument is where it is not given, those that are arrays, and those that
# are members of the description as they are.
_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(attention).parameters.items()}
_ARRAYS = tuple(name for name in (*_abi.ATTENTION_TENSORS, "key_scales", "value_scales", "out") if name in _DEFAULTS)
_MEMBERS = tuple(name for name in _DEFAULTS
                 if name in _abi.AttentionDesc._kinds_ and name not in (*_ARRAYS, "query_rounding"))
