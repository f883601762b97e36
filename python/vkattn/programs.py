"""Recorded programs: calls on Arrays that are recorded once, and replayed as one submission."""
import ctypes
import dataclasses
import threading
import weakref

import numpy

from . import _abi
from .context import default_context
from .errors import VkattnError
from .handles import Handle, call


@dataclasses.dataclass(frozen=True)
class ProgramReport:
    """What a program is made of, as vkattn_program_report says it."""
    plans: int
    dispatches: int
    barriers: int
    submissions: int
    workspace_bytes: int


class Program:
    """What was called on Arrays inside `with vkattn.record() as program`: replay() computes it, again and again, as one
    submission to the device.

    Inside, nothing is computed: results are Arrays that the first replay fills, zeros before. The memory of a result that is let go inside
    is that of later ones. A replay reads and writes the same Arrays, with
    what is then in them: write tokens with Array.assign before it, and read results after it. Tokens that layers append to a
    Cache are counted at each replay. Arrays of the host that are given become a part of the program as they are.
    What cannot be recorded raises VkattnError inside, and there is no program: reading Arrays, assigning to them, changing a
    Cache by hand, a PagedCache, results that are not Arrays. Shapes are those of the recording.
    Other threads' calls on the context wait until the recording has ended. The program keeps what it needs: Arrays, layers
    and caches may be let go.
    """

    def __init__(self, context):
        self.context = context
        self._recording, self._handle, self._thread = None, None, None

    def __enter__(self):
        if self._handle is not None:
            raise VkattnError("record: the program is recorded, expected another one for other calls")
        self.context.lock.__enter__()
        try:
            self.context.refuse_recording("record")
        except VkattnError:
            self.context.lock.__exit__()
            raise
        self._recording = self.context.recording = _Recording(self.context)
        self._thread = threading.get_ident()
        return self

    def __exit__(self, kind, *_):
        if self._recording is None or self._thread != threading.get_ident():
            raise VkattnError("record: ended where it was not begun, expected the thread that began it, once")
        recording, self._recording, self.context.recording = self._recording, None, None
        try:
            if kind is None:
                self._handle = recording.program()
        finally:
            self.context.lock.__exit__()

    def replay(self, wait=True):
        """Computes what was recorded, and waits. wait=False: begins to compute it, after what was begun before; what reads Arrays or
        writes to them waits, and so does Context.wait."""
        waits = _abi.flag("wait", wait)
        with self.context.lock:
            self.context.refuse_recording("replay")
            self.context.handle.submits |= not waits
            call("vkattn_program_run" if waits else "vkattn_program_submit", self._recorded().raw, None)

    @property
    def report(self):
        """A ProgramReport."""
        raw = _abi.ProgramReport()
        call("vkattn_program_get_report", self._recorded().raw, raw)
        return ProgramReport(**{name: getattr(raw, name) for name in ProgramReport.__dataclass_fields__})

    def _recorded(self):
        if self._handle is None:
            raise VkattnError("replay: nothing is recorded, expected it after the block of `with vkattn.record() as program`")
        return self._handle


class _Recording:
    """Plans with their bindings, while they are called. plans and bindings live until the program is made."""

    def __init__(self, context):
        self._context, self._plans, self._thread = context, [], threading.get_ident()
        self._buffers = {}  # which the program must not outlive
        self._let_go = {}  # buffers of results that nobody has any more, by size

    def is_of_this_thread(self):
        return self._thread == threading.get_ident()

    def memory_let_go(self, size):
        """A buffer of that size, or None: what a result that is no more has held is read by no later call."""
        handles = self._let_go.get(size)
        return handles.pop() if handles else None

    def lend(self, buffer):
        """Takes a result's memory back when its last Array has gone."""
        weakref.finalize(buffer, self._let_go.setdefault(buffer.size, []).append, buffer.handle).atexit = False

    def add(self, plan, inputs, outputs):
        """A plan in place of its run."""
        for role, array in outputs.items():
            if isinstance(array, numpy.ndarray):
                raise VkattnError(f"record: {role} would be an array of the host, expected an Array among the arguments: results "
                                  "stay on the device")
        bindings = []
        for role, array in (*inputs.items(), *outputs.items()):
            if array.size == 0:
                continue
            buffer, at = (self._context.constant(array), 0) if isinstance(array, numpy.ndarray) else (array.buffer, array.bound_byte)
            bindings.append(_abi.Binding(role, buffer.region(at)))
            self._buffers[id(buffer.handle)] = buffer.handle
        self._plans.append((plan, (_abi.Binding * len(bindings))(*bindings)))

    def program(self):
        if not self._plans:
            raise VkattnError("record: nothing was called, expected calls on Arrays of the context")
        plans = (_abi.BoundPlan * len(self._plans))(
            *(_abi.BoundPlan(plan.raw, ctypes.cast(bindings, ctypes.POINTER(_abi.Binding)), len(bindings))
              for plan, bindings in self._plans))
        info = _abi.ProgramInfo(plans=plans, plan_count=len(plans))
        return Handle(lambda raw: call("vkattn_program_create", self._context.raw, info, raw), "vkattn_program_destroy",
                      *self._buffers.values(), *(plan for plan, _ in self._plans))  # plans: their layers' weights in Arrays


def record(context=None):
    """A Program of what is called inside:

        with vkattn.record() as program:
            logits = step(token)     # calls on Arrays
        token.assign(numbers)
        program.replay()             # one submission
        logits.numpy()

    context  None: default_context()
    """
    return Program(context or default_context())
