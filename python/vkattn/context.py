"""A Vulkan device in use, and what is made with it."""
import collections
import ctypes
import dataclasses
import threading
import warnings

from . import _abi
from .arrays import describe
from .errors import raise_error
from .traits import traits_of

_library = _abi.load()
_MOST_PLANS = 64


def call(function, *arguments):
    """Calls a C function that returns a vkattn_result; raises what it says."""
    result = getattr(_library, function)(*arguments)
    if result != 0:
        raise_error(result, _library.vkattn_last_error().decode(errors="replace"))


def version():
    """The version of the library in use."""
    return _library.vkattn_version().decode()


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


def _kernel_name(number):
    return next(name for name, value in _abi.KERNELS.items() if value == number)


def _facts(raw):
    """vkattn_device_facts as a dict; texts as str, kernels as a list of Kernel."""
    facts = {}
    for name, *_ in raw._fields_:
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
    count = ctypes.c_uint32()
    call("vkattn_enumerate_devices", None, count, None, 0)
    raw = (_abi.DeviceFacts * max(count.value, 1))()
    call("vkattn_enumerate_devices", None, count, raw, ctypes.sizeof(_abi.DeviceFacts))
    return [_facts(each) for each in raw[:count.value]]


class _Owned:
    """An object of the library with its users: its owner, and what was made from it. Goes with the last of them, because
    Python's collector finalises what hangs together in any order."""
    _lock = threading.RLock()

    def __init__(self, raw, destroy, parents, keep):
        self.raw, self._destroy, self._parents, self._keep = raw, destroy, parents, keep
        self._users = 0
        for used in (self, *parents):
            used.acquire()

    def acquire(self):
        with self._lock:
            self._users += 1

    def release(self):
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._destroy(self.raw)
                for parent in self._parents:
                    parent.release()


class Handle:
    """Owns an object of the library, which goes when it and all that was made from it are gone.

    parents: handles of what it was made from. keep: what must live as long.
    """

    def __init__(self, raw, destroy, *parents, keep=None):
        self._owned = _Owned(raw, getattr(_library, destroy), [parent._owned for parent in parents], keep)

    @property
    def raw(self):
        return self._owned.raw

    def __del__(self):
        if hasattr(self, "_owned"):
            self._owned.release()


class Context:
    """A device of the library's own.

    device: an index, or a part of the name; "" for the best. traits: {name: number}, or the text
    "name=number,...", to correct the device table (docs/devices.md). saved: bytes of an earlier save(). validation: with the Vulkan validation layers, whose messages become warnings.
    May be used from several threads; calls of one context take turns.
    """

    def __init__(self, device="", *, validation=False, traits="", saved=b""):
        callback = _abi.MESSAGE_CALLBACK(lambda _, severity, message: warnings.warn(message.decode(errors="replace"), stacklevel=2))
        known = traits_of(traits)
        info = _abi.ContextInfo(device_selector=str(device).encode(), enable_validation=validation,
                                message_callback=callback, traits=known, trait_count=len(known),
                                saved_data=bytes(saved), saved_bytes=len(saved))
        raw = ctypes.c_void_p()
        call("vkattn_context_create", info, raw)
        self.handle = Handle(raw, "vkattn_context_destroy", keep=callback)
        self._lock = threading.RLock()
        self.plans = collections.OrderedDict()  # of the operators, by their descriptions
        self._rooms = {}

    @property
    def raw(self):
        """The C handle."""
        return self.handle.raw

    @property
    def facts(self):
        """The device's facts, with the verdicts of the self-test, as a dict."""
        raw = _abi.DeviceFacts()
        call("vkattn_context_facts", self.handle.raw, raw, ctypes.sizeof(raw))
        return _facts(raw)

    def save(self):
        """What the context has learned (pipelines, verdicts, tuning), for `saved` of a later one."""
        size = ctypes.c_uint64()
        call("vkattn_context_save", self.handle.raw, size, None)
        data = ctypes.create_string_buffer(size.value)
        call("vkattn_context_save", self.handle.raw, size, data)
        return data.raw[:size.value]

    def self_test(self):
        """Checks the numbers of every kernel; what fails is off for this context."""
        count, checks = ctypes.c_uint32(_abi.MAX_CHECKS), (_abi.Check * _abi.MAX_CHECKS)()
        call("vkattn_self_test", self.handle.raw, count, checks, ctypes.sizeof(_abi.Check))
        return [Check(check.name.decode(), bool(check.passed), check.reason.decode(errors="replace"), check.milliseconds)
                for check in checks[:count.value]]

    def tune(self, desc):
        """Measures the fastest way of computing a problem (see problem, linear_problem), for such problems from then on."""
        tune = "vkattn_tune_linear" if isinstance(desc, _abi.LinearDesc) else "vkattn_tune"
        count, candidates = ctypes.c_uint32(_abi.MAX_CANDIDATES), (_abi.Candidate * _abi.MAX_CANDIDATES)()
        with self._lock:
            call(tune, self.handle.raw, desc, count, candidates, ctypes.sizeof(_abi.Candidate))
            self.plans.clear()
        return [Candidate(_kernel_name(each.kernel), each.tile.decode(), each.milliseconds, bool(each.kept),
                          each.reason.decode(errors="replace")) for each in candidates[:count.value]]

    def run(self, plan_function, desc, inputs, outputs, *, layer=None, parents=(), plans=None):
        """Runs what plan_function makes of a description, {role: array} in, {role: array} filled. Plans are made once.

        layer: the handle that the plan is made of, where that is not the context. parents: more handles that the plan must
        not outlive. plans: where plans are kept, by description; None: with the context.
        """
        plans = self.plans if plans is None else plans
        key = plan_function.encode() + bytes(desc)
        maker = self.handle if layer is None else layer
        with self._lock:
            plan = plans.get(key)
            if plan is None:
                raw = ctypes.c_void_p()
                call(plan_function, maker.raw, desc, raw)
                plan = plans[key] = Handle(raw, "vkattn_plan_destroy", maker, *parents)
                if len(plans) > _MOST_PLANS:
                    plans.popitem(last=False)
            plans.move_to_end(key)
            bindings = [self._bind(role, array, upload=True) for role, array in inputs.items()]
            bindings += [self._bind(role, array, upload=False) for role, array in outputs.items()]
            call("vkattn_run", plan.raw, (_abi.Binding * len(bindings))(*bindings), len(bindings), None)
            for role, array in outputs.items():
                call("vkattn_buffer_read", self._rooms[role][0].raw, 0, array.ctypes.data, array.nbytes)

    def _bind(self, role, array, upload):
        size = max(_library.vkattn_tensor_bytes(describe(array, role)), array.nbytes)
        room = self._rooms.get(role)
        if room is None or room[1] < size:
            raw = ctypes.c_void_p()
            call("vkattn_buffer_create", self.handle.raw, size, raw)
            room = self._rooms[role] = (Handle(raw, "vkattn_buffer_destroy", self.handle), size)
        if upload:  # straight from the array's memory
            call("vkattn_buffer_write", room[0].raw, 0, array.ctypes.data, array.nbytes)
        return _abi.Binding(_abi.ROLES[role], _library.vkattn_buffer_handle(room[0].raw))


_default, _default_lock = None, threading.Lock()


def default_context():
    """The context of calls that name none: the best device, made at the first of them."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Context()
        return _default
