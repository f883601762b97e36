"""flex_attention: functions of Python and GLSL in every kernel."""
import linecache
import os
import random

import numpy
import pytest
import vkattn
from vkattn import functions

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


def reference(q, k, v, score_mod=None, mask_mod=None):
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
    return numpy.einsum("bhqk,bhkd->bhqd", numpy.divide(weights, sums, out=weights * 0, where=sums > 0), v.astype("f8"))


def check(score_mod=None, mask_mod=None, tolerance=1e-3):
    q, k, v = inputs()
    got = vkattn.flex_attention(q, k, v, score_mod=score_mod, mask_mod=mask_mod)
    numpy.testing.assert_allclose(got, reference(q, k, v, score_mod, mask_mod), rtol=tolerance, atol=tolerance)


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
    for _ in range(3):
        k = k + 1
    return k > q


def with_call(score, b, h, q, k):
    return print(score)


def with_local_array(score, b, h, q, k):
    return score + BIAS[h]


@pytest.mark.parametrize("arguments, message", [
    ({"mask_mod": with_loop}, "For, expected arithmetic"),
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
    with pytest.raises(vkattn.InvalidArgumentError, match="mask_mod:2:10: 'nothing'"):
        vkattn.flex_attention(q, k, v, mask_mod="bool mask_mod(uint batch, uint head, uint query, uint key) {\n  return nothing;\n}")


class Drawn:
    """Random functions of the grammar, as text of Python."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self, depth):
        if depth == 0:
            return self.random.choice(["score", "float(q)", "float(k)", "h", "b", "q", "k", "0.5", "2", "-1.25", "TABLE[h, k % 5]"])
        one, other = (lambda: self.number(depth - 1)), (lambda: self.number(self.random.randrange(depth)))
        return self.random.choice([
            lambda: f"({one()} + {other()})", lambda: f"({one()} - {other()})", lambda: f"({one()} * {other()})",
            lambda: f"numpy.tanh({one()})", lambda: f"abs({one()})", lambda: f"(-{one()})",
            lambda: f"numpy.where({self.truth(depth - 1)}, {one()}, {other()})",
            lambda: f"numpy.minimum({one()}, {other()})", lambda: f"max({one()}, {other()})",
            lambda: f"({one()} if {self.truth(depth - 1)} else {other()})",
            lambda: f"({self.whole(depth - 1)} % {self.random.choice([2, 3, 7])})",
            lambda: f"({self.whole(depth - 1)} // {self.random.choice([2, 3, -4])})",
            lambda: f"({one()} / 4.0)", lambda: f"(numpy.tanh({one()}) ** 2)"])()

    def whole(self, depth):
        if depth <= 0:
            return self.random.choice(["q", "k", "h", "b", "3", "NUMBERS[k]"])
        return self.random.choice([
            lambda: f"({self.whole(depth - 1)} {self.random.choice('+-')} {self.whole(depth - 1)})",
            lambda: f"(q {self.random.choice(['&', '|', '^'])} {self.whole(depth - 1)})",
            lambda: f"({self.whole(depth - 1)} * 2)", lambda: f"abs({self.whole(depth - 1)})"])()

    def truth(self, depth):
        first, second = self.whole(depth), self.whole(depth)
        return self.random.choice([
            f"({first} {self.random.choice(['<', '<=', '>', '>=', '==', '!='])} {second})", f"(k <= q and {first} < {second})",
            f"(not {first} > {second} or k == 0)", f"((k < {first}) | (q >= {second}))", f"(0 <= {first} < {second})"])

    def function(self, number, kind):
        """A function with its text, as if it stood in a file."""
        body = self.truth(2) if kind == "mask_mod" else f"score + numpy.tanh({self.number(3)})"
        score = "score, " if kind == "score_mod" else ""
        text = f"def drawn({score}b, h, q, k):\n    return {body}\n"
        name = f"<drawn {kind} {number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        scope = {"numpy": numpy, "TABLE": BIAS[:, :5].copy(), "NUMBERS": (numpy.arange(LK) % 4).astype("int32")}
        exec(compile(text, name, "exec"), scope)  # pylint: disable=exec-used
        return text, scope["drawn"]


def agree(first, count):
    """Whether so many drawn functions give what NumPy computes of them."""
    for number in range(first, first + count):
        drawn = Drawn(number)
        kind = "mask_mod" if number % 2 else "score_mod"
        text, function = drawn.function(number, kind)
        try:
            check(**{kind: function}, tolerance=2e-3)
        except AssertionError as difference:
            raise AssertionError(f"{text}{functions.functions_text(**{'score_mod': None, 'mask_mod': None, kind: function})[0]}") from difference


def test_drawn_functions_agree_with_numpy():
    agree(0, int(os.environ.get("VKATTN_DRAWN_FUNCTIONS", "12")))
