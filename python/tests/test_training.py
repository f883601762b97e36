"""Gated activations, gradients of embedding, cross-entropy and AdamW: against float64, and beside PyTorch where it is."""
import math

import numpy
import pytest

import vkattn

CONTEXT = vkattn.default_context()


def made(*shape, seed=1, dtype="float32"):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(actual, expected, bound=1e-9):
    actual, expected = numpy.asarray(actual, "float64"), numpy.asarray(expected, "float64")
    return actual.shape == expected.shape and ((actual - expected) ** 2).sum() <= bound * (expected**2).sum()


def silu(x):
    return x / (1 + numpy.exp(-x))


def test_gated_activations_and_their_gradients():
    gate, input, d_output = (made(2, 5, 33, seed=seed) for seed in (1, 2, 3))
    x = gate.astype("float64")
    slope = (silu(x + 1e-6) - silu(x - 1e-6)) / 2e-6
    assert close(vkattn.gated_activation(gate, input), silu(x) * input)
    assert close(vkattn.gated_activation(gate), silu(x))
    d_gate, d_input = vkattn.gated_activation_backward(gate, d_output, input)
    assert close(d_gate, slope * input * d_output) and close(d_input, silu(x) * d_output)
    assert close(vkattn.gated_activation_backward(gate, d_output), slope * d_output)
    relu = vkattn.gated_activation_backward(gate, d_output, activation="relu")
    assert close(relu, (gate > 0) * d_output)
    device = CONTEXT.array(gate)
    assert vkattn.gated_activation(device, CONTEXT.array(input), out=device) is device
    assert close(device.numpy(), silu(x) * input)
    with pytest.raises(ValueError, match=r"input: shape \[5, 33\], expected that of gate, \[2, 5, 33\]"):
        vkattn.gated_activation(gate, input[0])


def test_embedding_backward_adds_up_the_rows_of_each_token():
    tokens = numpy.array([[3, 0, 3, 9], [-1, 3, 5, 0]], "int32")
    d_output = made(2, 4, 21)
    expected = numpy.zeros((6, 21))
    for token, row in zip(tokens.ravel(), d_output.reshape(-1, 21)):
        if 0 <= token < 6:
            expected[token] += row
    assert close(vkattn.embedding_backward(tokens, d_output, 6), expected)
    held = CONTEXT.array(made(6, 21, seed=5))
    vkattn.embedding_backward(CONTEXT.array(tokens), CONTEXT.array(d_output), out=held, accumulate=True)
    assert close(held.numpy(), expected + made(6, 21, seed=5))
    with pytest.raises(ValueError, match="rows: None without out"):
        vkattn.embedding_backward(tokens, d_output)
    with pytest.raises(ValueError, match="accumulate: True without out"):
        vkattn.embedding_backward(tokens, d_output, 6, accumulate=True)


def loss_of(logits, labels, ignored=-100):
    """The mean, the losses, and the mean's gradient."""
    logits = logits.astype("float64")
    rows = logits - logits.max(-1, keepdims=True)
    sums = numpy.exp(rows).sum(-1, keepdims=True)
    counts = (labels >= 0) & (labels < logits.shape[-1]) & (labels != ignored)
    at = numpy.where(counts, labels, 0)[..., None]
    losses = numpy.where(counts, (numpy.log(sums) - numpy.take_along_axis(rows, at, -1))[..., 0], 0)
    gradient = numpy.exp(rows) / sums
    numpy.put_along_axis(gradient, at, numpy.take_along_axis(gradient, at, -1) - 1, -1)
    count = max(counts.sum(), 1)
    return losses.sum() / count, losses, gradient * counts[..., None] / count


def test_cross_entropy():
    logits = made(2, 3, 501) * 4
    labels = numpy.array([[500, -100, 7], [0, 501, 7]], "int32")
    mean, losses, gradient = loss_of(logits, labels)
    assert close(vkattn.cross_entropy(logits, labels), [mean])
    all_made = vkattn.cross_entropy(logits, labels, return_losses=True, return_gradient=True)
    assert all(close(one, other) for one, other in zip(all_made, ([mean], losses, gradient)))
    mean, _, gradient = loss_of(logits, labels, 7)
    in_place = CONTEXT.array(logits)
    ignoring, same = vkattn.cross_entropy(in_place, labels, ignore_label=7, loss_scale=numpy.array([16], "float32"), out=in_place)
    assert same is in_place and close(ignoring.numpy(), [mean]) and close(in_place.numpy(), 16 * gradient)
    with pytest.raises(ValueError, match=r"labels: shape \[3\], expected \[2, 3\]"):
        vkattn.cross_entropy(logits, labels[0])


def small_state(count, step=0):
    """A parameter, its moments, the step and the learning rate on the device."""
    zeros = numpy.zeros(count, "float32")
    return (CONTEXT.array(made(count)), CONTEXT.array(zeros), CONTEXT.array(zeros), CONTEXT.array(numpy.array([step], "int32")),
            CONTEXT.array(numpy.array([0.03], "float32")))


def test_a_recorded_step_is_adamw(count=999):
    parameter, first, second, step, rate = small_state(count)
    gradient, squares = CONTEXT.empty((count,), "float32"), CONTEXT.empty((1,), "float32")
    factor, halved = CONTEXT.empty((1,), "float32"), CONTEXT.empty((count,), "float16")

    p, m, v = made(count).astype("float64"), numpy.zeros(count), numpy.zeros(count)
    gradient.assign(numpy.zeros(count, "float32"))
    with vkattn.record() as program:
        vkattn.squared_norm(gradient, scale=0.5, out=squares)
        vkattn.optimizer_step(squares, step, max_norm=1.0, out=factor)
        vkattn.adamw(parameter, gradient, first, second, step, rate, factor=factor, copy=halved, copy_scale=0.5)
    for t in range(1, 6):
        g = made(count, seed=t)
        gradient.assign(g)
        rate.assign(numpy.array([0.03 / t], "float32"))
        program.replay()
        g = 0.5 * g * min(1, 1 / (math.sqrt((g.astype("float64") ** 2).sum()) + 1e-6))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p * (1 - 0.03 / t * 0.01) - 0.03 / t * (m / (1 - 0.9**t)) / (numpy.sqrt(v / (1 - 0.999**t)) + 1e-8)
    assert step.numpy()[0] == 5 and close(parameter.numpy(), p) and close(halved.numpy(), p / 2, 1e-6)


def test_a_step_that_is_not_finite_is_not_taken():
    parameter, first, second, step, rate = small_state(50, step=3)
    scale, good = CONTEXT.array(numpy.array([64], "float32")), CONTEXT.array(numpy.array([1], "int32"))
    gradient = made(50, dtype="float16")
    gradient[7] = numpy.inf
    factor = vkattn.optimizer_step(vkattn.squared_norm(CONTEXT.array(gradient)), step, loss_scale=scale, good_steps=good)
    vkattn.adamw(parameter, gradient, first, second, step, rate, factor=factor)
    assert factor.numpy()[0] == 0 and step.numpy()[0] == 3 and scale.numpy()[0] == 32 and good.numpy()[0] == 0
    assert (parameter.numpy() == made(50)).all()


def test_what_changes_in_place_is_an_array_of_the_device():
    parameter, first, second, step, rate = small_state(4)
    with pytest.raises(TypeError, match="parameter: ndarray, expected an Array of float32, which is changed in place"):
        vkattn.adamw(made(4), made(4), first, second, step, rate)
    with pytest.raises(TypeError, match="step: an Array of float32, expected an Array of int32"):
        vkattn.optimizer_step(numpy.ones(1, "float32"), rate)
    with pytest.raises(vkattn.InvalidArgumentError, match=r"gradient: shape \[5\], expected \[4\]"):
        vkattn.adamw(parameter, made(5), first, second, step, rate)


def test_twenty_steps_beside_pytorch(width=40, rows=64):
    """Softmax regression, clipped, with a schedule: the same curve and parameters."""
    torch = pytest.importorskip("torch")
    inputs, labels = made(rows, width, seed=8), numpy.random.default_rng(9).integers(0, 10, rows).astype("int32")
    weight = torch.from_numpy(made(10, width, seed=7).copy()).requires_grad_()
    optimizer = torch.optim.AdamW([weight], lr=0.05, betas=(0.9, 0.98), weight_decay=0.1)
    parameter, zeros = CONTEXT.array(made(10, width, seed=7)), numpy.zeros((10, width), "float32")
    first, second, step = CONTEXT.array(zeros), CONTEXT.array(zeros), CONTEXT.array(numpy.zeros(1, "int32"))
    for t in range(20):
        rate = 0.05 / (1 + t / 5)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(torch.from_numpy(inputs) @ weight.T, torch.from_numpy(labels).long())
        loss.backward()
        torch.nn.utils.clip_grad_norm_([weight], 0.5)
        optimizer.step()
        mean, d_logits = vkattn.cross_entropy(vkattn.linear(CONTEXT.array(inputs), parameter), labels, return_gradient=True)
        gradient = vkattn.linear(CONTEXT.array(d_logits.numpy().T.copy()), CONTEXT.array(inputs.T.copy()))
        factor = vkattn.optimizer_step(vkattn.squared_norm(gradient), step, max_norm=0.5)
        vkattn.adamw(parameter, gradient, first, second, step, numpy.array([rate], "float32"), factor=factor, betas=(0.9, 0.98),
                     weight_decay=0.1)
        assert mean.numpy()[0] == pytest.approx(loss.item(), rel=1e-5)
    assert close(parameter.numpy(), weight.detach().numpy())
