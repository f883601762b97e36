"""Arrays on the device."""
import math
import operator

import numpy

from .arrays import FLOATS, OnDevice, block_of, dense_strides, dequantised, dtype_name, dtype_of, host_array, is_contiguous, numpy_dtype, span
from .compiled import outside_graphs
from .dlpack import BFLOAT16, CPU, capsule_of


class Array(OnDevice):
    """Numbers on the device of a context; made by context.array and context.empty, and by operators on Arrays.

    dtype is a name: float32, float16, bfloat16, bool, int32, and of caches
    ggml's blocks of 32 numbers: q8_0, q4_0, q4_1, q5_0, q5_1, iq4_nl, and OCP's floats f8_e4m3 and f8_e5m2,
    in blocks of 32 too. Of weights: ggml's blocks of 32, and those of 256, q4_K, q5_K and q6_K.
    Slices, reshape and transpose show the same memory, which goes with the last that shows it. Strides and offset are in
    elements.
    """

    def __init__(self, context, buffer, shape, dtype, strides=None, offset=0):
        self.context, self.buffer, self.dtype, self.offset = context, buffer, dtype, offset
        self.shape = tuple(shape)
        self.strides = dense_strides(self.shape) if strides is None else tuple(strides)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def nbytes(self):
        """Bytes that the numbers take, each once."""
        return self._bytes(self.size)

    def _bytes(self, elements):
        block, size = block_of(self.dtype)
        return elements // block * size

    @property
    def bound_offset(self):
        """Elements from what is bound to the first of them: bindings begin at multiples of 16 bytes."""
        block, size = block_of(self.dtype)
        return self.offset % (16 // math.gcd(16, size) * block)

    @property
    def bound_byte(self):
        return self._bytes(self.offset - self.bound_offset)

    def repeats_one(self):
        """Whether one number is seen again and again: strides of 0 alone are contiguous memory to the library."""
        return self.size > 1 and not any(stride for size, stride in zip(self.shape, self.strides) if size > 1)

    def bytes_shown(self):
        """The first byte of the buffer that the array shows, and the one after the last."""
        first = self._bytes(self.offset)
        if self.size == 0:
            return first, first
        return first, first + self._bytes(span(self) + block_of(self.dtype)[0] - 1)

    def __len__(self):
        if not self.shape:
            raise TypeError("an Array without dimensions has no length")
        return self.shape[0]

    def __repr__(self):
        return f"<vkattn.Array {list(self.shape)} {self.dtype}>"

    def _view(self, shape, strides, offset=None):
        return Array(self.context, self.buffer, shape, self.dtype, strides, self.offset if offset is None else offset)

    def __getitem__(self, key):
        """A part, by whole numbers, slices with steps from 1, and one Ellipsis."""
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys = (*keys[:at], *(slice(None),) * (self.ndim - len(keys) + 1), *keys[at + 1:])
        if len(keys) > self.ndim:
            raise IndexError(f"{len(keys)} indices, expected at most {self.ndim}")
        shape, strides, offset = [], [], self.offset
        for each, size, stride in zip((*keys, *(slice(None),) * (self.ndim - len(keys))), self.shape, self.strides):
            if isinstance(each, slice):
                start, stop, step = each.indices(size)
                if step < 1:
                    raise IndexError(f"{each}, expected a step from 1")
                shape.append(len(range(start, stop, step)))
                strides.append(stride * step)
            else:
                try:
                    start = range(size)[operator.index(each)]
                except TypeError:
                    raise TypeError(f"index {each!r}, expected whole numbers, slices or one Ellipsis") from None
            offset += start * stride
        if 0 in shape:
            offset = self.offset  # what shows nothing shows nothing after the end
        if block_of(self.dtype)[0] > 1 and (offset % block_of(self.dtype)[0] or shape[-1:] != [self.shape[-1]] or strides[-1] != 1):
            raise IndexError(f"a part of the rows of {self.dtype}, expected whole rows")
        return self._view(shape, strides, offset)

    def reshape(self, *shape):
        """Another shape of the same memory, -1 for one size to be found. The numbers must lie one after the other."""
        shape = _whole_numbers("reshape", shape)
        if shape.count(-1) == 1:
            rest = math.prod(size for size in shape if size != -1)
            shape[shape.index(-1)] = self.size // rest if rest > 0 else 0
        if math.prod(shape) != self.size or min(shape, default=1) < 0:
            raise ValueError(f"reshape: {shape}, expected {self.size} elements as {list(self.shape)} has")
        if not is_contiguous(self):
            kept = self._reshaped_strides(shape)
            if kept is None:
                raise ValueError(f"reshape: {list(self.shape)} with strides {list(self.strides)}, expected contiguous memory: "
                                 "see contiguous()")
            return self._view(shape, kept)
        return self._view(shape, None)

    def _reshaped_strides(self, shape):
        """The strides of a shape that only has other dimensions of size 1."""
        sizes = [(size, stride) for size, stride in zip(self.shape, self.strides) if size > 1]
        if [size for size, _ in sizes] != [size for size in shape if size > 1]:
            return None
        strides = iter(stride for _, stride in sizes)
        return [next(strides) if size > 1 else 1 for size in shape]

    def transpose(self, *axes):
        """The axes in another order, by default the reverse one."""
        every = list(range(self.ndim))
        axes = _whole_numbers("transpose", axes) or every[::-1]
        if sorted(axis + self.ndim if axis < 0 else axis for axis in axes) != every:
            raise ValueError(f"transpose: {list(axes)}, expected each of the {self.ndim} axes once")
        if block_of(self.dtype)[0] > 1 and axes[-1] % self.ndim != self.ndim - 1:
            raise ValueError(f"transpose: {list(axes)}, expected the rows of {self.dtype} to stay the last axis")
        return self._view([self.shape[axis] for axis in axes], [self.strides[axis] for axis in axes])

    @property
    def T(self):
        """The axes in the reverse order, as transpose() without arguments."""
        return self.transpose()

    def astype(self, dtype):
        """The numbers in another type: on the device where they are float32, float16 or bfloat16; the array itself where it
        has the type already. Whole numbers become bool and float32, float16 and bfloat16; quantised blocks become those too."""
        name = dtype_name(dtype)
        if name == self.dtype or self.dtype in FLOATS:
            return self.context.array(self, name)
        wide = self.context.array(self.download(), name if name in ("bool", "int32") else "float32")
        return self.context.array(wide, name)

    @outside_graphs
    def __add__(self, other):
        """The sum, element by element, of what broadcasts: with an Array, an array or tensor on the CPU, or a number. In the
        type of both, float32 where they differ; numbers of Python have no type of their own."""
        if not isinstance(other, Array):
            plain = isinstance(other, (bool, int, float))
            host = numpy.array(other, "f4").reshape(1) if plain else host_array(other, "second")
            other = self.context.array(host if host.ndim else host.reshape(1))
            if plain and self.dtype in FLOATS:
                other = other.astype(self.dtype)
        try:
            shape = numpy.broadcast_shapes(self.shape, other.shape)
        except ValueError:
            raise ValueError(f"shapes {list(self.shape)} and {list(other.shape)}, expected some that broadcast") from None
        return self.context.add(self.broadcast_to(shape), other.broadcast_to(shape))

    __radd__ = __add__
    __array_priority__ = 1  # so that NumPy leaves sums with its own arrays to __radd__

    def broadcast_to(self, shape):
        """The same memory seen again and again, as numpy.broadcast_to."""
        shape = tuple(_whole_numbers("broadcast_to", (shape,)))
        missing = len(shape) - self.ndim
        if missing < 0 or any(size not in (1, wanted) for size, wanted in zip(self.shape, shape[missing:])):
            raise ValueError(f"broadcast_to: {list(shape)}, expected a shape that {list(self.shape)} broadcasts to")
        strides = [0 if size == 1 and wanted > 1 else stride for size, wanted, stride in
                   zip(self.shape, shape[missing:], self.strides)]
        return self._view(shape, [0] * missing + strides)

    def contiguous(self):
        """The array itself where its numbers lie one after the other, else a copy of which that is true."""
        if is_contiguous(self):
            return self
        view = self._with_merged_axes()
        if self.repeats_one():  # as rows of one number, whose last axis need not be repeated
            view = self._view((self.size, 1), (0, 1))
        if self.dtype not in FLOATS or view.ndim > 4:  # through the host
            return self.context.array(self.download())
        result = self.context.result(view.shape, self.dtype)
        self.context.convert(view, result)
        return result.reshape(self.shape)

    def _with_merged_axes(self):
        """The same numbers in the same order, in as few axes as there can be: those are one that step through memory as one."""
        axes = []
        for size, stride in zip(self.shape, self.strides):
            if size == 1 and axes:
                continue
            if axes and axes[-1][1] == size * stride:
                axes[-1] = (axes[-1][0] * size, stride)
            else:
                axes.append((size, stride))
        return self._view(*zip(*axes))

    def assign(self, values):
        """Writes numbers of the same shape and type from the host; of a quantised type its blocks, uint8."""
        with self.context.lock:
            self.context.refuse_recording("assign")
            self.context.upload(self, values)

    @outside_graphs
    def numpy(self):
        """The numbers in a NumPy array: a copy. bfloat16 takes the package ml_dtypes; quantised blocks give float32."""
        return public(self.download())

    def download(self):
        """The numbers in a NumPy array, of bfloat16 their bits (dlpack.BFLOAT16)."""
        first, end = self.bytes_shown()
        data = self.context.download(self.buffer, first, end - first)
        if block_of(self.dtype)[0] > 1:
            if not is_contiguous(self):
                raise ValueError(f"numpy: a part of {self.dtype} that does not lie in one piece, expected one that does")
            return dequantised(data, self.dtype).reshape(self.shape)
        numbers = data.view(numpy_dtype(self.dtype))
        strides = [stride * numbers.itemsize for stride in self.strides]
        return numpy.ascontiguousarray(numpy.lib.stride_tricks.as_strided(numbers, self.shape, strides))

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("an Array is on the device, expected a copy of it to be allowed")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    @outside_graphs
    def torch(self):
        """The numbers in a PyTorch tensor on the CPU: a copy."""
        return tensor_of(self.download())

    def __dlpack_device__(self):
        return CPU

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A copy on the CPU, for from_dlpack of NumPy, PyTorch and the rest: the memory of the device is shown to nobody."""
        if stream is not None or copy is False or (dl_device is not None and tuple(map(int, dl_device)) != CPU):
            raise BufferError(f"stream {stream}, dl_device {dl_device}, copy {copy}: expected a copy on the CPU")
        return capsule_of(self.download())


def _whole_numbers(name, numbers):
    """Sizes or axes that are given one by one, or as one sequence, of Python's whole numbers or of NumPy's."""
    if len(numbers) == 1 and hasattr(numbers[0], "__len__"):
        numbers = numbers[0]
    try:
        return [operator.index(number) for number in numbers]
    except TypeError:
        raise TypeError(f"{name}: {numbers!r}, expected whole numbers") from None


def bfloat16_of_numpy(name):
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"{name}: NumPy has no bfloat16 of its own, expected the package ml_dtypes, or an Array or a tensor "
                        "of PyTorch to be asked for") from None
    return numpy.dtype(ml_dtypes.bfloat16)


def public(array):
    """A NumPy array as callers see it."""
    return array.view(bfloat16_of_numpy("numpy")) if array.dtype == BFLOAT16 else array


def tensor_of(array):
    """A NumPy array's memory as a PyTorch tensor."""
    import torch
    if dtype_of(array) == "bfloat16":
        return torch.from_numpy(array.view("i2")).view(torch.bfloat16)
    return torch.from_numpy(array)
