"""Failures of the library as exceptions, with its own message: one line that names the argument and what was expected."""
import contextlib

from . import _abi

_NONE = 2**32 - 1


class VkattnError(RuntimeError):
    """A call that failed.

    result        its vkattn_result
    member        what of the arguments is at fault, as the message names it: "query.shape"
    entry         which of a list of them, from 0
    line, column  of the text that does not compile, from 1
    Each None where it is not known.
    """
    result = member = entry = line = column = None


class InvalidArgumentError(VkattnError, ValueError):
    """An argument breaks its contract."""


class UnsupportedError(VkattnError, NotImplementedError):
    """A right request that this device or this build cannot serve."""


class NoDeviceError(VkattnError):
    """No Vulkan loader, no driver, or no device of the name."""


class OutOfMemoryError(VkattnError, MemoryError):
    """Not enough memory, of the host or of the device."""


class NoRoomError(VkattnError):
    """A cache or its pages are full: make room, and call again."""


class CompileError(VkattnError, ValueError):
    """A function of yours does not compile: `line` and `column` say where, if the compiler does."""


class WaitTimeoutError(VkattnError, TimeoutError):
    """Not done in time: nothing is lost, wait again."""


class DeviceLostError(VkattnError):
    """The device is gone: so is everything that was made with its context."""


_KINDS = {_abi.ERROR_INVALID_ARGUMENT: InvalidArgumentError, _abi.ERROR_UNSUPPORTED: UnsupportedError,
          _abi.ERROR_NO_VULKAN: NoDeviceError, _abi.ERROR_NO_DEVICE: NoDeviceError,
          _abi.ERROR_OUT_OF_HOST_MEMORY: OutOfMemoryError, _abi.ERROR_OUT_OF_DEVICE_MEMORY: OutOfMemoryError,
          _abi.ERROR_NO_ROOM: NoRoomError, _abi.ERROR_COMPILE: CompileError, _abi.ERROR_TIMEOUT: WaitTimeoutError,
          _abi.ERROR_DEVICE_LOST: DeviceLostError}


@contextlib.contextmanager
def errors_of(what):
    """Says what was to be done, where the library speaks of the operator that does it."""
    try:
        yield
    except VkattnError as error:
        named = type(error)(f"{what}: {error}")
        vars(named).update(vars(error))
        raise named from error


def raise_failure(failure):
    """Raises what the library knows of a call that failed."""
    error = _KINDS.get(failure.result, VkattnError)(failure.message.decode(errors="replace"))
    error.result, error.member = failure.result, failure.member.decode(errors="replace") or None
    error.entry = None if failure.entry == _NONE else failure.entry
    error.line, error.column = failure.line or None, failure.column or None
    raise error
