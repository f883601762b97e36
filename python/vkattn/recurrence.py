"""Layers that keep a state in place of keys and values: linear attention, and the convolution and the gated norm beside it."""
import numpy

from . import _abi
from .arrays import as_array, checked_bounds, describe
from .calls import Call
from .compiled import outside_graphs
from .device_array import Array


def _take_states(call, desc, shape, sequences, initial_state, final_state, state_slots, token_states, draft_tokens, accepted):
    """Takes a call's states into its description, where shape is that of one."""
    states = {}
    if initial_state is not None:
        states["initial_state"] = call.take("initial_state", initial_state, dtype="float32")
    for name, numbers in (("state_slots", state_slots), ("accepted", accepted)):
        if numbers is not None:
            states[name] = call.take(name, numbers, dtype="int32")
    if state_slots is not None and final_state is None:
        raise ValueError("final_state: None with state_slots, expected an Array: states that no sequence has stay as they are")
    for name, array in (("final_state", final_state), ("token_states", token_states)):
        if array is None:
            continue
        if not isinstance(array, Array):
            raise TypeError(f"{name}: {type(array).__name__}, expected an Array to write, as context.empty makes them")
        states[name] = call.outputs[name] = as_array(array, name, ("float32",))
    if final_state is None:
        states["final_state"] = call.result("final_state", (sequences, *shape), "float32")
    for name, array in states.items():
        setattr(desc.states, name, describe(array, name))
    desc.states.draft_tokens = draft_tokens


def _take_bounds(call, desc, cu_seqlens_q, max_seqlen_q, batch, total):
    """Takes where packed sequences begin; returns how many sequences there are."""
    if cu_seqlens_q is None:
        return batch
    bounds = call.take("cu_seqlens_q", cu_seqlens_q, dtype="int32")
    if isinstance(bounds, numpy.ndarray):
        checked_bounds(bounds, "cu_seqlens_q", total)
    desc.cu_seqlens_q = describe(bounds, "cu_seqlens_q")
    desc.max_seqlen_q = max_seqlen_q
    return max(bounds.size - 1, 0)


@outside_graphs
def linear_attention(query, key, value, *, decay=None, beta=None, rule="delta", scale=None, qk_l2norm=False, initial_state=None,
                     final_state=None, cu_seqlens_q=None, max_seqlen_q=0, state_slots=None, token_states=None, draft_tokens=0,
                     accepted=None, form="auto", out=None, context=None):
    """Linear attention with a state S [Dk,Dv] a sequence and value head: the gated delta rule and its kin.

    For each token: S = diag(exp(decay)) S; u = beta (value - key S), with rule "decay" beta value; S += key^T u; output = scale query S

    query, key [B,Hk,L,Dk], value [B,Hv,L,Dv]: float32, float16 or bfloat16, with any strides
    decay          float32 [B,Hv,L] or [B,Hv,L,Dk], at most 0; None: 0
    beta           float32 [B,Hv,L]; None: 1
    scale          None: 1/sqrt(Dk)
    qk_l2norm      queries and keys are first divided by their length
    initial_state  float32 [B,Hv,Dk,Dv]; None: zeros
    final_state    an Array for the states after the last token, which may be the initial one; None: a new one
    cu_seqlens_q   [sequences+1] int32: packed, [1,H,total,D]; max_seqlen_q: the longest, 0: not known
    state_slots    [sequences] int32: which of the states (a pool, with final_state) each sequence has; negative: none
    token_states   an Array [states * draft_tokens,Hv,Dk,Dv] for the states after each of up to draft_tokens (at most 16) tokens
    accepted       [sequences] int32, with token_states: begin with what token accepted - 1 left there; 0: with the initial state
    form           auto, recurrent or chunked
    out            an Array for the result
    Returns (output [B,Hv,L,Dv] in the query's type, final_state).
    """
    call = Call(context, (("query", query), ("key", key), ("value", value), ("decay", decay), ("beta", beta),
                          ("initial_state", initial_state), ("final_state", final_state), ("token_states", token_states),
                          ("cu_seqlens_q", cu_seqlens_q), ("state_slots", state_slots), ("accepted", accepted), ("out", out)))
    desc = _abi.LinearAttentionDesc(scale=scale, rule=rule, form=form,
                                    qk_l2norm=_abi.flag("qk_l2norm", qk_l2norm))
    for role, array in (("query", query), ("key", key), ("value", value)):
        array = call.take(role, array, strided=True)
        if array.ndim != 4:
            raise ValueError(f"{role}: {array.ndim} dimensions, expected [B,H,L,D]")
        setattr(desc, role, describe(array, role))
    for role, array in (("decay", decay), ("beta", beta)):
        if array is not None:
            setattr(desc, role, describe(call.take(role, array, dtype="float32", strided=True), role))
    query, value = call.inputs["query"], call.inputs["value"]
    sequences = _take_bounds(call, desc, cu_seqlens_q, max_seqlen_q, query.shape[0], query.shape[2])
    output = call.result("output", (*value.shape[:2], query.shape[2], value.shape[3]), query, out)
    desc.output = describe(output, "output")
    _take_states(call, desc, (value.shape[1], query.shape[3], value.shape[3]), sequences, initial_state, final_state, state_slots,
                 token_states, draft_tokens, accepted)
    call.run("vkattn_linear_attention_plan", desc, may_share=("initial_state",))
    return call.given_back("output"), call.given_back("final_state")


@outside_graphs
def causal_conv1d(input, weight, bias=None, *, activation="none", initial_state=None, final_state=None, cu_seqlens_q=None,
                  max_seqlen_q=0, state_slots=None, token_states=None, draft_tokens=0, accepted=None, out=None, context=None):
    """A convolution of each channel over the last K tokens: activation(sum over j of weight[:,j] input[t - K + 1 + j] + bias).

    input [B,L,C], weight [C,K] with K from 2 to 4, bias [C]: float32, float16 or bfloat16
    activation     none or silu
    initial_state  float32 [B,K-1,C], the inputs before the first; None: zeros
    The rest as in linear_attention, with states [K-1,C].
    Returns (output [B,L,C] in the input's type, final_state).
    """
    call = Call(context, (("input", input), ("weight", weight), ("bias", bias), ("initial_state", initial_state),
                          ("final_state", final_state), ("token_states", token_states), ("cu_seqlens_q", cu_seqlens_q),
                          ("state_slots", state_slots), ("accepted", accepted), ("out", out)))
    desc = _abi.CausalConv1dDesc(activation=activation)
    input, weight = call.take("input", input), call.take("weight", weight)
    if input.ndim != 3 or weight.ndim != 2 or weight.shape[1] < 2:
        raise ValueError(f"input, weight: shapes {list(input.shape)} and {list(weight.shape)}, expected [B,L,C] and [C,K] with K from 2")
    if bias is not None:
        call.take("bias", bias)
    for role, array in call.inputs.items():
        setattr(desc, role, describe(array, role))
    sequences = _take_bounds(call, desc, cu_seqlens_q, max_seqlen_q, input.shape[0], input.shape[1])
    desc.output = describe(call.result("output", input.shape, input, out), "output")
    _take_states(call, desc, (weight.shape[1] - 1, input.shape[2]), sequences, initial_state, final_state, state_slots, token_states,
                 draft_tokens, accepted)
    call.run("vkattn_causal_conv1d_plan", desc, may_share=("initial_state",))
    return call.given_back("output"), call.given_back("final_state")


def _rows_of(array):
    """[..., N] as [B,L,N], of 3 dimensions as it lies."""
    if array.ndim == 3:
        return array
    return array.reshape(1, -1, array.shape[-1]) if array.size else array.reshape(1, 0, array.shape[-1])


@outside_graphs
def gated_rms_norm(input, gate, weight, *, epsilon=None, out=None, context=None):
    """The RMSNorm of each row, times weight, times silu(gate).

    input and gate [..., N], weight [N]: float32, float16 or bfloat16; epsilon: None: 1e-6
    out  an Array for the result, which may be the input or the gate
    Returns [..., N] in the input's type.
    """
    call = Call(context, (("input", input), ("gate", gate), ("weight", weight), ("out", out)))
    input, gate = call.take("input", input), call.take("multiplier", gate, name="gate")
    call.take("weight", weight)
    if input.ndim == 0 or gate.shape != input.shape:
        raise ValueError(f"gate: shape {list(gate.shape)}, expected that of input, {list(input.shape)}, of at least 1 dimension")
    output = call.result("output", input.shape, input, out)
    desc = _abi.GatedRmsNormDesc(epsilon=epsilon)
    for name, array in (("input", input), ("gate", gate), ("output", output)):
        setattr(desc, name, describe(_rows_of(array), name))
    desc.weight = describe(call.inputs["weight"], "weight")
    call.run("vkattn_gated_rms_norm_plan", desc, may_share=("input", "multiplier"))
    return call.given_back("output")
