"""What stands around attention: linear, norm, embedding, and the merge of partial attention."""
import numpy

from . import _abi
from .arrays import as_array, describe
from .context import default_context


def _choose(choices, value, name):
    if value not in choices:
        raise ValueError(f"{name}: {value!r}, expected one of {', '.join(choices)}")
    return choices[value]


def _fold(array):
    """[..., N] as [1, L, N], as the library takes tokens."""
    return array.reshape(1, -1, array.shape[-1])


def _describe(desc, arrays):
    for role, array in arrays.items():
        setattr(desc, role, describe(array, role))


def _run(context, plan_function, desc, inputs, outputs):
    """desc describes all but the tensors, which are those of the arrays."""
    _describe(desc, {**inputs, **outputs})
    (context or default_context()).run(plan_function, desc, inputs, outputs)


def _linear(input, weight, bias, activation, multiplier, residual):
    """The description of a product but for its tensors, its input arrays and its output [..., out]."""
    arrays = {"input": as_array(input, "input"), "weight": as_array(weight, "weight")}
    shape = (*arrays["input"].shape[:-1], arrays["weight"].shape[0])
    arrays["input"] = _fold(arrays["input"])
    if bias is not None:
        arrays["bias"] = as_array(bias, "bias")
    for role, array in (("multiplier", multiplier), ("residual", residual)):
        if array is not None:
            if numpy.shape(array) != shape:
                raise ValueError(f"{role}: shape {list(numpy.shape(array))}, expected {list(shape)}")
            arrays[role] = _fold(as_array(array, role))
    desc = _abi.LinearDesc(activation=_choose(_abi.ACTIVATIONS, activation, "activation"))
    return desc, arrays, numpy.empty(shape, arrays["input"].dtype)


def linear(input, weight, bias=None, *, activation="none", multiplier=None, residual=None, context=None):
    """activation(input weight^T + bias) * multiplier + residual, as torch.nn.functional.linear and what follows it.

    input [..., in], weight [out, in], bias [out], multiplier and residual [..., out]: float32, float16 or ml_dtypes' bfloat16
    activation  none, relu, gelu, silu or leaky_relu
    Returns [..., out] in the input's type.
    """
    desc, arrays, output = _linear(input, weight, bias, activation, multiplier, residual)
    _run(context, "vkattn_linear_plan", desc, arrays, {"output": _fold(output)})
    return output


def linear_problem(input, weight, bias=None, *, activation="none", multiplier=None, residual=None):
    """The C description of a call of linear, for Context.tune."""
    desc, arrays, output = _linear(input, weight, bias, activation, multiplier, residual)
    _describe(desc, {**arrays, "output": _fold(output)})
    return desc


def norm(input, weight, bias=None, *, kind="rms", epsilon=0.0, context=None):
    """The norm of each token, times weight, plus bias.

    input [..., N], weight and bias [N]: float32, float16 or ml_dtypes' bfloat16
    kind     rms or layer
    epsilon  0: 1e-6 for rms, 1e-5 for layer
    Returns [..., N] in the input's type.
    """
    arrays = {"input": as_array(input, "input"), "weight": as_array(weight, "weight")}
    if bias is not None:
        arrays["bias"] = as_array(bias, "bias")
    output = numpy.empty(arrays["input"].shape, arrays["input"].dtype)
    arrays["input"] = _fold(arrays["input"])
    desc = _abi.NormDesc(kind=_choose(_abi.NORM_KINDS, kind, "kind"), epsilon=epsilon)
    _run(context, "vkattn_norm_plan", desc, arrays, {"output": _fold(output)})
    return output


def embedding(tokens, weight, *, context=None):
    """The rows of weight [rows, N] that tokens [...] int32 name; zeros for a token that has none.

    Returns [..., N] in weight's type.
    """
    arrays = {"tokens": as_array(tokens, "tokens", numpy.int32), "weight": as_array(weight, "weight")}
    output = numpy.empty((*arrays["tokens"].shape, arrays["weight"].shape[-1]), arrays["weight"].dtype)
    arrays["tokens"] = arrays["tokens"].reshape(1, -1)
    _run(context, "vkattn_embedding_plan", _abi.EmbeddingDesc(), arrays, {"output": _fold(output)})
    return output


def merge(outputs, log_sum_exps, *, return_lse=False, context=None):
    """Attention over disjoint sets of keys, joined to that over their union.

    outputs [parts,B,Hq,Lq,Dv], log_sum_exps [parts,B,Hq,Lq] float32: of attention(..., return_lse=True) over each set
    return_lse  True: returns (output, log_sum_exp)
    Returns the output [B,Hq,Lq,Dv] in the parts' type. Sinks: compute the parts without them, and add one of output 0 whose
    log_sum_exp is the sink of the head.
    """
    if len(outputs) == 0:
        raise ValueError("outputs: 0 parts, expected at least 1")
    partial = as_array(outputs, "outputs")
    partial_lse = as_array(log_sum_exps, "log_sum_exps", numpy.float32)
    if partial.ndim != 5 or partial_lse.shape != partial.shape[:4]:
        raise ValueError(f"outputs, log_sum_exps: shapes {list(partial.shape)} and {list(partial_lse.shape)}, "
                         "expected [parts,B,Hq,Lq,Dv] and [parts,B,Hq,Lq]")
    results = {"output": numpy.empty(partial.shape[1:], partial.dtype)}
    if return_lse:
        results["log_sum_exp"] = numpy.empty(partial_lse.shape[1:], numpy.float32)
    desc = _abi.MergeDesc(part_count=len(partial), partial_output_stride=partial[0].size,
                          partial_log_sum_exp_stride=partial_lse[0].size)
    # described by their first part, bound whole
    desc.partial_output, desc.partial_log_sum_exp = describe(partial[0], "outputs"), describe(partial_lse[0], "log_sum_exps")
    for role, array in results.items():
        setattr(desc, role, describe(array, role))
    (context or default_context()).run("vkattn_merge_plan", desc, {"partial_output": partial.reshape(-1),
                                                                   "partial_log_sum_exp": partial_lse.reshape(-1)}, results)
    return (results["output"], results["log_sum_exp"]) if return_lse else results["output"]
