"""Attention on any Vulkan device, on NumPy arrays.

    import numpy, vkattn
    q = numpy.random.randn(1, 8, 128, 64).astype("float32")
    k = v = numpy.random.randn(1, 2, 128, 64).astype("float32")
    out = vkattn.attention(q, k, v, is_causal=True, enable_gqa=True)

attention    the operator, in PyTorch's argument names; merge joins its partial results
linear, norm, embedding   what stands around it in a model
Layer, Cache layers with weights, and their caches
estimate     what a layer costs, before one is built
Context      a device of your choice; devices() lists them
errors       what is raised, with the library's message

A package over the C interface by ctypes: it needs the shared library, and NumPy; nothing is compiled.
"""
from . import errors
from .attention import attention, problem
from .context import Candidate, Check, Context, Kernel, default_context, devices, version
from .errors import (DeviceLostError, InvalidArgumentError, NoDeviceError, OutOfMemoryError, UnsupportedError, VkattnError)
from .estimate import Estimate, config_from_name, estimate
from .layers import Cache, Layer, layer_config
from .operators import embedding, linear, linear_problem, merge, norm

__version__ = version()
__all__ = ["Cache", "Candidate", "Check", "Context", "DeviceLostError", "Estimate", "InvalidArgumentError", "Kernel", "Layer",
           "NoDeviceError", "OutOfMemoryError", "UnsupportedError", "VkattnError", "attention", "config_from_name",
           "default_context", "devices", "embedding", "errors", "estimate", "layer_config", "linear", "linear_problem", "merge", "norm",
           "problem", "version"]
