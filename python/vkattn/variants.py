"""Attention with functions of the caller's own: variants, compiled from GLSL or translated from Python."""
import ctypes
import threading

from . import _abi
from .arrays import describe
from .attention import Problem
from .compiled import outside_graphs
from .context import default_context
from .device_array import Array
from .errors import UnsupportedError, raise_error
from .functions import functions_text
from .handles import Handle

_lock = threading.Lock()
_jit = []


def _compiler():
    with _lock:
        if not _jit:
            _jit.append(_abi.load_jit())
    if isinstance(_jit[0], ImportError):
        raise UnsupportedError(str(_jit[0]))
    return _jit[0]


def _variant(context, text):
    """The context's variant of a text."""
    handle = context.variants.get(text)
    if handle is None:
        jit, raw = _compiler(), ctypes.c_void_p()
        result = jit.vkattn_jit_variant_create(context.raw, _abi.JitInfo(functions=text.encode()), raw)
        if result != 0:
            raise_error(result, jit.vkattn_jit_last_error().decode(errors="replace"))
        handle = context.variants[text] = Handle(raw, "vkattn_variant_destroy", context.handle)
    return handle


def _set_variant(made, score_mod, mask_mod, given):
    text, captured = functions_text(score_mod, mask_mod, given)
    context = made.call.context or default_context()
    with context.lock:
        extension = _abi.AttentionVariant(extension=_abi.Extension(_abi.EXTENSION_ATTENTION_VARIANT),
                                          variant=_variant(context, text).raw)
    for number, array in enumerate(captured):
        if isinstance(array, Array):
            context.own(array, f"captured_{number}")
        made.call.inputs[f"captured_{number}"] = array
        extension.captured[number] = describe(array, f"captured_{number}")
    _abi.extend(made.desc, extension)


@outside_graphs
def flex_attention(query, key, value, score_mod=None, mask_mod=None, *, scale=None, enable_gqa=False, return_lse=False,
                   captured=(), **more):
    """Attention with functions of your own, as torch.nn.attention.flex_attention has them.

    score_mod  score_mod(score, batch, head, query, key): the score to take in place of one; batch, head, query and key are
        whole numbers
    mask_mod   mask_mod(batch, head, query, key): whether the query sees the key
        Either is a function of Python, whose text is translated: arithmetic, comparisons, and, or, not, where, minimum,
        maximum, abs, tanh and other functions of numbers (of NumPy, PyTorch or math), numbers and arrays of the scopes
        around it, the latter with all their indices, and assignments before one return. Anything else raises a ValueError
        that names it and its line. Or GLSL text, as docs/variants.md says
    captured   the tensors that GLSL text reads, float32 or int32, four at most
    more       what attention takes beside these: its masks, dtypes and lengths
    query, key, value, scale, enable_gqa, return_lse and the result are those of attention. Raises UnsupportedError where
        the library vkattn_jit, which compiles the functions, is not beside the library vkattn.
    """
    if score_mod is None and mask_mod is None:
        raise TypeError("score_mod, mask_mod: None, expected a function or GLSL text for one of them")
    made = Problem(query, key, value, scale=scale, enable_gqa=enable_gqa, return_lse=return_lse, **more)
    _set_variant(made, score_mod, mask_mod, captured)
    call = made.run()
    results = [call.given_back(role, array.shape[made.missing:]) for role, array in call.outputs.items()]
    return tuple(results) if return_lse else results[0]
