"""Structures of C, and the checks of what their members are set to."""
import ctypes
import math
import operator
from ctypes import c_double, c_float, c_int, c_uint32, c_uint64

_MOST_FLOAT = 3.4028234663852886e38  # of 32 bits
_RANGES = {c_int: (-2**31, 2**31 - 1), c_uint32: (0, 2**32 - 1), c_uint64: (0, 2**64 - 1)}


def flag(name, value):
    """True or False, of Python or of NumPy: any text would count as true."""
    if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", None) == "b" or value in (0, 1):
        return bool(value)
    raise TypeError(f"{name}: {value!r}, expected True or False")


def choose(name, choices, value):
    """The number of a name; the C interface's numbers are taken too."""
    if isinstance(value, str) and value in choices:
        return choices[value]
    if isinstance(value, int) and not isinstance(value, bool) and value in choices.values():
        return value
    raise ValueError(f"{name}: {value!r}, expected one of {', '.join(choices)}")


def real(name, value):
    """A number that is no text."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: {value!r}, expected a number") from None


def whole(kind, name, value):
    """A whole number that its C type holds: ctypes itself takes others, and cuts off their high bits."""
    least, most = _RANGES[kind]
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {value!r}, expected a whole number") from None
    if not least <= number <= most:
        raise ValueError(f"{name}: {number}, expected a whole number from {least} to {most}")
    return number


def _checked(kind, name, value):
    """What a member of a kind is set to."""
    if isinstance(kind, dict):
        return choose(name, kind, value)
    if kind in _RANGES:
        return whole(kind, name, value)
    if kind in (c_float, c_double):
        number = real(name, value)
        if kind is c_float and _MOST_FLOAT < abs(number) < math.inf:  # ctypes makes it infinite
            raise ValueError(f"{name}: {value}, expected a number that a float of 32 bits holds")
        return number
    if hasattr(kind, "_length_") and isinstance(value, (list, tuple)):
        if len(value) > kind._length_:
            raise ValueError(f"{name}: {len(value)} numbers, expected at most {kind._length_}")
        return kind(*(_checked(kind._type_, name, number) for number in value))
    if list(getattr(kind, "_kinds_", ())) == ["present", "value"] and not isinstance(value, kind):
        return kind() if value is None else kind(1, _checked(kind._kinds_["value"], name, value))
    return value


class _Structure(ctypes.Structure):
    """Whose members are known by name, whose whole numbers are as large as they may be, whose enumerations take names, and whose
    optional numbers are left out by None. Its own size, struct_size, it says by itself: that is no member to set."""

    def __init__(self, *values, **members):
        super().__init__()
        if hasattr(self, "struct_size"):
            super().__setattr__("struct_size", ctypes.sizeof(self))
        for name, value in zip(self._kinds_, values):
            setattr(self, name, value)
        for name, value in members.items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        if name not in self._kinds_:
            raise TypeError(f"{name}: no member of {type(self).__name__}, expected one of {', '.join(self._kinds_)}")
        super().__setattr__(name, _checked(self._kinds_[name], name, value))


def structure(name, *fields):
    """A class for a structure of C. fields: (name, type of ctypes), of an enumeration (name, {name: number})."""
    members = [(member, c_int if isinstance(kind, dict) else kind) for member, kind in fields]
    kinds = {member: kind for member, kind in fields if member != "struct_size"}
    return type(name, (_Structure,), {"_fields_": members, "_kinds_": kinds})
