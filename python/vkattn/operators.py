"""What stands around attention: linear, norm, embedding, rotary embedding, argmax, appends to caches, and the merge of partial attention."""
import ctypes
import math

import numpy

from . import _abi
from .arrays import (FLOATS, MASKS, STORED, WEIGHTS, as_array, broadcastable, checked_bounds, describe, dtype_of, element_strides,
                     is_quantised, set_ranges)
from .calls import Call
from .compiled import outside_graphs
from .device_array import Array


def weight_types():
    """The names of the types that weights of linear and embedding may have, quantised ones among them."""
    return WEIGHTS


def fold(array, name):
    """[..., N] as [1, L, N], as the library takes tokens."""
    try:
        return array.reshape(1, math.prod(array.shape[:-1]), array.shape[-1])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def with_rows(array, name):
    if array.ndim == 0:
        raise ValueError(f"{name}: 0 dimensions, expected at least 1")
    return array


def _describe(desc, arrays):
    for role, array in arrays.items():
        setattr(desc, role, describe(array, role))


def _dtype_or(dtype, like):
    """What Call.result takes: the dtype that is asked for, or an array of that of the result."""
    if dtype is not None and dtype not in FLOATS:
        raise ValueError(f"dtype: {dtype!r}, expected one of {', '.join(FLOATS)}")
    return like if dtype is None else dtype


def _linear(call, input, weight, bias, activation, multiplier, residual, out, dtype=None):
    """The description of a product, whose arrays the call takes."""
    input = with_rows(call.take("input", input), "input")
    weight = call.take("weight", weight, WEIGHTS)
    if weight.ndim not in (2, 3):
        raise ValueError(f"weight: {weight.ndim} dimensions, expected [out, in] or [2, out, in]")
    shape = (*input.shape[:-1], weight.shape[-2])
    if bias is not None:
        call.take("bias", bias)
    for role, value in (("multiplier", multiplier), ("residual", residual)):
        if value is not None and call.take(role, value).shape != shape:
            raise ValueError(f"{role}: shape {list(call.inputs[role].shape)}, expected {list(shape)}")
    call.result("output", shape, _dtype_or(dtype, input), out)
    desc = _abi.LinearDesc(activation=activation)
    folded = {"input", "multiplier", "residual", "output"}
    _describe(desc, {role: fold(array, role) if role in folded else array
                     for role, array in {**call.inputs, **call.outputs}.items()})
    return desc


@outside_graphs
def linear(input, weight, bias=None, *, activation="none", multiplier=None, residual=None, norm=None, norm_epsilon=None, out=None,
           dtype=None, context=None):
    """activation(input weight^T + bias) * multiplier + residual, as torch.nn.functional.linear and what follows it.

    Gated, with a weight [2, out, in] and a bias [2, out] (SwiGLU, GeGLU):
    activation(input weight[0]^T + bias[0]) * (input weight[1]^T + bias[1]) + residual, without multiplier.

    input [..., in], weight [out, in], bias [out], multiplier and residual [..., out]: float32, float16 or bfloat16;
                weight also an Array of blocks as GGUF files hold them (context.array with their bytes)
    activation  none, relu, gelu, silu, leaky_relu, gelu_tanh, sigmoid or softplus
    norm        [in]: the input is first normalised (rms) and weighed so, by the product itself where rows are few;
                norm_epsilon: None: 1e-6
    out         an Array for the result, which may be the multiplier or the residual
    dtype       of the result, float32, float16 or bfloat16; None: the input's
    Returns [..., out].
    """
    call = Call(context, (("input", input), ("weight", weight), ("bias", bias), ("multiplier", multiplier),
                          ("residual", residual), ("norm", norm), ("out", out)))
    desc = _linear(call, input, weight, bias, activation, multiplier, residual, out, dtype)
    call.take_norm(desc, norm, norm_epsilon)
    call.run("vkattn_linear_plan", desc, may_share=("multiplier", "residual"))
    return call.given_back("output")


def linear_problem(input, weight, bias=None, *, activation="none", multiplier=None, residual=None):
    """The C description of a call of linear, for Context.tune."""
    given = {"input": input, "weight": weight, "bias": bias, "multiplier": multiplier, "residual": residual}
    return _linear(Call(None, given.items()), input, weight, bias, activation, multiplier, residual, None)


@outside_graphs
def norm(input, weight, bias=None, *, residual=None, kind="rms", epsilon=None, out=None, dtype=None, context=None):
    """The norm of each token, times weight, plus bias, plus residual.

    input and residual [..., N], weight and bias [N]: float32, float16 or bfloat16
    kind     rms or layer
    epsilon  None: 1e-6 for rms, 1e-5 for layer
    out      an Array for the result, which may be the input or the residual
    dtype    of the result, float32, float16 or bfloat16; None: the input's
    Returns [..., N].
    """
    call = Call(context, (("input", input), ("weight", weight), ("bias", bias), ("residual", residual), ("out", out)))
    input = with_rows(call.take("input", input), "input")
    call.take("weight", weight)
    if bias is not None:
        call.take("bias", bias)
    if residual is not None and call.take("residual", residual).shape != input.shape:
        raise ValueError(f"residual: shape {list(call.inputs['residual'].shape)}, expected {list(input.shape)}")
    call.result("output", input.shape, _dtype_or(dtype, input), out)
    desc = _abi.NormDesc(kind=kind, epsilon=epsilon)
    _describe(desc, {role: array if role in ("weight", "bias") else fold(array, role)
                     for role, array in {**call.inputs, **call.outputs}.items()})
    call.run("vkattn_norm_plan", desc, may_share=("input", "residual"))
    return call.given_back("output")


@outside_graphs
def embedding(tokens, weight, *, out=None, context=None):
    """The rows of weight [rows, N] that tokens [...] int32 name; zeros for a token that has none.

    Returns [..., N] in weight's type, float32 where weight is an Array of blocks (see linear).
    """
    call = Call(context, (("tokens", tokens), ("weight", weight), ("out", out)))
    tokens, weight = call.take("tokens", tokens, dtype="int32"), with_rows(call.take("weight", weight, WEIGHTS), "weight")
    like = "float32" if is_quantised(dtype_of(weight)) else weight
    output = call.result("output", (*tokens.shape, weight.shape[-1]), like, out)
    desc = _abi.EmbeddingDesc()
    _describe(desc, {"tokens": tokens.reshape(1, -1), "weight": weight, "output": fold(output, "output")})
    call.run("vkattn_embedding_plan", desc)
    return call.given_back("output")


def gated(call, desc, gate, others):
    """Describes the gate and what has its shape: {name: (role, array)}, the arrays given."""
    gate = with_rows(call.take("multiplier", gate, name="gate"), "gate")
    desc.gate = describe(fold(gate, "gate"), "gate")
    for name, (role, array) in others.items():
        if array is None:
            continue
        array = call.take(role, array, name=name)
        if array.shape != gate.shape:
            raise ValueError(f"{name}: shape {list(array.shape)}, expected that of gate, {list(gate.shape)}")
        setattr(desc, name, describe(fold(array, name), name))
    return gate


@outside_graphs
def gated_activation(gate, input=None, activation="silu", *, out=None, context=None):
    """activation(gate) * input, what feed-forward layers gate; of no input activation(gate).

    gate and input [..., N]: float32, float16 or bfloat16; activation: as linear has them
    out  an Array for the result, which may be the gate or the input
    Returns [..., N] in the gate's type. Its gradients: gated_activation_backward.
    """
    call = Call(context, (("gate", gate), ("input", input), ("out", out)))
    desc = _abi.GatedActivationDesc(activation=activation)
    gate = gated(call, desc, gate, {"input": ("input", input)})
    desc.output = describe(fold(call.result("output", gate.shape, gate, out), "output"), "output")
    call.run("vkattn_gated_activation_plan", desc, may_share=("input", "multiplier"))
    return call.given_back("output")


@outside_graphs
def top_k(input, k, *, context=None):
    """The k greatest numbers of each row of input [..., N], the greatest first; of equal ones that of the lower index.

    input  float32, float16 or bfloat16; k at most N and 2048. NaN is greater than all numbers
    Returns (values [..., k] in the input's type, indices [..., k] int32).
    """
    call = Call(context, (("input", input),))
    input = with_rows(call.take("input", input), "input")
    if not 1 <= _abi.real("k", k) <= input.shape[-1]:
        raise ValueError(f"k: {k}, expected 1 to {input.shape[-1]}, the numbers of a row")
    call.result("values", (*input.shape[:-1], k), input)
    call.result("indices", (*input.shape[:-1], k), "int32")
    desc = _abi.TopKDesc()
    _describe(desc, {"input": fold(input, "input"), "values": fold(call.outputs["values"], "values"),
                     "indices": fold(call.outputs["indices"], "indices")})
    call.run("vkattn_top_k_plan", desc)
    return call.given_back("values"), call.given_back("indices")


@outside_graphs
def index(query, key, weights=None, *, top_k, key_block_len=1, activation="relu", head_reduce="sum", block_reduce="max",
          forced_first=0, forced_last=0, scale=None, is_causal=False, window=None, causal_alignment="top_left", past_len=None,
          key_lengths=None, past_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=0, max_seqlen_k=0,
          block_table=None, key_scales=None, context=None):
    """The top_k blocks of keys that score highest for each query, as DeepSeek's indexer chooses them; what attention takes as
    key_indices.

    query [B,Hi,Lq,D], key [B,1,Lk,D] (as attention takes them), weights [B,Lq,Hi] float32 or None: 1
    The score of a key is the sum (head_reduce "max": the largest) over heads of weight * activation(scale * query . key);
        activation "relu" or "identity". That of a block of key_block_len keys is the largest or, block_reduce "mean", the mean
        of its visible keys'
    forced_first, forced_last: so many of a query's first and last visible blocks are always in its list
    The rest as in attention.
    Returns [B,1,Lq,top_k] int32: ascending, then -1.
    """
    lengths = {"key_lengths": key_lengths, "past_lengths": past_lengths, "cu_seqlens_q": cu_seqlens_q,
               "cu_seqlens_k": cu_seqlens_k, "block_table": block_table}
    call = Call(context, (("query", query), ("key", key), ("weights", weights), ("key_scales", key_scales), *lengths.items()))
    query = call.take("query", query, strided=True)
    call.take("key", key, STORED, strided=True)
    if query.ndim != 4:
        raise ValueError(f"query: {query.ndim} dimensions, expected [B,Hi,Lq,D]")
    call.take_named(**lengths)
    call.take_scales("key_scales", key_scales)
    given = dict(call.inputs)
    if weights is not None:
        given["weights"] = call.take("weight", weights, dtype="float32", name="weights")
    given["indices"] = call.result("indices", (query.shape[0], 1, query.shape[2], top_k), "int32")
    desc = _abi.IndexDesc(key_block_len=key_block_len, activation=activation, head_reduce=head_reduce, block_reduce=block_reduce,
                          forced_first=forced_first, forced_last=forced_last, scale=scale, past_len=past_len, max_seqlen_q=max_seqlen_q,
                          max_seqlen_k=max_seqlen_k)
    set_ranges(desc, is_causal, window, causal_alignment)
    _describe(desc, given)
    call.run("vkattn_index_plan", desc)
    return call.given_back("indices")


@outside_graphs
def argmax(input, *, return_values=False, out=None, context=None):
    """Where the greatest number of each row is, of equal ones the first: greedy sampling. NaN is greater than all numbers.

    input [..., N], of 2 dimensions or more: float32, float16 or bfloat16
    return_values  True: returns (places, the greatest themselves [...] float32)
    out            an Array for the places
    Returns [...] int32.
    """
    call = Call(context, (("input", input), ("out", out)))
    input = call.take("input", input)
    if input.ndim < 2:
        raise ValueError(f"input: {input.ndim} dimensions, expected at least 2, [..., N]")
    results = {"tokens": call.result("tokens", input.shape[:-1], "int32", out)}
    if return_values:
        results["values"] = call.result("values", input.shape[:-1], "float32")
    desc = _abi.ArgmaxDesc()
    _describe(desc, {"input": fold(input, "input"), **{name: array.reshape(1, -1) for name, array in results.items()}})
    call.run("vkattn_argmax_plan", desc)
    return (call.given_back("tokens"), call.given_back("values")) if return_values else call.given_back("tokens")


def rope_scaling_of(members):
    """A vkattn_rope_scaling of a dict of its members, of longrope with the list "factors"."""
    if not isinstance(members, dict) or "kind" not in members:
        raise TypeError(f"rope_scaling: {members!r}, expected a dict with kind, one of {', '.join(_abi.ROPE_SCALING_KINDS)}")
    members = dict(members)
    kind, factors = members.pop("kind"), members.pop("factors", None)
    scaling = _abi.RopeScaling(kind=_abi.choose("rope_scaling", _abi.ROPE_SCALING_KINDS, kind), **members)
    if factors is not None:
        scaling.factors = (ctypes.c_float * len(factors))(*(_abi.real("factors", factor) for factor in factors))
        scaling.factor_count = len(factors)
    return scaling


@outside_graphs
def rotary_embedding(input, *, rope_theta=10000.0, rotary_dim=0, rope_interleaved=False, rope_scaling=None, rope_sections=(),
                     rope_sections_interleaved=False, positions=None, past_len=0, past_lengths=None, cu_seqlens=None, max_seqlen=0,
                     inverse=False, dtype=None, context=None):
    """input [B, H, L, D] with each row's first rotary_dim elements (0: all) turned by its position, as queries and keys are.

    input      float32, float16 or bfloat16; packed [1, H, total, D] with cu_seqlens [B + 1] int32, of which none is longer than max_seqlen (0:
               total). Packed rows of no sequence give zeros
    rope_theta, rope_interleaved, rope_scaling, rope_sections, rope_sections_interleaved  as in layer_config
    positions  int32 [S, B, L], of packed rows [S, 1, total], by streams of rope_sections (1 without); None: past_len + the row's place,
               or past_lengths [B] int32 in place of past_len
    inverse    turns back: of the gradient of what it gives it makes that of input
    dtype      of the result; None: the input's
    Returns an array of the shape of input.
    """
    call = Call(context, (("input", input), ("positions", positions), ("past_lengths", past_lengths), ("cu_seqlens", cu_seqlens)))
    input = call.take("input", input, strided=True)
    if input.ndim != 4:
        raise ValueError(f"input: {input.ndim} dimensions, expected [B, H, L, D]")
    desc = _abi.RotaryEmbeddingDesc(max_seqlen=max_seqlen, past_len=past_len, rotary_dim=rotary_dim, rope_theta=rope_theta,
                                    rope_interleaved=rope_interleaved, rope_sections_interleaved=rope_sections_interleaved,
                                    inverse=inverse)
    if len(rope_sections) != 0:
        desc.rope_sections = rope_sections
    if rope_scaling is not None:
        desc.rope_scaling = rope_scaling_of(rope_scaling)
    given = {"input": input}
    for name, role, array in (("positions", "positions", positions), ("past_lengths", "past_lengths", past_lengths),
                              ("cu_seqlens", "cu_seqlens_q", cu_seqlens)):
        if array is not None:
            given[name] = call.take(role, array, dtype="int32", name=name)
    given["output"] = output = call.result("output", input.shape, _dtype_or(dtype, input))
    if cu_seqlens is not None:
        output.assign(numpy.zeros(output.shape, output.dtype)) if isinstance(output, Array) else output.fill(0)
    _describe(desc, given)
    factors = () if rope_scaling is None else tuple(rope_scaling.get("factors") or ())
    described = type(desc).from_buffer_copy(desc)
    described.rope_scaling.factors = None
    call.run("vkattn_rotary_embedding_plan", desc, described=bytes(described) + repr(factors).encode())
    return call.given_back("output")


@outside_graphs
def mask_indices(attn_mask, count, shape=None, *, out=None, context=None):
    """The keys that each row of a mask lets be seen, as lists: key_indices of attention, whose cost then follows their length.

    attn_mask  bool, True = visible, or float32 or float16, where -inf hides; at most 4 dimensions, [B,H,Lq,Lm] from the right
    count      N: entries of a list. Visible keys beyond the first N are left out
    shape      (B, H, Lq) that the mask broadcasts to; None: its own
    out        an int32 Array for the lists
    Returns [B,H,Lq,N] int32, ascending, then -1.
    """
    call = Call(context, (("attn_mask", attn_mask), ("out", out)))
    mask = broadcastable(call.take("attn_mask", attn_mask, MASKS[:3], strided=True), "attn_mask")
    call.inputs["attn_mask"] = mask
    lists = call.result("key_indices", (*(mask.shape[:3] if shape is None else shape), count), "int32", out)
    desc = _abi.MaskIndicesDesc()
    _describe(desc, {"attn_mask": mask, "key_indices": lists})
    call.run("vkattn_mask_indices_plan", desc)
    return call.given_back("key_indices")


@outside_graphs
def kv_append(source, cache, *, offset=0, past_lengths=None, cu_seqlens=None, max_seqlen=0, block_table=None, rotation=None,
              scales=None, makes_scales=False, context=None):
    """Writes rows of keys or of values into a cache, which is an Array, in the cache's type.

    source [B,H,L,D]: float32, float16 or bfloat16; cache [B,H,capacity,D], these and quantised blocks (context.empty)
    offset         cache position of the first row
    past_lengths   [B] int32: takes the place of offset, sequence by sequence; rows beyond the capacity are dropped
    cu_seqlens     [B+1] int32: source is packed, [1,H,total,D]; max_seqlen: the longest, 0: not known
    block_table    [B,N] int32: cache is a pool of pages [pages,H,P,D], as in attention
    scales         float32, of a cache of f8_e4m3 or f8_e5m2: rows are divided by them; broadcast from the right to
                   [B,H,capacity,1] (of pages [pages,H,P,1]). attention takes key_scales and value_scales then
    makes_scales   True: scales, an Array with one for each row, gets those of the rows that are written
    rotation       "hadamard": rows are stored rotated, as vkattn_rotation says; attention takes kv_rotation then
    """
    if not isinstance(cache, Array):
        raise TypeError(f"cache: {type(cache).__name__}, expected an Array, as context.empty makes them")
    lengths = {"past_lengths": past_lengths, "cu_seqlens": cu_seqlens, "block_table": block_table}
    call = Call(context, (("source", source), ("cache", cache), ("scales", scales), *lengths.items()))
    desc = _abi.KvAppendDesc(offset=offset, max_seqlen=max_seqlen, rotation="none" if rotation is None else rotation,
                             makes_scales=_abi.flag("makes_scales", makes_scales))
    source = call.take("source", source, name="source", strided=True)
    desc.source = describe(source, "source")
    for name, numbers in lengths.items():
        if numbers is not None:
            role = "cu_seqlens_q" if name == "cu_seqlens" else name
            numbers = call.take(role, numbers, name=name, dtype="int32")
            if name == "cu_seqlens" and isinstance(numbers, numpy.ndarray) and source.ndim == 4:
                checked_bounds(numbers, name, source.shape[2])
            setattr(desc, name, describe(numbers, name))
    desc.cache = describe(as_array(cache, "cache", STORED), "cache")
    call.outputs["cache"] = cache
    if desc.makes_scales:
        if not isinstance(scales, Array):
            raise TypeError(f"scales: {type(scales).__name__}, expected an Array to write, as context.empty makes them")
        call.outputs["key_scales"] = scales
        desc.scales = describe(as_array(scales, "scales", ("float32",)), "scales")
    elif scales is not None:
        call.take_scales("key_scales", scales)
        desc.scales = describe(call.inputs["key_scales"], "scales")
    call.run("vkattn_kv_append_plan", desc)


def _stacked(parts, name, types, dtype=None):
    """An array [parts, ...]: the one that is given, or one made of a sequence of them."""
    if not isinstance(parts, (list, tuple)) or not parts:
        return parts
    if not any(isinstance(part, Array) for part in parts):
        arrays = [as_array(part, name, types, dtype) for part in parts]
        if len({array.shape for array in arrays}) > 1:
            raise ValueError(f"{name}: parts of shapes {', '.join(str(list(array.shape)) for array in arrays)}, expected one")
        return numpy.stack(arrays)
    context = next(part.context for part in parts if isinstance(part, Array))
    arrays = [part if isinstance(part, Array) else context.array(part) for part in parts]
    whole = context.empty((len(arrays), *arrays[0].shape), arrays[0].dtype)
    for i, part in enumerate(arrays):
        if part.shape != arrays[0].shape:
            raise ValueError(f"{name}: parts of shapes {list(arrays[0].shape)} and {list(part.shape)}, expected one")
        context.convert(context.own(part, name), whole[i])
    return whole


def _take_parts(call, role, parts, name, types, dtype=None):
    """An input [parts, ...], each of which is described by itself."""
    array = call.take(role, _stacked(parts, name, types, dtype), name=name, dtype=dtype)
    if isinstance(array, Array) and array.ndim > 1 and array[0].repeats_one():
        array = call.inputs[role] = array.contiguous()
    return array


@outside_graphs
def merge(outputs, log_sum_exps, *, return_lse=False, out=None, context=None):
    """Attention over disjoint sets of keys, joined to that over their union.

    outputs [parts,B,Hq,Lq,Dv], log_sum_exps [parts,B,Hq,Lq] float32: of attention(..., return_lse=True) over each set;
        arrays or lists of arrays
    return_lse  True: returns (output, log_sum_exp)
    out         an Array for the output, apart from the parts
    Returns the output [B,Hq,Lq,Dv] in the parts' type. Sinks: compute the parts without them, and add one of output 0 whose
    log_sum_exp is the sink of the head.
    """
    if len(outputs) == 0:
        raise ValueError("outputs: 0 parts, expected at least 1")
    parts = [("outputs", part) for part in outputs] if isinstance(outputs, (list, tuple)) else [("outputs", outputs)]
    parts += [("log_sum_exps", log_sum_exps)] if not isinstance(log_sum_exps, (list, tuple)) else \
        [("log_sum_exps", part) for part in log_sum_exps]
    call = Call(context, [*parts, ("out", out)])
    partial = _take_parts(call, "partial_output", outputs, "outputs", FLOATS)
    partial_lse = _take_parts(call, "partial_log_sum_exp", log_sum_exps, "log_sum_exps", ("float32",), "float32")
    if partial.ndim != 5 or partial_lse.shape != partial.shape[:4]:
        raise ValueError(f"outputs, log_sum_exps: shapes {list(partial.shape)} and {list(partial_lse.shape)}, "
                         "expected [parts,B,Hq,Lq,Dv] and [parts,B,Hq,Lq]")
    call.result("output", partial.shape[1:], partial, out)
    if return_lse:
        call.result("log_sum_exp", partial_lse.shape[1:], "float32")
    desc = _abi.MergeDesc(part_count=len(partial), partial_output_stride=element_strides(partial)[0],
                          partial_log_sum_exp_stride=element_strides(partial_lse)[0])
    # described by their first part, bound whole
    _describe(desc, {"partial_output": partial[0], "partial_log_sum_exp": partial_lse[0], **call.outputs})
    call.run("vkattn_merge_plan", desc)
    output = call.given_back("output")
    return (output, call.given_back("log_sum_exp")) if return_lse else output
