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
        if value.known is not None:
            return value
        return Value(value.kind, self._named(value.kind, value.text()), None, value.nonnegative, self._named("float", value.slope))

    def _named(self, kind, text):
        if text is None or len(text) < 24:
            return text
        name = f"py_local_{len(self.lines)}"
        self.lines.append(f"    {kind} {name} = {text};")
        return name

    def differentiated(self, value, *parts):
        """The value with its slope, by the chain rule. parts: each operand, and GLSL of the derivative by it; "": 1."""
        terms = [f"({derivative} * {part.slope})" if derivative else part.slope for part, derivative in parts if part.slope is not None]
        if terms:
            value.slope = terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"
        return value

    def read_again(self, *values):
        """The values as their derivatives may read them, too."""
        return [self.once(each) for each in values] if any(each.slope is not None for each in values) else values

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
        result = Value(kind, f"({sign}{value.to(kind)})", nonnegative=op is ast.UAdd and value.nonnegative)
        return self.differentiated(result, (value, "" if op is ast.UAdd else "-1.0"))

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
        left, right = self.read_again(left, right)
        if op in (ast.Add, ast.Sub, ast.Mult):
            result = Value(number, f"({left.to(number)} {SIGNS[op]} {right.to(number)})",
                           nonnegative=op is not ast.Sub and left.nonnegative and right.nonnegative)
            if op is ast.Mult:
                return self.differentiated(result, (left, right.to("float")), (right, left.to("float")))
            return self.differentiated(result, (left, ""), (right, "" if op is ast.Add else "-1.0"))
        if right.known == 0 and right.known is not None:
            self.fail(node, "a division by zero, expected another divisor")
        if op is ast.Div:
            above, below = left.to("float"), right.to("float")
            return self.differentiated(Value("float", f"({above} / {below})"), (left, f"(1.0 / {below})"),
                                       (right, f"(-{above} / ({below} * {below}))"))
        right = right.constant()  # dividing by a constant costs a fraction
        if number == "int" and left.nonnegative and right.known is not None and right.known > 0:
            return Value("int", f"({left.to('int')} {'/' if op is ast.FloorDiv else '%'} {right.to('int')})", nonnegative=True)
        name = "py_floordiv" if op is ast.FloorDiv else "py_mod"
        result = Value(number, f"{name}({left.to(number)}, {right.to(number)})",
                       nonnegative=right.nonnegative and (op is ast.Mod or left.nonnegative))
        if op is ast.FloorDiv:
            return result
        return self.differentiated(result, (left, ""), (right, f"(-py_floordiv({left.to('float')}, {right.to('float')}))"))

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
        left, right = self.read_again(left, right)
        if not whole:
            if right.known == 0.5:
                return self.differentiated(Value("float", f"sqrt({left.to('float')})"), (left, f"(0.5 / sqrt({left.to('float')}))"))
            base, exponent = left.to("float"), right.to("float")
            power = f"py_power({base}, {exponent})"
            return self.differentiated(Value("float", power), (left, f"({exponent} * py_power({base}, {exponent} - 1.0))"),
                                       (right, f"({base} > 0.0 ? log({base}) * {power} : 0.0)"))
        kind = "float" if right.kind == "float" or (right.known or 0) < 0 else base
        if kind == "int" and not right.nonnegative:
            self.fail(node, f"a whole number to the power {ast.unparse(node.right) if isinstance(node, ast.BinOp) else 'of one'}, "
                      "which may be below 0, expected a float as the base, as in 2.0 ** n")
        exponent, before = right.to("int"), left.to("float")
        if right.known in (1, 2, 3, 4):
            left = self.once(left)
            result = Value(kind, "(" + " * ".join([left.to(kind)] * int(right.known)) + ")", nonnegative=left.nonnegative)
        else:
            result = Value(kind, f"py_power({left.to(kind)}, {exponent})", nonnegative=left.nonnegative)
        derivative = f"float({exponent}) * py_power({before}, {exponent} - 1)"
        return self.differentiated(result, (left, f"({exponent} == 0 ? 0.0 : {derivative})"))

    def choice(self, node, condition, yes, no):
        """One of two values, or of two tuples."""
        if condition.known is not None:
            return yes if condition.known else no
        if isinstance(yes, tuple) and isinstance(no, tuple) and len(yes) == len(no):
            condition = self.once(condition)
            return tuple(self.choice(node, condition, *each) for each in zip(yes, no))
        yes, no = self.number(node, yes), self.number(node, no)
        kind = wider(yes, no)
        if yes.slope is not None or no.slope is not None:
            condition = self.once(condition)
        result = Value(kind, f"({condition.to('bool')} ? {yes.to(kind)} : {no.to(kind)})",
                       nonnegative=yes.nonnegative and no.nonnegative)
        if yes.slope is not None or no.slope is not None:  # a product with 0 would not hide infinity
            result.slope = f"({condition.to('bool')} ? {yes.slope or '0.0'} : {no.slope or '0.0'})"
        return result

    def extremum(self, node, name, first, second, of_equals=0.5):
        """of_equals: where they are equal, 1: the slope is the first one's, 0: the second one's, 0.5: their mean."""
        if first.known is not None and second.known is not None:
            return self.computed(node, (min if name == "minimum" else max)(first.known, second.known), first, second)
        kind = max(wider(first, second), "int", key=RANK.get)
        both = first.nonnegative and second.nonnegative
        first, second = self.read_again(first, second)
        result = Value(kind, f"{name[:3]}({first.to(kind)}, {second.to(kind)})",
                       nonnegative=both or (name == "maximum" and (first.nonnegative or second.nonnegative)))
        if first.slope is not None or second.slope is not None:
            one, other = first.slope or "0.0", second.slope or "0.0"
            less, more = (one, other) if name == "minimum" else (other, one)
            same = {1.0: one, 0.0: other}.get(of_equals, f"{of_equals} * ({one} + {other})")
            result.slope = self._named("float", f"({first.to(kind)} < {second.to(kind)} ? {less} : {first.to(kind)} > {second.to(kind)} "
                                                f"? {more} : {same})")
        return result

    def convert(self, node, value, kind):
        if value.known is not None:
            try:
                return self.computed(node, {"float": float, "int": int, "bool": bool}[kind](value.known), value)
            except (ArithmeticError, ValueError) as error:
                self.fail(node, f"{kind} of {value.known}: {error}")
        return Value(kind, value.to(kind), nonnegative=value.nonnegative, slope=value.slope if kind == "float" else None)
