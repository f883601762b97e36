"""NumPy arrays as the library's tensors."""
import numpy

from . import _abi

_ALIGNMENTS = {"top_left": 0, "bottom_right": 1}
_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "int32": "i32"}


def type_of(array, name):
    """The vkattn_type of an array. bfloat16 is ml_dtypes', which NumPy itself has not."""
    kind = _TYPES.get(array.dtype.name)
    if kind is None:
        raise TypeError(f"{name}: dtype {array.dtype}, expected one of {', '.join(_TYPES)}")
    return _abi.TYPES[kind]


def as_array(value, name, dtype=None):
    """A contiguous array in the machine's order of bytes: the given one where it is so already, else a copy."""
    array = numpy.asarray(value)
    if dtype is not None:
        if numpy.dtype(dtype).kind == "i":
            _check_whole(array, name, numpy.iinfo(dtype))
        array = array.astype(dtype, copy=False)
    type_of(array, name)
    return numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def _check_whole(array, name, limits):
    if array.size == 0:
        return
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: dtype {array.dtype}, expected whole numbers")
    for number in (array.min(), array.max()):
        if not limits.min <= number <= limits.max:
            raise ValueError(f"{name}: {number}, expected whole numbers from {limits.min} to {limits.max}")


def broadcastable(array, name):
    """A mask with the dimensions that it lacks, which are those on the left, as NumPy and PyTorch broadcast."""
    if array.ndim > 4:
        raise ValueError(f"{name}: {array.ndim} dimensions, expected at most 4, broadcast from the right to [B,Hq,Lq,Lk]")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def describe(array, name):
    """The layout of a contiguous array."""
    if not 1 <= array.ndim <= 4:
        raise ValueError(f"{name}: {array.ndim} dimensions, expected 1 to 4")
    tensor = _abi.Tensor()
    tensor.type = type_of(array, name)
    tensor.rank = array.ndim
    tensor.shape[:array.ndim] = array.shape
    return tensor


def set_masks(desc, is_causal, window, causal_alignment, block_size):
    """Writes what hides keys by position or by block into the description of an operator or of a layer's call."""
    if causal_alignment not in _ALIGNMENTS:
        raise ValueError(f"causal_alignment: {causal_alignment!r}, expected top_left or bottom_right")
    desc.causal_alignment = _ALIGNMENTS[causal_alignment]
    desc.mask_flags = _abi.MASK_CAUSAL if is_causal else 0
    desc.window_left = desc.window_right = -1
    if window is not None:
        desc.mask_flags |= _abi.MASK_WINDOW
        desc.window_left, desc.window_right = (-1 if width is None else width for width in window)
    desc.block_q_len, desc.block_kv_len = block_size if isinstance(block_size, tuple) else (block_size, block_size)
