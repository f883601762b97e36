"""vkattn as an execution provider of ONNX Runtime, in one call.

    options = onnxruntime.SessionOptions()
    vkattn_onnxruntime.add(options)
    session = onnxruntime.InferenceSession("model.onnx", options)
"""
import os
import pathlib
import threading

import numpy as np
import onnxruntime

PROVIDER = "VkattnExecutionProvider"
LIBRARY = "libvkattn_onnxruntime.so"
MEMORY_VENDOR = 0x564B4154  # tells memory of this provider from that of others on the same GPU
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
         "tensor(bool)": np.bool_}
_REGISTERING = threading.Lock()


def _library(path):
    """The path of the plugin: as given, else VKATTN_ONNXRUNTIME_LIBRARY, else beside this file."""
    found = pathlib.Path(path or os.environ.get("VKATTN_ONNXRUNTIME_LIBRARY") or pathlib.Path(__file__).with_name(LIBRARY))
    if not found.is_file():
        raise FileNotFoundError(f"{found} does not exist, expected the library that integrations/onnxruntime builds: "
                                "give its path as library, or as VKATTN_ONNXRUNTIME_LIBRARY")
    return str(found.resolve())


def _known():
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]


def devices(library=None):
    """The Vulkan devices, as onnxruntime.OrtEpDevice; registers the library at the first call."""
    with _REGISTERING:
        if not _known():
            try:  # it may be registered without a device, which nothing tells: no session uses it then, and it is registered anew
                onnxruntime.unregister_execution_provider_library(PROVIDER)
            except Exception:  # noqa: BLE001 - it was not registered
                pass
            onnxruntime.register_execution_provider_library(PROVIDER, _library(library))
    return _known()


def name(device):
    """The name of a device, as Vulkan has it."""
    return device.ep_metadata["vulkan_device_name"]


def add(options, device=None, library=None, fallback_reasons=False):
    """Gives a session's options a Vulkan device; the processor remains for the nodes that it does not take.

    options           onnxruntime.SessionOptions
    device            None: the first; a number of devices(); or a part of the device's name
    library           the path of the plugin; None: VKATTN_ONNXRUNTIME_LIBRARY, or the one beside this file
    fallback_reasons  True: why a node of vkattn's kinds is left to the processor is logged as a warning, else as information
    Returns the device.
    """
    found = devices(library)
    if isinstance(device, int):
        matching = found[device:device + 1] if device >= 0 else []
    else:
        matching = [each for each in found if device is None or device.lower() in name(each).lower()]
    if not found:
        raise LookupError("no Vulkan device here, expected an installed Vulkan driver")
    if not matching:
        raise LookupError(f"no Vulkan device {device!r} here, expected one of "
                          f"{[name(each) for each in found]}")
    options.add_provider_for_devices(matching[:1], {"fallback_reasons": "1" if fallback_reasons else "0"})
    return matching[0]


def on_device(array, device):
    """A copy of a numpy array on a device of devices(), as onnxruntime.OrtValue, to be bound as an input or an output: a cache that
    stays there."""
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "gpu", int(device.ep_metadata["vulkan_device"]), MEMORY_VENDOR)


def to_host(value):
    """A numpy array with what such a value holds."""
    empty = np.empty(value.shape(), TYPES[value.data_type()])
    onnxruntime.copy_tensors([value], [onnxruntime.OrtValue.ortvalue_from_numpy(empty)])
    return empty
