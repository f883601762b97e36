"""Attention of Hugging Face's transformers, computed by vkattn.

    import vkattn.transformers
    vkattn.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="vkattn")

The model itself stays PyTorch's, on the CPU; each call of attention goes to the device and back.
"""
from .arrays import torch_of
from .attention import attention
from .scaled_dot_product import drawn_seed


def register(name="vkattn", *, context=None):
    """Registers vkattn with transformers as an implementation of attention, and of its masks.

    name     for attn_implementation, of from_pretrained, from_config and set_attn_implementation
    context  the Context that computes; None: that of default_context()
    Models that take their attention from AttentionInterface are served: causal and bidirectional masks, padding, grouped
    heads, sliding windows, caches, sinks (gpt-oss), softcap (Gemma 2) and position biases (T5). There are no gradients and no
    attention weights: call the model under torch.no_grad(), and without output_attentions. A query that sees no key, such as
    one of padding, gives 0. Raises ImportError where transformers is missing or older than 4.53.
    """
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    except ImportError as error:
        raise ImportError(f"vkattn.transformers: {error}; expected the package transformers, 4.53 or later") from error

    def attend(module, query, key, value, attention_mask, **arguments):
        return _attend(module, query, key, value, attention_mask, context, **arguments)

    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, sdpa_mask)  # bool, True = attend; None where is_causal says it all


def _attend(module, query, key, value, attention_mask, context, scaling=None, dropout=0.0, softcap=None, s_aux=None,
            position_bias=None, is_causal=None, output_attentions=False, **_):
    """What transformers calls: query [B,Hq,Lq,D], key and value [B,Hkv,Lk,D], the mask [B,1|Hq,Lq,Lk]. What else it gives, as
    sliding_window, the mask says already."""
    if output_attentions:
        raise ValueError('output_attentions: True, expected False with vkattn, which keeps no weights; attn_implementation="eager" '
                         "does")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    output = attention(
        query, key, value, _mask_with_bias(attention_mask, position_bias), dropout,
        is_causal=bool(is_causal) and attention_mask is None and query.shape[2] > 1, scale=scaling, enable_gqa=True,
        softcap=softcap or 0.0, sinks=None if s_aux is None else s_aux.float(),
        dropout_seed=drawn_seed(torch_of(query)) if dropout > 0 else 0, context=context)
    return output.transpose(1, 2).contiguous(), None


def _mask_with_bias(mask, bias):
    """One mask of what may be two: bool, True = attend, or added."""
    if bias is None:
        return mask
    if mask is None:
        return bias
    return bias + mask if mask.is_floating_point() else bias.masked_fill(~mask, float("-inf"))
