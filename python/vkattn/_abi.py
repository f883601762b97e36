"""The C interface as ctypes sees it: what _headers.py makes of the headers, and the library. Nothing here decides anything."""
import ctypes
import ctypes.util
import os
import pathlib

import numpy

from ._structures import choose, flag, real, whole

try:
    from ._interface import *  # of a wheel
except ModuleNotFoundError:
    from . import _headers
    exec(_headers.module_text(pathlib.Path(__file__).parents[2] / "include" / "vkattn"), globals())

LAYER_KINDS["encoder_layer"] = LAYER_KINDS["encoder"]
ROPE_SCALING_KINDS["none"] = ROPE_SCALING_KINDS.pop("unscaled")
# Tensors of attention, and the dtype of those that have one alone.
ATTENTION_TENSORS = {
    "query": None, "key": None, "value": None, "output": None, "log_sum_exp": "float32", "attn_mask": None,
    "key_padding_mask": "bool", "key_lengths": "int32", "past_lengths": "int32", "alibi_slopes": "float32", "sinks": "float32",
    "attn_weights": "float32", "qk_matmul_output": "float32", "cu_seqlens_q": "int32", "cu_seqlens_k": "int32",
    "block_table": "int32", "block_mask": "int32", "key_indices": "int32", "tree_mask": "int32"}


def rotations(name, rotation):
    """The numbers of how keys and values are stored. rotation: a name for both, two names, or None."""
    both = ("none" if rotation is None else rotation,) * 2 if rotation is None or isinstance(rotation, (str, int)) else rotation
    if not isinstance(both, (tuple, list)) or len(both) != 2:
        raise ValueError(f"{name}: {rotation!r}, expected one of {', '.join(ROTATIONS)}, or two of them, for keys and for values")
    return tuple(choose(name, ROTATIONS, each) for each in both)


def scaling(name, scales):
    """How many elements of a cache share a scale, and the scales. scales: None, "row", a number for all of the part, or a
    sequence of one for each head."""
    if scales is None or isinstance(scales, str) and scales == "row":
        return scales or "none", None
    numbers = None if isinstance(scales, str) else numpy.atleast_1d(numpy.asarray(scales, "f4"))
    if numbers is None or numbers.ndim != 1:
        raise ValueError(f"{name}: {scales!r}, expected None, 'row', a number or one for each head")
    return "tensor" if numpy.ndim(scales) == 0 else "head", (c_float * len(numbers))(*numbers)


_loaded = []  # the name of the library vkattn in use


def _candidates():
    """Where the shared library may be: VKATTN_LIBRARY, beside this package, installed."""
    if os.environ.get("VKATTN_LIBRARY"):
        yield os.environ["VKATTN_LIBRARY"]
        return
    here = pathlib.Path(__file__).parent
    for pattern in ("libvkattn.so*", "libvkattn*.dylib", "vkattn.dll"):
        yield from sorted(str(path) for path in here.glob(pattern))
    found = ctypes.util.find_library("vkattn")
    if found:
        yield found


def _jit_names():
    """Where vkattn_jit may be: VKATTN_JIT_LIBRARY, else where vkattn was found. Of another place it would be of another version."""
    if os.environ.get("VKATTN_JIT_LIBRARY"):
        return [os.environ["VKATTN_JIT_LIBRARY"]]
    if not os.path.dirname(_loaded[0]):  # installed
        return [ctypes.util.find_library("vkattn_jit")]
    return [str(path) for pattern in ("libvkattn_jit.so*", "libvkattn_jit*.dylib", "vkattn_jit.dll")
            for path in sorted(pathlib.Path(_loaded[0]).parent.glob(pattern))]


def _declare(library, functions):
    """Tells ctypes what functions take and return. Returns the names of those that the library lacks."""
    for name, (result, arguments) in functions.items():
        if hasattr(library, name):
            getattr(library, name).restype = result
            getattr(library, name).argtypes = arguments
    return [name for name in functions if not hasattr(library, name)]


def load_jit():
    """The library vkattn_jit; an ImportError that says what to install where there is none, or that it brings another vkattn, which
    knows nothing of this one's contexts."""
    library, tried = load(), []
    for name in filter(None, _jit_names()):
        try:
            jit = ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
            continue
        lacking = _declare(jit, JIT_FUNCTIONS)
        if lacking:
            tried.append(f"{name} has no {lacking[0]}")
            continue
        # What it needs is looked through, too, but on Windows, which loads a library of a name once.
        version = getattr(jit, "vkattn_version", library.vkattn_version)
        if ctypes.cast(version, c_void_p).value != ctypes.cast(library.vkattn_version, c_void_p).value:
            tried.append(f"{name} brings another vkattn than {library._name}, expected the vkattn_jit that was built with it")
            continue
        return jit
    return ImportError("functions: the shared library vkattn_jit, which compiles them, cannot be loaded (" +
                       ("; ".join(tried) or "none found") + "), expected it beside vkattn, or named by VKATTN_JIT_LIBRARY. It is built "
                       "where glslang's headers are: Debian: apt install glslang-dev, then pip install again")


def load():
    tried = []
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
            continue
        lacking = _declare(library, FUNCTIONS)
        if lacking:
            tried.append(f"{name} has no {lacking[0]}, expected the vkattn of this package")
            continue
        _loaded[:] = [name]
        return library
    raise ImportError("the shared library vkattn cannot be loaded (" + ("; ".join(tried) or "none found") +
                      "), expected it installed, beside this package, or named by VKATTN_LIBRARY")
