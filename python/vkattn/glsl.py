"""What functions of Python are translated into: values in GLSL, and the functions that mean what Python's do."""
import numpy

_MOST = float(numpy.finfo("f4").max)
_LARGE = 3e38  # stands for infinity: as a score it hides the key
RANK = {"bool": 0, "int": 1, "float": 2}
HELPERS = """int py_floordiv(int a, int b) {
    int quotient = b == 0 ? 0 : a / b;
    return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
int py_mod(int a, int b) { return a - py_floordiv(a, b) * b; }
float py_fmod(float a, float b) { // of C: no difference is rounded
    float rest = abs(a), size = abs(b);
    int shift = size > 0.0 ? int(floatBitsToUint(rest) >> 23) - int(floatBitsToUint(size) >> 23) : -1;
    for (; shift >= 0; --shift) {
        float part = ldexp(size, shift);
        if (rest >= part) rest -= part;
    }
    return a < 0.0 ? -rest : rest;
}
float py_mod(float a, float b) {
    float rest = py_fmod(a, b);
    return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}
float py_floordiv(float a, float b) { return roundEven((a - py_mod(a, b)) / b); }
int py_fmod(int a, int b) { return a - (b == 0 ? 0 : a / b) * b; }
int py_power(int base, int exponent) {
    int power = 1;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) != 0) power *= base;
        base *= base;
    }
    return power;
}
float py_power(float base, int exponent) {
    float power = 1.0;
    for (uint rest = uint(abs(exponent)); rest > 0u; rest >>= 1) {
        if ((rest & 1u) != 0u) power *= base;
        base *= base;
    }
    return exponent < 0 ? 1.0 / power : power;
}
float py_power(float base, float exponent) { // as NumPy: of a negative base NaN, but for whole exponents
    if (exponent == 0.0 || base == 1.0) return 1.0;
    if (base == 0.0) return exponent > 0.0 ? 0.0 : 3e38;
    float size = pow(abs(base), exponent);
    if (base > 0.0) return size;
    if (floor(exponent) != exponent) return uintBitsToFloat(0x7fc00000u);
    return floor(exponent * 0.5) * 2.0 == exponent ? size : -size;
}
float py_tanh(float x) { return abs(x) < 0.01 ? x - x * x * x / 3.0 : 1.0 - 2.0 / (exp(2.0 * min(x, 40.0)) + 1.0); }
float py_log10(float x) { return 0.4342944819 * log(x); }
float py_log1p(float x) { float sum = 1.0 + x; return sum == 1.0 ? x : log(sum) * x / (sum - 1.0); }
float py_expm1(float x) { return abs(x) < 0.02 ? x + x * x * (0.5 + x / 6.0) : exp(x) - 1.0; }
float py_sigmoid(float x) { return 1.0 / (1.0 + exp(-x)); }
float py_square(float x) { return x * x; }
int py_index(int index, int size) { return index < 0 ? index + size : index; }
"""
# of one float, by the names of NumPy, PyTorch and math
CALLS = {"tanh": "py_tanh", "exp": "exp", "exp2": "exp2", "expm1": "py_expm1", "log": "log", "log2": "log2", "log10": "py_log10",
         "log1p": "py_log1p", "sqrt": "sqrt", "rsqrt": "inversesqrt", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh",
         "cosh": "cosh", "arctan": "atan", "atan": "atan", "sigmoid": "py_sigmoid", "square": "py_square", "floor": "floor",
         "ceil": "ceil", "trunc": "trunc", "fix": "trunc", "rint": "roundEven", "round": "roundEven"}


# the derivatives of those that have one other than 0: GLSL of the argument x and of the result y
DERIVATIVES = {"tanh": "(1.0 - {y} * {y})", "exp": "{y}", "exp2": "(0.6931471806 * {y})", "expm1": "({y} + 1.0)", "log": "(1.0 / {x})",
               "log2": "(1.442695041 / {x})", "log10": "(0.4342944819 / {x})", "log1p": "(1.0 / (1.0 + {x}))", "sqrt": "(0.5 / {y})",
               "rsqrt": "(-0.5 * {y} / {x})", "sin": "cos({x})", "cos": "(-sin({x}))", "tan": "(1.0 + {y} * {y})",
               "sinh": "cosh({x})", "cosh": "sinh({x})", "arctan": "(1.0 / (1.0 + {x} * {x}))", "atan": "(1.0 / (1.0 + {x} * {x}))",
               "sigmoid": "({y} * (1.0 - {y}))", "square": "(2.0 * {x})"}


class Unfit(ValueError):
    """A value that has no GLSL: the translator adds the place."""


def literal(number, kind):
    """GLSL of a number of Python."""
    if kind == "bool":
        return "true" if number else "false"
    if kind == "int":
        number = int(number)
        if not -2**31 <= number < 2**31:
            raise Unfit(f"{number}, expected a whole number of 32 bits")
        return f"({number})" if number > -2**31 else "(-2147483647 - 1)"
    return f"({numpy.format_float_scientific(numpy.float32(finite(number)), trim='0')})"


def finite(number):
    """A number that float32 holds: large ones stand for infinity. NaN is refused."""
    if number != number:
        raise Unfit("NaN, expected a number")
    if -_MOST <= number <= _MOST:
        return float(number)
    return -_LARGE if number < 0 else _LARGE


def kind_of(number):
    """bool, int or float, of a number of Python or of NumPy; None of anything else."""
    for kind, types in (("bool", (bool, numpy.bool_)), ("int", (int, numpy.integer)), ("float", (float, numpy.floating))):
        if isinstance(number, types):
            return kind
    return None


def is_word(value):
    """Whether GLSL has the number: whole ones that are known may leave 32 bits."""
    return value.kind != "int" or value.known is None or -2**31 <= value.known < 2**31


def wider(*values):
    """The kind that holds all of some values."""
    return max((value.kind for value in values), key=RANK.get)


class Value:
    """A number: GLSL of one of the kinds bool, int and float, or one that is known now.

    known   the number of Python, where it is known; None: it is not
    text    GLSL, or a function that returns it; None: the known number is a part of the text
    nonnegative it is no less than 0
    slope   its derivative by the score, GLSL of a float, where a translator asks for it; None: 0
    """

    def __init__(self, kind, text=None, known=None, nonnegative=False, slope=None):
        self.kind, self._text, self.known, self.slope = kind, text, known, slope
        self.nonnegative = nonnegative if known is None else known >= 0

    @property
    def is_constant(self):
        """Whether the number is a part of the text."""
        return self._text is None

    def constant(self):
        """The number as a part of the text, where it is known."""
        return self if self.known is None else Value(self.kind, known=self.known)

    def text(self):
        """GLSL of its kind."""
        if self._text is None:
            return literal(self.known, self.kind)
        return self._text() if callable(self._text) else self._text

    def to(self, kind):
        """GLSL of another kind."""
        if self._text is None:
            return literal(self.known, kind)
        if kind == self.kind:
            return self.text()
        if kind == "bool":
            return f"({self.text()} != {'0' if self.kind == 'int' else '0.0'})"
        return f"{kind}({self.text()})"
