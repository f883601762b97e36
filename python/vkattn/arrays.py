"""Arrays of NumPy, PyTorch and the device as the library's tensors."""
import sys

import numpy

from . import _abi, super_blocks
from .dlpack import BFLOAT16, array_of
from .handles import type_infos

_INFOS = type_infos()
TYPES = {"none": 0, **{name: info.type for name, info in _INFOS.items()}}  # by the library's names
_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32"}  # where NumPy has others
_TYPES = {_NAMES.get(name, name): info for name, info in _INFOS.items()}
FLOATS = tuple(name for name, info in _TYPES.items() if info.kind == _abi.TYPE_KIND_FLOAT)
MASKS = ("bool", *FLOATS)
_FRACTION_BITS = {"f8_e4m3": 3, "f8_e5m2": 2}
_IQ4_NL_ENTRIES = numpy.array((-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113), "f4")
STORED = tuple(name for name, info in _TYPES.items() if info.key_value)
WEIGHTS = tuple(name for name, info in _TYPES.items() if info.weight)


class OnDevice:
    """What device_array.Array is. dtype is a name there, and strides are in elements."""


def torch_of(value):
    """The module torch where a value is one of its tensors: it is there then, and not imported for it."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def dtype_of(array):
    """The name of an array's type, of NumPy's or of the device's."""
    if isinstance(array, OnDevice):
        return array.dtype
    return "bfloat16" if array.dtype == BFLOAT16 else array.dtype.name


def dtype_name(dtype):
    """The name of a type that Arrays have, from a name or from a type of NumPy's."""
    names = (*STORED, *(other for other in _TYPES if other not in STORED))
    try:
        name = dtype if dtype in names else numpy.dtype(dtype).name
    except TypeError:
        name = dtype
    if name not in names:
        raise TypeError(f"dtype: {name}, expected {one_of(names)}")
    return name


def numpy_dtype(name):
    """What holds a type's numbers in NumPy, or their bits."""
    return BFLOAT16 if name == "bfloat16" else numpy.dtype(name)


def block_of(name):
    """(elements, bytes) of what a type stores at once."""
    return _TYPES[name].block_elements, _TYPES[name].block_bytes


def is_quantised(name):
    return _TYPES[name].kind == _abi.TYPE_KIND_QUANTISED


def dequantised(data, name):
    """The numbers in blocks of a quantised type: ggml's f16 scale and minimum, the fifth bits of the numbers, then bytes, or
    half bytes of which the low ones come first; of iq4_nl these name entries of a list. Or bytes that are floats."""
    if name in _FRACTION_BITS:
        return _float8_values(_FRACTION_BITS[name])[data.reshape(-1, 32)]
    info = _TYPES[name]
    blocks = data.reshape(-1, info.block_bytes)
    if info.block_elements == super_blocks.ELEMENTS:
        return super_blocks.dequantised(blocks, info.number_bits)
    scales = numpy.ascontiguousarray(blocks[:, :2]).view("f2").astype("f4")
    if info.number_bits == 8:
        return blocks[:, 2:].view("i1").astype("f4") * scales
    half = info.block_elements // 2
    numbers = numpy.concatenate([blocks[:, -half:] & 15, blocks[:, -half:] >> 4], axis=1)
    if info.number_bits == 5:
        numbers |= numpy.unpackbits(blocks[:, -half - half // 4:-half], axis=1, bitorder="little") << 4
    if name == "iq4_nl":
        return _IQ4_NL_ENTRIES[numbers] * scales
    if not info.has_minimum:
        return (numbers.astype("f4") - 2**(info.number_bits - 1)) * scales
    return numbers.astype("f4") * scales + numpy.ascontiguousarray(blocks[:, 2:4]).view("f2").astype("f4")


def _float8_values(fraction_bits):
    """What the 256 bytes of OCP's floats of 8 bits stand for."""
    bits = numpy.arange(128)
    exponent, fraction = bits >> fraction_bits, bits & ((1 << fraction_bits) - 1)
    size = numpy.where(exponent > 0, fraction + (1 << fraction_bits), fraction).astype("f4")
    values = numpy.ldexp(size, numpy.maximum(exponent, 1) + 1 - 2**(6 - fraction_bits) - fraction_bits).astype("f4")
    if fraction_bits == 2:  # infinity, then what is no number
        values[124:] = numpy.inf, numpy.nan, numpy.nan, numpy.nan
    else:
        values[127] = numpy.nan
    return numpy.concatenate([values, -values])


def one_of(names):
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def check_type(array, name, types):
    if dtype_of(array) not in types:
        of_whom = " (ml_dtypes' or PyTorch's)" if types[-1] == "bfloat16" and not isinstance(array, OnDevice) else ""
        raise TypeError(f"{name}: dtype {dtype_of(array)}, expected {one_of(types)}{of_whom}")


def host_array(value, name):
    """The NumPy array of what is none of the device: a PyTorch tensor's or a DLPack exporter's memory, where it lies."""
    torch = torch_of(value)
    if torch is not None:
        if value.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name}: requires a gradient, expected a tensor that does not: vkattn.torch has gradients, "
                             "detach() it, or call under torch.no_grad()")
        if value.device.type != "cpu" or value.layout != torch.strided:
            raise TypeError(f"{name}: a tensor of {value.layout} on {value.device}, expected a dense one on the CPU")
        if value.dtype is torch.bool:  # which DLPack knows not in every version
            return array_of(value.view(torch.uint8), name).view(numpy.bool_)
        return array_of(value.detach().resolve_neg().resolve_conj(), name)
    if hasattr(value, "__dlpack__") and not isinstance(value, (numpy.ndarray, numpy.generic)):
        return array_of(value, name)
    try:
        return numpy.asarray(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def float32_of(array):
    """Numbers of bfloat16 in float32, which has them all."""
    if isinstance(array, OnDevice):
        return array.context.array(array, "float32")
    return (array.view("u2").astype("u4") << 16).view("f4")


def as_array(value, name, types, dtype=None):
    """The array of the device that the value is, else a NumPy array in the machine's order of bytes."""
    if isinstance(value, OnDevice):
        check_type(value, name, types if dtype is None else (dtype,))
        return value
    array = host_array(value, name)
    if dtype is not None:
        wanted = numpy.dtype(dtype)
        if wanted.kind == "i":
            _check_whole(array, name, numpy.iinfo(wanted))
        elif wanted.kind == "b":  # a number may mean either
            check_type(array, name, ("bool",))
        elif array.dtype.kind not in "biuf":
            raise TypeError(f"{name}: dtype {array.dtype}, expected {wanted}")
        return array.astype(wanted, copy=False)
    check_type(array, name, types)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_whole(array, name, limits):
    if array.size == 0:
        return
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: dtype {array.dtype}, expected whole numbers")
    for number in (array.min(), array.max()):
        if not limits.min <= number <= limits.max:
            raise ValueError(f"{name}: {number}, expected whole numbers from {limits.min} to {limits.max}")


def repeated(array, axis, times):
    """An array whose axis of size 1 shows its one part so many times; on the device as views show it, or copied there."""
    shape = tuple(times if i == axis % array.ndim else size for i, size in enumerate(array.shape))
    if isinstance(array, OnDevice):
        return array.broadcast_to(shape).contiguous()
    return numpy.ascontiguousarray(numpy.broadcast_to(array, shape))


def broadcastable(array, name, shape="[B,Hq,Lq,Lk]"):
    """A mask with the dimensions that it lacks, which are those on the left, as NumPy and PyTorch broadcast."""
    if array.ndim > 4:
        raise ValueError(f"{name}: {array.ndim} dimensions, expected at most 4, broadcast from the right to {shape}")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def element_strides(array):
    """Strides in elements."""
    if isinstance(array, OnDevice):
        return array.strides
    return tuple(stride // array.itemsize for stride in array.strides)


def dense_strides(shape):
    strides = []
    for size in reversed(shape):
        strides.insert(0, strides[0] * following if strides else 1)
        following = size
    return tuple(strides)


def is_contiguous(array):
    return 0 in array.shape or all(size == 1 or stride == dense for size, stride, dense in
               zip(array.shape, element_strides(array), dense_strides(array.shape)))


def span(array):
    """Elements from an array's first to its last, both counted."""
    return 0 if 0 in array.shape else 1 + sum((size - 1) * stride for size, stride in zip(array.shape, element_strides(array)))


def uploadable(array):
    """A NumPy array whose memory is uploaded as it lies: the given one where its axes only come in another order, or
    repeat what is there once; else a copy of what it does not repeat."""
    if array.size == 0:
        return array
    repeated = [size > 1 and stride == 0 for size, stride in zip(array.shape, array.strides)]
    once = array[tuple(slice(1) if again else slice(None) for again in repeated)]
    dense = array.itemsize
    for stride, size in sorted((stride, size) for stride, size in zip(once.strides, once.shape) if size > 1):
        if stride != dense:
            dense = 0
            break
        dense *= size
    if dense == 0 or (once.shape[-1] > 1 and once.strides[-1] != array.itemsize):
        once = numpy.ascontiguousarray(once)
    if repeated[-1]:  # rows are read whole
        once = numpy.repeat(once, array.shape[-1], axis=-1)
    return numpy.broadcast_to(once, array.shape)


def describe(array, name):
    """The layout of an array, from the first element that is bound. One number that is shown again and again is refused: strides
    of 0 alone mean contiguous memory to the library. Inputs are copied before (Call.take, Array.contiguous)."""
    if not 1 <= array.ndim <= 4:
        raise ValueError(f"{name}: {array.ndim} dimensions, expected 1 to 4")
    tensor = _abi.Tensor()
    tensor.type = _TYPES[dtype_of(array)].type
    tensor.rank = array.ndim
    tensor.shape[:array.ndim] = array.shape
    if not is_contiguous(array):
        strides = [0 if size == 1 else stride for size, stride in zip(array.shape, element_strides(array))]
        strides[-1] = strides[-1] if array.shape[-1] > 1 else 1
        if not any(strides):
            raise ValueError(f"{name}: one number that is shown {array.size} times, expected memory of its own for each element: "
                             "see contiguous()")
        tensor.strides[:array.ndim] = strides
    tensor.offset = array.bound_offset if isinstance(array, OnDevice) else 0
    return tensor


def checked_bounds(bounds, name, total):
    """Where packed sequences begin and end, on the host: numbers that do not fall, from 0 to total."""
    if bounds.ndim != 1 or bounds.size == 0 or bounds[0] < 0 or bounds[-1] > total or (numpy.diff(bounds) < 0).any():
        raise ValueError(f"{name}: {bounds.tolist()}, expected numbers that do not fall, from 0 to {total}")
    return bounds


def rows_of_sequences(bounds, longest, total):
    """Which of the packed rows belong to a sequence, bool [total]; of each at most `longest` do, 0 for all."""
    ends = numpy.maximum(bounds[:-1], numpy.minimum(bounds[1:], bounds[:-1] + (longest or total)))
    steps = numpy.zeros(total + 1, int)
    numpy.add.at(steps, bounds[:-1], 1)
    numpy.add.at(steps, ends, -1)
    return numpy.cumsum(steps)[:-1] > 0


def set_masks(desc, is_causal, window, causal_alignment, block_size):
    """Writes what hides keys by position or by block into the description of an operator or of a layer's call."""
    set_ranges(desc, is_causal, window, causal_alignment)
    if not isinstance(block_size, (tuple, list)):
        block_size = (block_size, block_size)
    desc.block_q_len, desc.block_kv_len = _pair("block_size", block_size, "a number, or (queries, keys)")


def set_ranges(desc, is_causal, window, causal_alignment):
    """Writes what hides keys by position."""
    desc.causal_alignment = causal_alignment
    desc.mask_flags = _abi.MASK_CAUSAL if _abi.flag("is_causal", is_causal) else 0
    desc.window_left = desc.window_right = -1
    if window is not None:
        desc.mask_flags |= _abi.MASK_WINDOW
        left, right = _pair("window", window, "(left, right), keys on either side of the query, None for all of them")
        desc.window_left, desc.window_right = (-1 if width is None else width for width in (left, right))


def _pair(name, value, expected):
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name}: {value!r}, expected {expected}")
    return value
