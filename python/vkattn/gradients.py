"""The gradients of attention and of what stands around it."""
import ctypes

from . import _abi
from .arrays import WEIGHTS, describe, dtype_of, is_quantised
from .attention import Problem
from .calls import Call
from .compiled import outside_graphs
from .context import default_context
from .device_array import Array
from .functions import CapturedDerivatives, Derivative
from .operators import fold, gated
from .variants import set_captured_variant, take_block_mask

_OF = ("query", "key", "value", "attn_mask", "sinks")
_CAPTURED = tuple(f"captured_{number}" for number in range(4))


def _checked_names(gradients, known):
    names = (gradients,) if isinstance(gradients, str) else tuple(gradients)
    for name in names:
        if name not in known:
            raise ValueError(f"gradients: {name!r}, expected some of {', '.join(known)}")
    if not names or len(set(names)) != len(names):
        raise ValueError(f"gradients: {names}, expected one at least, each once")
    return names


def _take_given(call, problem, output, log_sum_exp):
    """The forward pass's results, which the library computes again where they are absent."""
    call.outputs.clear()
    desc = problem.desc
    desc.output = desc.log_sum_exp = _abi.Tensor()
    if (output is None) != (log_sum_exp is None):
        raise ValueError("output, log_sum_exp: one of them None, expected both or neither")
    if output is None:
        return
    for role, array in (("output", call.take("output", output, strided=True)),
                        ("log_sum_exp", call.take("log_sum_exp", log_sum_exp, dtype="float32"))):
        call.inputs[role] = array = array.reshape((1,) * problem.missing_of(role) + array.shape)
        setattr(desc, role, describe(array, role))


@outside_graphs
def gated_activation_backward(gate, d_output, input=None, activation="silu", *, context=None):
    """The gradients of sum(gated_activation(gate, input, activation) * d_output).

    gate, d_output and input [..., N]: float32, float16 or bfloat16
    Returns (d_gate, d_input), each in the type of what it is the gradient of; without input d_gate alone.
    """
    call = Call(context, (("gate", gate), ("d_output", d_output), ("input", input)))
    desc = _abi.GatedActivationBackwardDesc(activation=activation)
    gate = gated(call, desc, gate, {"d_output": ("d_output", d_output), "input": ("input", input)})
    for name, of in (("d_gate", gate), ("d_input", call.inputs.get("input"))):
        if of is not None:
            setattr(desc, name, describe(fold(call.result(name, of.shape, of), name), name))
    call.run("vkattn_gated_activation_backward_plan", desc)
    return call.given_back("d_gate") if input is None else (call.given_back("d_gate"), call.given_back("d_input"))


@outside_graphs
def embedding_backward(tokens, d_output, rows=None, *, accumulate=False, out=None, context=None):
    """The gradient of embedding's weight: of each row the sum of d_output over the positions whose token names it, in their order.

    tokens      [...] int32; those that name no row are left out
    d_output    [..., N]: float32, float16 or bfloat16
    rows        of the weight; None: out's
    accumulate  True: sums are added to what out holds, an Array of float32
    out         an Array for the result
    Returns [rows, N] in d_output's type, or out's.
    """
    call = Call(context, (("tokens", tokens), ("d_output", d_output), ("out", out)))
    tokens, gradient = call.take("tokens", tokens, dtype="int32"), call.take("d_output", d_output)
    if gradient.shape[:-1] != tokens.shape or gradient.ndim == 0:
        raise ValueError(f"d_output: shape {list(gradient.shape)}, expected {list(tokens.shape)} and N")
    if rows is None and out is None:
        raise ValueError("rows: None without out, expected the rows of the weight")
    accumulate = _abi.flag("accumulate", accumulate)
    if accumulate and out is None:
        raise ValueError("accumulate: True without out, expected an Array to add to")
    shape = (out.shape[0] if rows is None else rows, gradient.shape[-1])
    made = call.result("d_weight", shape, gradient if out is None else dtype_of(out), out)
    desc = _abi.EmbeddingBackwardDesc(accumulate=accumulate)
    for name, array in (("tokens", tokens.reshape(1, -1)), ("d_output", fold(gradient, "d_output")), ("d_weight", made)):
        setattr(desc, name, describe(array, name))
    call.run("vkattn_embedding_backward_plan", desc)
    return call.given_back("d_weight")


def _derivative_of(score_mod, given, kind=Derivative):
    if given is not None or score_mod is None:
        return given
    return None if isinstance(score_mod, str) else kind(score_mod)


def _named_gradients(gradients):
    """Names of gradients, and the captured arrays that are given in place of names, by their places among them."""
    given = [gradients] if isinstance(gradients, str) or hasattr(gradients, "dtype") else list(gradients)
    arrays = {place: each for place, each in enumerate(given) if not isinstance(each, str)}
    for place, array in arrays.items():
        if not hasattr(array, "dtype"):
            raise TypeError(f"gradients: {type(array).__name__}, expected names, and captured arrays")
        if any(array is each for other, each in arrays.items() if other < place):
            raise ValueError(f"gradients: an array of shape {list(array.shape)} twice, expected each once")
    _checked_names([f"array {place}" if place in arrays else each for place, each in enumerate(given)],
                   (*_OF, *_CAPTURED, *(f"array {place}" for place in arrays)))
    return given, arrays


def _take_functions(problem, call, functions, captured, captured_numbers, names, arrays):
    """Sets the variant, and in place of arrays among the names those of their tensors. Returns what the plan needs kept."""
    if all(function is None for function in functions.values()):
        return []
    wanted = list(arrays.values())
    by_name = [name for name in names if isinstance(name, str) and name in _CAPTURED]
    if by_name and callable(functions["score_mod"]) and functions["score_mod_grad_captured"] is None:
        raise ValueError(f"gradients: {by_name[0]!r} of a score_mod of Python, expected the array itself")
    if wanted:
        functions["score_mod_grad_captured"] = _derivative_of(functions["score_mod"], functions["score_mod_grad_captured"], CapturedDerivatives)
    variant, taken = set_captured_variant(problem.desc, call.inputs, call.context or default_context(), functions, captured, captured_numbers,
                                          lambda array: any(array is each for each in wanted))
    for place, array in arrays.items():
        number = taken.place(array)
        if number is not None:
            if _CAPTURED[number] in by_name:
                raise ValueError(f"gradients: {_CAPTURED[number]!r} and its array, expected each once")
            names[place] = _CAPTURED[number]
    return [variant]


def _refuse_others(arguments):
    for name in ("return_lse", "out", "v_head_dim"):
        if name in arguments:
            raise TypeError(f"{name}: no argument of attention_backward")


def _described(call, problem, d_output, names):
    """The description, and the results by their names."""
    desc = _abi.AttentionBackwardDesc(attention=ctypes.pointer(problem.desc))
    gradient = call.take("d_output", d_output, strided=True)
    if problem.missing + gradient.ndim > 4:
        raise ValueError(f"d_output: {gradient.ndim} dimensions, expected {4 - problem.missing} as of query")
    call.inputs["d_output"] = gradient = gradient.reshape((1,) * problem.missing + gradient.shape)
    desc.d_output = describe(gradient, "d_output")
    results = {}
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"gradients: an array of shape {list(name.shape)}, expected one that score_mod captures")
        if name not in call.inputs:
            raise ValueError(f"gradients: {name!r}, expected an argument {name}")
        array = call.inputs[name]
        results[name] = call.result(f"d_{name}", array.shape, "float32" if name in ("sinks", *_CAPTURED) else dtype_of(array))
        setattr(desc, f"d_{name}", describe(results[name], f"d_{name}"))
    return desc, results


def attention_backward_problem(query, key, value, d_output, gradients=("query", "key", "value"), **arguments):
    """The C description of a call of attention_backward with an output and log_sum_exp that are there, for Context.tune, measure and bindings:
    of each of "query", "key" and "value" that is named the gradient, in its own type; arguments: those of attention."""
    _refuse_others(arguments)
    names = _checked_names(gradients, _OF[:3])
    call = Call(None, (("query", query), ("key", key), ("value", value), ("d_output", d_output)))
    described = Problem({"query": query, "key": key, "value": value, "return_lse": True, **arguments}, call)
    return _described(call, described, d_output, names)[0]


@outside_graphs
def attention_backward(query, key, value, d_output, *, output=None, log_sum_exp=None, gradients=("query", "key", "value"), score_mod=None,
                       mask_mod=None, score_mod_grad=None, score_mod_grad_captured=None, block_mask=None, captured=(), captured_numbers=(),
                       context=None, **arguments):
    """The gradients of sum(output * d_output), where output is that of attention, or flex_attention, with the same arguments.

    query, key, value, arguments  as attention takes them, the same dropout_seed too; key and value float32, float16 or bfloat16, and none of
        block_table, kv_rotation, key_scales, value_scales, v_head_dim, return_lse and out
    d_output   in the shape of the output: float32, float16 or bfloat16
    score_mod, mask_mod, block_mask, captured, captured_numbers  as flex_attention takes them
    score_mod_grad  score_mod_grad(score, batch, head, query, key): the derivative of score_mod by the score, GLSL text or a function; None:
        derived, of a score_mod of Python. Where two values meet it is as PyTorch has it: of minimum, maximum and abs the mean of both sides,
        of clip 1; floor, round, // and comparisons have none
    score_mod_grad_captured  of a score_mod in GLSL its derivatives by the captured arrays' elements, GLSL text; of one of Python they are derived
    output, log_sum_exp  what attention returned with return_lse=True; None for both: computed again
    gradients  which of "query", "key", "value", "attn_mask" (an additive one) and "sinks"; and of captured arrays of floats, which score_mod
        reads, by themselves, or where it is GLSL as "captured_0" and so on: float32
    Returns them in that order, each in the shape and the type of what it is the gradient of, but that of attn_mask of four dimensions, of
    every key, and float32 where that is bfloat16; one alone is no tuple. Results are of the kind
    that attention's are. A query or key that nothing sees has gradient 0, and so have packed rows of no sequence.
    """
    names, arrays = _named_gradients(gradients)
    _refuse_others(arguments)
    given = {"query": query, "key": key, "value": value, "d_output": d_output, "output": output, "log_sum_exp": log_sum_exp,
             **{name: arguments.get(name) for name in ("attn_mask", "sinks")}}
    mask_mod, captured, captured_numbers, made_in = take_block_mask(block_mask, mask_mod, captured, captured_numbers, query, key, arguments)
    call = Call(context or made_in, given.items())
    problem = Problem({"query": query, "key": key, "value": value, **arguments}, call)
    _take_given(call, problem, output, log_sum_exp)
    functions = {"score_mod": score_mod, "score_mod_grad": _derivative_of(score_mod, score_mod_grad), "score_mod_grad_captured": score_mod_grad_captured, "mask_mod": mask_mod}
    keep = _take_functions(problem, call, functions, captured, captured_numbers, names, arrays)
    desc, made = _described(call, problem, d_output, names)
    if any(arguments.get(name) is not None for name in ("cu_seqlens_q", "cu_seqlens_k")):
        for result in made.values():  # whose rows of no sequence keep what they hold
            result.context.fill(result, 0) if isinstance(result, Array) else result.fill(0)
    apart = _abi.AttentionBackwardDesc.from_buffer_copy(desc)
    apart.attention = None
    call.run("vkattn_attention_backward_plan", desc, described=bytes(problem.desc) + bytes(apart), keep=keep)
    shapes = {name: call.inputs[name].shape[problem.missing if name in _OF[:3] else 0:] for name in names}
    shapes.update({names[place]: tuple(array.shape) for place, array in arrays.items()})
    results = tuple(call.given_back(f"d_{name}", shapes[name]) for name in names)
    return results if len(results) > 1 else results[0]


def _take_tokens(call, role, value, width, like=None):
    """An input [..., width]; width None: any. like: an array whose other sizes it has."""
    array = call.take(role, value)
    wanted = [*(like.shape[:-1] if like is not None else array.shape[:-1]), width or array.shape[-1:] and array.shape[-1]]
    if array.ndim == 0 or list(array.shape) != wanted:
        raise ValueError(f"{role}: shape {list(array.shape)}, expected {wanted if array.ndim else 'at least 1 dimension'}")
    return array


def _run_backward(call, plan, desc, names, made, sums):
    """Runs it with results of these (shape, like) by name; those of sums are Arrays that it adds to."""
    sums = {name: array for name, array in sums.items() if array is not None}
    for name in sums:
        if name not in names:
            raise ValueError(f"d_{name}: given, expected it among gradients")
    if sums and set(sums) != {name for name in names if name != "input"}:
        raise ValueError("d_weight, d_bias: one of them None, expected both or neither of those among gradients")
    desc.accumulate = 1 if sums else 0
    for name in names:
        call.result(f"d_{name}", made[name][0], "float32" if name in sums else made[name][1], sums.get(name))
    for role, array in {**call.inputs, **call.outputs}.items():
        is_tokens = role in ("input", "d_output", "residual", "d_input")
        setattr(desc, role, describe(fold(array, role) if is_tokens else array, role))
    call.run(plan, desc, may_share=("residual",))
    results = tuple(call.given_back(f"d_{name}") for name in names)
    return results if len(results) > 1 else results[0]


@outside_graphs
def linear_backward(input, weight, d_output, *, gradients=("input", "weight", "bias"), residual=None, d_weight=None, d_bias=None,
                    context=None):
    """The gradients of sum(output * d_output), where output is linear(input, weight, bias).

    input [..., in], weight [out, in]  as linear takes them; each may be None where the other's gradient is not asked for: that of the input
        takes the weight, which may be quantised, that of the weight the input
    d_output   [..., out]: float32, float16 or bfloat16
    gradients  which of "input", "weight" and "bias"
    residual   [..., in], added to the input's gradient
    d_weight, d_bias  Arrays of float32 that the gradients are added to; None: new ones
    Returns them in that order: that of the input and of the bias in the type of d_output, that of the weight in the weight's, float32
    where it is quantised, and in d_output's where it is None; one alone is no tuple.
    """
    names = _checked_names(gradients, ("input", "weight", "bias"))
    call = Call(context, (("input", input), ("weight", weight), ("d_output", d_output), ("residual", residual), ("d_weight", d_weight),
                          ("d_bias", d_bias)))
    g = _take_tokens(call, "d_output", d_output, None)
    made = {"bias": (g.shape[-1:], g)}
    if "input" in names:
        if weight is None:
            raise ValueError("weight: None, expected [out, in] for the gradient of the input")
        w = call.take("weight", weight, WEIGHTS)
        made["input"] = ((*g.shape[:-1], w.shape[-1]), g)
    if "weight" in names:
        if input is None:
            raise ValueError("input: None, expected [..., in] for the gradient of the weight")
        x = _take_tokens(call, "input", input, made["input"][0][-1] if "input" in names else None, g)
        given = "float32" if weight is None else dtype_of(call.inputs["weight"] if "weight" in call.inputs else weight)
        made["weight"] = ((g.shape[-1], x.shape[-1]), g if weight is None else "float32" if is_quantised(given) else given)
    if residual is not None:
        if "input" not in names:
            raise ValueError("residual: given, expected it with the gradient of the input")
        _take_tokens(call, "residual", residual, made["input"][0][-1], g)
    return _run_backward(call, "vkattn_linear_backward_plan", _abi.LinearBackwardDesc(), names, made,
                         {"weight": d_weight, "bias": d_bias})


@outside_graphs
def norm_backward(input, weight, d_output, *, kind="rms", epsilon=None, gradients=("input", "weight"), residual=None, d_weight=None,
                  d_bias=None, context=None):
    """The gradients of sum(output * d_output), where output is norm(input, weight, bias) of that kind and epsilon.

    input, d_output [..., N], weight [N]: float32, float16 or bfloat16
    gradients  which of "input", "weight" and "bias"
    residual   [..., N], added to the input's gradient
    d_weight, d_bias  Arrays of float32 that the gradients are added to; None: new ones
    Returns them in that order: that of the input in its type, the others in the weight's; one alone is no tuple.
    """
    names = _checked_names(gradients, ("input", "weight", "bias"))
    call = Call(context, (("input", input), ("weight", weight), ("d_output", d_output), ("residual", residual), ("d_weight", d_weight),
                          ("d_bias", d_bias)))
    x, w = _take_tokens(call, "input", input, None), call.take("weight", weight)
    _take_tokens(call, "d_output", d_output, x.shape[-1], x)
    if residual is not None:
        _take_tokens(call, "residual", residual, x.shape[-1], x)
    return _run_backward(call, "vkattn_norm_backward_plan", _abi.NormBackwardDesc(kind=kind, epsilon=epsilon), names,
                         {"input": (x.shape, x), "weight": (w.shape, w), "bias": (w.shape, w)}, {"weight": d_weight, "bias": d_bias})
