"""flex_attention: functions of Python and GLSL in every kernel."""
import numpy
import pytest
import vkattn

try:
    from vkattn.variants import _compiler
    _compiler()
except vkattn.UnsupportedError as missing:
    pytest.skip(str(missing), allow_module_level=True)

RANDOM = numpy.random.default_rng(5)
B, H, LQ, LK, D = 2, 4, 9, 21, 16
BIAS = RANDOM.standard_normal((H, 17)).astype("float32")
DOCUMENTS = (numpy.arange(B * LK).reshape(B, LK) // 8).astype("int64")
CAP = 5.0


def inputs():
    return tuple(RANDOM.standard_normal((B, H, length, D)).astype("float32") for length in (LQ, LK, LK))


def reference(q, k, v, score_mod=None, mask_mod=None, lse_mod=None, output_mod=None):
    """In float64, a score at a time."""
    scores = numpy.einsum("bhqd,bhkd->bhqk", q.astype("f8"), k.astype("f8")) / numpy.sqrt(D)
    for at in numpy.ndindex(scores.shape):
        place = tuple(numpy.int64(each) for each in at)
        if score_mod is not None:
            scores[at] = score_mod(scores[at], *place)
        if mask_mod is not None and not mask_mod(*place):
            scores[at] = -numpy.inf
    largest = scores.max(-1, keepdims=True)
    weights = numpy.exp(scores - numpy.where(numpy.isfinite(largest), largest, 0))
    sums = weights.sum(-1, keepdims=True)
    for at in numpy.argwhere(sums > 0) if lse_mod is not None else ():
        b, h, i, _ = at
        sums[b, h, i] = numpy.exp(lse_mod(largest[b, h, i, 0] + numpy.log(sums[b, h, i, 0]), b, h, i) - largest[b, h, i])
    output = numpy.einsum("bhqk,bhkd->bhqd", numpy.divide(weights, sums, out=weights * 0, where=sums > 0), v.astype("f8"))
    for at in numpy.ndindex(output.shape) if output_mod is not None else ():
        output[at] = output_mod(output[at], *at)
    return output


def check(tolerance=1e-3, **functions):
    q, k, v = inputs()
    got = vkattn.flex_attention(q, k, v, **functions)
    numpy.testing.assert_allclose(got, reference(q, k, v, **functions), rtol=tolerance, atol=tolerance)


def causal(b, h, q, k):
    return k <= q


def relative_bias(score, b, h, q, k):
    """A bias for each head and distance."""
    distance = numpy.minimum(numpy.maximum(k - q, -8), 8)
    return score + BIAS[h, distance + 8]


def softcap(score, b, h, q, k):
    return CAP * numpy.tanh(score / CAP)


def documents(b, h, q, k):
    return (DOCUMENTS[b, q] == DOCUMENTS[b][k]) & (k <= q) | (k < 2)


def dilated(b, h, q, k):
    return k <= q and (q - k) % 3 == 0


def test_functions_of_python_agree_with_numpy():
    slope = numpy.float32(0.25)
    check(mask_mod=causal)
    check(score_mod=relative_bias)
    check(score_mod=softcap, mask_mod=documents)
    check(mask_mod=dilated)
    alibi = lambda score, b, h, q, k: score - slope * abs(q - k) / (h + 1)  # noqa: E731
    check(score_mod=alibi)


def test_functions_of_the_softmax_and_the_output_agree_with_numpy():
    def off_by_one(lse, b, h, q):
        return numpy.log(1.0 + numpy.exp(lse))

    def gated(value, b, h, q, e):
        return value * BIAS[h, e % 17] + float(b)

    check(lse_mod=off_by_one, output_mod=gated)
    check(score_mod=softcap, mask_mod=documents, lse_mod=lambda lse, b, h, q: lse + h)


def blocks_of(mask_mod, shape, size):
    """What a mask_mod makes of blocks, by NumPy."""
    batch, heads, queries, keys = shape
    seen = numpy.array([[[[mask_mod(*map(numpy.int64, (b, h, q, k))) for k in range(keys)] for q in range(queries)]
                         for h in range(heads)] for b in range(batch)], bool)
    rows, columns = -(-queries // size[0]), -(-keys // size[1])
    states = numpy.zeros((batch, heads, rows, columns), "int32")
    for b, h, i, j in numpy.ndindex(states.shape):
        block = seen[b, h, i * size[0]:(i + 1) * size[0], j * size[1]:(j + 1) * size[1]]
        states[b, h, i, j] = 2 if block.all() else 1 if block.any() else 0
    return states


def test_a_block_mask_is_made_of_a_mask_mod_and_decides_what_is_visited():
    q, k, v = inputs()
    sizes = {causal: (None, None, (4, 5)), documents: (B, None, 3), dilated: (B, H, (2, 8))}
    for mask_mod, (batch, heads, size) in sizes.items():
        mask = vkattn.create_block_mask(mask_mod, batch, heads, LQ, LK, BLOCK_SIZE=size)
        expected = blocks_of(mask_mod, mask.shape, mask.BLOCK_SIZE)
        numpy.testing.assert_array_equal(mask.blocks.download(), expected)
        assert mask.sparsity() == pytest.approx(100 * (expected == 0).mean())
        got = vkattn.flex_attention(q, k, v, score_mod=softcap, block_mask=mask)
        assert isinstance(got, numpy.ndarray)
        numpy.testing.assert_allclose(got, reference(q, k, v, softcap, mask_mod), rtol=1e-3, atol=1e-3)
    mask = vkattn.create_block_mask(causal, None, None, LQ, LK, BLOCK_SIZE=(LQ, 4))
    states = mask.blocks.download()
    assert (states[0, 0, 0] == [1, 1, 1, 0, 0, 0]).all()
    states[..., 1] = 0  # of keys that mask_mod shows
    mask.blocks.assign(states)
    expected = reference(q, k, v, mask_mod=lambda b, h, i, j: j <= i and not 4 <= j < 8)
    numpy.testing.assert_allclose(vkattn.flex_attention(q, k, v, block_mask=mask), expected, rtol=1e-3, atol=1e-3)


def test_a_block_mask_counts_the_past_and_refuses_other_lengths():
    q, k, v = inputs()
    mask = vkattn.create_block_mask(causal, None, None, LQ, LK, BLOCK_SIZE=4, past_len=6)
    got = vkattn.flex_attention(q, k, v, block_mask=mask)
    numpy.testing.assert_allclose(got, reference(q, k, v, mask_mod=lambda b, h, i, j: j <= i + 6), rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="past_len: 3, expected 6"):
        vkattn.flex_attention(q, k, v, block_mask=mask, past_len=3)
    with pytest.raises(ValueError, match="block_mask: of 9 queries and 21 keys, expected 8 and 21"):
        vkattn.flex_attention(q[:, :, :8], k, v, block_mask=mask)
    with pytest.raises(TypeError, match="mask_mod: given beside a BlockMask"):
        vkattn.flex_attention(q, k, v, mask_mod=causal, block_mask=mask)
    with pytest.raises(ValueError, match="BLOCK_SIZE: 0, expected"):
        vkattn.create_block_mask(causal, None, None, LQ, LK, BLOCK_SIZE=0)


def test_text_in_glsl_reads_what_is_captured():
    q, k, v = inputs()
    slopes = RANDOM.standard_normal(H).astype("float32")
    text = """float score_mod(float score, uint batch, uint head, uint query, uint key) {
        return score - captured_f32(0, head) * abs(float(query) - float(key));
    }"""
    expected = reference(q, k, v, lambda score, b, h, i, j: score - slopes[h] * abs(i - j))
    for given in (slopes, vkattn.default_context().array(slopes)):
        got = vkattn.flex_attention(q, k, v, score_mod=text, captured=[given])
        numpy.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def with_loop(b, h, q, k):
    while k < q:
        k = k + 1
    return k > q


def with_call(score, b, h, q, k):
    return print(score)


def with_local_array(score, b, h, q, k):
    return score + BIAS[h]


@pytest.mark.parametrize("arguments, message", [
    ({"mask_mod": with_loop}, "While, expected arithmetic"),
    ({"score_mod": with_call}, "a call of print with 1 arguments, expected"),
    ({"score_mod": with_local_array}, "1 indices of BIAS, expected 2"),
    ({"score_mod": causal}, "parameters b, h, q, k, expected as many as score, batch, head, query, key")])
def test_what_cannot_be_translated_is_named_with_its_line(arguments, message):
    function = next(iter(arguments.values()))
    q, k, v = inputs()
    with pytest.raises(ValueError, match=message) as raised:
        vkattn.flex_attention(q, k, v, **arguments)
    line = int(str(raised.value).split(":")[2])
    first = function.__code__.co_firstlineno
    assert first <= line <= first + 3 and __file__ in str(raised.value)


def test_a_fault_in_glsl_is_told_with_its_line_and_column():
    q, k, v = inputs()
    with pytest.raises(vkattn.CompileError, match="mask_mod:2:10: 'nothing'") as raised:
        vkattn.flex_attention(q, k, v, mask_mod="bool mask_mod(uint batch, uint head, uint query, uint key) {\n  return nothing;\n}")
    assert (raised.value.line, raised.value.column) == (2, 10)
