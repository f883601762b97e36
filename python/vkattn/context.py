"""A Vulkan device in use, and what is made with it."""
import collections
import ctypes
import dataclasses
import os
import pathlib
import sys
import threading
import warnings

import numpy

from . import _abi
from .arrays import (FLOATS, STORED, as_array, block_of, check_type, describe, dtype_name, dtype_of, host_array, is_contiguous, is_quantised,
                     one_of, span)
from .compiled import outside_graphs
from .device_array import Array
from .errors import NoRoomError, OutOfMemoryError, VkattnError, errors_of
from .handles import NO_LIMIT, Handle, Turns, call, library, listed
from .traits import traits_of

_MOST_PLANS = 64
_ZEROED_AT_ONCE = 2**26  # bytes
_MOST_BYTES = 2**63 - 4  # of an array: more would wrap on its way to the library


def version():
    """The version of the library in use."""
    return library.vkattn_version().decode()


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Whether a device can run a kernel, and if not, why."""
    name: str
    supported: bool
    reason: str


@dataclasses.dataclass(frozen=True)
class Check:
    """One check of the self-test."""
    name: str
    passed: bool
    reason: str
    milliseconds: float


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One way of computing a problem, as tuning tried it."""
    kernel: str
    tile: str
    milliseconds: float
    kept: bool
    reason: str


@dataclasses.dataclass(frozen=True)
class Measure:
    """What a call takes of a device.

    workspace_bytes  beside its arrays, while it is computed
    dispatches       compute dispatches
    kernel           of attention; "auto" without attention
    """
    workspace_bytes: int
    dispatches: int
    kernel: str


@dataclasses.dataclass(frozen=True)
class PlanBinding:
    """What a call binds for a role: "query", "attn_mask", ... "workspace".

    bytes       that its region must hold
    alignment   what its offset in a buffer must be a multiple of, in bytes
    is_written  whether the call writes it
    """
    role: str
    bytes: int
    alignment: int
    is_written: bool


@dataclasses.dataclass(frozen=True)
class TuneBudget:
    """What a Context's tune_budget_ms has gone into so far.

    budget_ms, spent_ms  of the context in all; the last candidate may exceed the budget
    classes, candidates  of problems that were measured and are kept, and the ways of computing them that were timed
    left_out             classes of which the budget allowed no candidate
    """
    budget_ms: float
    spent_ms: float
    classes: int
    candidates: int
    left_out: int

    def __str__(self):
        left_out = f", {self.left_out} left out" if self.left_out else ""
        return (f"tuned within the budget: {self.classes} {'class' if self.classes == 1 else 'classes'}{left_out}, "
                f"{self.spent_ms:.0f} of {self.budget_ms:.0f} ms")


def _kernel_name(number):
    """A kernel's name, of a newer library perhaps its number alone."""
    return next((name for name, value in _abi.KERNELS.items() if value == number), f"kernel {number}")


def _facts(raw):
    """vkattn_device_facts as a dict; texts as str, kernels as a list of Kernel."""
    facts = {}
    for name in raw._kinds_:
        value = getattr(raw, name)
        facts[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    facts["device_uuid"], facts["driver_uuid"] = bytes(raw.device_uuid), bytes(raw.driver_uuid)
    facts["max_workgroup_count"] = list(raw.max_workgroup_count)
    facts["matrix_shapes"] = [(shape.m, shape.n, shape.k) for shape in raw.matrix_shapes[:raw.matrix_shape_count]]
    facts["kernels"] = [Kernel(_kernel_name(kernel.kernel), bool(kernel.supported), kernel.reason.decode(errors="replace"))
                        for kernel in raw.kernels[:raw.kernel_count]]
    return facts


def devices():
    """Every Vulkan device with its facts, in the order of the loader."""
    return [_facts(each) for each in listed(_abi.DeviceFacts, "vkattn_enumerate_devices", None)]


def cache_folder():
    """The folder vkattn in the user's folder for caches, which is made where there is none."""
    home = pathlib.Path.home()
    caches = {"win32": os.environ.get("LOCALAPPDATA"), "darwin": home / "Library" / "Caches"}.get(
        sys.platform, os.environ.get("XDG_CACHE_HOME")) or home / ".cache"
    folder = pathlib.Path(caches) / "vkattn"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def journal_file():
    """The journal of Context(journal=True)."""
    return str(cache_folder() / "journal")


class _Buffer:
    """A buffer of the library."""

    def __init__(self, context_handle, size, handle=None):
        """handle: of a buffer of that size that there is already."""
        self.size = size
        self.handle = handle or Handle(lambda raw: call("vkattn_buffer_create", context_handle.raw, size, raw),
                                       "vkattn_buffer_destroy", context_handle)

    def write(self, offset, array, size):
        call("vkattn_buffer_write", self.handle.raw, offset, array.ctypes.data, size)

    def read(self, offset, array, size):
        call("vkattn_buffer_read", self.handle.raw, offset, array.ctypes.data, size)

    def region(self, offset=0):
        """What it holds from an offset on."""
        whole = library.vkattn_buffer_region(self.handle.raw)
        return _abi.Region(whole.buffer, offset, whole.bytes - offset)


def _of_problem(problem, functions):
    """The one of the functions that takes a description, by its class."""
    for kind, function in functions.items():
        if isinstance(problem, kind):
            return function
    names = ", ".join(_PROBLEMS[kind] for kind in functions)
    raise TypeError(f"problem: {type(problem).__name__}, expected what one of these returns: {names}")


_PROBLEMS = {_abi.AttentionDesc: "problem", _abi.LinearDesc: "linear_problem",
             _abi.AttentionBackwardDesc: "attention_backward_problem", _abi.LayerCall: "layer_problem"}


class Context:
    """A device of the library's own.

    device      an index, or a part of the name; "" for the best
    validation  True: with the Vulkan validation layers, whose messages become warnings
    traits      {name: number}, or the text "name=number,...", to correct the device table (docs/devices.md)
    saved       bytes of an earlier save()
    journal     a file that notes which shaders are being tried, so that a driver that ends the process costs one start
                (docs/devices.md); a path, or True: one in the user's folder for caches. None: nothing is noted
    tune_budget_ms   milliseconds that may go, in all, into measuring candidates of attention, its gradients and linear layers before the first
                call of a class of problems that nothing is known of (docs/performance.md); save() keeps what they found. With a
                journal, best. 0: nothing is measured but by tune()
    tune_gpus_alone  True: nothing is measured so on CPU drivers, which take long to compile
    May be used from several threads; calls of one context take turns. A forked process makes its own: in a fork, every use of
    a Context of the parent, and of what was made with it, raises VkattnError.
    """

    def __init__(self, device="", *, validation=False, traits="", saved=b"", journal=None, tune_budget_ms=0,
                 tune_gpus_alone=False):
        callback = _abi.MessageCallback(lambda _, severity, message: warnings.warn(message.decode(errors="replace"), stacklevel=2))
        known, saved = traits_of(traits), bytes(saved)
        info = _abi.ContextInfo(device_selector=str(device).encode(), enable_validation=validation,
                                message_callback=callback, traits=known, trait_count=len(known),
                                saved_data=ctypes.cast(saved, ctypes.c_void_p), saved_bytes=len(saved),
                                tune_budget_ms=tune_budget_ms, tune_gpus_alone=bool(tune_gpus_alone))
        if journal is not None and journal is not False:
            info.crash_journal = os.fsencode(journal_file() if journal is True else journal)
        self.handle = Handle(lambda raw: call("vkattn_context_create", info, raw), "vkattn_context_destroy", callback)
        self.lock = Turns()
        self.plans = collections.OrderedDict()  # of the operators, by their descriptions
        self.variants = collections.OrderedDict()  # of flex_attention: handles by their texts
        self._generation = 0  # of plans: those from before tuning or a self-test are not taken
        self._rooms = {}
        self.recording = None  # what takes calls in place of their run: see programs

    @property
    def raw(self):
        """The C handle."""
        return self.handle.raw

    @property
    def facts(self):
        """The device's facts, with the verdicts of the self-test, as a dict."""
        raw = _abi.DeviceFacts()
        call("vkattn_context_facts", self.handle.raw, raw)
        return _facts(raw)

    @property
    def tune_budget(self):
        """What tune_budget_ms has gone into so far, a TuneBudget."""
        raw = _abi.TuneBudgetReport()
        call("vkattn_context_tune_budget", self.handle.raw, raw)
        return TuneBudget(*(getattr(raw, name) for name in raw._kinds_))

    def save(self):
        """What the context has learned (pipelines, verdicts, tuning), for `saved` of a later one."""
        size = ctypes.c_uint64()
        with self.lock:
            while True:
                call("vkattn_context_save", self.handle.raw, None, size)
                data = ctypes.create_string_buffer(size.value)
                try:
                    call("vkattn_context_save", self.handle.raw, data, size)
                    return data.raw[:size.value]
                except NoRoomError:  # it has grown meanwhile, beside prewarm of another thread
                    pass

    def self_test(self):
        """Checks the numbers of every kernel; what fails is off for this context, but in programs that are recorded already."""
        with self.lock:
            checks = listed(_abi.Check, "vkattn_self_test", self.handle.raw, _abi.CheckCallback(), None)
            self._generation += 1
        return [Check(check.name.decode(), bool(check.passed), check.reason.decode(errors="replace"), check.milliseconds)
                for check in checks]

    def tune(self, desc):
        """Measures the fastest way of computing a problem (see problem, linear_problem, attention_backward_problem), for such problems from
        then on, those of layers among them. Recorded programs stay as they are. Of gradients the candidates of query's come first, then
        those of key's and value's, and of each one is kept."""
        tune = _of_problem(desc, {_abi.AttentionDesc: "vkattn_tune", _abi.LinearDesc: "vkattn_tune_linear",
                                  _abi.AttentionBackwardDesc: "vkattn_tune_attention_backward"})
        with self.lock:
            candidates = listed(_abi.Candidate, tune, self.handle.raw, desc)
            self._generation += 1
        return [Candidate(_kernel_name(each.kernel), each.tile.decode(), each.milliseconds, bool(each.kept),
                          each.reason.decode(errors="replace")) for each in candidates]

    def measure(self, problem):
        """What a call would take of this device, a Measure; nothing is computed, compiled, tested or tuned for it.

        problem  what problem, linear_problem, attention_backward_problem or layer_problem returns
        Raises what the call would, UnsupportedError where no kernel serves here.
        """
        raw = _abi.Measure()
        *config, desc = problem if isinstance(problem, tuple) else (problem,)
        function = _of_problem(desc, {_abi.AttentionDesc: "vkattn_attention_measure", _abi.LinearDesc: "vkattn_linear_measure",
                                      _abi.AttentionBackwardDesc: "vkattn_attention_backward_measure", _abi.LayerCall: "vkattn_layer_measure"})
        call(function, self.handle.raw, *config, desc, raw)
        return Measure(raw.workspace_bytes, raw.dispatches, _kernel_name(raw.kernel))

    def bindings(self, problem):
        """What a call reads and writes on the device, its workspace too: a list of PlanBinding. Makes its plan.

        problem  what problem, linear_problem or attention_backward_problem returns
        """
        function = _of_problem(problem, {_abi.AttentionDesc: "vkattn_attention_plan", _abi.LinearDesc: "vkattn_linear_plan",
                                          _abi.AttentionBackwardDesc: "vkattn_attention_backward_plan"})
        with self.lock:
            plan = Handle(lambda raw: call(function, self.handle.raw, problem, raw), "vkattn_plan_destroy")
            return [PlanBinding(each.name.decode(), each.bytes, each.alignment, bool(each.is_written))
                    for each in listed(_abi.PlanBinding, "vkattn_plan_bindings", plan.raw)]

    def wait(self, timeout=None):
        """Waits until the device is done with all replays that did not wait for it (Program.replay), of any thread.

        timeout  seconds; None: no limit
        Raises WaitTimeoutError where it is not done by then: nothing is lost, wait again.
        """
        nanoseconds = NO_LIMIT
        if timeout is not None:
            if not _abi.real("timeout", timeout) >= 0:
                raise ValueError(f"timeout: {timeout}, expected seconds, at least 0, or None")
            nanoseconds = int(min(float(timeout) * 1e9, 2.0**63))
        call("vkattn_wait", self.handle.raw, nanoseconds)

    def run(self, plan_function, desc, inputs, outputs, *, layer=None, keep=(), plans=None, described=None):
        """Runs what plan_function makes of a description, {role: array} in, {role: array} filled. Plans are made once.

        layer: the handle that the plan is made of, where that is not the context. keep: more handles that the plan must
        not outlive. plans: where plans are kept, by description; None: with the context.
        described: what tells the description from others, where it points to more than its bytes.
        """
        plans = self.plans if plans is None else plans
        key = self._generation, plan_function, bytes(desc) if described is None else described
        maker = self.handle if layer is None else layer
        with self.lock:
            plan = plans.get(key)
            if plan is None:
                for stale in [each for each in plans if each[0] != self._generation]:
                    del plans[stale]
                plan = plans[key] = Handle(lambda raw: call(plan_function, maker.raw, desc, raw), "vkattn_plan_destroy", maker,
                                           *keep)
                if len(plans) > _MOST_PLANS:
                    plans.popitem(last=False)
            plans.move_to_end(key)
            if self.recording is not None:
                self.recording.add(plan, inputs, outputs)
                return
            bindings = [self._bind(role, array, upload=True) for role, array in inputs.items() if array.size]
            bindings += [self._bind(role, array, upload=False) for role, array in outputs.items() if array.size]
            call("vkattn_run", plan.raw, (_abi.Binding * len(bindings))(*bindings), len(bindings), None)
            for role, array in outputs.items():
                if not isinstance(array, Array) and array.size:
                    self._rooms[role].read(0, array, array.nbytes)

    def refuse_recording(self, what):
        """Raises VkattnError inside a recording: for what happens at once, and would not at a replay."""
        if self.recording is not None:
            raise VkattnError(f"{what}: inside a recording, expected before or after it: only calls that compute Arrays of Arrays "
                              "are recorded")

    def constant(self, array):
        """A buffer that holds an array of the host, for as long as it is used."""
        size = span(array) * array.itemsize
        buffer = _Buffer(self.handle, _whole_words(size))
        buffer.write(0, array, size)
        return buffer

    def _bind(self, role, array, upload):
        if isinstance(array, Array):
            return _abi.Binding(role, array.buffer.region(array.bound_byte))
        size = span(array) * array.itemsize
        room = self._rooms.get(role)
        if room is None or room.size < size:
            room = self._rooms[role] = _Buffer(self.handle, _whole_words(size))
        if upload:  # straight from the array's memory
            room.write(0, array, size)
        return _abi.Binding(role, room.region())

    def zero(self, array):
        """Writes zeros over the whole buffer of an Array, at once, also inside a recording."""
        zeros = numpy.zeros(min(array.buffer.size, _ZEROED_AT_ONCE), "u1")
        with self.lock:
            for begin in range(0, array.buffer.size, zeros.size):
                array.buffer.write(begin, zeros, min(zeros.size, array.buffer.size - begin))

    def empty(self, shape, dtype="float32"):
        """An Array of numbers that are not set: what the memory held before, with some drivers from other programs. Zeros inside
        a recording.

        shape  one size or several, from 0; of quantised blocks the last is a multiple of 32, of q4_K, q5_K and q6_K of 256
        dtype  float32, float16, bfloat16, bool, int32, q8_0, q4_0, q4_1, q5_0, q5_1,
               iq4_nl, f8_e4m3, f8_e5m2, q4_K, q5_K or q6_K
        Raises OutOfMemoryError where the device has not so much memory.
        """
        array = self._without_memory(shape, dtype)
        array.buffer = _Buffer(self.handle, _whole_words(array.nbytes))
        if self.recording is not None:  # it may be read before the first replay
            self.zero(array)
        return array

    def result(self, shape, dtype="float32"):
        """empty, for what a call computes whole: inside a recording its memory may be that of a result that was let go before."""
        if self.recording is None or not self.recording.is_of_this_thread():
            return self.empty(shape, dtype)
        array = self._without_memory(shape, dtype)
        size = _whole_words(array.nbytes)
        handle = self.recording.memory_let_go(size)
        array.buffer = _Buffer(self.handle, size, handle)
        if handle is None:
            self.zero(array)
        self.recording.lend(array.buffer)
        return array

    def _without_memory(self, shape, dtype):
        shape = (shape,) if not isinstance(shape, (tuple, list)) else tuple(shape)
        shape = tuple(_abi.whole(ctypes.c_uint32, "shape", size) for size in shape)
        name = dtype_name(dtype)
        if not shape:
            raise ValueError("shape: [], expected at least one size")
        if shape[-1] % block_of(name)[0]:
            raise ValueError(f"shape: {list(shape)} of {name}, expected rows of a multiple of {block_of(name)[0]}")
        array = Array(self, None, shape, name)
        if array.nbytes > _MOST_BYTES:
            raise OutOfMemoryError(f"shape: {list(shape)} of {name} takes {array.nbytes} bytes, expected less than 2**63")
        return array

    @outside_graphs
    def array(self, values, dtype=None):
        """An Array of numbers from the host: a NumPy array, a PyTorch tensor, whatever has __dlpack__ on the CPU, or lists.

        dtype  None: their own. bool, int32 and float32 take all numbers that NumPy has; what is float32, float16 or bfloat16
               the device converts into any of these, quantised blocks too, but for q4_K, q5_K and q6_K. Rows of uint8 are
               taken as the bytes of a quantised type's blocks, as GGUF files hold them
        Returns a copy, or the Array itself where one is given that has the type.
        """
        dtype = None if dtype is None else dtype_name(dtype)
        if isinstance(values, Array):
            given = self.own(values, "values")
        else:
            host = host_array(values, "values")
            if host.dtype == numpy.uint8 and dtype is not None and is_quantised(dtype):
                return self._of_blocks(host, dtype)
            asked = dtype if dtype in ("bool", "int32", "float32") and host.dtype.kind in "biuf" else None
            if asked == "bool":
                host = host != 0
            host = as_array(host, "values", (*FLOATS, "bool", "int32"), asked)
            given = self.empty(host.shape, dtype_of(host))
            self.upload(given, host)
        if dtype is None or dtype == given.dtype:
            return given
        converted = self.result(given.shape, dtype)
        self.convert(given, converted)
        return converted

    def _of_blocks(self, host, dtype):
        elements, size = block_of(dtype)
        if host.ndim == 0 or host.shape[-1] % size:
            raise ValueError(f"values: shape {list(host.shape)} of uint8, expected rows of whole blocks of {dtype}, {size} bytes each")
        given = self.empty((*host.shape[:-1], host.shape[-1] // size * elements), dtype)
        self.upload(given, host)
        return given

    def own(self, array, name):
        """An Array, which must be of this context."""
        if array.context is not self:
            raise ValueError(f"{name}: an Array of another context, expected one of the call's")
        return array

    def fill(self, array, number):
        """Writes a number to each element of an Array of floats, on the device."""
        if array.size > 0:
            row = self.array(numpy.full(array.shape[-1], number, "float32"))
            self.convert(row.broadcast_to(array.shape), array)

    def convert(self, source, destination):
        """Copies an Array into one of the same shape and perhaps another type: on the device, but what no kernel reads."""
        if source.shape != destination.shape:
            raise ValueError(f"shapes {list(source.shape)} and {list(destination.shape)}, expected the same")
        if source.size == 0:
            return
        if source.repeats_one() and source.shape[-1] > 1:
            source = source.contiguous()
        if destination.repeats_one():
            raise ValueError(f"one number that is shown {destination.size} times, expected memory of its own for each element")
        in_one_piece = is_contiguous(source) and is_contiguous(destination)
        if source.dtype not in FLOATS:
            if source.dtype != destination.dtype or not in_one_piece:
                raise TypeError(f"values: {source.dtype} for {destination.dtype}, expected {one_of(FLOATS)}, or the same type "
                                "in one piece")
            (first, end), at = source.bytes_shown(), destination.bytes_shown()[0]
            with self.lock:
                destination.buffer.write(at, self.download(source.buffer, first, end - first), end - first)
            return
        if destination.dtype not in STORED:
            expected = f"its blocks as GGUF files hold them, bytes in uint8: numbers are not made {destination.dtype}" if \
                is_quantised(destination.dtype) else one_of(STORED)
            raise TypeError(f"values: {source.dtype} for {destination.dtype}, expected {expected}")
        shape = (1, 1, -1, source.shape[-1]) if in_one_piece else ((1,) * (4 - source.ndim) + source.shape)
        desc = _abi.KvAppendDesc()
        desc.source, desc.cache = describe(source.reshape(shape), "values"), describe(destination.reshape(shape), "dtype")
        with errors_of(f"{list(source.shape)} of {source.dtype} as {destination.dtype}"):
            self.run("vkattn_kv_append_plan", desc, {"source": source}, {"cache": destination})

    def add(self, first, second):
        """The sum of two Arrays of one shape, float32, float16 or bfloat16: of their type, or float32 where they differ."""
        for array, name in ((first, "first"), (second, "second")):
            check_type(self.own(array, name), name, FLOATS)
        if first.shape != second.shape:
            raise ValueError(f"shapes {list(first.shape)} and {list(second.shape)}, expected the same")
        total = self.result(first.shape, first.dtype if first.dtype == second.dtype else "float32")
        if total.size == 0:
            return total
        # linear's activation(input weight^T) * multiplier + residual, of ones
        rows = (1, -1, first.shape[-1])
        arrays = {"multiplier": first.contiguous().reshape(rows), "residual": second.contiguous().reshape(rows)}
        arrays["input"] = numpy.ones((1, total.size // first.shape[-1], 1), "f4")
        arrays["weight"] = numpy.ones((first.shape[-1], 1), "f4")
        desc = _abi.LinearDesc(output=describe(total.reshape(rows), "sum"))
        for role, array in arrays.items():
            setattr(desc, role, describe(array, role))
        with errors_of(f"the sum of {list(first.shape)}"):
            self.run("vkattn_linear_plan", desc, arrays, {"output": total})
        return total

    def upload(self, array, values):
        """Writes numbers from the host into an Array of the same shape and type; of a quantised type the blocks' bytes."""
        shape = array.shape
        if is_quantised(array.dtype):
            elements, size = block_of(array.dtype)
            shape = (*shape[:-1], shape[-1] // elements * size)
        host = as_array(values, "values", ("uint8",) if is_quantised(array.dtype) else (array.dtype,))
        if host.shape != shape:
            raise ValueError(f"values: shape {list(host.shape)}, expected {list(shape)}")
        if array.size == 0:
            return
        if is_contiguous(array):
            host = numpy.ascontiguousarray(host)
            with self.lock:
                array.buffer.write(array.bytes_shown()[0], host, host.nbytes)
        elif array.dtype in FLOATS:
            self.convert(self.array(host), array)
        else:
            raise ValueError(f"strides {list(array.strides)} of {array.dtype}, expected an Array whose numbers lie one after "
                             "the other")

    def download(self, buffer, offset, size):
        """Bytes of a buffer."""
        data = numpy.empty(size, "u1")
        with self.lock:
            self.refuse_recording("reading an Array")
            if size:
                buffer.read(offset, data, size)
        return data

    def prewarm(self, problems, threads=1):
        """Builds what plans of these problems need, so that the first call of each takes no time for it.

        problems  what problem() returns; threads  how many compile side by side
        """
        descs = (_abi.AttentionDesc * max(len(problems), 1))(*problems)
        call("vkattn_prewarm", self.handle.raw, descs, len(problems), _abi.whole(ctypes.c_uint32, "threads", threads))


def _whole_words(size):
    """Bytes of a buffer whose tensors' last word is whole."""
    return max((size + 3) // 4 * 4, 4)


_default, _default_lock = None, threading.Lock()


def _forget_default():
    """In a fork: the default context is the parent's, and so is whatever thread was making it."""
    global _default, _default_lock
    _default, _default_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_default)


def from_dlpack(exporter, *, context=None):
    """An Array of what another library has on the CPU and shows by __dlpack__: NumPy, PyTorch, JAX and others. A copy."""
    return (context or default_context()).array(exporter)


def default_context():
    """The context of calls that name none: the best device, made at the first of them, and anew in a forked process."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Context()
        return _default
