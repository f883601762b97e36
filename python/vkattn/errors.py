"""Failures of the library as exceptions, with its own message: one line that names the argument and what was expected."""
import contextlib

from . import _abi


class VkattnError(RuntimeError):
    """A call that failed; `result` is its vkattn_result."""
    result = None


class InvalidArgumentError(VkattnError, ValueError):
    """An argument breaks its contract."""


class UnsupportedError(VkattnError, NotImplementedError):
    """A right request that this device or this build cannot serve."""


class NoDeviceError(VkattnError):
    """No Vulkan loader, no driver, or no device of the name."""


class OutOfMemoryError(VkattnError, MemoryError):
    """Not enough memory, of the host or of the device."""


class DeviceLostError(VkattnError):
    """The device is gone: so is everything that was made with its context."""


_KINDS = {_abi.ERROR_INVALID_ARGUMENT: InvalidArgumentError, _abi.ERROR_UNSUPPORTED: UnsupportedError,
          _abi.ERROR_NO_VULKAN: NoDeviceError, _abi.ERROR_NO_DEVICE: NoDeviceError,
          _abi.ERROR_OUT_OF_HOST_MEMORY: OutOfMemoryError, _abi.ERROR_OUT_OF_DEVICE_MEMORY: OutOfMemoryError,
          _abi.ERROR_DEVICE_LOST: DeviceLostError}


@contextlib.contextmanager
def errors_of(what):
    """Says what was to be done, where the library speaks of the operator that does it."""
    try:
        yield
    except VkattnError as error:
        named = type(error)(f"{what}: {error}")
        named.result = error.result
        raise named from error


def raise_error(result, message):
    error = _KINDS.get(result, VkattnError)(message)
    error.result = result
    raise error
