"""What a call of an operator was given, and what it gives back."""
import numpy

from . import _abi
from .arrays import FLOATS, as_array, broadcastable, describe, dtype_of, numpy_dtype, torch_of, uploadable
from .context import default_context
from .device_array import Array, bfloat16_of_numpy, public, tensor_of


class Call:
    """The arrays of a call by their roles. Results are Arrays where any of them is one, PyTorch tensors where any is one
    and none an Array, else NumPy arrays."""

    def __init__(self, context=None, given=()):
        """given: (name, value) of all that may decide the kind of the results."""
        given = [(name, value) for name, value in given if value is not None]
        arrays = [(name, value) for name, value in given if isinstance(value, Array)]
        self.context = context or (arrays[0][1].context if arrays else None)
        for name, array in arrays:
            self.context.own(array, name)
        self.on_device = bool(arrays)
        self.torch = next((torch_of(value) for _, value in given if torch_of(value)), None)
        self.inputs, self.outputs = {}, {}

    def take(self, role, value, types=FLOATS, *, dtype=None, name=None, strided=False):
        """An input. strided: the library takes it with strides, so that it is uploaded as it lies."""
        array = as_array(value, name or role, types, dtype)
        if isinstance(array, Array):
            array = array.contiguous() if array.repeats_one() else array
        else:
            array = uploadable(array) if strided and array.ndim > 0 else numpy.ascontiguousarray(array)
        self.inputs[role] = array
        return array

    def take_named(self, **arrays):
        """The inputs of these that are given, each of the dtype that attention's tensor of the name has."""
        for name, array in arrays.items():
            if array is not None:
                self.take(name, array, dtype=_abi.ATTENTION_TENSORS[name])
        if arrays.get("block_mask") is not None:
            self.inputs["block_mask"] = broadcastable(self.inputs["block_mask"], "block_mask")

    def take_scales(self, name, scales):
        """An input that are scales of K or V, [B|1,Hkv|1,Lk|1,1], where they are given."""
        if scales is not None:
            scales = self.take(name, numpy.float32(scales) if isinstance(scales, (int, float)) else scales, dtype="float32")
            self.inputs[name] = broadcastable(scales, name, "[B,Hkv,Lk,1]")

    def take_norm(self, desc, weight, epsilon):
        """The description's input is normalised before it is multiplied, where there is a weight."""
        if weight is not None:
            desc.norm_weight = describe(self.take("norm_weight", weight, name="norm"), "norm")
            desc.norm_epsilon = epsilon

    def result(self, role, shape, like, out=None):
        """An output with the type of `like`, a dtype's name or an array."""
        dtype = like if isinstance(like, str) else dtype_of(like)
        if out is not None:
            self.outputs[role] = self._checked(out, tuple(shape), dtype)
        elif self.on_device:
            self.outputs[role] = (self.context or default_context()).result(shape, dtype)
        else:
            if dtype == "bfloat16" and self.torch is None:
                bfloat16_of_numpy(role)
            self.outputs[role] = numpy.empty(shape, numpy_dtype(dtype))
        return self.outputs[role]

    def _checked(self, out, shape, dtype):
        if not isinstance(out, Array):
            raise TypeError(f"out: {type(out).__name__}, expected an Array")
        if out.shape != shape or out.dtype != dtype:
            raise ValueError(f"out: shape {list(out.shape)} of {out.dtype}, expected {list(shape)} of {dtype}")
        return out

    def run(self, plan_function, desc, may_share=(), written=(), **more):
        """may_share: roles of inputs that an output may lie on, element on element; (output, input): of that output alone.
        written: more Arrays that the plan writes, without gaps."""
        results = [(role, array) for role, array in (*self.outputs.items(), *((None, array) for array in written)) if isinstance(array, Array)]
        for place, (name, output) in enumerate(results):
            for role, array in self.inputs.items():
                if isinstance(array, Array) and output.buffer is array.buffer:
                    self._check_apart(output, array, role, role in may_share or (name, role) in may_share)
            for other_name, other in results[:place]:
                whole = None in (name, other_name)  # others may lie between one another's elements
                if output.buffer is other.buffer and (whole or output.bytes_shown()[0] == other.bytes_shown()[0]):
                    self._check_apart(output, other, "another result", False)
        (self.context or default_context()).run(plan_function, desc, self.inputs, self.outputs, **more)

    def _check_apart(self, output, array, role, may_share):
        (first, end), (other_first, other_end) = output.bytes_shown(), array.bytes_shown()
        if end <= other_first or other_end <= first:
            return
        if not may_share or first != other_first or output.dtype != array.dtype or output.size != array.size:
            raise ValueError(f"out: shares memory with {role}, expected memory of its own")

    def given_back(self, role, shape=None):
        """A result in the kind that the caller has, in another shape if one is given."""
        array = self.outputs[role]
        if shape is not None and tuple(shape) != array.shape:
            array = array.reshape(shape)
        return array if isinstance(array, Array) else self.of_kind(array)

    def of_kind(self, array):
        """A result on the host in the kind that the caller has."""
        return tensor_of(array) if self.torch else public(array)
