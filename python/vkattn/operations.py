"""Operators of Python on values of GLSL."""
import ast
import operator

import numpy

from .glsl import RANK, Value, kind_of, wider

EXPECTED = ("expected arithmetic, comparisons, and, or, not, `a if c else b`, where, minimum, maximum, clip, abs, functions of a "
            "float (tanh, exp, log1p ...), float, int, arrays with all their indices, and assignments before a return")
_MOST_EXPONENT = 1024  # of a whole number that is known: larger powers take long, and fit nowhere

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
             ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
             ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
             ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
             ast.NotEq: operator.ne, ast.USub: operator.neg, ast.UAdd: operator.pos}
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
         ast.RShift: ">>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_OF_BOOLS = {ast.BitAnd: "&&", ast.BitOr: "||", ast.BitXor: "^^"}


class Operations(ast.NodeVisitor):
    """What a translator does with values, by the node of a syntax tree that asks for it. Known numbers are computed by Python.
    A translator has fail(node, what), which raises, the lines before a result, and captured_number(kind, number)."""

    def once(self, value):
        """A value whose text may be written several times."""
        if value.known is not None or len(value.text()) < 24:
            return value
        name = f"py_local_{len(self.lines)}"
        self.lines.append(f"    {value.kind} {name} = {value.text()};")
        return Value(value.kind, name, value.known, value.nonnegative)

    def computed(self, node, number, *operands):
        """What Python computed of known numbers: a part of the text where they are, else captured."""
        number = number.item() if isinstance(number, numpy.generic) else number
        kind = kind_of(number)
        if kind is None:
            self.fail(node, f"{number}, {EXPECTED}")
        if all(each.is_constant for each in operands):
            return Value(kind, known=number)
        return self.captured_number(kind, number)

    @staticmethod
    def negated(value):
        return Value("bool", f"(!{value.text()})") if value.known is None else Value("bool", known=not value.known)

    def unary(self, node, op, value):
        if op is ast.Invert and value.kind == "bool":  # as of NumPy's and PyTorch's
            return self.negated(value)
        if op is ast.Invert and value.kind == "float":
            self.fail(node, f"~ of float, {EXPECTED}")
        if value.known is not None:
            known = value.known
            return self.computed(node, ~known if op is ast.Invert else OPERATORS[op](known), value)
        sign = {ast.Invert: "~", ast.USub: "-", ast.UAdd: ""}[op]
        kind = "int" if value.kind == "bool" else value.kind
        return Value(kind, f"({sign}{value.to(kind)})", nonnegative=op is ast.UAdd and value.nonnegative)

    def binary(self, node, left, op, right):
        """left op right, of ast's classes of operators."""
        if op not in OPERATORS:
            self.fail(node, f"{op.__name__} of {left.kind} and {right.kind}, {EXPECTED}")
        if left.known is not None and right.known is not None:
            return self.computed(node, self._known(node, left.known, op, right.known), left, right)
        kind = wider(left, right)
        if op in (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift):
            return self._bits(node, left, op, right)
        if op is ast.Pow:
            return self._power(node, left, right.constant())
        number = "int" if kind == "bool" else kind
        if op in (ast.Add, ast.Sub, ast.Mult):
            return Value(number, f"({left.to(number)} {SIGNS[op]} {right.to(number)})",
                         nonnegative=op is not ast.Sub and left.nonnegative and right.nonnegative)
        if right.known == 0 and right.known is not None:
            self.fail(node, "a division by zero, expected another divisor")
        if op is ast.Div:
            return Value("float", f"({left.to('float')} / {right.to('float')})")
        right = right.constant()  # dividing by a constant costs a fraction
        if number == "int" and left.nonnegative and right.known is not None and right.known > 0:
            return Value("int", f"({left.to('int')} {'/' if op is ast.FloorDiv else '%'} {right.to('int')})", nonnegative=True)
        name = "py_floordiv" if op is ast.FloorDiv else "py_mod"
        return Value(number, f"{name}({left.to(number)}, {right.to(number)})",
                     nonnegative=right.nonnegative and (op is ast.Mod or left.nonnegative))

    def _known(self, node, left, op, right):
        """Of two numbers of Python, by Python."""
        wholes = isinstance(left, int) and isinstance(right, int)
        if op in (ast.Pow, ast.LShift) and wholes and right > _MOST_EXPONENT and left not in (-1, 0, 1):
            self.fail(node, f"{left} {'**' if op is ast.Pow else '<<'} {right}, expected a whole number of 32 bits")
        try:
            return OPERATORS[op](left, right)
        except (ArithmeticError, TypeError, ValueError) as error:
            self.fail(node, f"{ast.unparse(node)}: {error}, {EXPECTED}")

    def _bits(self, node, left, op, right):
        kind = wider(left, right)
        if kind == "float":
            self.fail(node, f"{op.__name__} of {left.kind} and {right.kind}, {EXPECTED}")
        if kind == "bool" and op in _OF_BOOLS:
            return Value("bool", f"({left.to('bool')} {_OF_BOOLS[op]} {right.to('bool')})")
        nonnegative = op in (ast.RShift, ast.LShift) and left.nonnegative or left.nonnegative and right.nonnegative or \
            op is ast.BitAnd and (left.nonnegative or right.nonnegative)
        amount = right.to("int")
        if op in (ast.LShift, ast.RShift):
            if right.known is not None and not 0 <= right.known < (32 if op is ast.LShift else 2**31):
                self.fail(node, f"a shift by {right.known}, expected one from 0 to 31")
            if right.known is None or right.known > 31:
                amount = f"min({amount}, 31)"
        return Value("int", f"({left.to('int')} {SIGNS[op]} {amount})", nonnegative=nonnegative)

    def _power(self, node, left, right):
        """right: whose number is a part of the text where it is known."""
        base = "int" if left.kind == "bool" else left.kind
        whole = right.kind != "float" or (right.known is not None and float(right.known).is_integer() and abs(right.known) < 2**31)
        if not whole:
            if right.known == 0.5:
                return Value("float", f"sqrt({left.to('float')})")
            return Value("float", f"py_power({left.to('float')}, {right.to('float')})")
        kind = "float" if right.kind == "float" or (right.known or 0) < 0 else base
        if kind == "int" and not right.nonnegative:
            self.fail(node, f"a whole number to the power {ast.unparse(node.right) if isinstance(node, ast.BinOp) else 'of one'}, "
                      "which may be below 0, expected a float as the base, as in 2.0 ** n")
        if right.known in (1, 2, 3, 4):
            left = self.once(left)
            return Value(kind, "(" + " * ".join([left.to(kind)] * int(right.known)) + ")", nonnegative=left.nonnegative)
        return Value(kind, f"py_power({left.to(kind)}, {right.to('int')})", nonnegative=left.nonnegative)

    def choice(self, node, condition, yes, no):
        """One of two values, or of two tuples."""
        if condition.known is not None:
            return yes if condition.known else no
        if isinstance(yes, tuple) and isinstance(no, tuple) and len(yes) == len(no):
            condition = self.once(condition)
            return tuple(self.choice(node, condition, *each) for each in zip(yes, no))
        yes, no = self.number(node, yes), self.number(node, no)
        kind = wider(yes, no)
        return Value(kind, f"({condition.to('bool')} ? {yes.to(kind)} : {no.to(kind)})",
                     nonnegative=yes.nonnegative and no.nonnegative)

    def extremum(self, node, name, first, second):
        if first.known is not None and second.known is not None:
            return self.computed(node, (min if name == "minimum" else max)(first.known, second.known), first, second)
        kind = max(wider(first, second), "int", key=RANK.get)
        both = first.nonnegative and second.nonnegative
        return Value(kind, f"{name[:3]}({first.to(kind)}, {second.to(kind)})",
                     nonnegative=both or (name == "maximum" and (first.nonnegative or second.nonnegative)))

    def convert(self, node, value, kind):
        if value.known is not None:
            try:
                return self.computed(node, {"float": float, "int": int, "bool": bool}[kind](value.known), value)
            except (ArithmeticError, ValueError) as error:
                self.fail(node, f"{kind} of {value.known}: {error}")
        return Value(kind, value.to(kind), nonnegative=value.nonnegative)
