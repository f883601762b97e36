"""Texts as vectors: encoders like BERT, in folders as sentence-transformers keeps them."""
import json

import numpy
import vkattn

from .errors import ModelError, naming, naming_panics
from .files import Folder
from .weights import load_weight

_LINEARS = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
            "intermediate.dense", "output.dense")  # of a layer of BERT, whose names Layer knows
_NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
_TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
_MODULES = ("Transformer", "Pooling", "Normalize")


class Encoder:
    """BERT's encoder with a pooling, its weights on the device."""

    def __init__(self, folder, context, progress):
        if not isinstance(folder, Folder):
            raise ModelError(f"{folder.where}: a GGUF file, expected the folder of an encoder like BERT, with config.json")
        self.context, facts = context, folder.facts
        given = facts.list_of("architectures", str)
        if given != ["BertModel"]:
            raise ModelError(f"{folder.where}: architectures: {str(given)[:80]}, expected ['BertModel']")
        facts.refuse("position_embedding_type", "absolute")
        facts.refuse("hidden_act", "gelu")
        self._pooling(folder)
        self._load(folder, facts, progress)
        self._tokenizer(folder, facts)

    def _pooling(self, folder):
        kinds = [str(each.get("type")).rpartition(".")[2] for each in _modules(folder)]
        if kinds not in ([*_MODULES[:2]], [*_MODULES]):
            raise ModelError(f"{folder.where}: modules.json: {', '.join(kinds)[:80]}, expected {', '.join(_MODULES)}, "
                             "the last or not")
        self.normalized = kinds[-1] == "Normalize"
        pooling = folder.read_json("1_Pooling/config.json")
        asked = [name for name, value in pooling.values.items() if name.startswith("pooling_mode_") and value is True]
        names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
        if len(asked) > 1 or not set(asked) <= names.keys():
            raise ModelError(f"{pooling.where}: {' and '.join(asked)[:120]}, expected one of {', '.join(names)}")
        self.pooling = names[asked[0]] if asked else "mean"

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
        longest = folder.read_json("sentence_bert_config.json").whole("max_seq_length", facts.whole("max_position_embeddings"))
        self.longest = min(longest, self._tables[1].shape[0])
        self._tokenizer.enable_truncation(self.longest)
        self._tokenizer.enable_padding()

    def embed(self, texts):
        """The vectors of some texts [texts, width] float32."""
        with naming_panics(self._where, "a tokenizer that takes the texts"):
            encoded = self._tokenizer.encode_batch(texts)
        tokens = numpy.array([each.ids for each in encoded], "i4")
        kinds = numpy.array([each.type_ids for each in encoded], "i4")
        shown = numpy.array([each.attention_mask for each in encoded], bool)
        places = numpy.broadcast_to(numpy.arange(tokens.shape[1], dtype="i4"), tokens.shape)
        if tokens.max() >= self._tables[0].shape[0] or kinds.max() >= self._tables[2].shape[0]:
            raise ModelError(f"token {tokens.max()} of kind {kinds.max()}, expected what the embeddings have")
        parts = [vkattn.embedding(self.context.array(numpy.ascontiguousarray(numbers)), table).astype("float32")
                 for numbers, table in zip((tokens, places, kinds), self._tables)]
        hidden = vkattn.norm(parts[0] + parts[1] + parts[2], *self._norm, kind="layer", epsilon=self._epsilon)
        for layer in self._layers:
            hidden = layer(hidden, key_padding_mask=self.context.array(~shown))
        return self._pooled(hidden.numpy(), shown)

    def _pooled(self, hidden, shown):
        if self.pooling == "cls":
            vectors = hidden[:, 0]
        else:
            vectors = (hidden * shown[:, :, None]).sum(axis=1) / numpy.maximum(shown.sum(axis=1), 1)[:, None]
        return vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-12) if self.normalized else vectors


def _modules(folder):
    """What modules.json lists; a plain folder of BERT is taken for one with the mean of its tokens."""
    path = folder.path / "modules.json"
    if not path.is_file():
        return [{"type": "Transformer"}, {"type": "Pooling"}]
    with naming(path, "a list of modules"):
        modules = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(modules, list) or not all(isinstance(each, dict) for each in modules):
            raise TypeError("no list of objects")
    return modules
