"""What training takes beside gradients: the loss, clipping and loss scaling, AdamW. No number of a step comes from the host: a
program of one step is recorded once."""
from . import _abi
from .arrays import describe
from .calls import Call
from .compiled import outside_graphs
from .device_array import Array
from .operators import fold, with_rows


def _changed(call, role, array, dtype="float32"):
    """An Array of the role that the call changes in place."""
    if not isinstance(array, Array) or array.dtype != dtype:
        kind = f"an Array of {array.dtype}" if isinstance(array, Array) else type(array).__name__
        raise TypeError(f"{role}: {kind}, expected an Array of {dtype}, which is changed in place")
    call.outputs[role] = array
    return array


def _describe_all(call, desc, names=()):
    for name, array in (*call.inputs.items(), *call.outputs.items()):
        if not names or name in names:
            setattr(desc, name, describe(array, name))


@outside_graphs
def cross_entropy(input, labels, *, ignore_label=-100, loss_scale=None, return_losses=False, return_gradient=False, out=None,
                  context=None):
    """The mean of log(sum of exp(input)) - input[label] over the labels that count: 0 to N-1, but for ignore_label.

    input      logits [..., N]: float32, float16 or bfloat16
    labels     [...] int32. Of one that does not count loss and gradient are 0, whatever its logits are
    loss_scale [1] float32: what the gradient is multiplied by; None: 1
    return_losses, return_gradient  True: the losses [...] float32, the gradient of mean * loss_scale [..., N] in the input's type
    out        an Array for the gradient, which may be the input
    Returns the mean [1] float32, 0 where no label counts; with others the tuple (mean, losses, gradient) of those asked for.
    """
    call = Call(context, (("input", input), ("labels", labels), ("loss_scale", loss_scale), ("out", out)))
    input, labels = with_rows(call.take("input", input), "input"), call.take("labels", labels, dtype="int32")
    if labels.shape != input.shape[:-1]:
        raise ValueError(f"labels: shape {list(labels.shape)}, expected {list(input.shape[:-1])}")
    if loss_scale is not None:
        call.take("loss_scale", loss_scale, dtype="float32")
    call.result("mean_loss", (1,), "float32")
    if return_losses:
        call.result("loss", labels.shape, "float32")
    if return_gradient or out is not None:
        call.result("d_input", input.shape, input, out)
    desc = _abi.CrossEntropyDesc(ignore_label=ignore_label if ignore_label is not None and 0 <= ignore_label < input.shape[-1] else None)
    _describe_all(call, desc, ("loss_scale", "mean_loss"))
    for name, array in {**call.inputs, **call.outputs}.items():
        if name in ("input", "d_input"):
            setattr(desc, name, describe(fold(array, name), name))
        elif name in ("labels", "loss"):
            setattr(desc, name, describe(array.reshape(1, -1), name))
    if input.size == 0:
        raise ValueError(f"input: shape {list(input.shape)}, expected at least one row")
    call.run("vkattn_cross_entropy_plan", desc, may_share=("input",))
    results = tuple(call.given_back(name) for name in ("mean_loss", "loss", "d_input") if name in call.outputs)
    return results if len(results) > 1 else results[0]


@outside_graphs
def squared_norm(gradient, *, scale=1.0, accumulate=False, out=None, context=None):
    """The sum of (scale * gradient)^2, float32 [1]: of several gradients the first alone, the others with accumulate.

    gradient    of any shape: float32, float16 or bfloat16
    accumulate  True: the sum is added to what out holds
    out         an Array of float32 [1] for the result
    """
    call = Call(context, (("gradient", gradient), ("out", out)))
    call.take("gradient", gradient)
    accumulate = _abi.flag("accumulate", accumulate)
    if accumulate and out is None:
        raise ValueError("accumulate: True without out, expected an Array to add to")
    call.result("squared_norm", (1,), "float32", out)
    desc = _abi.SquaredNormDesc(scale=scale, accumulate=accumulate)
    _describe_all(call, desc)
    call.run("vkattn_squared_norm_plan", desc)
    return call.given_back("squared_norm")


@outside_graphs
def optimizer_step(squared_norm, step, *, loss_scale=None, good_steps=None, max_norm=None, growth_factor=None, backoff_factor=None,
                   growth_interval=2000, out=None, context=None):
    """What gradients are multiplied by: min(1, max_norm / (norm + 1e-6)) / loss_scale with norm = sqrt(squared_norm) / loss_scale,
    as torch.nn.utils.clip_grad_norm_ and torch.amp.GradScaler have it; 0 where squared_norm is not finite: no step is taken.

    squared_norm  float32 [1]: that of all gradients, which loss_scale has multiplied
    step          an Array of int32 [1]: steps that were taken, which is counted
    loss_scale    an Array of float32 [1]; None: 1
    good_steps    an Array of int32 [1], 0 at first; None: loss_scale stays. It is multiplied by backoff_factor (None: 0.5) where a
                  step is not taken, by growth_factor (None: 2) after growth_interval that are
    max_norm      None: gradients are not clipped
    out           an Array of float32 [1] for the factor
    Returns the factor, float32 [1].
    """
    call = Call(context, (("squared_norm", squared_norm), ("step", step), ("loss_scale", loss_scale), ("good_steps", good_steps),
                          ("out", out)))
    call.take("squared_norm", squared_norm, dtype="float32")
    _changed(call, "step", step, "int32")
    if loss_scale is not None:
        _changed(call, "loss_scale", loss_scale)
    if good_steps is not None:
        _changed(call, "good_steps", good_steps, "int32")
    call.result("factor", (1,), "float32", out)
    desc = _abi.OptimizerStepDesc(max_norm=max_norm, growth_factor=growth_factor, backoff_factor=backoff_factor,
                                  growth_interval=growth_interval)
    _describe_all(call, desc)
    call.run("vkattn_optimizer_step_plan", desc)
    return call.given_back("factor")


@outside_graphs
def adamw(parameter, gradient, first_moment, second_moment, step, learning_rate, *, factor=None, copy=None, betas=(None, None),
          epsilon=None, weight_decay=None, copy_scale=None, context=None):
    """One step of AdamW (Loshchilov and Hutter, 2019), as torch.optim.AdamW takes it, in place.

    parameter, first_moment, second_moment  Arrays of float32 of one shape; moments are zeros at first
    gradient       of that shape: float32, float16 or bfloat16
    step           int32 [1]: this step's number, from 1 on; optimizer_step counts it
    learning_rate  float32 [1]
    factor         float32 [1]: what optimizer_step returned; None: 1. 0: nothing changes
    copy           an Array of that shape for parameter * copy_scale, what the layers read, of which gradient then is the gradient
    betas, epsilon, weight_decay, copy_scale  None: 0.9 and 0.999, 1e-8, 0.01, 1
    """
    call = Call(context, (("parameter", parameter), ("gradient", gradient), ("first_moment", first_moment),
                          ("second_moment", second_moment), ("step", step), ("learning_rate", learning_rate), ("factor", factor),
                          ("copy", copy)))
    call.take("gradient", gradient)
    call.take("step", step, dtype="int32")
    call.take("learning_rate", learning_rate, dtype="float32")
    if factor is not None:
        call.take("factor", factor, dtype="float32")
    for role, array in (("parameter", parameter), ("first_moment", first_moment), ("second_moment", second_moment)):
        _changed(call, role, array)
    if copy is not None:
        _changed(call, "copy", copy, copy.dtype if isinstance(copy, Array) else "a float type")
    beta1, beta2 = betas
    desc = _abi.AdamwDesc(beta1=beta1, beta2=beta2, epsilon=epsilon, weight_decay=weight_decay, copy_scale=copy_scale)
    _describe_all(call, desc)
    call.run("vkattn_adamw_plan", desc)
