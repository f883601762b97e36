"""The operator: softmax(scale * Q K^T + masks) V."""
import numpy

from . import _abi
from .arrays import (MASKS, STORED, broadcastable, checked_bounds, describe, dtype_of, float32_of, numpy_dtype, repeated,
                     rows_of_sequences, set_masks)
from .calls import Call
from .compiled import outside_graphs
from .device_array import Array


def _four_dimensional(array, name):
    if not 2 <= array.ndim <= 4:
        raise ValueError(f"{name}: {array.ndim} dimensions, expected [L,D], [H,L,D] or [B,H,L,D]")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _checked_scale(scale):
    if scale is None:  # the library chooses
        return 0.0
    if not abs(_abi.real("scale", scale)) <= numpy.finfo("f4").max:
        raise ValueError(f"scale: {scale}, expected a finite number, or None for 1 / sqrt(head size)")
    return scale


def _unseeing(role, array):
    """What queries that see no key have, in the shape and the type of a result."""
    dtype = numpy_dtype(dtype_of(array))
    one = numpy.zeros((), dtype) if role == "output" else numpy.full((), -numpy.inf, dtype)
    return numpy.broadcast_to(one, array.shape)


class Problem:
    """A described call: its C description, its arrays by role."""

    def __init__(self, query, key, value, *, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False,
                 window=None, softcap=0.0, key_lengths=None, past_lengths=None, past_len=0, key_padding_mask=None,
                 alibi_slopes=None, sinks=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=0, max_seqlen_k=0,
                 block_table=None, block_mask=None, block_size=128, key_indices=None, key_block_len=1, kv_rotation=None, key_scales=None,
                 value_scales=None, dropout_seed=0, causal_alignment="top_left",
                 keys_to_last_query=False, v_head_dim=None, kv_head_mapping="grouped", batch_invariant=False, kernel="auto",
                 return_lse=False, out=None, context=None, call=None):
        optional = {name: array for name, array in locals().items() if _abi.ATTENTION_TENSORS.get(name)}
        call = self.call = call or Call(context, {"query": query, "key": key, "value": value, "attn_mask": attn_mask, **optional,
                                          "key_scales": key_scales, "value_scales": value_scales, "out": out}.items())
        query = call.take("query", query, strided=True)
        self.missing = 4 - query.ndim  # dimensions
        query = _four_dimensional(query, "query")
        key = _four_dimensional(call.take("key", key, STORED, strided=True), "key")
        call.inputs.update(query=query, key=key)
        if value is not None:
            value = call.inputs["value"] = _four_dimensional(call.take("value", value, STORED, strided=True), "value")
            v_head_dim = value.shape[3]
        elif v_head_dim is None:
            raise TypeError("value: None, expected an array, or v_head_dim where the values are the first elements of the keys")
        if query.shape[1] != key.shape[1] and not _abi.flag("enable_gqa", enable_gqa):
            raise ValueError(f"query has {query.shape[1]} heads and key {key.shape[1]}, expected as many, or enable_gqa=True")
        desc = self.desc = _abi.AttentionDesc(
            scale=_checked_scale(scale), softcap=softcap, dropout_p=dropout_p, dropout_seed=dropout_seed,
            max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, past_len=past_len,
            batch_invariant=_abi.flag("batch_invariant", batch_invariant))
        desc.kernel = _abi.choose("kernel", _abi.KERNELS, kernel)
        desc.kv_head_mapping = _abi.choose("kv_head_mapping", _abi.KV_HEAD_MAPPINGS, kv_head_mapping)
        set_masks(desc, is_causal, window, causal_alignment, block_size)
        if _abi.flag("keys_to_last_query", keys_to_last_query):
            desc.mask_flags |= _abi.MASK_KEYS_TO_LAST_QUERY
        if scale is not None:
            desc.mask_flags |= _abi.SCALE_AS_GIVEN
        for role, array in optional.items():
            if array is not None:
                call.take(role, array, dtype=_abi.ATTENTION_TENSORS[role])
        scales = {name: call.take_scales(name, given) for name, given in (("key_scales", key_scales), ("value_scales", value_scales))
                  if given is not None}
        if block_mask is not None:
            call.inputs["block_mask"] = broadcastable(call.inputs["block_mask"], "block_mask")
        if attn_mask is not None:
            key_len = key.shape[2] * (1 if block_table is None else call.inputs["block_table"].shape[-1])
            self._take_mask(attn_mask, min(key_len, max_seqlen_k) if max_seqlen_k > 0 else key_len)
        call.result("output", (*query.shape[:3], v_head_dim), query, out)
        if return_lse:
            call.result("log_sum_exp", query.shape[1 if cu_seqlens_q is not None else 0:3], "float32")
        self.parents = ()  # handles that the plan must not outlive
        self.out, self.strays = out, None  # packed queries of no sequence, which the library leaves as they are
        if cu_seqlens_q is not None:
            self._find_strays(max_seqlen_q)
        for role, array in {**call.inputs, **call.outputs}.items():
            if role not in ("key_indices", "key_scales", "value_scales"):
                setattr(desc, role, describe(array, role))
        if key_indices is not None:
            self._add_list(call.inputs["key_indices"], key_block_len)
        _abi.add_rotation(desc, "kv_rotation", kv_rotation)
        _abi.add_scales(desc, **scales)

    def _add_list(self, indices, key_block_len):
        _abi.extend(self.desc, _abi.KeyList(key_indices=describe(indices, "key_indices"), key_block_len=key_block_len))

    def _find_strays(self, longest):
        inputs, total = self.call.inputs, self.call.inputs["query"].shape[2]
        for name, packed in (("cu_seqlens_q", "query"), ("cu_seqlens_k", "key")):
            if isinstance(inputs.get(name), numpy.ndarray):
                checked_bounds(inputs[name], name, inputs[packed].shape[2])
        if all(array is self.out for array in self.call.outputs.values()):
            return
        bounds = inputs["cu_seqlens_q"]
        if isinstance(bounds, Array):
            bounds = bounds.download().clip(0, total)
        strays = ~rows_of_sequences(bounds, longest, total)
        self.strays = strays if strays.any() else None

    def run(self):
        """Computes it, and returns the call. Memory may hold what earlier calls left there: rows of no sequence become those
        of queries that see no key, but in an `out`, where they stay as they are."""
        outputs, unwritten = self.call.outputs, {}
        if self.strays is not None:
            unwritten = {role: _unseeing(role, array) for role, array in outputs.items() if array is not self.out}
        for role, rows in unwritten.items():
            if isinstance(outputs[role], Array):
                outputs[role].assign(rows)
        self.call.run("vkattn_attention_plan", self.desc, parents=self.parents)
        for role, rows in unwritten.items():
            if not isinstance(outputs[role], Array):
                where = (..., self.strays, slice(None)) if role == "output" else (..., self.strays)
                outputs[role][where] = rows[where]
        return self.call

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
    return Problem(query, key, value, **arguments).desc


@outside_graphs
def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, *,
              window=None, softcap=0.0, key_lengths=None, past_lengths=None, past_len=0, key_padding_mask=None,
              alibi_slopes=None, sinks=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=0, max_seqlen_k=0,
              block_table=None, block_mask=None, block_size=128, key_indices=None, key_block_len=1, kv_rotation=None, key_scales=None,
              value_scales=None, dropout_seed=0, causal_alignment="top_left",
              keys_to_last_query=False, v_head_dim=None, kv_head_mapping="grouped", batch_invariant=False, kernel="auto",
              return_lse=False, out=None, context=None):
    """Attention in the terms of torch.nn.functional.scaled_dot_product_attention, and with what the library has beyond it.

    query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv]; leading dimensions may be missing from all three. float32,
        float16 or bfloat16 (ml_dtypes' or PyTorch's); key and value, as Arrays, also quantised blocks (q8_0 ...). NumPy arrays whose rows
        are contiguous are read where they lie, in any order of the other axes
    attn_mask  bool, True = attend, or float32, float16 or bfloat16, added to the scores; broadcast from the right to
        [B,Hq,Lq,Lk]
    is_causal  key j is visible to query i when j <= i (causal_alignment "bottom_right": j <= i + the sequence's keys, its
        key_lengths where given, - Lq); may be combined with a mask
    scale      None: 1 / sqrt(D)
    enable_gqa True: Hq is a multiple of Hkv; kv_head_mapping "modulo": query head h reads head h % Hkv, not h / (Hq / Hkv)
    window     (left, right): keys i - left to i + right; None for either: unbounded
    key_lengths [B] int32; key_padding_mask [B,Lk] bool, True = ignore (numbers are refused: what is to be added to the scores
        is an attn_mask [B,1,1,Lk]); alibi_slopes, sinks [Hq]; softcap; dropout_p with
        dropout_seed; batch_invariant: see vkattn_attention_desc
    past_lengths [B] int32, or past_len: keys before the first query, from where masks count; keys_to_last_query: hides the
        keys after the last query
    cu_seqlens_q, cu_seqlens_k [B+1] int32: sequences packed one after the other, query [1,Hq,total,D], key and value
        [1,Hkv,total,D]; max_seqlen_q, max_seqlen_k: the longest, 0: not known
    block_table [B,N] int32: key and value lie in pages [pages,Hkv,P,D], P a power of two and at least 8; give key_lengths too
    block_mask int32, a number for every block of block_size (queries, keys; or one for both): 0 hidden and not visited, 1
        visible as attn_mask says, 2 visible without a look at attn_mask; broadcast from the right to [B,Hq,blocks,blocks]
    key_indices [B,Hkv or 1,Lq,N] int32: the blocks of key_block_len keys that each query may see, in any order, -1 for none; the
        cost follows N. index chooses them
    kv_rotation "hadamard": key and value are stored rotated, as kv_append and caches do it; or two names, of keys and of values
    key_scales, value_scales  float32, of key and value of f8_e4m3 or f8_e5m2, what their elements are multiplied with:
        broadcast from the right to [B,Hkv,Lk,1], so that a number is of the tensor and [Hkv,1,1] one of each head
    value None with v_head_dim: the values are the first elements of the keys
    return_lse True: returns (output, log_sum_exp [B,Hq,Lq] float32; of packed queries [Hq,total])
    out        an Array for the output, of four dimensions; packed queries of no sequence leave its rows as they are
    Returns the output [B,Hq,Lq,Dv] in the query's type, with as many dimensions as the query had: an Array where any argument
    is one, else a PyTorch tensor where any is one, else a NumPy array. A query that sees no key gives 0. Raises
    InvalidArgumentError, UnsupportedError and the rest of vkattn.errors; TypeError and ValueError for what is not even a
    tensor.
    """
    made = Problem(**locals())
    call = made.run()
    results = [call.given_back(role, array.shape[made.missing:]) for role, array in call.outputs.items()]
    return tuple(results) if return_lse else results[0]
