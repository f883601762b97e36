"""Linear attention, its convolution and its norm, as Python calls them: against NumPy, on host and device, packed and from pools."""
import numpy
import pytest

import vkattn

RANDOM = numpy.random.default_rng(3)


def draw(*shape):
    return RANDOM.standard_normal(shape).astype("f4")


def delta(query, key, value, decay, beta, state):
    """The gated delta rule in float64, [B,H,L,D]."""
    state, out = state.astype("f8"), numpy.zeros(value.shape)
    group = value.shape[1] // query.shape[1]
    query, key = (numpy.repeat(x.astype("f8"), group, 1) for x in (query, key))
    for t in range(value.shape[2]):
        state *= numpy.exp(decay[:, :, t].astype("f8"))[..., None, None]
        k, q = key[:, :, t], query[:, :, t]
        u = beta[:, :, t, None] * (value[:, :, t] - numpy.einsum("bhi,bhij->bhj", k, state))
        state = state + numpy.einsum("bhi,bhj->bhij", k, u)
        out[:, :, t] = numpy.einsum("bhi,bhij->bhj", q, state) / numpy.sqrt(query.shape[3])
    return out, state


def inputs(length):
    key = draw(2, 2, length, 24)
    return (draw(2, 2, length, 24), key / numpy.linalg.norm(key, axis=-1, keepdims=True), draw(2, 4, length, 16),
            -abs(draw(2, 4, length)), abs(draw(2, 4, length)) % 1, draw(2, 4, 24, 16))


@pytest.mark.parametrize("length", [1, 40])
@pytest.mark.parametrize("form", ["auto", "recurrent", "chunked"])
def test_linear_attention_is_the_gated_delta_rule(length, form):
    query, key, value, decay, beta, state = inputs(length)
    out, final = vkattn.linear_attention(query, key, value, decay=decay, beta=beta, initial_state=state, form=form)
    expected, last = delta(query, key, value, decay, beta, state)
    numpy.testing.assert_allclose(out, expected, atol=1e-4)
    numpy.testing.assert_allclose(final, last, atol=1e-4)


def test_a_state_on_the_device_is_updated_in_place():
    query, key, value, decay, beta, state = inputs(3)
    context = vkattn.default_context()
    kept = context.array(state)
    for t in range(3):
        part = [x[:, :, t:t + 1] for x in (query, key, value)]
        out, final = vkattn.linear_attention(*part, decay=decay[:, :, t:t + 1], beta=beta[:, :, t:t + 1], initial_state=kept,
                                             final_state=kept)
    expected, last = delta(query, key, value, decay, beta, state)
    numpy.testing.assert_allclose(out.numpy(), expected[:, :, 2:], atol=1e-4)
    numpy.testing.assert_allclose(kept.numpy(), last, atol=1e-4)


def test_packed_sequences_have_slots_of_a_pool():
    query, key, value, decay, beta, state = inputs(9)
    one = [x[:1] for x in (query, key, value, decay, beta)]
    pool = vkattn.default_context().array(draw(3, 4, 24, 16))
    before = pool.numpy()
    out, _ = vkattn.linear_attention(*one[:3], decay=one[3], beta=one[4], initial_state=pool, final_state=pool,
                                     cu_seqlens_q=numpy.int32([0, 4, 9]), state_slots=numpy.int32([2, -1]))
    first = delta(*(x[:, :, :4] for x in one), before[2:])
    second = delta(*(x[:, :, 4:] for x in one), numpy.zeros_like(before[:1]))
    numpy.testing.assert_allclose(out.numpy(), numpy.concatenate([first[0], second[0]], 2), atol=1e-4)
    after = pool.numpy()
    numpy.testing.assert_allclose(after[2], first[1][0], atol=1e-4)
    assert (after[:2] == before[:2]).all()


def test_drafts_are_taken_back():
    query, key, value, decay, beta, state = inputs(4)
    context = vkattn.default_context()
    tokens = context.empty((2 * 4, 4, 24, 16), "float32")
    vkattn.linear_attention(query, key, value, decay=decay, beta=beta, initial_state=state, token_states=tokens, draft_tokens=4)
    out, _ = vkattn.linear_attention(query, key, value, decay=decay, beta=beta, initial_state=state, token_states=tokens,
                                     draft_tokens=4, accepted=numpy.int32([2, 0]))
    kept = delta(*(x[:1, :, :2] for x in (query, key, value, decay, beta)), state[:1])[1]
    expected = delta(query, key, value, decay, beta, numpy.concatenate([kept, state[1:]]))[0]
    numpy.testing.assert_allclose(out.numpy(), expected, atol=1e-4)


def test_causal_conv1d_goes_on_from_its_state():
    x, weight, bias = draw(2, 7, 5), draw(5, 4), draw(5)
    whole, final = vkattn.causal_conv1d(x, weight, bias, activation="silu")
    padded = numpy.concatenate([numpy.zeros((2, 3, 5), "f4"), x], 1)
    sums = sum(padded[:, j:j + 7] * weight[:, j] for j in range(4)) + bias
    numpy.testing.assert_allclose(whole, sums / (1 + numpy.exp(-sums)), atol=1e-5)
    assert (final == x[:, -3:]).all()
    first, state = vkattn.causal_conv1d(x[:, :2], weight, bias, activation="silu")
    second, final = vkattn.causal_conv1d(x[:, 2:], weight, bias, activation="silu", initial_state=state)
    numpy.testing.assert_allclose(numpy.concatenate([first, second], 1), whole, atol=1e-6)
    assert (final == x[:, -3:]).all()


def test_gated_rms_norm():
    x, gate, weight = draw(2, 3, 4, 10), draw(2, 3, 4, 10), draw(10)
    expected = x / numpy.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-6) * weight * gate / (1 + numpy.exp(-gate))
    numpy.testing.assert_allclose(vkattn.gated_rms_norm(x, gate, weight), expected, atol=1e-5)
    assert vkattn.gated_rms_norm(x[:0], gate[:0], weight).shape == (0, 3, 4, 10)


def test_what_is_wrong_is_named():
    query, key, value, decay, beta, state = inputs(2)
    with pytest.raises(ValueError, match="rule: 'other', expected one of delta, decay"):
        vkattn.linear_attention(query, key, value, rule="other")
    with pytest.raises(ValueError, match="final_state: None with state_slots"):
        vkattn.linear_attention(query, key, value, state_slots=numpy.int32([0, 1]))
    with pytest.raises(TypeError, match="token_states: ndarray, expected an Array"):
        vkattn.linear_attention(query, key, value, token_states=state, draft_tokens=1)
    with pytest.raises(vkattn.InvalidArgumentError, match="value: 3 heads, expected a multiple of query's 2"):
        vkattn.linear_attention(query, key, value[:, :3])
