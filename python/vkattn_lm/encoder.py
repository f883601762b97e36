"""Texts as vectors: encoders like BERT, in folders as sentence-transformers keeps them."""
import json
import re

import numpy
import vkattn

from .errors import ModelError, naming, naming_panics, require
from .files import Folder
from .weights import load_weight

_LINEARS = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
            "intermediate.dense", "output.dense")  # of a layer of BERT, whose names Layer knows
_NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
_TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
_MODULES = ("Transformer", "Pooling", "Normalize")
_FLAGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}  # of older files, and what newer ones say
_INSIDE = re.compile(r"[\w-][\w.-]*")


class Encoder:
    """BERT's encoder with a pooling, its weights on the device.

    prompt_name  which of the model's prompts begins each text; None: the model's default, if it has one
    longest      tokens of a text; of a longer one the rest is left out
    """

    def __init__(self, folder, context, progress, prompt_name=None):
        if not isinstance(folder, Folder):
            raise ModelError(f"{folder.where}: a GGUF file, expected the folder of an encoder like BERT, with config.json")
        self.context, facts = context, folder.facts
        given = facts.list_of("architectures", str)
        if given != ["BertModel"]:
            raise ModelError(f"{folder.where}: architectures: {str(given)[:80]}, expected ['BertModel']")
        facts.refuse("position_embedding_type", "absolute")
        facts.refuse("hidden_act", "gelu")
        self._prompt = _prompt(folder.read_json("config_sentence_transformers.json"), prompt_name)
        self._pooling(folder)
        self._load(folder, facts, progress)
        self._tokenizer(folder, facts)

    def _pooling(self, folder):
        modules = _modules(folder)
        kinds = [str(each.get("type")).rpartition(".")[2] for each in modules]
        if kinds not in ([*_MODULES[:2]], [*_MODULES]):
            raise ModelError(f"{folder.where}: modules.json: {', '.join(kinds)[:80]}, expected {', '.join(_MODULES)}, "
                             "the last or not")
        self.normalized = kinds[-1] == "Normalize"
        paths = [each.get("path", default) for each, default in zip(modules, ("", "1_Pooling"))]
        if paths[0] != "" or not isinstance(paths[1], str) or not _INSIDE.fullmatch(paths[1]):
            raise ModelError(f"{folder.where}: modules.json: paths {str(paths)[:80]}, expected '' and a folder in this one")
        pooling = folder.read_json(f"{paths[1]}/config.json", required=paths[1] != "1_Pooling")
        self.pooling = _pooling_mode(pooling)
        if self._prompt:
            pooling.refuse("include_prompt", True)

    def _load(self, folder, facts, progress):
        prefix = "bert." if any(name.startswith("bert.") for name in folder.own_names()) else ""
        width, heads = facts.whole("hidden_size"), facts.whole("num_attention_heads", most=65536)
        hidden, layers = facts.whole("intermediate_size"), facts.whole("num_hidden_layers", most=4096)
        epsilon, names = facts.real("layer_norm_eps"), folder.own_names()

        def take(name, *shape):
            if prefix + name not in names:
                raise ModelError(f"{folder.where}: {prefix}{name} is missing, expected a weight")
            stored = folder.stored_as(prefix + name)
            if len(stored.shape) != len(shape) or any(want not in (None, size) for want, size in zip(shape, stored.shape)):
                raise ModelError(f"{stored.where}: shape {list(stored.shape)}, expected {list(shape)}")
            progress.update(1)
            return load_weight(self.context, stored)

        self._tables = [take(f"embeddings.{name}.weight", None, width) for name in _TABLES]
        self._norm = [take(f"embeddings.LayerNorm.{part}", width) for part in ("weight", "bias")]
        self._epsilon, self._layers = epsilon, []
        for i in range(layers):
            weights = {}
            for name in (*_LINEARS, *_NORMS):
                outs = hidden if name == "intermediate.dense" else width
                ins = (hidden if name == "output.dense" else width,) if name in _LINEARS else ()
                weights[f"{name}.weight"] = take(f"encoder.layer.{i}.{name}.weight", outs, *ins)
                weights[f"{name}.bias"] = take(f"encoder.layer.{i}.{name}.bias", outs)
            self._layers.append(vkattn.Layer("encoder_layer", weights, context=self.context, embed_dim=width, num_heads=heads,
                                             ffn_dim=hidden, activation="gelu", norm_first=0, norm_epsilon=epsilon))

    def _tokenizer(self, folder, facts):
        made = folder.tokenizer()
        self._tokenizer, self._where = made.inner, made.where
        own = folder.read_json("sentence_bert_config.json")
        places = min(facts.whole("max_position_embeddings"), self._tables[1].shape[0])
        longest = folder.read_json("tokenizer_config.json").raw("model_max_length", places)  # which newer folders have in its place
        longest = own.whole("max_seq_length", longest if isinstance(longest, int) and 0 < longest < places else places)
        self.longest = min(longest, places)
        if own.flag("do_lower_case", False):
            normalizers = require("tokenizers", "tokenizers").normalizers
            before = [self._tokenizer.normalizer] if self._tokenizer.normalizer else []
            self._tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
        self._tokenizer.enable_truncation(self.longest)
        self._tokenizer.enable_padding()

    def embed(self, texts, cut=lambda index: None):
        """The vectors of some texts [texts, width] float32. cut: called with the index of each text that is too long."""
        with naming_panics(self._where, "a tokenizer that takes the texts"):
            encoded = self._tokenizer.encode_batch([self._prompt + text for text in texts])
        tokens, kinds, shown = (numpy.array([getattr(each, name) for each in encoded], "i8")
                                for name in ("ids", "type_ids", "attention_mask"))
        if not shown.any(axis=1).all():
            raise ModelError(f"text {texts[int(shown.any(axis=1).argmin())][:80]!r}: no tokens, expected at least 1")
        if tokens.max() >= self._tables[0].shape[0] or kinds.max() >= self._tables[2].shape[0]:
            raise ModelError(f"{self._where}: token {tokens.max()} of kind {kinds.max()}, expected what the embeddings have: "
                             f"{self._tables[0].shape[0]} tokens of {self._tables[2].shape[0]} kinds")
        with naming(self._where, "an encoder that the device can compute"):
            vectors = self._pooled(self._hidden(tokens, kinds, shown != 0), shown != 0)
        for index, each in enumerate(encoded):
            if each.overflowing:
                cut(index)
        return vectors

    def _hidden(self, tokens, kinds, shown):
        """What the layers make of tokens [texts, L]: [texts, L, width] float32."""
        places = numpy.broadcast_to(numpy.arange(tokens.shape[1]), tokens.shape)
        parts = [vkattn.embedding(self.context.array(numpy.ascontiguousarray(numbers, "i4")), table).astype("float32")
                 for numbers, table in zip((tokens, places, kinds), self._tables)]
        hidden = vkattn.norm(parts[0] + parts[1] + parts[2], *self._norm, kind="layer", epsilon=self._epsilon)
        for layer in self._layers:
            hidden = layer(hidden, key_padding_mask=self.context.array(~shown))
        return hidden.numpy()

    def _pooled(self, hidden, shown):
        if self.pooling == "cls":
            vectors = hidden[:, 0]
        else:
            vectors = (hidden * shown[:, :, None]).sum(axis=1) / numpy.maximum(shown.sum(axis=1), 1)[:, None]
        return vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-12) if self.normalized else vectors


def _pooling_mode(facts):
    """As sentence-transformers says it: by name, or in older files by flags."""
    flagged = [name for name, value in facts.values.items() if name.startswith("pooling_mode_") and value is True]
    asked = facts.raw("pooling_mode", [_FLAGS.get(name, name) for name in flagged] or "mean")
    asked = asked[0] if isinstance(asked, list) and len(asked) == 1 else asked
    if asked not in _FLAGS.values():
        raise ModelError(f"{facts.where}: pooling_mode: {str(asked)[:80]!r}, expected one of {', '.join(_FLAGS.values())}")
    return asked


def _prompt(facts, name):
    """What begins each text. name: of the prompts that a model has, None: its default, if there is one."""
    prompts, default = facts.inside("prompts"), facts.words("default_prompt_name", "")
    if name is not None and name not in prompts:
        raise ModelError(f"--prompt-name {name}: expected one of {', '.join(prompts.values) or 'none'}, which the model has")
    name = default if name is None else name
    return prompts.words(name) if name else ""


def _modules(folder):
    """What modules.json lists; a plain folder of BERT is taken for one with the mean of its tokens."""
    path = folder.path / "modules.json"
    if not path.is_file():
        return [{"type": "Transformer"}, {"type": "Pooling"}]
    with naming(path, "a list of modules"):
        modules = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(modules, list) or not all(isinstance(each, dict) for each in modules):
            raise ValueError("no list of objects")
    return modules
