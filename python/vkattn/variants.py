"""Attention with functions of the caller's own: variants, compiled from GLSL or translated from Python."""
import ctypes
import threading

import numpy

from . import _abi
from .arrays import describe
from .attention import Problem
from .calls import Call
from .compiled import outside_graphs
from .context import default_context
from .device_array import Array
from .errors import UnsupportedError, raise_failure
from .functions import functions_and_captured
from .handles import Handle

_MOST_VARIANTS = 64  # of a context; what plans use is kept as long as they are
_lock = threading.Lock()
_jit = []


def _compiler():
    with _lock:
        if not _jit:
            _jit.append(_abi.load_jit())
    if isinstance(_jit[0], ImportError):
        raise UnsupportedError(str(_jit[0]))
    return _jit[0]


def _compile(context, text, variant):
    jit = _compiler()
    result = jit.vkattn_jit_variant_create(context, _abi.JitInfo(functions=text.encode()), variant)
    if result != 0:
        raise_failure(jit.vkattn_jit_last_failure().contents)


def _variant(context, text):
    """The context's variant of a text, of which it holds the latest."""
    handle = context.variants.get(text)
    if handle is None:
        handle = Handle(lambda raw: _compile(context.raw, text, raw), "vkattn_variant_destroy", context.handle)
        context.variants[text] = handle
        if len(context.variants) > _MOST_VARIANTS:
            context.variants.popitem(last=False)
    context.variants.move_to_end(text)
    return handle


def set_variant(desc, inputs, context, functions, given, numbers):
    """Sets the variant of {name: function} in a description, and adds what it captures to the inputs. Returns the variant's
    handle, which the plan must not outlive here: its address is a part of what the plan is known by."""
    return set_captured_variant(desc, inputs, context, functions, given, numbers, lambda array: False)[0]


def set_captured_variant(desc, inputs, context, functions, given, numbers, differentiates):
    """The same, and what is captured, a Captured. differentiates: whether a captured array has a gradient."""
    text, captured = functions_and_captured(functions, given, differentiates)
    with context.lock:
        variant = _variant(context, text)
    desc.variant = variant.raw
    if len(numbers) > len(desc.captured_numbers):
        raise ValueError(f"captured_numbers: {len(numbers)}, expected at most {len(desc.captured_numbers)}")
    desc.captured_numbers[:len(numbers)] = [float(number) for number in numbers]
    for number, array in enumerate(captured.arrays):
        if isinstance(array, Array):
            context.own(array, f"captured_{number}")
        inputs[f"captured_{number}"] = array
        setattr(desc, f"captured_{number}", describe(array, f"captured_{number}"))
    return variant, captured


class BlockMask:
    """Which blocks of queries and keys a mask_mod hides: what create_block_mask makes and flex_attention takes.

    mask_mod    the function, which flex_attention takes from here
    shape       (B, H, Q_LEN, KV_LEN): B or H is 1 where the mask is the same in all
    BLOCK_SIZE  (queries, keys) of a block
    past_len    keys before the first query, or None
    blocks      an int32 Array [B,H,blocks of queries,blocks of keys]: 0 hidden, 1 partial, 2 full
    """

    def __init__(self, mask_mod, shape, block_size, past_len, captured, captured_numbers, blocks):
        self.mask_mod, self.shape, self.BLOCK_SIZE, self.past_len = mask_mod, shape, block_size, past_len
        self.captured, self.captured_numbers, self.blocks = captured, captured_numbers, blocks

    def sparsity(self):
        """How much of it is hidden, in percent."""
        return 100.0 * float((self.blocks.download() == 0).mean())

    def __repr__(self):
        return f"BlockMask(shape={self.shape}, BLOCK_SIZE={self.BLOCK_SIZE})"


def _without_memory(shape):
    """The description of float32 numbers that nothing reads."""
    tensor = describe(numpy.empty((1, 1, 1, 1), "float32"), "rows")
    tensor.shape[:] = shape
    return tensor


@outside_graphs
def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, *, BLOCK_SIZE=128, captured=(), captured_numbers=(), past_len=None,
                      context=None):
    """Asks a mask_mod for every query and key, on the device, as torch.nn.attention.flex_attention.create_block_mask does.
    Returns a BlockMask, for flex_attention of as many queries and keys: blocks that are hidden cost nothing there.

    mask_mod  a function of Python or GLSL text, as flex_attention takes it; captured, captured_numbers: what GLSL text reads
    B, H      batch entries and query heads; None: the mask is the same in all
    BLOCK_SIZE  (queries, keys) of a block, or one number for both
    past_len  keys before the first query, which mask_mod is given added to the query
    """
    if mask_mod is None:
        raise TypeError("mask_mod: None, expected a function or GLSL text")
    context = context or default_context()
    block_size = BLOCK_SIZE if isinstance(BLOCK_SIZE, (tuple, list)) else (BLOCK_SIZE, BLOCK_SIZE)
    if len(block_size) != 2 or min(block_size) < 1:
        raise ValueError(f"BLOCK_SIZE: {BLOCK_SIZE}, expected a number from 1, or two of them: queries and keys")
    shape = tuple(_abi.whole(ctypes.c_uint32, name, 1 if size is None else size)
                  for name, size in (("B", B), ("H", H), ("Q_LEN", Q_LEN), ("KV_LEN", KV_LEN)))
    batch, heads, queries, keys = shape
    blocks = context.empty((batch, heads, -(-queries // block_size[0]), -(-keys // block_size[1])), "int32")
    desc = _abi.AttentionDesc(past_len=past_len, block_q_len=block_size[0], block_kv_len=block_size[1])
    desc.query = desc.output = _without_memory((batch, heads, queries, 1))
    desc.key = desc.value = _without_memory((batch, heads, keys, 1))
    desc.block_mask = describe(blocks, "block_mask")
    inputs = {}
    variant = set_variant(desc, inputs, context, {"mask_mod": mask_mod}, captured, captured_numbers)
    context.run("vkattn_block_mask_plan", desc, inputs, {"block_mask": blocks}, keep=[variant])
    return BlockMask(mask_mod, shape, tuple(block_size), past_len, captured, captured_numbers, blocks)


def take_block_mask(block_mask, mask_mod, captured, captured_numbers, query, key, more):
    """Adds a BlockMask, or the numbers of blocks that attention takes, to arguments of attention. Returns the mask_mod and what it captures,
    and the context that the arrays must be of; None: any."""
    if not isinstance(block_mask, BlockMask):
        if block_mask is not None:
            more["block_mask"] = block_mask
        return mask_mod, captured, captured_numbers, None
    if mask_mod is not None:
        raise TypeError("mask_mod: given beside a BlockMask, expected None: it has its own")
    _, _, queries, keys = block_mask.shape
    given = (query.shape[-2], key.shape[-2])
    if more.get("block_table") is None and given != (queries, keys):
        raise ValueError(f"block_mask: of {queries} queries and {keys} keys, expected {given[0]} and {given[1]}")
    if more.setdefault("past_len", block_mask.past_len) != block_mask.past_len:
        raise ValueError(f"past_len: {more['past_len']}, expected {block_mask.past_len}, with which block_mask was made")
    more.update(block_mask=block_mask.blocks, block_size=block_mask.BLOCK_SIZE)
    return (block_mask.mask_mod, captured or block_mask.captured, captured_numbers or block_mask.captured_numbers,
            block_mask.blocks.context)


@outside_graphs
def flex_attention(query, key, value, score_mod=None, mask_mod=None, *, block_mask=None, lse_mod=None, output_mod=None,
                   scale=None, enable_gqa=False, return_lse=False, captured=(), captured_numbers=(), **more):
    """Attention with functions of your own, as torch.nn.attention.flex_attention has them.

    score_mod  score_mod(score, batch, head, query, key): the score to take in place of one; batch, head, query and key are
        whole numbers
    mask_mod   mask_mod(batch, head, query, key): whether the query sees the key
    block_mask a BlockMask of create_block_mask, in place of mask_mod: blocks that it hides are not visited. Or the numbers of
        blocks that attention takes
    lse_mod    lse_mod(lse, batch, head, query): what weights are exp(score - lse) of, in place of log(sum(exp(score)))
    output_mod output_mod(value, batch, head, query, element): the element of the output to take in place of one
        Each is a function of Python, whose text is translated: arithmetic, comparisons, and, or, not, `a if c else b`, if,
        loops over known sequences, where, minimum, maximum, abs, tanh and other functions of numbers (of NumPy, PyTorch or
        math), functions of these, numbers and arrays of the scopes around it, the latter with all their indices. Anything
        else raises a ValueError that names it and its line. Floats are of 32 bits, and so are whole numbers, which wrap.
        Numbers of the scopes around are given to what is compiled, which is made once for all of them, but for exponents
        and the divisors of // and %. Or GLSL text, as docs/variants.md says
    captured   the tensors that GLSL text reads, float32, int32 or, as Arrays, float16 or bfloat16, four at most with those of
        functions of Python, whose numbers take one; captured_numbers: up to four floats that it reads
    more       what attention takes beside these: its masks, dtypes and lengths
    query, key, value, scale, enable_gqa, return_lse and the result are those of attention. Raises UnsupportedError where
        the library vkattn_jit, which compiles the functions, is not beside the library vkattn.
    """
    others = {name: array for name, array in more.items() if name in (*_abi.ATTENTION_TENSORS, "out")}
    mask_mod, captured, captured_numbers, made_in = take_block_mask(block_mask, mask_mod, captured, captured_numbers, query, key, more)
    call = None if made_in is None else Call(made_in, {"query": query, "key": key, "value": value, **others}.items())
    functions = {"score_mod": score_mod, "mask_mod": mask_mod, "lse_mod": lse_mod, "output_mod": output_mod}
    if all(function is None for function in functions.values()):
        raise TypeError(f"{', '.join(functions)}: None, expected a function or GLSL text for one of them")
    made = Problem({"query": query, "key": key, "value": value, "scale": scale, "enable_gqa": enable_gqa, "return_lse": return_lse,
                    **more}, call)
    made.keep = [set_variant(made.desc, made.call.inputs, made.call.context or default_context(), functions, captured,
                             captured_numbers)]
    return made.results()
