"""Memory of other libraries as NumPy arrays and back, by DLPack (https://dmlc.github.io/dlpack), bfloat16 included."""
import ctypes

import numpy

BFLOAT16 = numpy.dtype([("bfloat16", "=u2")])  # the bits of numbers that NumPy has no type for
CPU = (1, 0)  # DLDevice {kDLCPU, 0}

_DEVICE_TYPES = {1: "CPU", 2: "CUDA", 3: "CUDA host", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}
_KINDS = {0: "i", 1: "u", 2: "f", 4: "bfloat", 5: "c", 6: "b"}  # of DLDataTypeCode
_BFLOAT, _BOOL = 4, 6


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):  # DLTensor, with which a DLManagedTensor begins
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _DataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def _tensor_in(capsule):
    return _Tensor.from_address(_pointer_of(capsule, b"dltensor"))


class _Memory:
    """What NumPy asks of memory. The capsule is not taken over: it lets go of the memory when it goes itself."""

    def __init__(self, capsule, interface):
        self.capsule, self.__array_interface__ = capsule, interface


def array_of(exporter, name):
    """The memory of an object with __dlpack__, where it lies; bfloat16 as BFLOAT16."""
    device = int(exporter.__dlpack_device__()[0])
    if device != CPU[0]:
        raise TypeError(f"{name}: on a device of the kind {_DEVICE_TYPES.get(device, device)}, expected memory of the CPU")
    try:
        capsule = exporter.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name}: {error}") from error
    tensor = _tensor_in(capsule)
    kind, size = _KINDS.get(tensor.dtype.code), tensor.dtype.bits // 8
    if kind is None or tensor.dtype.lanes != 1 or tensor.dtype.bits % 8:
        raise TypeError(f"{name}: DLPack's type {tensor.dtype.code} of {tensor.dtype.bits} bits in {tensor.dtype.lanes} lanes, "
                        "expected float32, float16, bfloat16, bool or int32")
    dtype = numpy.dtype("u2" if kind == "bfloat" else f"{kind}{size}")
    shape = tuple(tensor.shape[:tensor.ndim])
    if 0 in shape:
        memory = numpy.empty(shape, dtype)
    else:
        strides = tuple(stride * size for stride in tensor.strides[:tensor.ndim]) if tensor.strides else None
        memory = numpy.asarray(_Memory(capsule, {"version": 3, "shape": shape, "strides": strides, "typestr": dtype.str,
                                                 "data": (tensor.data + tensor.byte_offset, True)}))
    return memory.view(BFLOAT16) if kind == "bfloat" else memory


def capsule_of(array):
    """A DLPack capsule of a NumPy array, which it keeps; BFLOAT16 as bfloat16."""
    code = _BFLOAT if array.dtype == BFLOAT16 else _BOOL if array.dtype == bool else None
    if code is None:
        return array.__dlpack__()
    capsule = array.view("i2" if code == _BFLOAT else "u1").__dlpack__()
    _tensor_in(capsule).dtype.code = code  # which NumPy has not, or not in every version
    return capsule
