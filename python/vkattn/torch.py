"""Attention under PyTorch's autograd: functions of tensors whose gradients the library computes."""
import math

import torch

from .attention import attention
from .gradients import attention_backward
from .scaled_dot_product import drawn_seed
from .scaled_dot_product import scaled_dot_product_attention as _without_gradients

_DIFFERENTIATED = ("query", "key", "value", "attn_mask")


class _Attention(torch.autograd.Function):
    """attention of [B,H,L,D]; the backward pass computes the weights again, of the output and its log-sum-exp."""

    @staticmethod
    def forward(ctx, query, key, value, attn_mask, arguments):
        output, log_sum_exp = attention(query, key, value, attn_mask, return_lse=True, **arguments)
        ctx.save_for_backward(query, key, value, attn_mask, output, log_sum_exp)
        ctx.arguments = arguments
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_output):
        query, key, value, attn_mask, output, log_sum_exp = ctx.saved_tensors
        wanted = [name for name, needed in zip(_DIFFERENTIATED, ctx.needs_input_grad) if needed]
        made = attention_backward(query, key, value, d_output, output=output, log_sum_exp=log_sum_exp, gradients=wanted,
                                  attn_mask=attn_mask, **ctx.arguments)
        made = dict(zip(wanted, made if len(wanted) > 1 else (made,)))
        of = dict(zip(_DIFFERENTIATED, (query, key, value, attn_mask)))
        return (*(made[name].to(of[name].dtype) if name in made else None for name in _DIFFERENTIATED), None)


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
    for name, each in (("key", key), ("value", value)):
        if each.dtype != query.dtype:
            raise TypeError(f"{name}: dtype {each.dtype}, expected {query.dtype} as query has")
    given = _in_four_dimensions(query, key, value, attn_mask, enable_gqa)
    if given is None or dropout_p == 1:  # nothing to differentiate: PyTorch's own is as fast
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                                                                enable_gqa=enable_gqa)
    *rows, mask, batch = given
    arguments = {"is_causal": is_causal, "scale": scale, "enable_gqa": True, "dropout_p": dropout_p,
                 "dropout_seed": drawn_seed(torch) if dropout_p > 0 else 0}
    output = _Attention.apply(*rows, mask, arguments)
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
