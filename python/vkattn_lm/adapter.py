"""Adapters of low rank (LoRA, Hu and others, 2021) in PEFT's format: how they are read, added to a model's weights, and written."""
from __future__ import annotations

import dataclasses
import json
import pathlib
import re

import numpy

from . import architectures
from .errors import ModelError, naming, require
from .facts import Facts
from .files import write_whole

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_NAME = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
# What PEFT's adapters may ask for besides, which is not computed: absent, empty or False, or as it is here
_PLAIN = {"bias": ("none",), **dict.fromkeys((
    "use_dora", "fan_in_fan_out", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern", "trainable_token_indices",
    "target_parameters", "layer_replication", "use_qalora", "alora_invocation_tokens", "megatron_config", "arrow_config", "use_bdlora",
    "kasa_config", "monteclora_config"), ()),
    "init_lora_weights": (True, "gaussian", "eva", "orthogonal")}  # others change the weights that the adapter is added to


def modules_of(architecture):
    """The modules of a layer that may have an adapter, by the names of folders: (what they are a part of, the part's name in GGUF)."""
    parts = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v"}, {"gate_proj": "ffn_gate", "up_proj": "ffn_up"}
    if architecture.fused:
        parts = {"qkv_proj": "attn_qkv"}, {"gate_up_proj": "ffn_up"}
    return {**{own: ("self_attn", part) for own, part in {**parts[0], "o_proj": "attn_output"}.items()},
            **{own: ("mlp", part) for own, part in {**parts[1], "down_proj": "ffn_down"}.items()}}


@dataclasses.dataclass(frozen=True)
class Update:
    """What is added to a matrix: scale * b a, of a [rank, in] and b [out, rank] float32, rows in the order of folders."""
    a: numpy.ndarray
    b: numpy.ndarray
    scale: float


def _heads_in_pairs(config, name):
    """The heads of a matrix whose rows a file has in the order of RoPE on pairs, where folders have halves; 0: in the same order."""
    part = name.split(".")[-2]
    return {"attn_q": config.heads, "attn_k": config.kv_heads}.get(part, 0) if config.interleaved else 0


def rows_of_file(config, name, rows):
    """Rows of a matrix, by GGUF's name, from the order of folders to that of the model's file."""
    heads = _heads_in_pairs(config, name)
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape) if heads else rows


def rows_of_folder(config, name, rows):
    """The way back of rows_of_file."""
    heads = _heads_in_pairs(config, name)
    return rows.reshape(heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape) if heads else rows


def _scale(facts, rank):
    alpha = facts.real("lora_alpha")
    return alpha / rank ** 0.5 if facts.flag("use_rslora", False) else alpha / rank


def read(path, config):
    """The Updates of an adapter's folder by the GGUF names of a model of this Config."""
    path = pathlib.Path(path)
    if not (path / CONFIG).is_file():
        raise ModelError(f"{path}: has no {CONFIG}, expected the folder of an adapter of PEFT")
    with naming(path / CONFIG, "a JSON file with an object"):
        values = json.loads((path / CONFIG).read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError(f"holds a {type(values).__name__}")
    facts = Facts(str(path / CONFIG), values)
    facts.expect("peft_type", "LORA")
    for name, allowed in _PLAIN.items():
        if facts.raw(name):
            facts.refuse(name, *allowed)
    rank = facts.whole("r", most=65536)
    return _updates(path / WEIGHTS, config, rank, _scale(facts, rank))


def _updates(path, config, rank, scale):
    if not path.is_file():
        raise ModelError(f"{path}: no such file, expected the weights beside {CONFIG}")
    named, parts = architectures.names_in_gguf(config), {}
    tiled = config.tiled_values and config.linear.value_heads != config.linear.key_heads
    with naming(path, "a whole safetensors file"), require("safetensors", "safetensors").safe_open(path, "numpy") as file:
        for own in file.keys():
            found = _NAME.fullmatch(own)
            if not found:
                raise ModelError(f"{path}: {own[:80]} is not computed, expected base_model.model.….lora_A.weight and lora_B.weight")
            if file.get_slice(own).get_dtype() == "BF16":
                require("ml_dtypes", "ml_dtypes")
            if tiled and ".linear_attn." in own:
                raise ModelError(f"{path}: {own[:80]} is not computed with a GGUF file, which has the value heads of linear attention in "
                                 "another order, expected the model's folder")
            parts.setdefault(named(f"{found[1]}.weight"), {})[found[2]] = numpy.asarray(file.get_tensor(own), "f4")
    updates = {}
    for name, pair in parts.items():
        shapes = {part: list(array.shape) for part, array in sorted(pair.items())}
        if len(pair) != 2 or any(array.ndim != 2 for array in pair.values()) or not pair["A"].shape[0] == pair["B"].shape[1] == rank:
            raise ModelError(f"{path}: {name}: {shapes}, expected A [{rank}, in] and B [out, {rank}] of rank {rank}")
        updates[name] = Update(pair["A"], pair["B"], scale)
    if not updates:
        raise ModelError(f"{path}: holds no weights, expected those of an adapter")
    return updates


class Adapted:
    """A model of files.open_model with an adapter: to each matrix what the adapter changes is added as it is read, and the sum is held in
    float32 where the file has that, else in float16."""

    def __init__(self, source, path):
        self._source, self._path = source, path
        self._updates = read(path, source.config())
        missing = min(self._updates.keys() - source.names(), default=None)
        if missing is not None:
            raise ModelError(f"{path}: {missing[:80]} is no weight of {source.where}, expected an adapter of this model")

    def __getattr__(self, name):
        return getattr(self._source, name)

    def stored(self, name):
        stored, update = self._source.stored(name), self._updates.get(name)
        if update is None:
            return stored
        if stored.shape != (len(update.b), update.a.shape[1]):
            raise ModelError(f"{self._path}: {name}: of shape [{len(update.b)}, {update.a.shape[1]}], expected {list(stored.shape)}, "
                             f"that of {stored.where}")
        added = rows_of_file(self._source.config(), name, update.b) * numpy.float32(update.scale)

        def rows(first, end):
            return numpy.asarray(stored.rows(first, end), "f4") + added[first:end] @ update.a
        return dataclasses.replace(stored, dtype="float32" if stored.dtype == "float32" else "float16", rows=rows, block_dtype=None,
                                   blocks=None)


def write(path, config, updates, base, targets):
    """Writes an adapter's folder. updates: by GGUF's names, of one rank and scale; base: what PEFT calls the model; targets: the
    modules that have one."""
    safetensors = require("safetensors.numpy", "safetensors")
    tensors, modules = {}, {part: f"{of}.{own}" for own, (of, part) in modules_of(config.architecture).items()}
    for name, update in updates.items():
        _, layer, part, _ = name.split(".")
        own = f"base_model.model.model.layers.{layer}.{modules[part]}"
        tensors[f"{own}.lora_A.weight"] = numpy.ascontiguousarray(update.a)
        tensors[f"{own}.lora_B.weight"] = numpy.ascontiguousarray(update.b)
    rank, scale = len(update.a), update.scale
    described = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base, "r": rank, "lora_alpha": scale * rank,
                 "target_modules": list(targets), "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": False, "use_dora": False,
                 "use_rslora": False, "inference_mode": True, "init_lora_weights": True, "modules_to_save": None, "rank_pattern": {},
                 "alpha_pattern": {}, "layers_to_transform": None, "layers_pattern": None}
    write_whole(path / WEIGHTS, safetensors.save(tensors, {"format": "pt"}))
    write_whole(path / CONFIG, json.dumps(described, indent=2).encode() + b"\n")
