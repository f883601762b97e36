"""attention_backward: against the formulas in float64, its arguments, and where its arrays lie."""
import numpy
import pytest

import vkattn


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


def test_gradients_of_arrays_on_the_device(problem):
    context = vkattn.default_context()
    q, k, v, d_output = (context.array(each) for each in problem)
    made = vkattn.attention_backward(q, k, v, d_output, is_causal=True)
    assert all(isinstance(each, vkattn.Array) for each in made)
    assert all(close(each.numpy(), wanted) for each, wanted in zip(made, gradients_of(*problem)))


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
