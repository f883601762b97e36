"""A function of Python as GLSL: from its syntax tree, with the meaning that Python gives it."""
import ast
import builtins
import inspect
import math
import types

import numpy

from .arrays import OnDevice, dtype_of, float32_of, host_array
from .glsl import CALLS, DERIVATIVES, RANK, Unfit, Value, is_word, kind_of, wider
from .operations import EXPECTED, OPERATORS, SIGNS, Operations
from .sources import definition_of

PARAMETERS = {"score_mod": ("score", "batch", "head", "query", "key"), "mask_mod": ("batch", "head", "query", "key"),
              "score_mod_grad": ("score", "batch", "head", "query", "key"), "lse_mod": ("lse", "batch", "head", "query"), "output_mod": ("value", "batch", "head", "query", "element")}
FLOATS = ("score", "lse", "value")  # parameters; the others are whole numbers
MODULES = ("numpy", "torch", "math")
_MOST_LINES, _DEEPEST, _MOST_ITERATIONS = 2000, 20, 256

_BINARY = {"add": ast.Add, "sub": ast.Sub, "subtract": ast.Sub, "mul": ast.Mult, "multiply": ast.Mult, "div": ast.Div,
           "divide": ast.Div, "true_divide": ast.Div, "floor_divide": ast.FloorDiv, "mod": ast.Mod, "remainder": ast.Mod,
           "pow": ast.Pow, "power": ast.Pow, "float_power": ast.Pow, "bitwise_and": ast.BitAnd, "bitwise_or": ast.BitOr,
           "bitwise_xor": ast.BitXor, "left_shift": ast.LShift, "right_shift": ast.RShift, "bitwise_left_shift": ast.LShift,
           "bitwise_right_shift": ast.RShift}  # functions of two numbers that are operators
_COMPARISONS = {"less": ast.Lt, "lt": ast.Lt, "less_equal": ast.LtE, "le": ast.LtE, "greater": ast.Gt, "gt": ast.Gt,
                "greater_equal": ast.GtE, "ge": ast.GtE, "equal": ast.Eq, "eq": ast.Eq, "not_equal": ast.NotEq, "ne": ast.NotEq}
_ALIASES = {"absolute": "abs", "fabs": "abs", "fmin": "minimum", "fmax": "maximum", "clamp": "clip",
            "logical_not": "not", "bitwise_not": "invert", "neg": "negative"}
_CONVERSIONS = {"float": "float", "float32": "float", "float64": "float", "double": "float", "int": "int", "int32": "int",
                "int64": "int", "long": "int", "bool": "bool", "bool_": "bool"}  # functions, methods, and types for .to


class Outside:
    """What is no number and no array's element: a function, a module, an array, a text."""

    def __init__(self, value):
        self.value = value


class Rows:
    """An array of the scopes around, by its name there, with some of its indices."""

    def __init__(self, array, name, indices=()):
        self.array, self.name, self.indices = array, name, tuple(indices)


def _is_array(value):
    return isinstance(value, (numpy.ndarray, OnDevice)) or hasattr(value, "__dlpack__")


def _called(what):
    """How a message names something that is no number."""
    if isinstance(what, Rows):
        return f"{len(what.indices)} indices of {what.name}"
    return "a tuple" if isinstance(what, tuple) else f"{type(what.value).__name__} {what.value!s:.40}"


class Translator(Operations):
    """Of a function of Python by the name that it has for the library."""

    def __init__(self, name, function, captured, caller=None):
        self.name, self.function, self.captured = name, function, captured
        self.root, self.depth = (self, 0) if caller is None else (caller.root, caller.depth + 1)
        self.lines = [] if caller is None else caller.lines
        self.prologue = []  # what reads captured numbers
        self.locals, self._outer_values = {}, {}
        self.file = function.__code__.co_filename
        try:
            self.node = definition_of(function)
        except ValueError as error:
            raise ValueError(f"{name}: {self.file}:{function.__code__.co_firstlineno}: {function.__name__}: {error}") from None

    def fail(self, node, what):
        raise ValueError(f"{self.name}: {self.file}:{getattr(node, 'lineno', self.node.lineno)}: {what}") from None

    def visit(self, node):
        try:
            return super().visit(node)
        except Unfit as error:
            self.fail(node, error)

    def generic_visit(self, node):
        self.fail(node, f"{type(node).__name__}, {EXPECTED}")

    # The function itself

    def translate(self, differentiates=False):
        """GLSL of the function; differentiates: of its derivative by its first parameter, with "_grad" behind its name."""
        kind = "bool" if self.name == "mask_mod" else "float"
        given, body, text = self.parts("1.0" if differentiates else None, None if differentiates else kind)
        return "\n".join([f"{kind} {self.name}{'_grad' if differentiates else ''}({given}) {{", *body, f"    return {text or '0.0'};", "}", ""])

    def parts(self, slope, kind=None):
        """GLSL of the parameters, of lines, and then of the result in a kind; None: of its derivative, or None for 0. slope: the first
        parameter's derivative."""
        expected = PARAMETERS[self.name]
        values = [Value("float" if each in FLOATS else "int", f"py_{each}", nonnegative=each not in FLOATS) for each in expected]
        values[0].slope = slope
        try:
            self._signature().bind(*values)
        except TypeError:
            self.fail(self.node, f"parameters {ast.unparse(self.node.args)}, expected as many as {', '.join(expected)}")
        result = self.number(self.node, self.result(values, {}))
        given = ", ".join(("float " if each in FLOATS else "uint ") + each for each in expected)
        parameters = [f"    float py_{each} = {each};" if each in FLOATS else f"    int py_{each} = int({each});"
                      for each in expected]
        try:
            text = result.slope if kind is None else result.to(kind)
        except Unfit as error:
            self.fail(self.node, error)
        return given, [*parameters, *self.prologue, *self.lines], text

    def _signature(self):
        return inspect.signature(self.function, follow_wrapped=False)

    def result(self, values, named):
        """What the function returns of arguments."""
        if self.depth > _DEEPEST:
            self.fail(self.node, f"calls deeper than {_DEEPEST}, expected a function that does not call itself")
        try:
            bound = self._signature().bind(*values, **named)
        except TypeError as error:
            self.fail(self.node, f"{self.function.__name__}: {error}")
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            self.locals[name] = value if _is_visited(value) else self._from_outside(value, name)
        if isinstance(self.node, ast.Lambda):
            return self.visit(self.node.body)
        return self._run(self.node.body)

    def _run(self, statements):
        """What statements return. Those after an `if` follow each of its branches."""
        for place, statement in enumerate(statements):
            if len(self.lines) > _MOST_LINES:
                self.fail(statement, f"more than {_MOST_LINES} steps, expected fewer loop iterations or branches")
            rest = statements[place + 1:]
            if isinstance(statement, ast.Return) and statement.value is not None:
                return self.visit(statement.value)
            if isinstance(statement, ast.If):
                return self._branch(statement, rest)
            if isinstance(statement, ast.For):
                return self._run(self._iterations(statement) + rest)
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not isinstance(statement, ast.Pass) and not is_text:
                self.visit(statement)
        self.fail(statements[-1] if statements else self.node, f"ends without a return of a value, {EXPECTED}")

    def _branch(self, statement, rest):
        test = self.truth(statement.test)
        if test.known is not None:
            return self._run((statement.body if test.known else statement.orelse) + rest)
        before = dict(self.locals)
        yes = self._run(statement.body + rest)
        self.locals = before
        return self.choice(statement, test, yes, self._run(statement.orelse + rest))

    def _iterations(self, loop):
        """The statements of a loop over a sequence that is known, one iteration after the other."""
        sequence = self.visit(loop.iter)
        if isinstance(sequence, Outside) and isinstance(sequence.value, (tuple, list, range)):
            sequence = self._elements(loop.iter, sequence.value[:_MOST_ITERATIONS + 1])
        if not isinstance(sequence, (tuple, list)) or len(sequence) > _MOST_ITERATIONS or loop.orelse:
            self.fail(loop, f"For, expected a sequence that is known, of at most {_MOST_ITERATIONS} elements, and no else")
        return [statement for each in sequence for statement in (_Assignment(loop.target, each), *loop.body)]

    def visit__Assignment(self, node):
        self._assign(node.target, node.value)

    # Values

    def number(self, node, value):
        """A visited value that must be a number."""
        if isinstance(value, Rows):
            self.fail(node, f"{_called(value)}, expected {len(value.array.shape)}")
        if not isinstance(value, Value):
            self.fail(node, f"{_called(value)}, {EXPECTED}")
        return value

    def value(self, node):
        return self.number(node, self.visit(node))

    def truth(self, node):
        """Of what is used as a bool: `and` and `or` need not give an operand."""
        if isinstance(node, ast.BoolOp):
            return self._all_or_any(node)
        visited = self.visit(node)
        if isinstance(visited, Outside) and not _is_array(visited.value):
            return Value("bool", known=bool(visited.value))
        value = self.number(node, visited)
        return Value("bool", known=bool(value.known)) if value.known is not None else Value("bool", value.to("bool"))

    def captured_number(self, kind, number):
        if kind == "bool" or number != number or not is_word(Value(kind, known=number)):
            return Value(kind, known=number)
        names = []

        def name():
            if not names:
                names.append(self.captured.number(kind, number, self.root.prologue))
            return names[0]
        return Value(kind, name, number)

    def _elements(self, node, sequence):
        return tuple(self._from_outside(each, f"{ast.unparse(node)}[{place}]") for place, each in enumerate(sequence))

    def _from_outside(self, value, name):
        """An object of the scopes around, by its name there."""
        if isinstance(value, numpy.generic) and kind_of(value) is None and dtype_of(value) == "bfloat16":
            value = float(value)
        kind = kind_of(value)
        if kind is not None:
            return self.captured_number(kind, value.item() if isinstance(value, numpy.generic) else value)
        if not _is_array(value):
            return Outside(value)
        if len(value.shape) > 0:
            return Rows(value, name)
        if self.captured.differentiates(value):
            return self.captured.element(value, "0", lambda what: self.fail(self.node, what))
        host = host_array(value, name)
        return self._from_outside((float32_of(host) if dtype_of(host) == "bfloat16" else host)[()], name)

    def _outer(self, node):
        """What a name means outside of the function."""
        code = self.function.__code__
        if node.id in code.co_freevars:
            try:
                return self.function.__closure__[code.co_freevars.index(node.id)].cell_contents
            except ValueError:
                self.fail(node, f"the name {node.id}, expected one that has a value")
        if node.id in (*code.co_varnames, *code.co_cellvars):
            self.fail(node, f"the name {node.id} before it has a value, expected it to be set before")
        for scope in (self.function.__globals__, vars(builtins)):
            if node.id in scope:
                return scope[node.id]
        self.fail(node, f"the name {node.id}, expected one that has a value")

    def visit_Name(self, node):
        if node.id in self.locals:
            return self.locals[node.id]
        if node.id not in self._outer_values:
            self._outer_values[node.id] = self._from_outside(self._outer(node), node.id)
        return self._outer_values[node.id]

    def visit_Attribute(self, node):
        base = self.visit(node.value)
        if isinstance(base, Rows) and not base.indices:
            base = Outside(base.array)
        if not isinstance(base, Outside) or not hasattr(base.value, node.attr):
            self.fail(node, f"the attribute {node.attr} of {ast.unparse(node.value)}, {EXPECTED}")
        value = getattr(base.value, node.attr)
        if isinstance(base.value, types.ModuleType) and base.value.__name__ in MODULES and kind_of(value):
            return Value(kind_of(value), known=value)  # pi, inf
        return self._from_outside(value, ast.unparse(node))

    def visit_Constant(self, node):
        kind = kind_of(node.value)
        return Outside(node.value) if kind is None else Value(kind, known=node.value)

    def visit_Tuple(self, node):
        return tuple(self.visit(each) for each in node.elts)

    visit_List = visit_Tuple

    # Statements

    def _assign(self, target, value):
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, Outside) and isinstance(value.value, (tuple, list)):
                value = self._elements(target, value.value)
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                self.fail(target, f"{len(target.elts)} names, expected as many values")
            for each, part in zip(target.elts, value):
                self._assign(each, part)
            return
        if not isinstance(target, ast.Name):
            self.generic_visit(target)
        self.locals[target.id] = self.once(value) if isinstance(value, Value) else value

    def visit_Assign(self, node):
        value = self.visit(node.value)
        for target in node.targets:
            self._assign(target, value)

    def visit_AnnAssign(self, node):
        if node.value is None:
            self.generic_visit(node)
        self._assign(node.target, self.visit(node.value))

    def visit_AugAssign(self, node):
        if not isinstance(node.target, ast.Name):
            self.generic_visit(node.target)
        name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        self._assign(node.target, self.binary(node, self.value(name), type(node.op), self.value(node.value)))

    # Operators, of operations.py

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.Not):
            return self.negated(self.truth(node.operand))
        return self.unary(node, type(node.op), self.value(node.operand))

    def visit_BinOp(self, node):
        return self.binary(node, self.value(node.left), type(node.op), self.value(node.right))

    def _all_or_any(self, node):
        """`and` and `or` as a bool; what Python does not look at is not translated."""
        ends = isinstance(node.op, ast.Or)
        parts = []
        for each in node.values:
            value = self.truth(each)
            if value.known is None:
                parts.append(value.text())
            elif value.known == ends:
                parts = parts and [*parts, value.text()]
                if not parts:
                    return value
                break
        if not parts:
            return Value("bool", known=not ends)
        return Value("bool", f"({(' || ' if ends else ' && ').join(parts)})")

    def visit_BoolOp(self, node):
        """`and` and `or` give one of their operands."""
        ends = isinstance(node.op, ast.Or)
        visited = []
        for each in node.values:
            value = self.visit(each)
            known = self._known_truth(value)
            if known is None or known == ends or each is node.values[-1]:
                visited.append(value)
            if known == ends:
                break
        if len(visited) == 1:
            return visited[0]
        values = [self.number(node, each) for each in visited]
        if all(each.kind == "bool" for each in values):
            return Value("bool", "(" + (" || " if ends else " && ").join(each.text() for each in values) + ")")
        result = values.pop()
        while values:
            value = self.once(values.pop())
            result = self.choice(node, Value("bool", value.to("bool")), value if ends else result, result if ends else value)
        return result

    @staticmethod
    def _known_truth(value):
        if isinstance(value, Value):
            return None if value.known is None else bool(value.known)
        return bool(value.value) if isinstance(value, Outside) else None

    def visit_Compare(self, node):
        values, parts = [self.visit(node.left), *(self.visit(each) for each in node.comparators)], []
        values = [self.once(each) if isinstance(each, Value) and len(values) > 2 else each for each in values]
        for left, op, right in zip(values, node.ops, values[1:]):
            part = self.comparison(node, left, type(op), right)
            if part.known is None:
                parts.append(part.text())
            elif not part.known:
                return part
        return Value("bool", "(" + " && ".join(parts) + ")") if parts else Value("bool", known=True)

    def comparison(self, node, left, op, right):
        if op in (ast.Is, ast.IsNot):
            if not isinstance(right, Outside) or right.value is not None:
                self.fail(node, f"{op.__name__}, {EXPECTED}, or `is None`")
            return Value("bool", known=(isinstance(left, Outside) and left.value is None) == (op is ast.Is))
        if op in (ast.In, ast.NotIn):
            return self._contained(node, left, op, right)
        if isinstance(left, Outside) and isinstance(right, Outside) and op in (ast.Eq, ast.NotEq):
            return Value("bool", known=(left.value == right.value) == (op is ast.Eq))
        left, right = self.number(node, left), self.number(node, right)
        if left.known is not None and right.known is not None:
            return Value("bool", known=bool(OPERATORS[op](left.known, right.known)))
        kind = max(wider(left, right), "int", key=RANK.get)
        if kind == "int" and not (is_word(left) and is_word(right)):  # is above or below all words, as it is above or below 0
            return Value("bool", known=OPERATORS[op](0 if is_word(left) else left.known, 0 if is_word(right) else right.known))
        return Value("bool", f"({left.to(kind)} {SIGNS[op]} {right.to(kind)})")

    def _contained(self, node, left, op, right):
        if isinstance(right, Outside) and isinstance(right.value, (tuple, list, range, set, frozenset)) and len(right.value) <= 64:
            right = self._elements(node, right.value)
        if not isinstance(right, tuple):
            self.fail(node, f"{op.__name__}, expected a sequence of numbers that is known, of at most 64")
        left = self.once(self.number(node, left))
        found = Value("bool", known=False)
        for each in right:
            same = self.comparison(node, left, ast.Eq, each)
            if same.known is None or same.known:
                found = same if found.known is not None and not found.known else Value("bool", f"({found.text()} || {same.text()})")
        return self.negated(found) if op is ast.NotIn else found

    def visit_IfExp(self, node):
        test = self.truth(node.test)
        if test.known is not None:
            return self.visit(node.body if test.known else node.orelse)
        return self.choice(node, test, self.visit(node.body), self.visit(node.orelse))

    # Calls

    def visit_Call(self, node):
        arguments = []
        for each in node.args:
            value = self.visit(each.value if isinstance(each, ast.Starred) else each)
            arguments += value if isinstance(each, ast.Starred) and isinstance(value, tuple) else [value]
        for each in node.keywords:
            if each.arg is None and getattr(self.visit(each.value), "value", None) != {}:
                self.generic_visit(each)
        node = ast.copy_location(ast.Call(node.func, node.args, [each for each in node.keywords if each.arg is not None]), node)
        base = self.visit(node.func.value) if isinstance(node.func, ast.Attribute) else None
        if isinstance(base, (Value, Rows)):
            return self._method(node, base, arguments)
        function = self.visit(node.func)
        if not isinstance(function, Outside):
            self.fail(node.func, f"a call of {ast.unparse(node.func)}, {EXPECTED}")
        return self._call(node, function.value, arguments)

    def _call(self, node, function, arguments):
        if isinstance(function, types.MethodType):
            arguments.insert(0, Outside(function.__self__))
            function = function.__func__
        module = _module_of(function)
        if module is not None and not (module == "torch" and isinstance(function, types.FunctionType) and not _is_known(function)):
            return self._library(node, function, module, getattr(function, "__name__", ""), arguments)
        if not isinstance(function, types.FunctionType):
            self.fail(node.func, f"a call of {ast.unparse(node.func)}, {EXPECTED}")
        named = {each.arg: self.visit(each.value) for each in node.keywords}
        return Translator(self.name, function, self.captured, self).result(arguments, named)

    def _method(self, node, base, arguments):
        name = node.func.attr
        if name in ("new_ones", "new_zeros"):
            kind = next((_kind_of_dtype(self.visit(each.value)) for each in node.keywords if each.arg == "dtype"), "float")
            shape = [*arguments, *(self.visit(each.value) for each in node.keywords if each.arg == "size")]
            if kind is None or any(each != () for each in shape):
                self.fail(node, f"{name}, expected the shape () and a dtype of bool, 32 or 64 bits")
            return Value(kind, known={"bool": bool, "int": int, "float": float}[kind](name == "new_ones"))
        if name in ("to", "type", "astype") and len(arguments) == 1 and not node.keywords:
            kind = _kind_of_dtype(arguments[0])
            if kind is None:
                self.fail(node, f"{name} of {_called(arguments[0])}, expected a type of bool, 32 or 64 bits")
            return self.convert(node, self.number(node, base), kind)
        if name == "item" and not arguments:
            if isinstance(base, Rows) and not base.indices and math.prod(base.array.shape) == 1:
                return self._element(node, Rows(base.array, base.name, [Value("int", known=0)] * len(base.array.shape)))
            return self.number(node, base)
        return self._library(node, None, "torch", name, [base, *arguments])

    def _library(self, node, function, module, name, arguments):
        """A function of NumPy, PyTorch, math or Python itself, or a method of a tensor."""
        if name == "range" and all(isinstance(each, Value) and isinstance(each.known, int) for each in arguments):
            return Outside(range(*(each.known for each in arguments)))
        if name == "len" and len(arguments) == 1 and not isinstance(arguments[0], Value):
            held = arguments[0]
            held = held if isinstance(held, tuple) else held.array if isinstance(held, Rows) else held.value
            return self._from_outside(len(held), "")
        if name == "float" and len(arguments) == 1 and isinstance(arguments[0], Outside) and isinstance(arguments[0].value, str):
            try:
                return Value("float", known=float(arguments[0].value))
            except ValueError as error:
                self.fail(node, error)
        name = _ALIASES.get(name, name)
        if module in ("torch", "builtins") and name in ("min", "max"):
            name += "imum"
        values = [self.number(node, each) for each in arguments]
        limits = {each.arg: self.value(each.value) for each in node.keywords}
        if name == "clip" and values and limits.keys() <= {"min", "max", "a_min", "a_max"}:
            return self._clip(node, values, limits)
        if limits:
            self.fail(node, f"the argument {next(iter(limits))} of {ast.unparse(node.func)}, expected none by name")
        result = self._function(node, function, module, name, values)
        if result is None:
            self.fail(node, f"a call of {ast.unparse(node.func)} with {len(values)} arguments, {EXPECTED}")
        return result

    def _clip(self, node, values, limits):
        least, most = ([*values[1:], None, None][at] for at in (0, 1))
        least, most = limits.get("min", limits.get("a_min", least)), limits.get("max", limits.get("a_max", most))
        value = values[0]
        for limit, name in ((least, "maximum"), (most, "minimum")):
            value = value if limit is None else self.extremum(node, name, value, limit, 1.0)
        return value

    def _function(self, node, function, module, name, values):
        """None where there is no such function of so many values."""
        if len(values) == 3 and name == "where":
            return self.choice(node, self.convert(node, values[0], "bool"), *values[1:])
        if len(values) >= 2 and name in ("minimum", "maximum"):
            result = values[0]
            for each in values[1:]:
                result = self.extremum(node, name, result, each)
            return result
        if len(values) == 2:
            return self._of_two(node, module, name, *values)
        return self._of_one(node, function, module, name, values[0]) if len(values) == 1 else None

    def _of_two(self, node, module, name, first, second):
        if name in _BINARY and (module != "math" or name in ("pow", "remainder")):
            if module == "math" and name == "remainder":
                return None  # IEEE's
            if name == "float_power" or (module == "math" and name == "pow"):
                first = self.convert(node, first, "float")
            return self.binary(node, first, _BINARY[name], second)
        if name in _COMPARISONS:
            return self.comparison(node, first, _COMPARISONS[name], second)
        if name in ("logical_and", "logical_or", "logical_xor"):
            sign = {"logical_and": "&&", "logical_or": "||", "logical_xor": "^^"}[name]
            return Value("bool", f"({first.to('bool')} {sign} {second.to('bool')})")
        if name == "fmod":
            kind = "float" if module == "math" else max(wider(first, second), "int", key=RANK.get)
            first, second = self.read_again(first, second)
            return self.differentiated(Value(kind, f"py_fmod({first.to(kind)}, {second.to(kind)})"), (first, ""),
                                       (second, f"(-trunc({first.to('float')} / {second.to('float')}))"))
        if name == "divmod":
            return tuple(self.binary(node, first, op, second) for op in (ast.FloorDiv, ast.Mod))
        return None

    def _of_one(self, node, function, module, name, value):
        if name in _CONVERSIONS:
            return self.convert(node, value, _CONVERSIONS[name])
        if name == "not":
            return self.negated(self.convert(node, value, "bool"))
        if name in ("negative", "positive", "invert"):
            return self.unary(node, {"negative": ast.USub, "positive": ast.UAdd, "invert": ast.Invert}[name], value)
        if name == "abs":
            if value.known is not None:
                return self.computed(node, abs(value.known), value)
            kind = "int" if value.kind == "bool" else value.kind
            value, = self.read_again(value)
            return self.differentiated(Value(kind, f"abs({value.to(kind)})", nonnegative=True), (value, f"sign({value.to(kind)})"))
        if name == "relu":
            return self.extremum(node, "maximum", value, Value("int", known=0), 0.0)
        if name == "sign":
            if value.known is not None:
                return self.computed(node, (value.known > 0) - (value.known < 0), value)
            kind = "int" if value.kind == "bool" else value.kind
            return Value(kind, f"sign({value.to(kind)})", nonnegative=value.nonnegative)
        if name not in CALLS:
            return None
        if value.known is not None:
            known = self._called_on_known(node, function, module, name, value)
            if known is not None:
                return known
        whole = (module == "math" and name in ("floor", "ceil", "trunc")) or (module == "builtins" and name == "round")
        if value.kind != "float" and name in ("floor", "ceil", "trunc", "fix", "rint", "round"):
            return value if whole else self.convert(node, value, "float")
        value, = self.read_again(value)
        result = Value("float", f"{CALLS[name]}({value.to('float')})")
        if value.slope is not None and name in DERIVATIVES:
            x, y = value.to("float"), self._named("float", result.text())
            result = self.differentiated(Value("float", y), (value, DERIVATIVES[name].format(x=x, y=y)))
        return self.convert(node, result, "int") if whole else result

    def _called_on_known(self, node, function, module, name, value):
        """Of a known number, by Python, NumPy, or NumPy's function for PyTorch's; None where NumPy has none."""
        function = function if module != "torch" else getattr(numpy, name, None)
        if function is None:
            return None
        try:
            with numpy.errstate(all="raise", under="ignore"):
                return self.computed(node, function(value.known), value)
        except (ArithmeticError, TypeError, ValueError) as error:
            self.fail(node, f"{ast.unparse(node)} of {value.known}: {error}")

    # Arrays

    def visit_Subscript(self, node):
        base = self.visit(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(base, Rows):
            for each in parts:
                if isinstance(each, (ast.Slice, ast.Starred)):
                    self.generic_visit(each)
            return self._indexed(node, Rows(base.array, base.name, (*base.indices, *(self._index(each) for each in parts))))
        visited = self.visit(node.slice)
        index = visited.known if isinstance(visited, Value) else visited.value if isinstance(visited, Outside) else None
        holder = base if isinstance(base, tuple) else base.value if isinstance(base, Outside) else None
        if index is None or not isinstance(holder, (tuple, list, dict)):
            self.fail(node, f"an index of {ast.unparse(node.value)}, expected an array, or a known place of a sequence")
        try:
            return holder[index] if isinstance(base, tuple) else self._from_outside(holder[index], ast.unparse(node))
        except (LookupError, TypeError) as error:
            self.fail(node, f"{ast.unparse(node)}: {error}")

    def _index(self, node):
        value = self.value(node)
        if value.kind != "int":
            self.fail(node, f"an index of {value.kind}, expected a whole number")
        return value

    def _indexed(self, node, rows):
        if len(rows.indices) > len(rows.array.shape):
            self.number(node, rows)
        return rows if len(rows.indices) < len(rows.array.shape) else self._element(node, rows)

    def _element(self, node, rows):
        """An element of an array, by the row of its elements."""
        array, shape = rows.array, tuple(rows.array.shape)
        element = None
        for index, size in zip(rows.indices, shape):
            if index.known is not None and not -size <= index.known < size:
                self.fail(node, f"the index {index.known}, expected one of {size} elements")
            held = self.captured_number("int", size)
            place = index.to("int") if index.nonnegative else f"py_index({index.to('int')}, {held.text()})"
            element = place if element is None else f"({element} * {held.text()} + {place})"
        return self.captured.element(array, element, lambda what: self.fail(node, what))


class _Assignment(ast.stmt):
    """A loop's variable with its value in an iteration."""
    _fields = ("target",)

    def __init__(self, target, value):
        super().__init__(target)
        self.value = value
        ast.copy_location(self, target)


def _module_of(function):
    """numpy, torch, math or builtins, of their functions; None of others'."""
    if isinstance(function, numpy.ufunc):
        return "numpy"
    module = getattr(function, "__module__", None)
    if module is None:  # PyTorch's compiled functions
        return "torch" if isinstance(function, types.BuiltinFunctionType) else None
    module = module.split(".")[0]
    return module if module in MODULES or (module == "builtins" and not isinstance(function, types.FunctionType)) else None


def _is_known(function):
    name = _ALIASES.get(function.__name__, function.__name__)
    return name in (*CALLS, *_BINARY, *_COMPARISONS, *_CONVERSIONS, "relu", "where", "clip")


def _is_visited(value):
    return isinstance(value, (Value, Outside, Rows, tuple)) and not (isinstance(value, tuple) and not all(map(_is_visited, value)))


def _kind_of_dtype(value):
    """The kind of a type of NumPy's, PyTorch's or Python's, or of its name; None of another."""
    if not isinstance(value, Outside):
        return None
    named = value.value
    name = named if isinstance(named, str) else getattr(named, "__name__", None) or getattr(named, "name", None) or str(named)
    return _CONVERSIONS.get(name.rpartition(".")[2])
