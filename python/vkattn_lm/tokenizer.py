"""Text as tokens and back, by the package tokenizers: a GGUF file's vocabulary and merges, or a folder's tokenizer.json."""
import base64
import codecs
import dataclasses
import functools
import json
import math

from .errors import ModelError, naming, naming_panics, require

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4  # of tokenizer.ggml.token_type
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>", "<|end|>", "</s>")
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
# Phi 3's special tokens take the white space after them, which GGUF does not say; but for these
_PHI3_UNSTRIPPED = ("<unk>", "<s>", "<|endoftext|>")
# How byte-level BPE cuts text before it merges, by tokenizer.ggml.pre: by each expression in turn, as llama.cpp does. Files without
# one are cut by its default.
_CUTS = {"gpt-2": (_GPT2,), "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
         "smollm": (r"\p{N}", _GPT2), "llama-bpe": (_WORDS.replace("DIGITS", "{1,3}"),), "qwen2": (_WORDS.replace("DIGITS", ""),),
         "qwen35": (_WORDS.replace("DIGITS", "").replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(r"\s\p{L}", r"\s\p{L}\p{M}"),)}
_MOST_GROWTH = 64  # of a folder's text
_MOST_OF_MAP = 1 << 20  # bytes of a map of characters, of which Unicode's NFKC has 240,000
_BEGUN = {"llama-bpe"}  # kinds of BPE whose text begins with bos where the file does not say


@dataclasses.dataclass
class Tokenizer:
    """A tokenizers.Tokenizer with what a model expects around text.

    begin     the token that all text begins with, or None
    ends      tokens that end a text
    template  the chat template (jinja), or None; names: what it may say (bos_token, eos_token)
    remark    what a user should know of how text is read, or nothing
    foreign   whether its steps are a file's own, which may panic
    """
    where: str
    inner: object
    begin: object
    ends: frozenset
    template: object
    names: dict
    remark: str = ""
    foreign: bool = False

    def encode(self, text, markers=True):
        """The tokens of a text. markers: the names of control tokens in it are these tokens, else text as any other."""
        with naming_panics(self.where, "a tokenizer that takes the text"):  # in which threads take turns
            self.inner.encode_special_tokens = not markers
            tokens = self.inner.encode(text, add_special_tokens=False).ids
        return tokens if self.begin is None or tokens[:1] == [self.begin] else [self.begin, *tokens]

    def stream(self):
        """A function of the next token that returns the text that is whole with it, perhaps none. What has been returned stays."""
        begun, is_first, pending, utf8 = self._begun_stream(), True, [], codecs.getincrementaldecoder("utf-8")("replace")

        def text_of(token):
            nonlocal begun
            pending.append(token)
            try:
                text = begun(token)
            except ModelError:  # what has been returned is no longer how all of it reads
                begun = self._resumed_stream()
                try:
                    text = "".join(map(begun, pending))
                except ModelError:
                    begun, text = self._resumed_stream(), "\ufffd"
            if text:
                pending.clear()
            return text

        def step(token):
            nonlocal begun, is_first
            if token in self._bytes:  # of which the package decodes all at once: one that is no UTF-8 spoils those around it
                if is_first:
                    begun, is_first = self._resumed_stream(), False
                return utf8.decode(self._bytes[token])
            is_first = False
            return utf8.decode(b"", final=True) + text_of(token)
        return step

    @functools.cached_property
    def _bytes(self):
        """The tokens of single bytes, of which other text is made."""
        if self.inner.decoder is None or b'"ByteFallback"' not in self.inner.decoder.__getstate__():
            return {}
        named = ((f"<0x{value:02X}>", bytes([value])) for value in range(256))
        return {self.inner.token_to_id(name): value for name, value in named if self.inner.token_to_id(name) is not None}

    def _begun_stream(self, *before):
        """A stream as the package has it, after these tokens."""
        stream = require("tokenizers", "tokenizers").decoders.DecodeStream(skip_special_tokens=True)
        named = naming_panics if self.foreign else naming

        def step(token):
            with named(self.where, "a tokenizer that gives text"):
                return stream.step(self.inner, token) or ""
        for token in before:
            step(token)
        return step

    def _resumed_stream(self):
        """A stream in the middle of a text, where there is a token to say so."""
        try:
            return self._begun_stream(*self._anchor)
        except ModelError:
            return self._begun_stream()

    @functools.cached_property
    def _anchor(self):
        """A token of letters that reads as it is named, if there is one: what follows it does not begin a text, of which a space
        may be left out."""
        with naming_panics(self.where, "a tokenizer that gives text"):
            found = sorted(self.inner.get_vocab(with_added_tokens=False).items(), key=lambda each: each[1])
            return next(((token,) for name, token in found
                         if name.isascii() and name.isalpha() and self.inner.decode([token]) == name), ())

    @functools.cached_property
    def size(self):
        """One more than the highest token."""
        return max(self.inner.get_vocab(with_added_tokens=True).values(), default=-1) + 1


def from_gguf(facts):
    """The Tokenizer of a GGUF file's facts."""
    tokenizers = require("tokenizers", "tokenizers")
    key = "tokenizer.ggml."
    tokens = facts.list_of(key + "tokens", str)
    if not tokens:
        raise ModelError(f"{facts.where}: {key}tokens is empty, expected a vocabulary")
    types = facts.list_of(key + "token_type", int, [_NORMAL] * len(tokens))
    if len(types) != len(tokens):
        raise ModelError(f"{facts.where}: {key}token_type has {len(types)} entries, expected {len(tokens)} as tokens has")
    model = facts.words(key + "model")
    makers = {"gpt2": _byte_level, "llama": _sentence_pieces}
    if model not in makers:
        raise ModelError(f"{facts.where}: {key}model: {model[:80]!r}, expected one of {', '.join(makers)}")
    remark = ""
    if model == "gpt2" and not facts.raw(key + "pre"):
        remark = (f"{facts.where}: {key}pre is missing: text is cut by llama.cpp's rule default, which may not be how the model "
                  "was trained")
    with naming_panics(facts.where, "a vocabulary that the package tokenizers takes"):
        inner, begins = makers[model](tokenizers, facts, tokens, types)
        strips = model == "llama" and facts.raw("general.architecture") == "phi3"
        inner.add_tokens([tokenizers.AddedToken(token, special=kind == _CONTROL, normalized=False,
                                                rstrip=strips and kind == _CONTROL and token not in _PHI3_UNSTRIPPED)
                          for token, kind in zip(tokens, types) if kind in (_CONTROL, _USER_DEFINED) and token])
    named = {name: facts.whole(f"{key}{name}_token_id", least=0, most=len(tokens) - 1)
             for name in ("bos", "eos", "eot") if f"{key}{name}_token_id" in facts}
    begin = named.get("bos") if facts.flag(key + "add_bos_token", begins) else None
    ends = {named[name] for name in ("eos", "eot") if name in named}
    ends |= {i for i, token in enumerate(tokens) if types[i] == _CONTROL and token in _ENDS}
    template = facts.words("tokenizer.chat_template", "") or None
    names = {f"{name}_token": tokens[named[name]] if name in named else "" for name in ("bos", "eos")}
    return Tokenizer(facts.where, inner, begin, frozenset(ends), template, names, remark)


def _byte_level(tokenizers, facts, tokens, types):
    pre = facts.words("tokenizer.ggml.pre", "") or "default"
    if pre not in _CUTS:
        raise ModelError(f"{facts.where}: tokenizer.ggml.pre: {pre[:80]!r}, expected one of {', '.join(_CUTS)}")
    merges = [tuple(each.split(" ")) for each in facts.list_of("tokenizer.ggml.merges", str)]
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=_numbered(tokens), merges=merges, ignore_merges=pre == "llama-bpe"))
    cutters = tokenizers.pre_tokenizers
    inner.pre_tokenizer = cutters.Sequence([
        *(cutters.Split(tokenizers.Regex(each), "isolated") for each in _CUTS[pre]),
        cutters.ByteLevel(add_prefix_space=False, use_regex=False)])
    inner.decoder = tokenizers.decoders.ByteLevel()
    return inner, pre in _BEGUN


def _sentence_pieces(tokenizers, facts, tokens, types):
    """SentencePiece's BPE, whose merges are the pairs that make a piece, by the scores of pieces."""
    scores = facts.list_of("tokenizer.ggml.scores", float)
    if len(scores) != len(tokens):
        raise ModelError(f"{facts.where}: tokenizer.ggml.scores has {len(scores)} entries, expected {len(tokens)} as tokens has")
    vocabulary = _numbered(tokens)
    pieces = [(score, token) for token, kind, score in zip(tokens, types, scores) if kind in (_NORMAL, _USER_DEFINED)]
    merges = []
    for score, piece in sorted(pieces, key=lambda each: -each[0]):
        pairs = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocabulary and piece[i:] in vocabulary]
        merges += sorted(pairs, key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
    unknown = next((token for token, kind in zip(tokens, types) if kind == _UNKNOWN), None)
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown, fuse_unk=True,
                                                       byte_fallback=True))
    spaced = facts.flag("tokenizer.ggml.add_space_prefix", True)
    normalizers, decoders = tokenizers.normalizers, tokenizers.decoders
    steps = [normalizers.Prepend("▁")] if spaced else []
    inner.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    inner.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if spaced else steps)
    return inner, True


def _numbered(tokens):
    """Numbers by token; of two that are the same the first."""
    numbers = {}
    for i, token in enumerate(tokens):
        numbers.setdefault(token, i)
    return numbers


def from_folder(folder):
    """The Tokenizer of a Folder."""
    tokenizers = require("tokenizers", "tokenizers")
    path = folder.path / "tokenizer.json"
    if not path.is_file():
        raise ModelError(f"{folder.path}: has no tokenizer.json, expected it beside config.json")
    with naming_panics(path, "a file of the package tokenizers"):
        text = path.read_text(encoding="utf-8")
        inner = tokenizers.Tokenizer.from_str(text)
        inner.no_padding()
        inner.no_truncation()
        _check_growth(path, json.loads(text))
        first = inner.encode("", add_special_tokens=True).ids[:1]
    facts = folder.read_json("tokenizer_config.json")
    names = {name: _token_text(facts.raw(name, "")) for name in ("bos_token", "eos_token")}
    begin = first[0] if first and first[0] == inner.token_to_id(names["bos_token"] or "") else None
    ends = {inner.token_to_id(token) for token in (*_ENDS, names["eos_token"]) if token} - {None}
    for facts_of_ends in (folder.facts, folder.read_json("generation_config.json")):
        given = facts_of_ends.raw("eos_token_id", [])
        ends |= {each for each in (given if isinstance(given, list) else [given]) if isinstance(each, int)}
    return Tokenizer(str(path), inner, begin, frozenset(ends), _folder_template(folder, facts), names, foreign=True)


def _check_growth(path, parts):
    """Steps that replace a text by a longer one multiply: of what reads and writes text, all together may do so a little."""
    def growth(part):
        if isinstance(part, list):
            return math.prod(map(growth, part))
        if not isinstance(part, dict):
            return 1
        if part.get("type") == "Replace":
            pattern = part["pattern"].get("String") or " "
            return max(-(-len(part["content"]) // len(pattern)), 1)
        if part.get("type") == "Precompiled":
            return growth_of_map(base64.b64decode(part["precompiled_charsmap"] or ""))
        return math.prod(map(growth, part.values()))

    def growth_of_map(data):
        """Of the longest text in SentencePiece's map of characters: a number of bytes, a trie of so many, texts that end with 0."""
        if len(data) > _MOST_OF_MAP:
            raise ModelError(f"{path}: normalizer: precompiled_charsmap: {len(data)} bytes, expected at most {_MOST_OF_MAP}")
        texts = data[4 + int.from_bytes(data[:4], "little"):]
        return max(*map(len, texts.split(b"\0")), 1)

    for name in ("normalizer", "decoder"):
        if growth(parts.get(name)) > _MOST_GROWTH:
            raise ModelError(f"{path}: {name}: may make text more than {_MOST_GROWTH} times longer, expected less")


def _token_text(token):
    text = token.get("content", "") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""


def _folder_template(folder, facts):
    path = folder.path / "chat_template.jinja"
    if path.is_file():
        with naming(path, "a chat template in UTF-8"):
            return path.read_text(encoding="utf-8")
    template = facts.raw("chat_template")
    if isinstance(template, list):  # several, by name
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
