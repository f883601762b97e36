"""Functions of Python as functions of a variant, and what they capture."""
import inspect
import struct

import numpy

from .arrays import FLOATS, as_array, dtype_of, float32_of, host_array, torch_of
from .device_array import Array
from .glsl import HELPERS, Value, finite
from .translator import Translator

_MOST_TENSORS = 4
_MOST_READS = 16  # of arrays with gradients, in one function: each is derived by itself, with the whole function before it


class _Crowded(Exception):
    """No tensor is left for the numbers of the scopes around, which can be a part of the text."""


class Captured:
    """What functions read, in the order of the captured tensors: arrays, and one of all numbers, floats by their bits."""

    def __init__(self, packs=True, differentiates=lambda array: False):
        """packs: whether numbers are captured; False: they are a part of the text. differentiates: whether an array has a gradient."""
        self._given, self._arrays = [], []
        self._packs, self._numbers, self._place = packs, [], None
        self._differentiates, self._reads, self._derived = differentiates, [], None
        self.differentiated = {}  # arrays that something was derived by, by their tensors' numbers

    def differentiates(self, array):
        return self._differentiates(array)

    def place(self, array):
        """The number of a captured array's tensor; None: nothing reads it."""
        return next((number for number, given in enumerate(self._given) if given is array), None)

    def add_derivative(self, read):
        """Notes that there is one by the array of such a read. Returns its tensor's number, and the element."""
        number, element = self._reads[read]
        self.differentiated[number] = self._given[number]
        return number, element

    def derive(self, read):
        """From now on the element that arrays with gradients are read for the read-th time has the derivative 1, and others 0; None: all."""
        self._reads, self._derived = [], read

    @property
    def reads(self):
        """How many such reads there were since then."""
        return len(self._reads)

    @property
    def arrays(self):
        numbers = numpy.array(self._numbers, "i4")
        return [numbers if number == self._place else array for number, array in enumerate(self._arrays)]

    def _next(self):
        if len(self._arrays) == _MOST_TENSORS:
            raise _Crowded
        return len(self._arrays)

    def number(self, kind, number, prologue):
        """The GLSL of a number of the scopes around, which is read once, in the prologue of the function."""
        if not self._packs:
            return Value(kind, known=number).text()
        if self._place is None:
            self._place = self._next()
            self._arrays.append(None)
            self._given.append(None)
        bits = struct.unpack("=i", struct.pack("=f", finite(number)))[0] if kind == "float" else number
        name, word = f"py_number_{len(self._numbers)}", f"captured_i32({self._place}, {len(self._numbers)})"
        self._numbers.append(bits)
        prologue.append(f"    {kind} {name} = {f'intBitsToFloat({word})' if kind == 'float' else word};")
        return name

    def tensor(self, array, fail):
        """The number of an array's tensor."""
        for number, given in enumerate(self._given):
            if given is array:
                return number
        try:
            place = self._next()
        except _Crowded:
            if self._place is not None:
                raise
            fail("a fifth captured array, expected four at most: join some into one")
        self._given.append(array)
        self._arrays.append(_captured_array(array, fail, self._differentiates(array)))
        return place

    def element(self, array, element, fail):
        """A Value of the element at a place of an array's row of elements."""
        number = self.tensor(array, fail)
        kind = "int" if str(self._arrays[number].dtype) == "int32" else "float"
        read = Value(kind, f"captured_{'f32' if kind == 'float' else 'i32'}({number}, uint({element}))")
        if kind == "float" and self._differentiates(array):
            read.slope = "1.0" if len(self._reads) == self._derived else None
            self._reads.append((number, element))
        return Value("bool", read.to("bool")) if "bool" in str(array.dtype) else read


def _captured_array(array, fail, has_gradient):
    """An array in the types that functions read: floats and int32."""
    if isinstance(array, Array):
        if array.dtype in FLOATS:
            return array.contiguous()
        if array.dtype != "int32":
            fail(f"a captured Array of {array.dtype}, expected {', '.join(FLOATS)} or int32")
        return array.contiguous()
    torch = torch_of(array)
    if torch is not None and array.requires_grad and torch.is_grad_enabled() and not has_gradient:
        fail("a captured tensor that requires a gradient, expected one that does not, such as its detach(), or "
             "vkattn.torch.flex_attention, under which a score_mod's have theirs")
    array = host_array(array.detach() if torch is not None else array, "captured array")
    if dtype_of(array) == "bfloat16":
        array = float32_of(array)
    array = array.astype("int32") if array.dtype.kind == "b" else array
    with numpy.errstate(over="ignore"):
        return numpy.ascontiguousarray(as_array(array, "captured array", None, "float32" if array.dtype.kind == "f" else "int32"))


def _refuse_given(what):
    raise ValueError(f"captured: {what}")


class Derivative:
    """Of a function of Python, by its first parameter: score_mod_grad of a score_mod."""

    def __init__(self, function):
        self.function = function


class CapturedDerivatives:
    """Of a function of Python, by the captured arrays that have gradients: score_mod_grad_captured of a score_mod."""

    def __init__(self, function):
        self.function = function

    def text(self, name, captured):
        parameters, blocks, read = None, [], 0
        while parameters is None or read < captured.reads:
            captured.derive(read)
            translator = Translator(name, self.function, captured)
            parameters, body, slope = translator.parts(None)
            if captured.reads > _MOST_READS:
                translator.fail(translator.node, f"{captured.reads} reads of captured arrays with gradients, expected at most {_MOST_READS}")
            if slope is not None:
                number, element = captured.add_derivative(read)
                blocks += ["    {", *body, f"    add_captured_grad({number}u, uint({element}), {slope});", "    }"]
            read += 1
        return "\n".join([f"void {name}_grad_captured({parameters}) {{", *blocks, "}", ""])


def functions_text(functions, given=()):
    """The GLSL of {name: GLSL, function of Python, Derivative, CapturedDerivatives or None}, and the arrays that they capture: the given
    ones first."""
    text, captured = functions_and_captured(functions, given)
    return text, captured.arrays


def functions_and_captured(functions, given=(), differentiates=lambda array: False):
    """The same with a Captured, of which arrays have gradients as differentiates says."""
    try:
        return _functions_text(functions, given, Captured(differentiates=differentiates))
    except _Crowded:
        return _functions_text(functions, given, Captured(False, differentiates))


def _functions_text(functions, given, captured):
    parts, helped = [], False
    for array in given:
        captured.tensor(array, _refuse_given)
    for name, function in functions.items():
        if function is None:
            continue
        if isinstance(function, str):
            parts.append(f'#line 1 "{name}"\n{function}\n')
            continue
        derived = function.function if isinstance(function, (Derivative, CapturedDerivatives)) else function
        if not inspect.isfunction(derived):
            raise TypeError(f"{name}: {type(derived).__name__}, expected GLSL text or a function")
        captured.derive(None)
        if isinstance(function, CapturedDerivatives):
            text = function.text(name.removesuffix("_grad_captured"), captured)
        elif isinstance(function, Derivative):
            text = Translator(name.removesuffix("_grad"), derived, captured).translate(True)
        else:
            text = Translator(name, derived, captured).translate()
        parts.append(("" if helped else HELPERS) + text)
        helped = True
    return "".join(parts), captured
