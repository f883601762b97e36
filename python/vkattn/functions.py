"""Functions of Python as functions of a variant: from a syntax tree to GLSL."""
import ast
import builtins
import inspect
import textwrap

import numpy

from .arrays import as_array, host_array
from .device_array import Array

PARAMETERS = {"score_mod": ("score", "batch", "head", "query", "key"), "mask_mod": ("batch", "head", "query", "key"),
              "lse_mod": ("lse", "batch", "head", "query"), "output_mod": ("value", "batch", "head", "query", "element")}
_FLOATS = ("score", "lse", "value")  # parameters; the others are whole numbers
_CALLS = {"tanh": "py_tanh", "exp": "exp", "log": "log", "log2": "log2", "sqrt": "sqrt", "sin": "sin", "cos": "cos",
          "floor": "floor"}  # of a float
_MODULES = ("numpy", "torch", "math")
_EXPECTED = ("expected arithmetic, comparisons, and, or, not, where, minimum, maximum, abs, " + ", ".join(_CALLS) +
             ", float, int, arrays with all their indices, and assignments before one return")
HELPERS = """int py_floordiv(int a, int b) {
    int quotient = b == 0 ? 0 : a / b;
    return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
int py_mod(int a, int b) { return a - py_floordiv(a, b) * b; }
float py_floordiv(float a, float b) { return floor(a / b); }
float py_mod(float a, float b) { return a - floor(a / b) * b; }
float py_tanh(float x) { return abs(x) < 0.01 ? x - x * x * x / 3.0 : 1.0 - 2.0 / (exp(2.0 * min(x, 40.0)) + 1.0); }
int py_index(int index, int size) { return index < 0 ? index + size : index; }
"""
_RANK = {"bool": 0, "int": 1, "float": 2}


class _Value:
    """GLSL of one of the types bool, int and float."""

    def __init__(self, text, kind):
        self.text, self.kind = text, kind

    def to(self, kind):
        if kind == self.kind:
            return self.text
        if kind == "bool":
            return f"({self.text} != {'0' if self.kind == 'int' else '0.0'})"
        return f"{kind}({self.text})"


def _is_array(value):
    return isinstance(value, (numpy.ndarray, Array)) or hasattr(value, "__dlpack__")


class Captured:
    """The arrays that functions read, in the order of the captured tensors."""

    def __init__(self):
        self.arrays, self._given = [], []

    def number(self, array, fail):
        for number, given in enumerate(self._given):
            if given is array:
                return number
        if len(self._given) == 4:
            fail("a fifth captured array, expected four at most")
        self._given.append(array)
        if not isinstance(array, Array):
            array = host_array(array, "captured array")
            array = array.astype("int32") if array.dtype.kind == "b" else array
            dtype = "float32" if array.dtype.kind == "f" else "int32"
            array = numpy.ascontiguousarray(as_array(array, "captured array", None, dtype))
        elif array.dtype not in ("float32", "int32"):
            fail(f"a captured Array of {array.dtype}, expected float32 or int32")
        self.arrays.append(array)
        return len(self.arrays) - 1


class Translator(ast.NodeVisitor):
    """Of a function of Python by the name that it has for the library."""

    def __init__(self, name, function, captured):
        self.name, self.function, self.captured = name, function, captured
        self.lines, self.locals = [], {}
        variables = inspect.getclosurevars(function)
        self.outer = {**variables.builtins, **variables.globals, **variables.nonlocals}

    def fail(self, node, what):
        line = self.first + getattr(node, "lineno", 1) - 1
        raise ValueError(f"{self.name}: {self.file}:{line}: {what}")

    def translate(self):
        self.file = self.function.__code__.co_filename
        try:
            lines, self.first = inspect.getsourcelines(self.function)
        except (OSError, TypeError):
            raise ValueError(f"{self.name}: has no source text, expected a function of a file, or GLSL") from None
        self.first = max(self.first, 1)
        node = self._definition(textwrap.dedent("".join(lines)))
        names = [each.arg for each in node.args.args]
        expected = PARAMETERS[self.name]
        if len(names) != len(expected) or node.args.vararg or node.args.kwonlyargs or node.args.kwarg or node.args.defaults:
            self.fail(node, f"parameters {', '.join(names)}, expected as many as {', '.join(expected)}")
        for name, parameter in zip(names, expected):
            kind = "float" if parameter in _FLOATS else "int"
            self.locals[name] = _Value(f"py_{parameter}", kind)
        kind = "bool" if self.name == "mask_mod" else "float"
        result = self._body(node).to(kind)
        given = ", ".join(("float " if each in _FLOATS else "uint ") + each for each in expected)
        parameters = [f"    float py_{each} = {each};" if each in _FLOATS else f"    int py_{each} = int({each});"
                      for each in expected]
        return "\n".join([f"{kind} {self.name}({given}) {{", *parameters, *self.lines, f"    return {result};", "}", ""])

    def _definition(self, source):
        try:
            tree = ast.parse(source)
        except SyntaxError:  # a lambda that is a part of a line
            tree = None
        code = self.function.__code__
        wanted = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))
                  and [each.arg for each in node.args.args] == list(code.co_varnames[:code.co_argcount])] if tree else []
        if code.co_name == "<lambda>":
            wanted = [node for node in wanted if isinstance(node, ast.Lambda)]
        if not wanted or (code.co_name == "<lambda>" and len(wanted) != 1):
            raise ValueError(f"{self.name}: {self.file}:{self.first}: the function's text cannot be told from the line's, "
                             "expected a def, or one lambda in a statement of its own")
        return wanted[0]

    def _body(self, node):
        if isinstance(node, ast.Lambda):
            return self.visit(node.body)
        body = node.body
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]  # the docstring
        for statement in body[:-1]:
            self.visit(statement)
        if not body or not isinstance(body[-1], ast.Return) or body[-1].value is None:
            self.fail(body[-1] if body else node, f"ends without a return of a value, {_EXPECTED}")
        return self.visit(body[-1].value)

    def generic_visit(self, node):
        self.fail(node, f"{type(node).__name__}, {_EXPECTED}")

    def _assign(self, target, value):
        if not isinstance(target, ast.Name):
            self.generic_visit(target)
        name = f"py_local_{len(self.lines)}"
        self.lines.append(f"    {value.kind} {name} = {value.text};")
        self.locals[target.id] = _Value(name, value.kind)

    def visit_Assign(self, node):
        for target in node.targets:
            self._assign(target, self.visit(node.value))

    def visit_AugAssign(self, node):
        self._assign(node.target, self._binary(node, self.visit(node.target), node.op, self.visit(node.value)))

    def visit_Constant(self, node):
        return self._constant(node, node.value)

    def _constant(self, node, value):
        if isinstance(value, (bool, numpy.bool_)):
            return _Value("true" if value else "false", "bool")
        if isinstance(value, (int, numpy.integer)):
            if not -2**31 < int(value) < 2**31:
                self.fail(node, f"{value}, expected a whole number of 32 bits")
            return _Value(f"({int(value)})", "int")
        if isinstance(value, (float, numpy.floating)):
            if numpy.isnan(value):
                self.fail(node, "NaN, expected a number")
            if abs(value) > numpy.finfo("f4").max:  # which hides
                return _Value("(-3e38)" if value < 0 else "3e38", "float")
            return _Value(f"({numpy.format_float_scientific(numpy.float32(value), trim='0')})", "float")
        self.fail(node, f"{type(value).__name__} {getattr(node, 'id', value)!s:.40}, {_EXPECTED}")

    def _outer(self, node):
        """What a name means outside of the function, or an attribute of a module there."""
        if isinstance(node, ast.Attribute):
            module = self._outer(node.value)
            if getattr(module, "__name__", None) in _MODULES and hasattr(module, node.attr):
                return getattr(module, node.attr)
            self.generic_visit(node)
        if node.id in self.outer:
            return self.outer[node.id]
        if hasattr(builtins, node.id):
            return getattr(builtins, node.id)
        self.fail(node, f"the name {node.id}, expected one that has a value")

    def visit_Name(self, node):
        return self.locals[node.id] if node.id in self.locals else self._constant(node, self._outer(node))

    def visit_Attribute(self, node):
        return self._constant(node, self._outer(node))

    def visit_UnaryOp(self, node):
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not) or (isinstance(node.op, ast.Invert) and value.kind == "bool"):
            return _Value(f"(!{value.to('bool')})", "bool")
        if isinstance(node.op, ast.Invert) and value.kind == "int":
            return _Value(f"(~{value.text})", "int")
        if isinstance(node.op, (ast.USub, ast.UAdd)) and value.kind != "bool":
            return _Value(f"({'-' if isinstance(node.op, ast.USub) else ''}{value.text})", value.kind)
        self.fail(node, f"{type(node.op).__name__} of {value.kind}, {_EXPECTED}")

    def visit_BinOp(self, node):
        return self._binary(node, self.visit(node.left), node.op, self.visit(node.right))

    def _binary(self, node, left, op, right):
        kind = max(left.kind, right.kind, key=_RANK.get)
        bits = {ast.BitAnd: ("&", "&&"), ast.BitOr: ("|", "||"), ast.BitXor: ("^", "^^"), ast.LShift: ("<<", None),
                ast.RShift: (">>", None)}
        if type(op) in bits and kind != "float" and bits[type(op)][kind == "bool"]:
            return _Value(f"({left.to(kind)} {bits[type(op)][kind == 'bool']} {right.to(kind)})", kind)
        if isinstance(op, ast.Pow):
            return self._power(node, left, right)
        number = "int" if kind == "bool" else kind
        if type(op) in (ast.Add, ast.Sub, ast.Mult):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}[type(op)]
            return _Value(f"({left.to(number)} {sign} {right.to(number)})", number)
        if isinstance(op, ast.Div):
            return _Value(f"({left.to('float')} / {right.to('float')})", "float")
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            name = "py_floordiv" if isinstance(op, ast.FloorDiv) else "py_mod"
            return _Value(f"{name}({left.to(number)}, {right.to(number)})", number)
        self.fail(node, f"{type(op).__name__} of {left.kind} and {right.kind}, {_EXPECTED}")

    def _power(self, node, left, right):
        exponent = node.right if isinstance(node, ast.BinOp) else node.value
        if isinstance(exponent, ast.Constant) and exponent.value in (1, 2, 3, 4) and left.kind != "bool":
            return _Value("(" + " * ".join([left.text] * int(exponent.value)) + ")", left.kind)
        if isinstance(node, ast.BinOp) and isinstance(node.left, (ast.Constant, ast.Name)) and left.kind != "bool":
            return _Value(f"pow({left.to('float')}, {right.to('float')})", "float")
        self.fail(node, "a power, expected the exponent 1, 2, 3 or 4, or a number or name as the base")

    def visit_BoolOp(self, node):
        sign = " && " if isinstance(node.op, ast.And) else " || "
        return _Value("(" + sign.join(self.visit(value).to("bool") for value in node.values) + ")", "bool")

    def visit_Compare(self, node):
        signs = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
        values = [self.visit(each) for each in (node.left, *node.comparators)]
        parts = []
        for left, op, right in zip(values, node.ops, values[1:]):
            if type(op) not in signs:
                self.fail(node, f"{type(op).__name__}, {_EXPECTED}")
            kind = max(left.kind, right.kind, "int", key=_RANK.get)
            parts.append(f"{left.to(kind)} {signs[type(op)]} {right.to(kind)}")
        return _Value("(" + " && ".join(parts) + ")", "bool")

    def _choice(self, condition, yes, no):
        kind = max(yes.kind, no.kind, key=_RANK.get)
        return _Value(f"({condition.to('bool')} ? {yes.to(kind)} : {no.to(kind)})", kind)

    def visit_IfExp(self, node):
        return self._choice(self.visit(node.test), self.visit(node.body), self.visit(node.orelse))

    def visit_Call(self, node):
        if not isinstance(node.func, (ast.Name, ast.Attribute)) or node.keywords:
            self.generic_visit(node.func if not node.keywords else node.keywords[0])
        function = self._outer(node.func)
        name = getattr(function, "__name__", "")
        name = {"absolute": "abs", "fabs": "abs", "min": "minimum", "max": "maximum"}.get(name, name)
        module = (getattr(function, "__module__", None) or type(function).__module__ or "").split(".")[0]
        values = [self.visit(each) for each in node.args]
        known = module in ("numpy", "torch", "math", "builtins") or isinstance(function, numpy.ufunc)
        if known and name == "where" and len(values) == 3:
            return self._choice(*values)
        if known and name in ("minimum", "maximum") and len(values) == 2:
            kind = max(*(each.kind for each in values), "int", key=_RANK.get)
            return _Value(f"{name[:3]}({values[0].to(kind)}, {values[1].to(kind)})", kind)
        if known and name == "abs" and len(values) == 1 and values[0].kind != "bool":
            return _Value(f"abs({values[0].text})", values[0].kind)
        if known and name in ("float", "int") and len(values) == 1:
            return _Value(values[0].to(name), name)
        if known and name in _CALLS and len(values) == 1:
            return _Value(f"{_CALLS[name]}({values[0].to('float')})", "float")
        self.fail(node, f"a call of {ast.unparse(node.func)} with {len(values)} arguments, {_EXPECTED}")

    def visit_Subscript(self, node):
        indices = []
        while isinstance(node, ast.Subscript):
            own = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            indices = list(own) + indices
            array_node = node = node.value
        if not isinstance(array_node, (ast.Name, ast.Attribute)) or getattr(array_node, "id", None) in self.locals:
            self.fail(array_node, f"an index of {ast.unparse(array_node)}, {_EXPECTED}")
        array = self._outer(array_node)
        if not _is_array(array):
            self.fail(array_node, f"an index of {type(array).__name__}, expected an array")
        shape = tuple(array.shape)
        if len(indices) != len(shape):
            self.fail(array_node, f"{len(indices)} indices of {ast.unparse(array_node)}, expected {len(shape)}")
        return self._element(array_node, array, shape, indices)

    def _element(self, node, array, shape, indices):
        number = self.captured.number(array, lambda what: self.fail(node, what))
        element = "0"
        for index, size in zip(indices, shape):
            value = self.visit(index)
            if value.kind != "int":
                self.fail(index, f"an index of {value.kind}, expected a whole number")
            element = f"({element} * {size} + py_index({value.text}, {size}))"
        held = self.captured.arrays[number]
        kind = "float" if str(held.dtype) == "float32" else "int"
        read = _Value(f"captured_{'f32' if kind == 'float' else 'i32'}({number}, uint({element}))", kind)
        return _Value(read.to("bool"), "bool") if "bool" in str(array.dtype) else read


def _refuse_given(what):
    raise ValueError(f"captured: {what}")


def functions_text(functions, given=()):
    """The GLSL of {name: GLSL, function of Python or None}, and the arrays that they capture: the given ones first."""
    captured, parts, helped = Captured(), [], False
    for array in given:
        captured.number(array, _refuse_given)
    for name, function in functions.items():
        if function is None:
            continue
        if isinstance(function, str):
            parts.append(f'#line 1 "{name}"\n{function}\n')
            continue
        if not inspect.isfunction(function):
            raise TypeError(f"{name}: {type(function).__name__}, expected GLSL text or a function")
        text = Translator(name, function, captured).translate()
        parts.append(("" if helped else HELPERS) + text)
        helped = True
    return "".join(parts), captured.arrays
