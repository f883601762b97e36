"""Attention under PyTorch's autograd: functions of tensors whose gradients the library computes."""
import math

import numpy
import torch

from .attention import attention
from .device_array import Array
from .functions import CapturedDerivatives, Derivative, functions_and_captured
from .gradients import attention_backward
from .scaled_dot_product import drawn_seed
from .scaled_dot_product import scaled_dot_product_attention as _without_gradients
from .variants import BlockMask
from .variants import flex_attention as _with_functions

_DIFFERENTIATED = ("query", "key", "value", "attn_mask")


class _Attention(torch.autograd.Function):
    """attention of [B,H,L,D], or flex_attention where functions are among the arguments; returns the output and its log-sum-exp, of which
    the backward pass computes the weights again. tensors: those that captured ones with gradients, of these numbers, were made of."""

    @staticmethod
    def forward(ctx, query, key, value, attn_mask, arguments, numbers, *tensors):
        called = _with_functions if "captured" in arguments else attention
        output, log_sum_exp = called(query, key, value, attn_mask=attn_mask, return_lse=True, **arguments)
        ctx.save_for_backward(query, key, value, attn_mask, output, log_sum_exp)
        ctx.mark_non_differentiable(log_sum_exp)
        ctx.arguments = arguments
        ctx.captured = {f"captured_{number}": (tensor.shape, tensor.dtype) for number, tensor in zip(numbers, tensors)}
        return output, log_sum_exp

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_output, _):
        query, key, value, attn_mask, output, log_sum_exp = ctx.saved_tensors
        names, needed = (*_DIFFERENTIATED, *ctx.captured), (*ctx.needs_input_grad[:4], *ctx.needs_input_grad[6:])
        wanted = [name for name, needs in zip(names, needed) if needs]
        made = attention_backward(query, key, value, d_output, output=output, log_sum_exp=log_sum_exp, gradients=wanted,
                                  attn_mask=attn_mask, **ctx.arguments)
        made = dict(zip(wanted, made if len(wanted) > 1 else (made,)))
        of = dict(zip(_DIFFERENTIATED, (query, key, value, attn_mask)))
        given = [made[name].to(of[name].dtype) if name in made else None for name in _DIFFERENTIATED]
        of_captured = [made[name].to(dtype).reshape(shape) if name in made else None for name, (shape, dtype) in ctx.captured.items()]
        return (*given, None, None, *of_captured)


def _check_tensors(query, key, value):
    for name, each in (("query", query), ("key", key), ("value", value)):
        if not isinstance(each, torch.Tensor):
            raise TypeError(f"{name}: {type(each).__name__}, expected a tensor")
        if each.dtype != query.dtype:
            raise TypeError(f"{name}: dtype {each.dtype}, expected {query.dtype} as query has")


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
                                 enable_gqa=False):
    """vkattn.scaled_dot_product_attention of tensors, with gradients of query, key, value and of a float attn_mask that asks for one.

    The arguments and shapes are the same. Where no tensor asks for a gradient, or grad mode is off, it is that function. Tensors lie in
    host memory: each is copied to the device once a call, and each result back. Gradients of gradients are refused by PyTorch. Weights
    of a query whose every key has the same large bias, below about -1e4, are known to the rounding of log-sum-exp alone, and biases below
    -6e37 hide: such rows of padding must not count in a loss. Weights
    that dropout zeroes are chosen by a number that is drawn from PyTorch's generator, and are the same in the backward pass.
    """
    tensors = [each for each in (query, key, value, attn_mask) if each is not None]
    for each in tensors:
        if not isinstance(each, torch.Tensor):
            raise TypeError(f"vkattn.torch: {type(each).__name__}, expected tensors: vkattn.scaled_dot_product_attention takes others")
    if not torch.is_grad_enabled() or not any(each.requires_grad for each in tensors):
        return _without_gradients(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask: given with is_causal, expected one of them")
    _check_tensors(query, key, value)
    given = _in_four_dimensions(query, key, value, attn_mask, enable_gqa)
    if given is None or dropout_p == 1:  # nothing to differentiate: PyTorch's own is as fast
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                                                                enable_gqa=enable_gqa)
    *rows, mask, batch = given
    arguments = {"is_causal": is_causal, "scale": scale, "enable_gqa": True, "dropout_p": dropout_p,
                 "dropout_seed": drawn_seed(torch) if dropout_p > 0 else 0}
    output, _ = _Attention.apply(*rows, mask, arguments, ())
    return output.reshape(*batch, *output.shape[-2:])


def _in_four_dimensions(query, key, value, attn_mask, grouped):
    """The arguments broadcast to [B,H,L,D], and the leading dimensions of the result; None where there are no elements. By PyTorch, whose
    autograd sums what was broadcast."""
    if 0 in (*query.shape, *key.shape, *value.shape):
        return None
    heads = {"query": query.shape[-3:-2], "key": key.shape[-3:-2], "value": value.shape[-3:-2]}
    if grouped and heads["key"] != heads["value"]:
        raise ValueError(f"value: {list(heads['value'])} heads, expected those of key, {list(heads['key'])}")
    leading = torch.broadcast_shapes(*(each.shape[:-3] if grouped else each.shape[:-2] for each in (query, key, value)))
    batch = (*leading, *heads["query"]) if grouped else leading
    kv_batch = (*leading, *heads["key"]) if grouped else leading

    def folded(tensor, to):
        expanded = tensor.expand(*to, *tensor.shape[-2:])
        return expanded.reshape(math.prod(to[:-1]), *(to[-1:] or (1,)), *tensor.shape[-2:])

    mask = attn_mask
    if mask is not None and mask.ndim > 2 and len(batch) > 2:
        mask = folded(mask, batch)
    return folded(query, batch), folded(key, kv_batch), folded(value, kv_batch), mask, batch


def _blocks_of(block_mask):
    """The numbers of blocks that attention takes, [B,H,blocks,blocks], of PyTorch's BlockMask."""
    keys = -(-block_mask.seq_lengths[1] // block_mask.BLOCK_SIZE[1])
    blocks = numpy.zeros((*block_mask.kv_num_blocks.shape, keys + 1), "int32")  # one more, where what is no block goes
    for state, counts, places in ((1, block_mask.kv_num_blocks, block_mask.kv_indices),
                                  (2, block_mask.full_kv_num_blocks, block_mask.full_kv_indices)):
        if counts is not None:
            counts, places = counts.cpu().numpy(), places.cpu().numpy()
            places = numpy.where(numpy.arange(places.shape[-1]) < counts[..., None], places, keys)
            numpy.put_along_axis(blocks, places, state, axis=-1)
    return numpy.ascontiguousarray(blocks[..., :-1])


def _check_lengths(block_mask, query, key):
    made, given = tuple(block_mask.shape[-2:]), (query.shape[-2], key.shape[-2])
    if made != given:
        raise ValueError(f"block_mask: of {made[0]} queries and {made[1]} keys, expected {given[0]} and {given[1]}")


def _held(array):
    """A copy of what functions capture, which the backward pass reads as it was."""
    return array.context.array(array.download()) if isinstance(array, Array) else numpy.array(array)


def _has_gradient(array):
    return isinstance(array, torch.Tensor) and array.requires_grad


def _functions_of(score_mod, mask_mod, block_mask, query, key, differentiates):
    """Arguments of flex_attention and attention_backward for functions and blocks: one text that has all functions, whose arrays are read now;
    and by their numbers the captured tensors that ask for gradients. differentiates: whether others do."""
    arguments, given = {}, ()
    if isinstance(block_mask, BlockMask) or hasattr(block_mask, "kv_num_blocks"):
        _check_lengths(block_mask, query, key)
    if isinstance(block_mask, BlockMask):
        arguments = {"block_mask": block_mask.blocks.numpy(), "block_size": block_mask.BLOCK_SIZE,
                     "captured_numbers": tuple(block_mask.captured_numbers), "past_len": block_mask.past_len}
        given = block_mask.captured
    elif hasattr(block_mask, "kv_num_blocks"):
        arguments = {"block_mask": _blocks_of(block_mask), "block_size": tuple(block_mask.BLOCK_SIZE)}
    elif block_mask is not None:
        raise TypeError(f"block_mask: {type(block_mask).__name__}, expected a BlockMask of create_block_mask")
    if block_mask is not None:
        if mask_mod is not None:
            raise TypeError("mask_mod: given beside block_mask, expected None: it has its own")
        mask_mod = block_mask.mask_mod
    if score_mod is None and mask_mod is None:
        return arguments, {}
    functions, tensors = {"score_mod": score_mod, "mask_mod": mask_mod}, {}
    if torch.is_grad_enabled() and callable(score_mod):
        differentiated = {"score_mod": score_mod, "score_mod_grad": Derivative(score_mod),
                          "score_mod_grad_captured": CapturedDerivatives(score_mod), "mask_mod": mask_mod}
        text, captured = functions_and_captured(differentiated, given, _has_gradient)
        tensors = captured.differentiated
        differentiates = differentiates or bool(tensors)
    if not (differentiates and callable(score_mod)):
        text, captured = functions_and_captured(functions, given, _has_gradient)
    captured = [_held(array) for array in captured.arrays] if differentiates else captured.arrays
    arguments.update({"mask_mod" if score_mod is None else "score_mod": text, "captured": captured})
    return arguments, tensors


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False, *, mask_mod=None):
    """torch.nn.attention.flex_attention.flex_attention of tensors in host memory, with gradients of query, key, value and of what score_mod
    captures, which PyTorch's own has on GPUs alone.

    score_mod   score_mod(score, batch, head, query, key), as vkattn.flex_attention takes it; its derivative is derived, as
        vkattn.attention_backward says
    block_mask  a BlockMask of PyTorch's create_block_mask or of vkattn's: blocks that it hides are not visited
    mask_mod    mask_mod(batch, head, query, key) without blocks, in place of block_mask
    The arguments and shapes are otherwise PyTorch's: query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv]. Captured tensors that ask
    for a gradient get it: those of score_mod, of any number of elements, a single one included; mask_mod has none. With return_lse it returns (output, log_sum_exp), and the latter has no gradient. Gradients of
    gradients are refused by PyTorch.
    """
    _check_tensors(query, key, value)
    for name, each in (("query", query), ("key", key), ("value", value)):
        if each.ndim != 4:
            raise ValueError(f"{name}: {each.ndim} dimensions, expected 4, [B,H,L,D]")
    differentiates = torch.is_grad_enabled() and any(each.requires_grad for each in (query, key, value))
    functions, tensors = _functions_of(score_mod, mask_mod, block_mask, query, key, differentiates)
    arguments = {"scale": scale, "enable_gqa": enable_gqa, **functions}
    given = _in_four_dimensions(query, key, value, None, True)
    if given is None:  # nothing to differentiate
        output = torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=scale, enable_gqa=enable_gqa)
        log_sum_exp = query.new_full(output.shape[:-1], -math.inf, dtype=torch.float32)
    else:
        output, log_sum_exp = _Attention.apply(*given[:3], None, arguments, tuple(tensors), *tensors.values())
    return (output, log_sum_exp) if return_lse else output
