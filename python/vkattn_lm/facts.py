"""What a model says of itself: numbers and words by name, held to what they must be."""
from .errors import ModelError

MOST = 2**31 - 1  # of any size
MOST_REAL = 3.4e38  # of float32


class Facts:
    """Values by their names in a file. where: the file, for messages."""

    def __init__(self, where, values):
        self.where, self.values = where, values

    def __contains__(self, name):
        return self.values.get(name) is not None

    def raw(self, name, default=None):
        value = self.values.get(name)
        return default if value is None else value

    def _wrong(self, name, value, expected):
        words = repr(value)
        return ModelError(f"{self.where}: {name}: {words if len(words) < 80 else words[:77] + '...'}, expected {expected}")

    def _given(self, name, default, expected):
        value = self.values.get(name)
        value = default if value is None else value
        if value is None:
            raise ModelError(f"{self.where}: {name} is missing, expected {expected}")
        return value

    def whole(self, name, default=None, *, least=1, most=MOST):
        expected = f"a whole number from {least} to {most}"
        value = self._given(name, default, expected)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(name, value, expected)
        return value

    def real(self, name, default=None, *, least=0.0):
        expected = f"a number above {least:g} that float32 has"
        value = self._given(name, default, expected)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least < value <= MOST_REAL:
            raise self._wrong(name, value, expected)
        return float(value)

    def reals(self, name, count):
        """A list of so many numbers above 0."""
        expected = f"a list of {count} numbers above 0 that float32 has"
        values = self._given(name, None, expected)
        if not isinstance(values, list) or len(values) != count or not all(
                isinstance(each, (int, float)) and not isinstance(each, bool) and 0 < each <= MOST_REAL for each in values):
            raise self._wrong(name, values, expected)
        return tuple(float(each) for each in values)

    def words(self, name, default=None):
        value = self._given(name, default, "text")
        if not isinstance(value, str):
            raise self._wrong(name, value, "text")
        return value

    def flag(self, name, default):
        value = self._given(name, default, "true or false")
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def list_of(self, name, kind, default=None):
        expected = f"a list of {kind.__name__}"
        value = self._given(name, default, expected)
        if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
            raise self._wrong(name, value, expected)
        return value

    def inside(self, name):
        """The facts of a group, empty where there is none."""
        value = self.raw(name, {})
        if not isinstance(value, dict):
            raise self._wrong(name, value, "a group of values")
        return Facts(f"{self.where}: {name}", value)

    def refuse(self, name, *allowed):
        """Raises where a fact asks for what is not computed."""
        value = self.raw(name)
        if value is not None and value not in allowed:
            also = "".join(f", or {each!r}" for each in dict.fromkeys(allowed))
            raise self._wrong(name, value, f"none{also}: nothing else is computed")

    def expect(self, name, value):
        """Raises where a fact is not this one, or missing."""
        if self._given(name, None, repr(value)) != value:
            raise self._wrong(name, self.raw(name), repr(value))
