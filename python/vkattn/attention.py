"""The operator: softmax(scale * Q K^T + masks) V."""
import numpy

from . import _abi
from .arrays import as_array, broadcastable, describe, set_masks
from .context import default_context

_OPTIONAL = ("attn_mask", "key_padding_mask", "key_lengths", "alibi_slopes", "sinks", "cu_seqlens_q", "cu_seqlens_k",
             "block_table", "block_mask")
_FIXED_TYPES = {"key_padding_mask": numpy.bool_, "key_lengths": numpy.int32, "alibi_slopes": numpy.float32,
                "sinks": numpy.float32, "cu_seqlens_q": numpy.int32, "cu_seqlens_k": numpy.int32,
                "block_table": numpy.int32, "block_mask": numpy.int32}


def _four_dimensional(array, name):
    if not 2 <= array.ndim <= 4:
        raise ValueError(f"{name}: {array.ndim} dimensions, expected [L,D], [H,L,D] or [B,H,L,D]")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


class Problem:
    """A described call: its C description, its arrays by role."""

    def __init__(self, query, key, value, *, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False,
                 window=None, softcap=0.0, key_lengths=None, key_padding_mask=None, alibi_slopes=None, sinks=None,
                 cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=0, max_seqlen_k=0, block_table=None, block_mask=None,
                 block_size=128, dropout_seed=0, causal_alignment="top_left", kernel="auto", return_lse=False):
        arrays = {"query": query, "key": key, "value": value}
        arrays = {role: _four_dimensional(as_array(array, role), role) for role, array in arrays.items()}
        query, key, value = arrays.values()
        if query.shape[1] != key.shape[1] and not enable_gqa:
            raise ValueError(f"query has {query.shape[1]} heads and key {key.shape[1]}, expected as many, or enable_gqa=True")
        if kernel not in _abi.KERNELS:
            raise ValueError(f"kernel: {kernel!r}, expected one of {', '.join(_abi.KERNELS)}")
        optional = (attn_mask, key_padding_mask, key_lengths, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, block_table,
                    block_mask)
        for role, array in zip(_OPTIONAL, optional):
            if array is not None:
                arrays[role] = as_array(array, role, _FIXED_TYPES.get(role))
        for role in {"attn_mask", "block_mask"} & arrays.keys():
            arrays[role] = broadcastable(arrays[role], role)
        if attn_mask is not None and arrays["attn_mask"].shape[-1] == 1:  # which the library takes for a mask of one key
            key_len = key.shape[2] * (1 if block_table is None else arrays["block_table"].shape[-1])
            key_len = min(key_len, max_seqlen_k) if max_seqlen_k > 0 else key_len
            arrays["attn_mask"] = numpy.repeat(arrays["attn_mask"], key_len, axis=-1)
        self.inputs = arrays
        self.outputs = {"output": numpy.empty((*query.shape[:3], value.shape[3]), query.dtype)}
        if return_lse:
            self.outputs["log_sum_exp"] = numpy.empty(query.shape[1 if cu_seqlens_q is not None else 0:3], numpy.float32)
        desc = self.desc = _abi.AttentionDesc(
            scale=0.0 if scale is None else scale, softcap=softcap, dropout_p=dropout_p, dropout_seed=dropout_seed,
            max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, kernel=_abi.KERNELS[kernel])
        set_masks(desc, is_causal, window, causal_alignment, block_size)
        for role, array in {**self.inputs, **self.outputs}.items():
            setattr(desc, role, describe(array, role))


def problem(query, key, value, **arguments):
    """The C description of a call of attention, for Context.tune."""
    return Problem(query, key, value, **arguments).desc


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, *,
              window=None, softcap=0.0, key_lengths=None, key_padding_mask=None, alibi_slopes=None, sinks=None,
              cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=0, max_seqlen_k=0, block_table=None, block_mask=None,
              block_size=128, dropout_seed=0, causal_alignment="top_left", return_lse=False, kernel="auto", context=None):
    """Attention in the terms of torch.nn.functional.scaled_dot_product_attention, on NumPy arrays.

    query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv]; leading dimensions may be missing from all three. float32,
        float16 or ml_dtypes' bfloat16; contiguous arrays are read where they lie
    attn_mask  bool, True = attend, or float32 or float16, added to the scores; broadcast from the right to [B,Hq,Lq,Lk]
    is_causal  key j is visible to query i when j <= i (causal_alignment "bottom_right": j <= i + Lk - Lq); may be combined
        with a mask
    scale      None: 1 / sqrt(D)
    enable_gqa True: Hq is a multiple of Hkv
    window     (left, right): keys i - left to i + right; None for either: unbounded
    key_lengths [B] int32; key_padding_mask [B,Lk] bool, True = ignore; alibi_slopes, sinks [Hq]; softcap; dropout_p with
        dropout_seed: see vkattn_attention_desc
    cu_seqlens_q, cu_seqlens_k [B+1] int32: sequences packed one after the other, query [1,Hq,total,D], key and value
        [1,Hkv,total,D]; max_seqlen_q, max_seqlen_k: the longest, 0: not known
    block_table [B,N] int32: key and value lie in pages [pages,Hkv,P,D], P a power of two and at least 8; give key_lengths too
    block_mask int32, a number for every block of block_size (queries, keys; or one for both): 0 hidden and not visited, 1
        visible as attn_mask says, 2 visible without a look at attn_mask; broadcast from the right to [B,Hq,blocks,blocks]
    return_lse True: returns (output, log_sum_exp [B,Hq,Lq] float32; of packed queries [Hq,total])
    Returns the output [B,Hq,Lq,Dv] in the query's type, with as many dimensions as the query had. A query that sees no key
    gives 0. Raises InvalidArgumentError, UnsupportedError and the rest of vkattn.errors; TypeError and ValueError for what is
    not even a tensor.
    """
    made = Problem(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
                   enable_gqa=enable_gqa, window=window, softcap=softcap, key_lengths=key_lengths,
                   key_padding_mask=key_padding_mask, alibi_slopes=alibi_slopes, sinks=sinks,
                   cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q,
                   max_seqlen_k=max_seqlen_k, block_table=block_table, block_mask=block_mask, block_size=block_size,
                   dropout_seed=dropout_seed,
                   causal_alignment=causal_alignment, kernel=kernel, return_lse=return_lse)
    (context or default_context()).run("vkattn_attention_plan", made.desc, made.inputs, made.outputs)
    missing = 4 - numpy.ndim(query)
    output = made.outputs["output"][(0,) * missing]
    return (output, made.outputs["log_sum_exp"][(0,) * missing]) if return_lse else output
