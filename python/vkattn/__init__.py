"""Attention on any Vulkan device, on arrays of NumPy, PyTorch and the device.

    import numpy, vkattn
    q = numpy.random.randn(1, 8, 128, 64).astype("float32")
    k = v = numpy.random.randn(1, 2, 128, 64).astype("float32")
    out = vkattn.attention(q, k, v, is_causal=True, enable_gqa=True)

attention    the operator, with all that the library has; merge joins its partial results
attention_backward, linear_backward, norm_backward, embedding_backward, gated_activation_backward   gradients
cross_entropy, squared_norm, optimizer_step, adamw   the rest of a training step; vkattn.torch: attention under PyTorch's autograd
tree_mask    what a draft of tokens in a tree makes each of them see: of attention and of layers
scaled_dot_product_attention   PyTorch's function of this name
flex_attention   attention with functions of your own, of Python or GLSL; create_block_mask: which blocks of keys they hide
linear, norm, embedding, argmax   what stands around it in a model
record, Program   calls on Arrays as one submission, replayed: a token of a model
Array        numbers that stay on the device: context.array, context.empty, from_dlpack
top_k        the greatest numbers of rows
linear_attention, causal_conv1d, gated_rms_norm   layers that keep a state in place of keys and values
index        the keys that queries score highest, which attention takes as key_indices; mask_indices: those that a mask shows
kv_append, PagedCache     caches of the operators, for sequences that come and go: context.kv_cache
Layer, Cache layers with weights, and their caches; layer_weights names those of PyTorch and Hugging Face
estimate     what a layer costs, before one is built
Context      a device of your choice; devices() lists them
transformers registers attention with Hugging Face's transformers
errors       what is raised, with the library's message

Arrays of NumPy, tensors of PyTorch on the CPU, and what else has __dlpack__ there are taken; results are of the same kind.
A package over the C interface by ctypes: it needs the shared library, which wheels carry, and NumPy.
"""
from . import errors, transformers  # Hugging Face's package is imported by register() alone
from .attention import attention, problem, tree_mask
from .context import (Candidate, Check, Context, Kernel, Measure, PlanBinding, TuneBudget, default_context, devices, from_dlpack,
                      version)
from .device_array import Array
from .errors import (CompileError, DeviceLostError, InvalidArgumentError, NoDeviceError, NoRoomError, OutOfMemoryError,
                     UnsupportedError, VkattnError, WaitTimeoutError)
from .estimate import Estimate, config_from_name, estimate
from .gradients import (attention_backward, attention_backward_problem, embedding_backward, gated_activation_backward, linear_backward,
                        norm_backward)
from .layers import Cache, Layer, cache_types, layer_config, layer_problem
from .operators import (argmax, embedding, gated_activation, index, kv_append, linear, linear_problem, mask_indices, merge, norm,
                        rotary_embedding, top_k, weight_types)
from .paged_cache import PagedCache
from .programs import Program, ProgramReport, record
from .recurrence import causal_conv1d, gated_rms_norm, linear_attention
from .scaled_dot_product import scaled_dot_product_attention
from .training import adamw, cross_entropy, optimizer_step, squared_norm
from .variants import BlockMask, create_block_mask, flex_attention
from .weights import layer_weights

__version__ = version()
__all__ = ["Array", "BlockMask", "Cache", "Candidate", "Check", "CompileError", "Context", "DeviceLostError", "Estimate",
           "InvalidArgumentError", "Kernel", "Layer", "Measure", "NoDeviceError", "NoRoomError", "OutOfMemoryError",
           "PagedCache", "PlanBinding", "Program", "ProgramReport", "TuneBudget", "UnsupportedError", "VkattnError",
           "WaitTimeoutError", "adamw", "argmax", "attention", "attention_backward", "attention_backward_problem", "cache_types", "causal_conv1d",
           "config_from_name", "create_block_mask", "cross_entropy",
           "default_context", "devices", "embedding", "embedding_backward", "errors", "estimate", "flex_attention", "from_dlpack",
           "gated_activation", "gated_activation_backward", "gated_rms_norm",
           "index", "kv_append", "layer_config", "layer_problem", "layer_weights", "linear", "linear_attention", "linear_backward",
           "linear_problem", "mask_indices", "merge", "norm", "norm_backward", "optimizer_step", "problem", "record",
           "rotary_embedding", "scaled_dot_product_attention", "squared_norm", "top_k",
           "tree_mask", "version", "weight_types"]
