"""attention_backward: against the formulas in float64, its arguments, and where its arrays lie."""
import numpy
import pytest

import vkattn
from vkattn import variants


def gradients_of(q, k, v, d_output, mask=0.0):
    """Of causal attention [H,L,D] with a mask that is added, in float64: of q, k, v and the scores."""
    q, k, v, d_output = (numpy.asarray(each, "float64") for each in (q, k, v, d_output))
    scale = q.shape[-1] ** -0.5
    scores = scale * q @ k.swapaxes(-1, -2) + mask
    scores[..., ~numpy.tri(*scores.shape[-2:], dtype=bool)] = -numpy.inf
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    of_weights = d_output @ v.swapaxes(-1, -2)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True))
    return (scale * of_scores @ k, scale * of_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ d_output, of_scores)


@pytest.fixture
def problem():
    random = numpy.random.default_rng(3)
    return [random.standard_normal((2, 3, 17, 24)).astype("float32") for _ in range(4)]


def close(actual, expected):
    return ((numpy.asarray(actual, "float64") - expected) ** 2).sum() <= 1e-9 * (expected**2).sum()


def test_gradients_of_numpy_arrays(problem):
    q, k, v, d_output = problem
    expected = gradients_of(q, k, v, d_output)
    output, log_sum_exp = vkattn.attention(q, k, v, is_causal=True, return_lse=True)
    given = vkattn.attention_backward(q, k, v, d_output, output=output, log_sum_exp=log_sum_exp, is_causal=True)
    computed = vkattn.attention_backward(q, k, v, d_output, is_causal=True)
    for made in (given, computed):
        assert all(close(each, wanted) for each, wanted in zip(made, expected))
    assert all(isinstance(each, numpy.ndarray) and each.shape == of.shape for each, of in zip(given, problem))


def test_gradients_of_a_mask_alone_and_of_few_dimensions(problem):
    q, k, v, d_output = (each[0, 0] for each in problem)
    mask = numpy.random.default_rng(4).standard_normal((17, 17)).astype("float32")
    made = vkattn.attention_backward(q, k, v, d_output, gradients="attn_mask", attn_mask=mask, is_causal=True)
    expected = gradients_of(q, k, v, d_output, mask)
    assert close(made.reshape(17, 17), expected[3])
    of_query = vkattn.attention_backward(q, k, v, d_output, gradients=["query"], attn_mask=mask, is_causal=True)
    assert of_query.shape == q.shape and close(of_query, expected[0])


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("packed", [False, True])
def test_gradients_take_what_attention_returned(problem, dimensions, packed):
    q, k, v, d_output = (each[(0,) * (4 - dimensions)] for each in problem)
    arguments = {"is_causal": True}
    if packed:
        arguments.update(cu_seqlens_q=numpy.array([0, 7, 16], "i4"), cu_seqlens_k=numpy.array([0, 7, 16], "i4"))
    output, log_sum_exp = vkattn.attention(q, k, v, return_lse=True, **arguments)
    assert output.shape == q.shape and log_sum_exp.shape == q.shape[:-1]
    given = vkattn.attention_backward(q, k, v, d_output, output=output, log_sum_exp=log_sum_exp, **arguments)
    again = vkattn.attention_backward(q, k, v, d_output, **arguments)
    assert all(one.shape == q.shape and close(one, other) for one, other in zip(given, again))


def test_gradients_of_arrays_on_the_device(problem):
    context = vkattn.default_context()
    q, k, v, d_output = (context.array(each) for each in problem)
    made = vkattn.attention_backward(q, k, v, d_output, is_causal=True)
    assert all(isinstance(each, vkattn.Array) for each in made)
    assert all(close(each.numpy(), wanted) for each, wanted in zip(made, gradients_of(*problem)))


def test_gradients_are_recorded(problem):
    context = vkattn.default_context()
    arrays = [context.array(each) for each in problem]
    with vkattn.record() as program:
        made = vkattn.attention_backward(*arrays, is_causal=True)
    for array, numbers in zip(arrays, reversed(problem)):
        array.assign(numbers)
    program.replay()
    assert all(close(each.numpy(), wanted) for each, wanted in zip(made, gradients_of(*reversed(problem))))


def test_packed_rows_of_no_sequence_are_those_of_queries_that_see_nothing_at_each_replay(problem):
    context = vkattn.default_context()
    q, k, v, d_output = (context.array(each[:1]) for each in problem)
    bounds = context.array(numpy.array([0, 5, 17], "i4"))
    packed = {"cu_seqlens_q": bounds, "cu_seqlens_k": bounds, "is_causal": True}
    with vkattn.record() as program:
        results = vkattn.attention(q, k, v, return_lse=True, **packed)
        gradients = vkattn.attention_backward(q, k, v, d_output, **packed)
    for ends in ([0, 5, 17], [0, 4, 9]):  # of the second replay rows belong to no sequence that did before
        bounds.assign(numpy.array(ends, "i4"))
        program.replay()
        expected = (*vkattn.attention(q, k, v, return_lse=True, **packed), *vkattn.attention_backward(q, k, v, d_output, **packed))
        for made, wanted in zip((*results, *gradients), expected):
            numpy.testing.assert_array_equal(made.numpy(), wanted.numpy())
    assert not results[0].numpy()[0, :, 9:].any() and numpy.isneginf(results[1].numpy()[:, 9:]).all()
    assert not any(gradient.numpy()[0, :, 9:].any() for gradient in gradients)


def test_other_problems_have_other_plans(problem):
    q, k, v, d_output = problem
    for scale in (0.1, 0.2, 0.1):
        made = vkattn.attention_backward(q, k, v, d_output, is_causal=True, scale=scale, gradients="value")
        assert close(made, gradients_of(scale * 24**0.5 * q, k, v, d_output)[2])


def test_what_is_refused(problem):
    q, k, v, d_output = problem
    with pytest.raises(ValueError, match="gradients: 'sinks', expected an argument sinks"):
        vkattn.attention_backward(q, k, v, d_output, gradients="sinks")
    with pytest.raises(ValueError, match="one of them None"):
        vkattn.attention_backward(q, k, v, d_output, output=q)
    with pytest.raises(TypeError, match="out: no argument"):
        vkattn.attention_backward(q, k, v, d_output, out=q)
    with pytest.raises(vkattn.InvalidArgumentError, match="d_output: shape"):
        vkattn.attention_backward(q, k, v, d_output[..., :20])


@pytest.fixture
def layer():
    random = numpy.random.default_rng(5)
    shapes = ((2, 9, 24), (40, 24), (2, 9, 40))
    return [random.standard_normal(shape).astype("float32") for shape in shapes]


def test_gradients_of_a_linear_layer(layer):
    x, w, d_y = layer
    expected = (d_y @ w, numpy.einsum("blo,bli->oi", d_y, x), d_y.sum((0, 1)))
    assert all(close(made, wanted) for made, wanted in zip(vkattn.linear_backward(x, w, d_y), expected))
    assert close(vkattn.linear_backward(None, w, d_y, gradients="input", residual=x), expected[0] + x)
    of_weight, of_bias = vkattn.linear_backward(x, None, d_y, gradients=("weight", "bias"))
    assert close(of_weight, expected[1]) and close(of_bias, expected[2])


def test_gradients_of_a_linear_layer_are_added_to_arrays(layer):
    x, w, d_y = layer
    context = vkattn.default_context()
    sums, more = context.array(numpy.ones((40, 24), "float32")), context.array(numpy.ones(40, "float32"))
    arrays = [context.array(each) for each in (x, w, d_y)]
    for _ in range(2):
        vkattn.linear_backward(*arrays, gradients=("weight", "bias"), d_weight=sums, d_bias=more)
    assert close(sums.numpy(), 1 + 2 * numpy.einsum("blo,bli->oi", d_y, x))
    assert close(more.numpy(), 1 + 2 * d_y.sum((0, 1)))
    with pytest.raises(ValueError, match="expected both or neither"):
        vkattn.linear_backward(*arrays, d_weight=sums)


def test_what_linear_backward_refuses(layer):
    x, w, d_y = layer
    with pytest.raises(ValueError, match="weight: None, expected"):
        vkattn.linear_backward(x, None, d_y)
    with pytest.raises(ValueError, match="input: shape"):
        vkattn.linear_backward(x[:, :, :20], w, d_y)
    with pytest.raises(ValueError, match="residual: given"):
        vkattn.linear_backward(x, w, d_y, gradients="weight", residual=x)
    with pytest.raises(ValueError, match="gradients: 'key'"):
        vkattn.linear_backward(x, w, d_y, gradients="key")


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_gradients_of_a_norm(layer, kind):
    x, w, d_y = layer[0], layer[1][0], layer[0][::-1].copy()
    wide = x.astype("float64")
    mean = wide.mean(-1, keepdims=True) if kind == "layer" else 0.0
    scale = (((wide - mean) ** 2).mean(-1, keepdims=True) + 1e-3) ** -0.5
    n, g = (wide - mean) * scale, d_y * w.astype("float64")
    of_mean = g.mean(-1, keepdims=True) if kind == "layer" else 0.0
    expected = (scale * (g - of_mean - n * (g * n).mean(-1, keepdims=True)), (d_y * n).sum((0, 1)), d_y.sum((0, 1)))
    made = vkattn.norm_backward(x, w, d_y, kind=kind, epsilon=1e-3, gradients=("input", "weight", "bias"))
    assert all(close(each, wanted) for each, wanted in zip(made, expected))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding_and_back(problem, interleaved):
    q = problem[0]
    angles = (5 + numpy.arange(17))[:, None] * 10000.0 ** (-numpy.arange(12) / 12)
    turned = numpy.array(q, "float64")
    x, y = (turned[..., ::2], turned[..., 1::2]) if interleaved else (turned[..., :12], turned[..., 12:])
    x[...], y[...] = x * numpy.cos(angles) - y * numpy.sin(angles), x * numpy.sin(angles) + y * numpy.cos(angles)
    made = vkattn.rotary_embedding(q, past_len=5, rope_interleaved=interleaved)
    assert close(made, turned)
    positions = numpy.broadcast_to(5 + numpy.arange(17, dtype="int32"), (1, 2, 17))
    assert close(vkattn.rotary_embedding(q, positions=positions, rope_interleaved=interleaved), turned)
    assert close(vkattn.rotary_embedding(made, past_len=5, rope_interleaved=interleaved, inverse=True), q)


def test_rotary_embedding_by_factors(problem):
    scaling = {"kind": "longrope", "factor": 2.0, "original_max_position": 8, "attention_factor": 1.0}
    made = [vkattn.rotary_embedding(problem[0], rope_scaling={**scaling, "factors": [factor] * 12}) for factor in (1.0, 2.0)]
    assert close(made[0], numpy.asarray(vkattn.rotary_embedding(problem[0]), "float64"))
    assert not close(made[1], numpy.asarray(made[0], "float64"))


BIAS = numpy.random.default_rng(6).standard_normal((4, 9)).astype("float32")
NUMBER = numpy.repeat(numpy.arange(4, dtype="int32"), 9)  # of documents


def capped_distances(score, b, h, q, k):
    return 2 * numpy.tanh(score / 2) - BIAS[h, 0] * abs(q - k)


def relative_positions(score, b, h, q, k):
    return score * (1 + 0.25 * BIAS[h, numpy.clip(k - q, -4, 4) + 4])


def sliding_window(b, h, q, k):
    return (k <= q + 2) & (q - k < 7)


def documents(b, h, q, k):
    return (NUMBER[q] == NUMBER[k]) | (k == 0)


def _cannot_compile():
    try:
        variants._compiler()
    except vkattn.UnsupportedError:
        return True
    return False


def differences(function, score, *at):
    step = 1e-5
    return (function(score + step, *at) - function(score - step, *at)) / (2 * step)


def gradients_of_functions(q, k, v, d_output, score_mod, mask_mod):
    """Of attention [B,Hq,L,D] of KV heads that groups share, in float64."""
    group = q.shape[1] // k.shape[1]
    q, k, v, d_output = (numpy.asarray(each, "float64") for each in (q, k, v, d_output))
    keys, values = (each.repeat(group, 1) for each in (k, v))
    scale = q.shape[-1] ** -0.5
    scores = scale * q @ keys.swapaxes(-1, -2)
    at = numpy.ogrid[tuple(slice(size) for size in scores.shape)]
    slopes = differences(score_mod, scores, *at) if score_mod else 1.0
    scores = score_mod(scores, *at) if score_mod else scores
    scores = numpy.where(mask_mod(*at) if mask_mod else True, scores, -numpy.inf)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    of_weights = d_output @ values.swapaxes(-1, -2)
    of_scores = scale * slopes * weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True))
    summed = [each.reshape(*k.shape[:2], group, *each.shape[2:]).sum(2)
              for each in (of_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ d_output)]
    return (of_scores @ keys, *summed)


with_functions = pytest.mark.skipif(_cannot_compile(), reason="without vkattn_jit")


@with_functions
@pytest.mark.parametrize("score_mod, mask_mod", [
    (capped_distances, None), (relative_positions, sliding_window), (None, sliding_window), (capped_distances, documents)])
def test_gradients_of_functions(score_mod, mask_mod):
    random = numpy.random.default_rng(7)
    q, k, v, d_output = (random.standard_normal(shape).astype("float32")
                         for shape in ((2, 4, 33, 24), (2, 2, 35, 24), (2, 2, 35, 40), (2, 4, 33, 40)))
    expected = gradients_of_functions(q, k, v, d_output, score_mod, mask_mod)
    functions = {"score_mod": score_mod, "mask_mod": mask_mod, "enable_gqa": True}
    output, log_sum_exp = vkattn.flex_attention(q, k, v, return_lse=True, **functions)
    given = vkattn.attention_backward(q, k, v, d_output, output=output, log_sum_exp=log_sum_exp, **functions)
    computed = vkattn.attention_backward(q, k, v, d_output, **functions)
    for made in (given, computed):
        assert all(close(each, wanted) for each, wanted in zip(made, expected))
    if mask_mod is None:
        return
    blocks = vkattn.create_block_mask(mask_mod, None, None, 33, 35, BLOCK_SIZE=8)
    made = vkattn.attention_backward(q, k, v, d_output, score_mod=score_mod, block_mask=blocks, enable_gqa=True)
    assert all(isinstance(each, numpy.ndarray) and close(each, wanted) for each, wanted in zip(made, expected))


def captured_differences(given, score_mod, mask_mod, array):
    """Of the sum of output * d_output by a captured array's elements, in float64."""
    q, k, v, d_output = (numpy.asarray(each, "float64") for each in given)
    kept, step, gradient = array.copy(), 2.0**-10, numpy.zeros(array.shape)
    scores = q.shape[-1] ** -0.5 * q @ k.swapaxes(-1, -2)
    at = numpy.ogrid[tuple(slice(size) for size in scores.shape)]

    def weighted():
        logits = numpy.where(mask_mod(*at) if mask_mod else True, score_mod(scores, *at), -numpy.inf)
        weights = numpy.exp(logits - logits.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True) @ v * d_output).sum()

    for place in numpy.ndindex(array.shape):
        array[place] = kept[place] + step
        above, size = weighted(), float(array[place])
        array[place] = kept[place] - step
        gradient[place] = (above - weighted()) / (size - float(array[place]))
        array[place] = kept[place]
    return gradient


@with_functions
@pytest.mark.parametrize("score_mod, mask_mod", [(capped_distances, sliding_window), (relative_positions, None)])
def test_gradients_of_captured_arrays(score_mod, mask_mod):
    given = numpy.random.default_rng(9).standard_normal((4, 2, 4, 33, 16)).astype("float32")
    expected = captured_differences(given, score_mod, mask_mod, BIAS)
    of_query, made = vkattn.attention_backward(*given, gradients=("query", BIAS), score_mod=score_mod, mask_mod=mask_mod)
    assert made.shape == BIAS.shape and made.dtype == numpy.float32
    assert ((made - expected) ** 2).sum() <= 1e-7 * (expected**2).sum()
    alone = vkattn.attention_backward(*given, gradients=BIAS, score_mod=score_mod, mask_mod=mask_mod)
    assert (alone == made).all()
    with_other_text = vkattn.attention_backward(*given, gradients="query", score_mod=score_mod, mask_mod=mask_mod)
    assert (of_query == with_other_text).all()
    refused = {r"an array of shape \[4, 9\], expected one that score_mod captures": BIAS.copy(), "expected each once": (BIAS, BIAS),
               "'captured_0' of a score_mod of Python, expected the array itself": "captured_0"}
    for message, gradients in refused.items():
        with pytest.raises(ValueError, match=message):
            vkattn.attention_backward(*given, gradients=gradients, score_mod=score_mod)
    with pytest.raises(TypeError, match="gradients: list, expected names, and captured arrays"):
        vkattn.attention_backward(*given, gradients=[[1.0, 2.0]], score_mod=score_mod)


@with_functions
def test_gradients_of_captured_arrays_in_glsl_and_on_the_device():
    given = numpy.random.default_rng(10).standard_normal((4, 1, 2, 9, 16)).astype("float32")
    parameters = "(float score, uint batch, uint head, uint query, uint key)"
    text = f"float score_mod{parameters} {{ return score * captured_f32(0, head); }}\n"
    text += f"float score_mod_grad{parameters} {{ return captured_f32(0, head); }}\n"
    derivatives = f"void score_mod_grad_captured{parameters} {{ add_captured_grad(0, head, score); }}\n"
    factors = numpy.array([0.5, 2.0], "float32")
    expected = captured_differences(given, lambda score, b, h, i, j: score * factors[h], None, factors)
    context = vkattn.default_context()
    on_device = context.array(factors)
    for of in (factors, "captured_0"):
        made = vkattn.attention_backward(*given, gradients=of, captured=(factors,), score_mod=text + derivatives)
        assert ((made - expected) ** 2).sum() <= 1e-7 * (expected**2).sum()
    made = vkattn.attention_backward(*(context.array(each) for each in given), gradients=on_device, captured=(on_device,), score_mod=text,
                                     score_mod_grad_captured=derivatives)
    assert isinstance(made, vkattn.Array) and ((made.numpy() - expected) ** 2).sum() <= 1e-7 * (expected**2).sum()
    with pytest.raises(vkattn.UnsupportedError, match="d_captured_0: given without score_mod_grad_captured"):
        vkattn.attention_backward(*given, gradients="captured_0", captured=(factors,), score_mod=text)
    with pytest.raises(ValueError, match="gradients: 'captured_1', expected an argument captured_1"):
        vkattn.attention_backward(*given, gradients="captured_1", captured=(factors,), score_mod=text + derivatives)


@with_functions
def test_many_captured_elements_of_a_pair_are_added_where_a_driver_bounds_loops():
    q, d_output = numpy.random.default_rng(11).standard_normal((2, 1, 1, 32, 16)).astype("float32")
    k, v = numpy.random.default_rng(12).standard_normal((2, 1, 1, 1984, 16)).astype("float32")
    parameters = "(float score, uint batch, uint head, uint query, uint key)"
    adds = " ".join(f"add_captured_grad(0, {i}, {i + 1}.0 * float(key) / 1984.0);" for i in range(64))
    text = f"float score_mod{parameters} {{ return score + captured_f32(0, 0) * 0.0; }}\n"
    text += f"float score_mod_grad{parameters} {{ return 1.0; }}\nvoid score_mod_grad_captured{parameters} {{ {adds} }}\n"
    made = vkattn.attention_backward(q, k, v, d_output, gradients="captured_0", captured=(numpy.zeros(64, "float32"),), score_mod=text)
    scores = q.astype("f8") @ k.astype("f8").swapaxes(-1, -2) / 4
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    of_weights = d_output.astype("f8") @ v.astype("f8").swapaxes(-1, -2)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True))
    expected = (of_scores * numpy.arange(1984) / 1984).sum() * numpy.arange(1, 65)
    assert ((made - expected) ** 2).sum() <= 1e-7 * (expected**2).sum()


@with_functions
def test_gradients_of_functions_in_glsl():
    q, k, v, d_output = numpy.random.default_rng(8).standard_normal((4, 1, 2, 9, 16)).astype("float32")
    parameters = "(float score, uint batch, uint head, uint query, uint key)"
    score_mod = f"float score_mod{parameters} {{ return score * captured_f32(0, head); }}"
    slope = f"float score_mod_grad{parameters} {{ return captured_f32(0, head); }}"
    factors = numpy.array([0.5, 2.0], "float32")
    expected = gradients_of_functions(q, k, v, d_output, lambda score, b, h, i, j: score * factors[h], None)
    for more in ({"score_mod": score_mod, "score_mod_grad": slope}, {"score_mod": score_mod + slope},
                 {"score_mod": score_mod, "score_mod_grad": lambda score, b, h, i, j: factors[h]}):
        made = vkattn.attention_backward(q, k, v, d_output, captured=(factors,), **more)
        assert all(close(each, wanted) for each, wanted in zip(made, expected))
    with pytest.raises(vkattn.UnsupportedError, match="score_mod without score_mod_grad, expected both"):
        vkattn.attention_backward(q, k, v, d_output, captured=(factors,), score_mod=score_mod)
    with pytest.raises(TypeError, match="lse_mod: no argument"):
        vkattn.attention_backward(q, k, v, d_output, lse_mod="")
