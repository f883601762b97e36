"""Objects of the library in Python's hands: how functions are called, who uses an object, when it goes, and in which process."""
import ctypes
import os
import threading

from . import _abi
from .errors import VkattnError, raise_error

library = _abi.load()


def call(function, *arguments):
    """Calls a C function that returns a vkattn_result; raises what it says."""
    result = getattr(library, function)(*arguments)
    if result != 0:
        raise_error(result, library.vkattn_last_error().decode(errors="replace"))


def listed(structure, function, *arguments, most=None):
    """The structures that a C function lists, of which it is given the room after its arguments. most: how many there may be at
    most, of a function that is called once; None: it is asked for their number first."""
    count = ctypes.c_uint32(most or 0)
    if most is None:
        call(function, *arguments, count, None, 0)
    structures = (structure * count.value)()
    call(function, *arguments, count, structures, ctypes.sizeof(structure))
    return structures[:count.value]


def type_infos():
    """The library's table of the types that tensors are stored in, by name."""
    return {info.name.decode(): info for info in listed(_abi.TypeInfo, "vkattn_enumerate_types")}


def check_process(process):
    """Refuses what another process made: a fork has the memory of its parent, but neither its device nor its threads."""
    if process != os.getpid():
        raise VkattnError(f"context: made in process {process}, of which this one ({os.getpid()}) is a fork, expected one that "
                          "is made here: make Contexts, Arrays, Layers and caches after the fork")


class Turns:
    """The lock of a context, whose calls take turns. A forked process gets an error: a thread that it does not have may
    have held the lock."""

    def __init__(self):
        self._lock, self._process = threading.RLock(), os.getpid()

    def __enter__(self):
        check_process(self._process)
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


class _Owned:
    """An object of the library with its users: its owner, and what was made from it. Goes with the last of them, because
    Python's collector finalises what hangs together in any order. A fork leaves it alone: it is the parent's."""
    _lock = threading.RLock()

    def __init__(self, destroy, parents, keep):
        self.raw, self._destroy, self._parents, self._keep = ctypes.c_void_p(), destroy, parents, keep
        self.process = os.getpid()
        self._users = 0
        for used in (self, *parents):
            used.acquire()

    def acquire(self):
        with self._lock:
            self._users += 1

    def release(self):
        if self.process != os.getpid():
            return
        with self._lock:
            self._users -= 1
            if self._users == 0:
                try:
                    if self.raw:
                        self._destroy(self.raw)
                finally:
                    for parent in self._parents:
                        parent.release()

    @classmethod
    def renew_lock(cls):
        cls._lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # another thread may have held it
    os.register_at_fork(after_in_child=_Owned.renew_lock)


class Handle:
    """Owns an object of the library, which goes when it and all that was made from it are gone.

    create: fills in the ctypes.c_void_p that it is given. That is owned already: an interrupt is raised as soon as the C function
    has returned. destroy: the name of the C function that takes it. parents: handles of what it is made from. keep: what must
    live as long.
    """

    def __init__(self, create, destroy, *parents, keep=None):
        self._owned = _Owned(getattr(library, destroy), [parent._owned for parent in parents], keep)
        create(self._owned.raw)

    @property
    def raw(self):
        """The C handle. Raises VkattnError in a fork of the process that made it."""
        check_process(self._owned.process)
        return self._owned.raw

    def __del__(self):
        if hasattr(self, "_owned"):
            self._owned.release()
