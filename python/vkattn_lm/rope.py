"""Rotary embeddings as models ask for them: bases and scalings of config.json and of GGUF files."""
from __future__ import annotations

import dataclasses
import math

from .errors import ModelError


@dataclasses.dataclass(frozen=True)
class LongRope:
    """What longrope divides the frequencies by: one list for as many tokens as the model was trained with, one for more. Empty:
    the lists are among the weights."""
    original: int
    attention_factor: float
    short: tuple = ()
    long: tuple = ()


@dataclasses.dataclass(frozen=True)
class Rope:
    theta: float
    scaling: dict  # as Layer takes it, or None
    longrope: LongRope | None = None


def gguf(facts, prefix, architecture):
    """(Rope of layers without a window, of layers with one) of a GGUF file's facts."""
    rope = Rope(facts.real(prefix + "rope.freq_base", 10000.0), _gguf_scaling(facts, prefix, architecture),
                _gguf_longrope(facts, prefix, architecture))
    if not architecture.pattern:
        return rope, rope
    return rope, Rope(facts.real(prefix + "rope.freq_base_swa", architecture.local_theta), None)


def _gguf_scaling(facts, prefix, architecture):
    key = prefix + "rope.scaling."
    kind = facts.words(key + "type", "linear")  # as llama.cpp has it: a factor may come without a type
    if kind == "none" or kind == "longrope" and prefix == "phi3.":
        return None
    if kind == "linear":
        factor = facts.real(key + "factor", facts.real(prefix + "rope.scale_linear", 1.0))  # the name in older files
        return {"kind": "linear", "factor": factor} if factor != 1 else None
    if kind == "yarn" and architecture.latent:  # which multiplies the scores alone, see gguf_score_factor
        return {"kind": "yarn", "factor": facts.real(key + "factor"), "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.0,
                "original_max_position": facts.whole(key + "original_context_length", least=2)}
    raise ModelError(f"{facts.where}: {key}type: {kind[:80]!r} is not computed, expected none or linear")


def gguf_score_factor(facts, prefix):
    """What DeepSeek multiplies the scale of scores by, for yarn: of the file's multiplier, a tenth of mscale_all_dim."""
    key = prefix + "rope.scaling."
    if facts.words(key + "type", "none") != "yarn":
        return 1.0
    return _yarn_scale(facts.real(key + "factor"), 10 * facts.real(key + "yarn_log_multiplier")) ** 2


def _gguf_longrope(facts, prefix, architecture):
    """Its lists, if there are any, are weights; without them it changes nothing."""
    key = prefix + "rope.scaling.attn_factor"
    if "longrope" not in architecture.scalings:
        facts.refuse(key, 1)
        return None
    original = facts.whole(prefix + "rope.scaling.original_context_length", facts.whole(prefix + "context_length"))
    return LongRope(original, facts.real(key, 1.0))


def folder(facts, architecture, head_dim):
    """(Rope of layers without a window, of layers with one) of a config.json's facts."""
    parameters = facts.inside("rope_parameters")
    if "full_attention" in parameters or "sliding_attention" in parameters:
        return tuple(_rope(facts, parameters.inside(kind), None, architecture, head_dim)
                     for kind in ("full_attention", "sliding_attention"))
    rope = _rope(facts, _group(facts), facts.real("rope_theta", 10000.0), architecture, head_dim)
    if not architecture.pattern:
        return rope, rope
    return rope, Rope(facts.real("rope_local_base_freq", architecture.local_theta), None)


def rotary_dim(facts, architecture, head_dim):
    """How many elements of a head are rotated, of a config.json's facts; 0: all."""
    if not architecture.rotary_part:
        return 0
    part = _group(facts).real("partial_rotary_factor", facts.real("partial_rotary_factor", architecture.rotary_part))
    rotated = int(head_dim * part)
    if not 2 <= rotated <= head_dim or rotated % 2:
        raise ModelError(f"{facts.where}: partial_rotary_factor: {part:g}, expected an even number of a head's {head_dim} elements")
    return rotated if rotated < head_dim else 0


def gguf_rotary_dim(facts, prefix, architecture, head_dim):
    """The same of a GGUF file's facts."""
    if not architecture.rotary_part:
        return 0
    rotated = facts.whole(prefix + "rope.dimension_count", least=2, most=head_dim)
    if rotated % 2:
        raise ModelError(f"{facts.where}: {prefix}rope.dimension_count: {rotated}, expected an even number")
    return rotated if rotated < head_dim else 0


def _group(facts):
    parameters = facts.inside("rope_parameters")
    return parameters if parameters.values else facts.inside("rope_scaling")


def _rope(model, facts, theta, architecture, head_dim):
    """Of a group of facts. model: the facts around it."""
    theta = facts.real("rope_theta", theta)
    if not architecture.rotary_part:
        facts.refuse("partial_rotary_factor", 1)
    kind = facts.words("rope_type", facts.raw("type", "default"))
    if kind == "default":
        return Rope(theta, None)
    if kind not in architecture.scalings:
        raise ModelError(f"{facts.where}: rope_type: {kind[:80]!r} is not computed, expected default or one of "
                         f"{', '.join(architecture.scalings)}")
    if kind == "linear":
        return Rope(theta, {"kind": kind, "factor": facts.real("factor")})
    if kind == "llama3":
        return Rope(theta, {"kind": kind, "factor": facts.real("factor"), "low_freq_factor": facts.real("low_freq_factor"),
                            "high_freq_factor": facts.real("high_freq_factor"),
                            "original_max_position": facts.whole("original_max_position_embeddings")})
    longest, key = model.whole("max_position_embeddings"), "original_max_position_embeddings"
    original = model.whole(key, facts.whole(key, longest, least=2), least=2)
    factor = facts.real("factor", longest / original)
    if kind == "yarn":
        facts.refuse("truncate", True)
        return Rope(theta, {"kind": kind, "factor": factor, "original_max_position": original,
                            "beta_fast": facts.real("beta_fast", 32.0), "beta_slow": facts.real("beta_slow", 1.0),
                            "attention_factor": facts.real("attention_factor", _yarn_factor(facts, factor))})
    stretch = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return Rope(theta, None, LongRope(original, facts.real("attention_factor", stretch),
                                      *(facts.reals(name, head_dim // 2) for name in ("short_factor", "long_factor"))))


def _yarn_scale(factor, mscale):
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def _yarn_factor(facts, factor):
    """What yarn multiplies the rotated vectors by, where the model does not say it."""
    if not facts.raw("mscale") or not facts.raw("mscale_all_dim"):
        return _yarn_scale(factor, 1.0)
    return _yarn_scale(factor, facts.real("mscale")) / _yarn_scale(factor, facts.real("mscale_all_dim"))


def score_factor(facts):
    """What DeepSeek multiplies the scale of scores by, for yarn."""
    group = _group(facts)
    if group.words("rope_type", group.raw("type", "default")) == "default" or not group.raw("mscale_all_dim"):
        return 1.0
    return _yarn_scale(group.real("factor"), group.real("mscale_all_dim")) ** 2
