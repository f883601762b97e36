"""NumPy arrays as the library's tensors."""
import numpy

from . import _abi

_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "int32": "i32"}


def type_of(array, name):
    """The vkattn_type of an array. bfloat16 is ml_dtypes', which NumPy itself has not."""
    kind = _TYPES.get(array.dtype.name)
    if kind is None:
        raise TypeError(f"{name}: dtype {array.dtype}, expected one of {', '.join(_TYPES)}")
    return _abi.TYPES[kind]


def as_array(value, name, dtype=None):
    """A contiguous array: the given one where it is so already, else a copy."""
    array = numpy.asarray(value) if dtype is None else numpy.asarray(value, dtype=dtype)
    type_of(array, name)
    return numpy.ascontiguousarray(array)


def describe(array, name):
    """The layout of a contiguous array."""
    if not 1 <= array.ndim <= 4:
        raise ValueError(f"{name}: {array.ndim} dimensions, expected 1 to 4")
    tensor = _abi.Tensor()
    tensor.type = type_of(array, name)
    tensor.rank = array.ndim
    tensor.shape[:array.ndim] = array.shape
    return tensor
