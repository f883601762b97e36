"""Functions of Python are compiled with the meaning that Python gives them, or refused."""
import functools
import gc
import linecache
import math
import os
import random
import sys
import weakref

import numpy
import pytest
import vkattn
from vkattn import functions, translator, variants
from vkattn.glsl import HELPERS

try:
    variants._compiler()
except vkattn.UnsupportedError as missing:
    pytest.skip(str(missing), allow_module_level=True)

B, H, LQ, LK, D = 2, 4, 9, 21, 16
RANDOM = numpy.random.default_rng(5)
TABLE, NUMBERS = RANDOM.standard_normal((H, 5)).astype("f4"), (numpy.arange(LK) % 4).astype("i4")
WINDOW, THREE, BASE, HALF, SIZES = 3, 3, -0.5, 0.5, (6, 4, 2)


def text_of_all(given, differentiates=False):
    """GLSL whose score_mod is a function (of many), or its derivative, by batch / B, a mask_mod as 1 or 0; and what it captures."""
    captured, parts, cases = functions.Captured(), [HELPERS], []
    for number, (_, function, kind) in enumerate(given):
        translated = translator.Translator(kind, function, captured).translate(differentiates)
        parts.append(translated.replace(f" {kind}{'_grad' if differentiates else ''}(", f" given_{number}("))
        call = f"given_{number}({'score, ' if kind == 'score_mod' else ''}batch % {B}u, head, query, key)"
        cases.append(f"    if (batch / {B}u == {number}u) return float({call});\n")
    parts.append("float score_mod(float score, uint batch, uint head, uint query, uint key) {\n")
    return "".join([*parts, *cases, "    return 0.0;\n}\n"]), captured.arrays


def agree(given, seed=0, whole=int, differentiates=False):
    """Whether functions (text, function, kind), or their derivatives, give what Python gives: of one key of each row, whose score is its lse.
    Returns how many were compared."""
    text, captured = text_of_all(given, differentiates)
    compared = 0
    numbers = numpy.random.default_rng(seed)
    q, k = (numbers.standard_normal((B * len(given), H, length, D)).astype("f4") for length in (LQ, LK))
    keys = numbers.integers(LK, size=(B * len(given), H, LQ, 1)).astype("i4")
    _, got = vkattn.flex_attention(q, k, k, score_mod=text, captured=captured, key_indices=keys, return_lse=True)
    scores = numpy.einsum("bhqd,bhqd->bhq", q.astype("f8"), numpy.take_along_axis(k, keys, axis=2).astype("f8")) / numpy.sqrt(D)
    for number, (source, function, kind) in enumerate(given):
        for b, h, i in numpy.ndindex(B, H, LQ):
            at = (number * B + b, h, i)
            place = tuple(map(whole, (b, h, i, keys[at][0])))
            try:
                expected = function(float(scores[at]), *place) if kind == "score_mod" else bool(function(*place))
                expected = slope_of(function, float(scores[at]), place) if differentiates else expected
            except (ZeroDivisionError, OverflowError):
                continue  # which is no number in Python
            if expected is None:
                continue
            compared += 1
            assert got[at] == pytest.approx(float(expected), rel=2e-3, abs=2e-3), f"{source} at {place}: {scores[at]}\n{text}"
    return compared


def slope_of(function, score, place):
    """The derivative by the score, by differences; None where there is none, or more digits are wanted."""
    step = 1e-4
    before, here, after = (float(function(score + by, *place)) for by in (-step, 0.0, step))
    left, right = (here - before) / step, (after - here) / step
    return (left + right) / 2 if abs(left - right) < 1e-3 and abs(left) < 1e3 else None


class Drawn:
    """Random functions of the grammar, as text of Python. Whole numbers stay within 32 bits."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def choose(self, *choices):
        chosen = self.random.choice(choices)
        return chosen if isinstance(chosen, str) else chosen()

    def number(self, depth):
        if depth <= 0:
            return self.choose("score", "float(q)", "float(k)", "h", "b", "q", "k", "0.5", "2", "-1.25", "TABLE[h, k % 5]",
                               "TABLE[-1][q % 5]", "HALF", "WINDOW", "BASE")
        one, other = (lambda: self.number(depth - 1)), (lambda: self.number(self.random.randrange(depth)))
        return self.choose(
            lambda: f"({one()} + {other()})", lambda: f"({one()} - {other()})", lambda: f"({one()} * {other()})",
            lambda: f"numpy.tanh({one()})", lambda: f"abs({one()})", lambda: f"(-{one()})",
            lambda: f"numpy.where({self.truth(depth - 1)}, {one()}, {other()})",
            lambda: f"numpy.minimum({one()}, {other()})", lambda: f"max({one()}, {other()})",
            lambda: f"({one()} if {self.truth(depth - 1)} else {other()})", lambda: self.whole(depth - 1),
            lambda: f"({one()} / 4.0)", lambda: f"(numpy.tanh({one()}) ** {self.choose('2', '3', '5', 'THREE', '(k % 4)')})",
            lambda: f"({self.truth(depth - 1)} and {one()})", lambda: f"({self.whole(depth - 1)} or {one()})",
            lambda: f"(({self.whole(depth - 1)} / 4.0) {self.choose('//', '%')} {self.choose('0.75', '-1.5', 'HALF')})",
            lambda: f"numpy.log1p(abs({one()}))", lambda: f"numpy.exp2(numpy.clip({one()}, -3, 3.5))",
            lambda: f"(BASE ** {self.choose('k', '(q - k)', '3', 'THREE')})", lambda: f"({one()} * {self.truth(depth - 1)})")

    def whole(self, depth):
        if depth <= 0:
            return self.choose("q", "k", "h", "b", "3", "NUMBERS[k]", "WINDOW", "(q - k)", "SIZES[1]", "-2")
        one, other = (lambda: self.whole(depth - 1)), (lambda: self.whole(0))
        return self.choose(
            lambda: f"({one()} {self.random.choice('+-')} {other()})", lambda: f"({other()} {self.random.choice('&|^')} {one()})",
            lambda: f"({one()} * 2)", lambda: f"abs({one()})", lambda: f"(~{one()})", lambda: f"({one()} >> {self.choose('1', '2', 'h')})",
            lambda: f"({one()} % {self.choose('2', '7', '-3', 'WINDOW', '(h + 1)')})",
            lambda: f"({one()} // {self.choose('2', '-4', '3', 'THREE', '(h + 1)')})",
            lambda: f"({other()} ** {self.choose('2', 'THREE', '(k % 4)', '0')})", lambda: f"({one()} and {other()})",
            lambda: f"({one()} or {other()})", lambda: f"int({one()} / 4.0)", lambda: f"math.floor({one()} / 8.0)",
            lambda: f"round({one()} / 2.0)", lambda: f"({self.truth(depth - 1)} + {one()})", lambda: f"min({one()}, {other()}, 5)")

    def truth(self, depth):
        first, second, sign = self.whole(depth), self.whole(depth), self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        return self.choose(
            f"({first} {sign} {second})", f"(k <= q and {first} < {second})", f"(not {first} > {second} or k == 0)",
            f"((k < {first}) | (q >= {second}))", f"(0 <= {first} {sign} {second})", f"bool({first} and {second})",
            f"({first} in (1, 2, WINDOW))", f"((q < {first}) ^ (k {sign} {second}))")

    def body(self, kind):
        if kind == "mask_mod":
            return f"    return {self.truth(3)}\n"
        result = self.choose(lambda: f"score + numpy.tanh({self.number(3)})", lambda: f"score * 0 + {self.whole(3)} % 977")
        return self.choose(f"    return {result}\n", f"    x = 1.0 * {self.number(1)}\n    x *= HALF\n    return {result} + numpy.tanh(x)\n",
                           f"    if {self.truth(1)}:\n        k = q\n    elif {self.truth(1)}:\n        return score\n    return {result}\n")

    def function(self, number, kind):
        """(its text, the function, kind), as if it stood in a file."""
        text = f"def drawn({'score, ' if kind == 'score_mod' else ''}b, h, q, k):\n{self.body(kind)}"
        name = f"<drawn {kind} {number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        scope = dict(globals())
        exec(compile(text, name, "exec"), scope)  # pylint: disable=exec-used
        return text, scope["drawn"], kind


TOGETHER = 24  # functions of one shader, which a batch entry tells apart


@pytest.mark.filterwarnings("ignore:invalid value")
def test_drawn_functions_agree_with_python():
    count = int(os.environ.get("VKATTN_DRAWN_FUNCTIONS", str(TOGETHER)))
    for first in range(0, count, TOGETHER):
        numbers = range(first, min(first + TOGETHER, count))
        agree([Drawn(number).function(number, "mask_mod" if number % 2 else "score_mod") for number in numbers], first)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_derivatives_of_drawn_functions_are_those_of_python():
    count = int(os.environ.get("VKATTN_DRAWN_FUNCTIONS", str(TOGETHER)))
    for first in range(0, count, TOGETHER):
        numbers = range(first, min(first + TOGETHER, count))
        compared = agree([Drawn(number + 1000).function(number + 1000, "score_mod") for number in numbers], first, differentiates=True)
        assert compared > len(numbers) * B * H * LQ / 2


@pytest.mark.parametrize("function", [
    lambda s, b, h, q, k: numpy.exp(s / 4) + numpy.log(s * s + 1) - numpy.log2(abs(s) + 1) + numpy.log10(3 + numpy.cos(s)),
    lambda s, b, h, q, k: numpy.sin(s) * numpy.cos(2 * s) + numpy.tan(s / 9) + numpy.sinh(s / 3) - numpy.cosh(s / 3),
    lambda s, b, h, q, k: numpy.arctan(s) / numpy.sqrt(s * s + 1) + numpy.expm1(s / 8) - numpy.square(s) / 3,
    lambda s, b, h, q, k: numpy.exp2(s) ** 1.5 + (2.0 + numpy.tanh(s)) ** s + numpy.fmod(s + 4.25, 3.5) + (s + 4.25) % 3.5,
    lambda s, b, h, q, k: (s + 0.001) ** -2 if abs(s) > 1 else s ** (k % 4),
    lambda s, b, h, q, k: float(k) / (s * s + 2.0) + divmod(s, 7.5)[1] + numpy.log1p(s * s)])
def test_derivatives_of_every_function(function):
    assert agree([("", function, "score_mod")], differentiates=True) > B * H * LQ / 2


def negate(function):
    @functools.wraps(function)
    def inner(*arguments, **named):
        return not function(*arguments, **named)
    return inner


@negate
def wrapped(b, h, q, k):
    return q >= k


def halves(index):
    """Two values of a function of one's own."""
    return index // SIZES[2], index % SIZES[2]


def neighbours(b, h, q, k):
    x, y = halves(q)
    other, below = halves(k)
    return abs(x - other) <= 1 and y == below


def every(*masks):
    def all_of(b, h, q, k):
        result = True
        for mask in masks:
            result = result & mask(b, h, q, k)
        return result
    return all_of


class Model:
    """What a method reads."""
    width, flag, bias = 4, None, TABLE

    def mask(self, b, h, q, k):
        return self.flag is None and q - k < self.width and (self.bias[h, k % 5] > 0 or q == k)


MODEL = Model()


def of_a_model(b, h, q, k):
    return MODEL.mask(b, h, q, k)


def branches(score, b, h, q, k, step=0.25):
    if WINDOW > 5:
        return UNKNOWN  # noqa: F821 # never looked at
    for head, change in ((0, 1), (2, -step)):
        if h == head:
            score += change
    if k > q:
        return -1.0
    score = score * 2 if q % 2 else score - 1
    return score


def powers(score, b, h, q, k):
    d = q - k
    return score * 0 + d ** 5 * 1e-6 - d ** THREE * 0.001 + d ** 0 + (score ** 6 if score < 1 else 0) + 2.0 ** -h + BASE ** d * 1e-5


def edges_of_division(score, b, h, q, k):
    return 1.0 * k // 0.1 + 1.0 * q % 0.1 + -k // 0.25 + (q - 4.5) % -1.25 + math.fmod(q - 4.0, 1.5)


def numbers_of_math(score, b, h, q, k):
    return numpy.log1p(k) + numpy.expm1(-k) + math.log10(k + 1) + numpy.sqrt(q) + math.floor(-k / 4) + math.trunc(-k / 4) + round(
        k / 2) + math.ceil(k / 4) + math.sinh(b) + numpy.sign(q - k) + math.pi + score / numpy.log10(k + 10.0)


CHOSEN = {
    "or of numbers": lambda b, h, q, k: q - k < (WINDOW or 128),
    "or, and": lambda b, h, q, k: ((q and k) == 2) | ((k or 7) > 5),
    "wrapped": wrapped,
    "negative base": lambda b, h, q, k: BASE ** k < 0.1,
    "whole power": lambda b, h, q, k: (q * 2 ** 22 + k) % 2 == k % 2,
    "beyond 32 bits, as a float": lambda b, h, q, k: k * 1.0 < 100000 ** 2,
    "beyond 32 bits, beside whole numbers": lambda b, h, q, k: -sys.maxsize < q - k < 50000 * 50000 != k and not k >= 2 ** 40,
    "float floor division": lambda b, h, q, k: k // 0.1 < 10 * k or k == 0,
    "chained": lambda b, h, q, k: 0 < q - k <= k < 12 != h,
    "infinity": lambda b, h, q, k: float("-inf") < k < math.inf,
    "two lines": lambda b, h, q, k: (q >= k)
    & (q - k < 4),
    "shadowing": (lambda q, k: lambda b, h, i, j: i * q >= j * k)(2, 1),
    "neighbours": neighbours, "every": every(neighbours, wrapped, lambda b, h, q, k: h != 1), "method": of_a_model,
    "is None": lambda b, h, q, k: MODEL.flag is None or k < MODEL.flag,
}
SCORES = [branches, powers, edges_of_division, numbers_of_math]


def test_chosen_functions_agree_with_python():
    agree([(name, function, "mask_mod") for name, function in CHOSEN.items()] +
          [(function.__name__, function, "score_mod") for function in SCORES])


def text_of(function, kind="mask_mod"):
    return functions.functions_text({kind: function})[0]


def test_each_of_several_lambdas_on_a_line_is_told_apart():
    one, other = lambda b, h, q, k: q < k, lambda b, h, q, k: q > k  # noqa: E731
    assert "py_query < py_key" in text_of(one) and "py_query > py_key" in text_of(other)


def test_a_file_with_another_text_is_refused(tmp_path):
    file = tmp_path / "edited.py"
    file.write_text("def mask(b, h, q, k):\n    return q >= k\n")
    scope = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    file.write_text("def mask(b, h, q, k):\n    return q <= k\n")
    with pytest.raises(ValueError, match="edited.py:1: mask: the file has another text than the function was made from"):
        text_of(scope["mask"])
    file.write_text("# one more line\n\ndef mask(b, h, q, k):\n    return q >= k\n")
    assert "py_query >= py_key" in text_of(scope["mask"])
    with pytest.raises(ValueError, match="has no source text, expected a function of a file, or GLSL"):
        text_of(eval("lambda b, h, q, k: q < k"))


def unset(b, h, q, k):
    early = late  # noqa: F821
    late = q  # noqa: F841
    return early


def deep(b, h, q, k):
    return deep(b, h, q, k)


@pytest.mark.parametrize("function, message", [
    (lambda b, h, q, k: q + 50000 * 50000 > k, "2500000000, expected a whole number of 32 bits"),
    (lambda b, h, q, k: 2 ** (q - k) > 3, "a whole number to the power q - k, which may be below 0"),
    (lambda b, h, q, k: q << 40 > 3, "a shift by 40, expected one from 0 to 31"),
    (lambda b, h, q, k: q // 0 > 3, "a division by zero"), (lambda b, h, q, k: 1 // 0 > q, "1 // 0: .*by zero"),
    (lambda b, h, q, k: BASE ** 0.5 > q, "expected arithmetic"), (lambda b, h, q, k: q @ k, "MatMult of int and int"),
    (lambda b, h, q, k: numpy.arctan2(q, k) > 0, "a call of numpy.arctan2 with 2 arguments, expected arithmetic"),
    (lambda b, h, q, k: NUMBERS[1.5 * q] > 0, "an index of float, expected a whole number"),
    (lambda b, h, q, k: NUMBERS[99] > q, "the index 99, expected one of 21 elements"),
    (lambda b, h, q, k: NUMBERS > q, "0 indices of NUMBERS, expected 1"),
    (lambda b, h, q, k: [x for x in (q, k)], "ListComp, expected arithmetic"),
    (lambda b, h, q, k: q < math.nan, "NaN, expected a number"), (lambda b, h, q, k: q == "3", "str 3, expected"),
    (unset, "the name late before it has a value"), (deep, "calls deeper than 20")])
def test_what_would_mean_something_else_is_refused(function, message):
    with pytest.raises(ValueError, match=message) as raised:
        text_of(function)
    assert str(raised.value).startswith(f"mask_mod: {__file__}:") and "\n" not in str(raised.value)


def test_numbers_of_the_scopes_around_make_no_new_module():
    q, k, v = (RANDOM.standard_normal((1, 2, length, D)).astype("f4") for length in (1, 40, 40))
    context = vkattn.default_context()
    held = None
    for step in range(3):
        length, scale = 20 + step, numpy.float32(0.5 + step)
        ages = numpy.arange(length + 1, dtype="f4")[None].repeat(2, 0)  # an array that grows

        def score_mod(score, b, h, i, j):
            return score * scale - ages[h, j] * (1.0 / (length - 7))

        got = vkattn.flex_attention(q, k[:, :, :length], v[:, :, :length], score_mod=score_mod, mask_mod=lambda b, h, i, j: j != length - 9)
        scores = numpy.einsum("bhqd,bhkd->bhqk", q, k[:, :, :length]) / 4 * scale - ages[:, None, :length] / (length - 7)
        scores[..., length - 9] = -numpy.inf
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        expected = weights / weights.sum(-1, keepdims=True) @ v[:, :, :length]
        numpy.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
        assert held in (None, len(context.variants))
        held = len(context.variants)


def test_numbers_take_one_tensor_and_become_a_part_of_the_text_where_none_is_left():
    arrays = [numpy.full(LK, number, "f4") for number in range(5)]
    one, two, three, four, five = arrays
    _, captured = functions.functions_text({"score_mod": lambda s, b, h, q, k: s * HALF + one[k] + two[k] + three[k] - WINDOW})
    assert [array.size for array in captured] == [2, LK, LK, LK] and captured[0].view("f4")[0] == 0.5 and captured[0][1] == 3
    text, captured = functions.functions_text({"score_mod": lambda s, b, h, q, k: s * HALF + one[k] + two[k] + three[k] + four[k]})
    assert len(captured) == 4 and "5.0e-01" in text
    with pytest.raises(ValueError, match="a fifth captured array, expected four at most"):
        functions.functions_text({"score_mod": lambda s, b, h, q, k: s * HALF + one[k] + two[k] + three[k] + four[k] + five[k]})


def test_a_context_holds_the_latest_variants(monkeypatch):
    monkeypatch.setattr(variants, "_MOST_VARIANTS", 2)
    context = vkattn.Context()
    masks = [lambda b, h, q, k: q >= k, lambda b, h, q, k: q > k, lambda b, h, q, k: q == k]
    states = [vkattn.create_block_mask(mask, None, None, 4, 4, BLOCK_SIZE=1, context=context).blocks.numpy()[0, 0] > 0 for mask in masks]
    assert [int(each.sum()) for each in states] == [10, 6, 4] and len(context.variants) == 2
    again = vkattn.create_block_mask(masks[0], None, None, 4, 4, BLOCK_SIZE=1, context=context)
    assert int((again.blocks.numpy() > 0).sum()) == 10
    first, last = (weakref.ref(handle) for handle in context.variants.values())
    context.plans.clear()
    context.variants.popitem(last=False)
    gc.collect()
    assert first() is None and last() is not None  # plans alone kept the others


def test_captured_arrays_of_other_types():
    bits = (numpy.arange(1, LK + 1).astype("f4").view("u4") >> 16).astype("u2").view(vkattn.dlpack.BFLOAT16)
    context = vkattn.default_context()
    flags, scale, huge = numpy.arange(LK) % 3 == 0, numpy.array(0.5), numpy.full(LK, 1e39)
    for given in (bits, context.array(bits), context.array(numpy.arange(1, LK + 1).astype("f2"))):
        mask = vkattn.create_block_mask(lambda b, h, q, k: (given[k] * scale > 4.0) & ~flags[k] & (huge[k] > 3e38), None, None, 1, LK,
                                        BLOCK_SIZE=1, context=context)
        assert (mask.blocks.numpy()[0, 0, 0] == 2 * ((numpy.arange(1, LK + 1) > 8) & ~flags)).all()


@pytest.mark.filterwarnings("error")
def test_a_huge_number_is_infinity_without_a_word():
    huge = 1e39
    assert "3.0e+38" in text_of(lambda score, b, h, q, k: score if k <= q else -1e39, "score_mod")
    assert functions.functions_text({"score_mod": lambda s, b, h, q, k: s if k <= q else -huge})[1][0].view("f4")[0] < -2e38


class Whole(int):
    """A whole number with the methods of PyTorch's tensors."""

    def clamp(self, *limits, **named):
        least, most = (*limits, named.get("min"), named.get("max"))[:2]
        return Whole(min(max(self, least), most))

    def abs(self):
        return Whole(abs(self))

    def new_ones(self, *_, **__):
        return True


def _of_whole(function):
    def result(self, other):
        given = function(self, other)
        return given if given is NotImplemented else Whole(given)
    return result


for _name in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__floordiv__", "__mod__"):
    setattr(Whole, _name, _of_whole(getattr(int, _name)))


def both(*masks):
    """As and_masks of torch.nn.attention.flex_attention."""
    def mask_of_all(b, h, q_idx, kv_idx):
        result = b.new_ones((), dtype=numpy.bool_)
        for mask in masks:
            result = result & mask(b, h, q_idx, kv_idx)
        return result
    return mask_of_all


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def everything(b, h, q_idx, kv_idx):
    return b.new_ones(size=(), dtype=numpy.bool_)


def sliding_window(size):
    def mask(b, h, q_idx, kv_idx):
        return q_idx - kv_idx <= size
    return both(mask, causal)


def dilated_window(size, dilation):
    def mask(b, h, q_idx, kv_idx):
        distance = numpy.abs(q_idx - kv_idx)
        return (distance <= size) & ((distance % dilation) == 0)
    return mask


def prefix_lm(length):
    return lambda b, h, q_idx, kv_idx: (kv_idx < length) | causal(b, h, q_idx, kv_idx)


def documents(mask_mod, offsets):
    ids = numpy.repeat(numpy.arange(len(offsets) - 1), numpy.diff(offsets))

    def mask(b, h, q_idx, kv_idx):
        inner = mask_mod(b, h, q_idx - offsets[ids[q_idx]], kv_idx - offsets[ids[kv_idx]])
        return (ids[q_idx] == ids[kv_idx]) & inner
    return mask


def groups(mask_mod, size):
    def mask(b, h, q_idx, kv_idx):
        same = q_idx // size == kv_idx // size
        return same & mask_mod(b, h, q_idx % size, kv_idx % size)
    return mask


def of_images(intervals, image_len):
    def mask(b, h, q_idx, kv_idx):
        interval = intervals[kv_idx // image_len]
        return (q_idx >= interval[0]) & (q_idx < interval[1])
    return mask


def natten(width, height, kernel):
    def place(index):
        return index // width, index % width

    def mask(b, h, q_idx, kv_idx):
        q_x, q_y = place(q_idx)
        kv_x, kv_y = place(kv_idx)
        center_x = q_x.clamp(kernel // 2, (width - 1) - kernel // 2)
        center_y = q_y.clamp(min=kernel // 2, max=(height - 1) - kernel // 2)
        return ((center_x - kv_x).abs() <= kernel // 2) & ((center_y - kv_y).abs() <= kernel // 2)
    return mask


def tiled(width, tile):
    def place(index):
        which, inside = index // (tile * tile), index % (tile * tile)
        row, column = divmod(which, width // tile)
        return column * tile + inside % tile, row * tile + inside // tile

    def mask(b, h, q_idx, kv_idx):
        (x, y), (other, below) = place(q_idx), place(kv_idx)
        return (abs(x - other) <= 1) & (abs(y - below) <= 1)
    return mask


def morton(code):
    code = code & 0x55555555
    code = (code | (code >> 1)) & 0x33333333
    return (code | (code >> 2)) & 0x0F0F0F0F


def z_order(b, h, q_idx, kv_idx):
    return (abs(morton(q_idx) - morton(kv_idx)) <= 1) & (abs(morton(q_idx >> 1) - morton(kv_idx >> 1)) <= 1)


def frames(prompt, tokens, width, multiple, sink=True):
    def rounded(number):
        return math.floor(number / multiple) * multiple

    def mask(b, h, q_idx, kv_idx):
        if sink:
            first = kv_idx < prompt + tokens
        else:
            first = kv_idx < prompt
        return first | (q_idx < prompt) | (numpy.abs(q_idx - kv_idx) < rounded(width * tokens))
    return mask


def logical_pages(table, page_len, mask_mod):
    def mask(b, h, q_idx, physical):
        page = table[b, physical // page_len]
        return numpy.where(page >= 0, mask_mod(b, h, q_idx, page * page_len + physical % page_len), False)
    return mask


def alibi(heads):
    def mod(score, b, h, q_idx, kv_idx):
        scale = numpy.exp2(-((h + 1) * 8.0 / heads))
        return score + (q_idx - kv_idx) * scale
    return mod


def soft_cap(cap):
    tanh = numpy.tanh

    def mod(score, b, h, q_idx, kv_idx):
        return cap * tanh(score / cap)
    return mod


def causal_scores(score, b, h, q_idx, kv_idx):
    return numpy.where(q_idx >= kv_idx, score, -float("inf")) if h else numpy.maximum(score, kv_idx.clamp(0, 3))


GALLERY = {
    "documents": documents(causal, numpy.array([0, 4, 9, 21])), "images": of_images(numpy.array([[0, 7], [1, 7], [5, 12]]), 7),
    "causal": causal, "everything": everything, "sliding": sliding_window(4), "dilated": dilated_window(6, 2), "prefix": prefix_lm(3),
    "groups": groups(causal, 4), "all": groups(everything, 4), "natten": natten(7, 3, 3), "tiled": tiled(6, 2), "z-order": z_order,
    "frames": frames(2, 3, 2, 4), "frames without sink": frames(2, 3, 2, 4, False),
    "pages": logical_pages(numpy.array([[1, -1, 0, 2], [0, 3, 1, -1]]), 6, causal)}


def test_the_gallery_of_flex_attention_compiles_as_it_is():
    masks = [(name, mask, "mask_mod") for name, mask in GALLERY.items()]
    agree([*masks[2:], *((each.__name__, each, "score_mod") for each in (alibi(H), soft_cap(2.0), learned))], whole=Whole)
    agree(masks[:2], whole=Whole)  # which capture three arrays
    q, k, v = (RANDOM.standard_normal((1, 2, LQ, D)).astype("f4") for _ in range(3))
    scores = numpy.einsum("bhqd,bhkd->bhqk", q.astype("f8"), k.astype("f8")) / 4
    for at in numpy.ndindex(scores.shape):
        scores[at] = causal_scores(scores[at], *map(Whole, at))
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    got = vkattn.flex_attention(q, k, v, score_mod=causal_scores)
    numpy.testing.assert_allclose(got, weights / weights.sum(-1, keepdims=True) @ v, rtol=1e-3, atol=1e-3)


def learned(score, b, h, q_idx, kv_idx):
    return score * TABLE[b, q_idx % 5] + TABLE[h, numpy.clip(q_idx - kv_idx + 2, 0, 2 * 2)]
