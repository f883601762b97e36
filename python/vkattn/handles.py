"""Objects of the library in Python's hands: how functions are called, what they list, when an object goes, and in which process."""
import ctypes
import os
import threading

from . import _abi
from .errors import VkattnError, raise_failure

library = _abi.load()
NO_LIMIT = 2**64 - 1  # nanoseconds


def call(function, *arguments):
    """Calls a C function that returns a vkattn_result; raises what it says."""
    if getattr(library, function)(*arguments) != 0:
        raise_failure(library.vkattn_last_failure().contents)


def listed(structure, function, *arguments):
    """The structures that a C function lists, which keep the list: their texts are there."""
    found = Handle(lambda raw: call(function, *arguments, raw), "vkattn_list_destroy")
    structures = [structure.from_address(library.vkattn_list_get(found.raw, number))
                  for number in range(library.vkattn_list_count(found.raw))]
    for each in structures:
        vars(each)["of_list"] = found
    return structures


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


class Handle:
    """Owns an object of the library. A fork leaves it alone: it is the parent's.

    create   fills in the ctypes.c_void_p that it is given. That is owned already: an interrupt is raised as soon as the C function
             has returned
    destroy  the name of the C function that takes it
    keep     what must live as long, but what the library's object keeps itself
    """
    submits = False  # of a context: whether it has ever submitted without a wait

    def __init__(self, create, destroy, *keep):
        self._raw, self._destroy, self._keep, self._process = ctypes.c_void_p(), getattr(library, destroy), keep, os.getpid()
        create(self._raw)

    @property
    def raw(self):
        """The C handle. Raises VkattnError in a fork of the process that made it."""
        check_process(self._process)
        return self._raw

    def __del__(self):
        if getattr(self, "_process", None) == os.getpid() and self._raw:
            for each in (self, *self._keep):
                if isinstance(each, Handle) and each.submits and each._raw:  # what goes may still be read and written
                    library.vkattn_wait(each._raw, NO_LIMIT)
            self._destroy(self._raw)
            self._raw.value = None  # Python's collector finalises what hangs together in any order
