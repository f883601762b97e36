"""A decoder on the device, described by its Config. A token is one submission, of a program that is recorded once; what leaves
the device is the next token, or logits."""
import contextlib
import dataclasses

import numpy
import vkattn

from . import recurrent
from .errors import ModelError, naming
from .weights import Weights

_TOKENS_NORMALISED_BY_PRODUCTS = 4
_PROMPT_AT_ONCE = 512        # tokens of a prompt that are computed in one go, fewer where a token takes more than
_NUMBERS_AT_ONCE = 1 << 26   # numbers of all these together, of the widest part of a layer
LOGITS_AT_ONCE = 16 << 20   # logits that are on the device at a time


class _Block:
    """The weights of one layer. Caches are made of `attention` by Decoder."""

    def __init__(self, weights, config, i, scaling):
        """scaling: of RoPE, as Layer takes it, or None."""
        name, width, hidden = f"blk.{i}.", config.width, config.hidden
        rope = {"rope_theta": config.ropes[i].theta, **({"rope_scaling": scaling} if scaling else {})}
        self.recurrent = bool(config.recurrent) and config.recurrent[i]
        if self.recurrent:
            self.attention = getattr(recurrent, config.architecture.recurrent)(weights, config, name)
        else:
            self.attention = (_latent if config.latent else _multi_head)(weights, config, name, rope)
        self.window = (config.windows[i] - 1, 0) if config.windows[i] else None
        self.attention_norm = weights.norm(f"{name}attn_norm.weight", width)
        self.forward_norm = weights.norm(f"{name}{config.architecture.forward_norm}.weight", width)
        self.after = [weights.norm(f"{name}{part}.weight", width) for part in ("post_attention_norm", "post_ffw_norm")] \
            if config.architecture.post_norms else [None, None]
        if config.architecture.fused:
            self.gate, self.up = (weights.take(f"{name}ffn_up.weight", 2 * hidden, width).reshape(2, hidden, width), None), None
        else:
            self.gate, self.up = _gated(weights, name, hidden, width)
        self.down = _linear(weights, f"{name}ffn_down", width, hidden)


def _linear(weights, name, outs, ins):
    """(a matrix, its bias or None)"""
    return weights.take(f"{name}.weight", outs, ins), weights.maybe(f"{name}.bias", outs)


def _gated(weights, name, hidden, width):
    """The gate and what it gates, as _linear has each; or one matrix [2, hidden, width] of both, with its bias, and None."""
    parts = [f"{name}ffn_{part}" for part in ("gate", "up")]
    both = weights.take_pair(*(f"{part}.weight" for part in parts), hidden, width)
    biased = [weights.has(f"{part}.bias") for part in parts]
    if not any(biased) and not isinstance(both, list):
        return (both, None), None
    if all(biased):
        biases = weights.take_pair(*(f"{part}.bias" for part in parts), hidden)
        if not isinstance(both, list) and not isinstance(biases, list):
            return (both, biases), None
        return tuple(zip(both, biases))
    return tuple(zip(both, (weights.maybe(f"{part}.bias", hidden) for part in parts)))


def _multi_head(weights, config, name, rope):
    """The attention of a block, its weights' names after `name`."""
    width, head_dim, architecture = config.width, config.head_dim, config.architecture
    rows, kv_rows = config.heads * head_dim, config.kv_heads * head_dim
    parts = {}
    if architecture.gated:  # whose rows lie behind those of each head of q
        size, of_keys = 2 * head_dim, [(f"{name}attn_{part}.weight", kv_rows, None) for part in "kv"]
        query, gate = ((f"{name}attn_q.weight", 2 * rows, [(first + part, first + part + head_dim) for first in range(0, 2 * rows, size)])
                       for part in (0, head_dim))
        arrays, _ = weights.take_rows(query, *of_keys, gate, ins=(width,))
        parts.update({f"{part}_proj.weight": array for part, array in zip(("q", "k", "v", "gate"), arrays)})
    elif architecture.fused:
        fused = weights.take(f"{name}attn_qkv.weight", rows + 2 * kv_rows, width)
        bounds = (0, rows, rows + kv_rows, rows + 2 * kv_rows)
        parts.update({f"{part}_proj.weight": fused[first:end] for part, first, end in zip("qkv", bounds, bounds[1:])})
    else:
        outs = dict(zip("qkv", (rows, kv_rows, kv_rows)))

        def together(kind, *ins):
            arrays = weights.take_together(*((f"{name}attn_{part}.{kind}", count) for part, count in outs.items()), ins=ins)
            parts.update({f"{part}_proj.{kind}": array for part, array in zip("qkv", arrays)})

        together("weight", width)
        if architecture.qkv_bias or all(weights.has(f"{name}attn_{part}.bias") for part in "qkv"):
            together("bias")
        else:
            parts.update({f"{part}_proj.bias": weights.maybe(f"{name}attn_{part}.bias", count) for part, count in outs.items()})
    parts["out_proj.weight"], parts["out_proj.bias"] = _linear(weights, f"{name}attn_output", width, rows)
    if architecture.qk_norm:
        parts["q_norm.weight"] = weights.norm(f"{name}attn_q_norm.weight", head_dim)
        parts["k_norm.weight"] = weights.norm(f"{name}attn_k_norm.weight", head_dim)
    return vkattn.Layer(
        "mha", _given(parts), context=weights.context, embed_dim=width, num_heads=config.heads, num_kv_heads=config.kv_heads,
        head_dim=head_dim, rope_interleaved=int(config.interleaved), scale=config.scale, norm_epsilon=config.epsilon,
        rotary_dim=config.rotary_dim, **rope)


def _latent(weights, config, name, rope):
    """DeepSeek's, absorbed: what is cached are the latents. The epsilon of its norms is the layer's own."""
    width, heads, sizes = config.width, config.heads, config.latent
    query_rows = heads * (sizes.qk_nope_head_dim + sizes.qk_rope_head_dim)
    linears = {"wo": ("attn_output", width, heads * sizes.v_head_dim)}
    norms = {"kv_norm": ("attn_kv_a_norm", sizes.kv_lora_rank)}
    of_tokens = {"wq": ("attn_q", query_rows)}
    if sizes.q_lora_rank:
        of_tokens = {"wq_a": ("attn_q_a", sizes.q_lora_rank)}
        linears["wq_b"] = ("attn_q_b", query_rows, sizes.q_lora_rank)
        norms["q_norm"] = ("attn_q_a_norm", sizes.q_lora_rank)
    of_tokens["wkv_a"] = ("attn_kv_a_mqa", sizes.kv_lora_rank + sizes.qk_rope_head_dim)
    parts = {f"{own}.weight": weights.norm(f"{name}{part}.weight", size) for own, (part, size) in norms.items()}
    together = weights.take_together(*((f"{name}{part}.weight", outs) for part, outs in of_tokens.values()), ins=(width,))
    parts.update({f"{own}.weight": array for own, array in zip(of_tokens, together)})
    parts.update({f"{own}.bias": weights.maybe(f"{name}{part}.bias", outs) for own, (part, outs) in of_tokens.items()})
    of_head = sizes.qk_nope_head_dim, sizes.v_head_dim
    if weights.has(f"{name}attn_k_b.weight"):
        names = (f"{name}attn_{part}_b.weight" for part in "kv")
        parts["wkv_b.weight"] = weights.take_heads(*names, heads, *of_head, sizes.kv_lora_rank)
    else:  # which the layer reads by columns, too: not in blocks
        parts["wkv_b.weight"] = weights.take(f"{name}attn_kv_b.weight", heads * sum(of_head), sizes.kv_lora_rank, in_blocks=False)
        parts["wkv_b.bias"] = weights.maybe(f"{name}attn_kv_b.bias", heads * sum(of_head))
    for own, (part, outs, ins) in linears.items():
        parts[f"{own}.weight"], parts[f"{own}.bias"] = _linear(weights, name + part, outs, ins)
    return vkattn.Layer("mla", _given(parts), context=weights.context, embed_dim=width, num_heads=heads, mla_form="absorb",
                        rope_interleaved=1, scale=config.scale, **dataclasses.asdict(sizes), **rope)


def _given(parts):
    return {name: array for name, array in parts.items() if array is not None}


def rope_scalings(weights, config, capacity):
    """The scaling of RoPE of each layer, as Layer takes it, or None. What a GGUF file divides the frequencies by, where it does,
    is Llama 3's scaling as numbers: longrope's has such factors, and multiplies nothing else where its own factor is 1. Of
    longrope's own lists the long one is taken where there is room for more tokens than the model was trained with."""
    def listed(name):
        array = weights.maybe(name, config.head_dim // 2)
        return () if array is None else array.numpy().tolist()

    def longrope(rope, factors, **more):
        """These factors, times that of a linear scaling."""
        linear = rope.scaling or {"kind": "linear", "factor": 1.0}
        if linear["kind"] != "linear":
            raise ModelError(f"{weights.source.where}: rope.scaling.type: {linear['kind']!r} beside factors among the weights is "
                             "not computed, expected one of the two")
        return {"kind": "longrope", "factor": 1.0, "original_max_position": max(config.context, 2),
                "factors": [linear["factor"] * each for each in factors], **more}

    frequencies = listed("rope_freqs.weight")
    if frequencies:
        return [longrope(rope, frequencies) for rope in config.ropes]
    names, in_weights = ("rope_factors_short.weight", "rope_factors_long.weight"), ((), ())
    if any(rope.longrope is not None and not rope.longrope.short for rope in config.ropes):
        in_weights = tuple(map(listed, names))
        if not all(in_weights) and (any(in_weights) or config.ropes[0].longrope.attention_factor != 1):
            raise ModelError(f"{weights.source.where}: rope.scaling.attn_factor, or one of {' and '.join(names)}, without the "
                             "rest, expected all or none")
    scalings = []
    for rope in config.ropes:
        factors = ()
        if rope.longrope is not None:
            lists = (rope.longrope.short, rope.longrope.long) if rope.longrope.short else in_weights
            factors = lists[capacity > rope.longrope.original]
        scalings.append(longrope(rope, factors, attention_factor=rope.longrope.attention_factor) if factors else rope.scaling)
    return scalings


def reachable_parts(matrix):
    """A matrix as (first row, rows) that kernels can reach at once: vocabularies are larger than some devices' buffers."""
    most = matrix.context.facts["max_storage_buffer_range"] - 256  # what an offset's alignment may take
    step = most // (matrix.nbytes // len(matrix)) // 8 * 8  # at multiples of 16 bytes
    return [(first, matrix[first:first + step]) for first in range(0, len(matrix), step)]


class _Step:
    """A Decoder's computation for one token, recorded once."""

    def __init__(self, decoder):
        self._decoder, context = decoder, decoder.context
        self._tokens = [context.empty((1, 1), "int32") for _ in decoder.embedding_parts]
        with vkattn.record(context) as self._program:
            self.logits = decoder.logits_of(decoder.forward(self._tokens))
            self._greatest = vkattn.argmax(self.logits, return_values=True)

    def run(self, token):
        """Appends a token."""
        for array, (first, _) in zip(self._tokens, self._decoder.embedding_parts):
            array.assign(numpy.array([[token - first]], "i4"))
        self._program.replay()

    def most_likely(self):
        """(the token whose logit is greatest, that logit)"""
        token, logit = self._greatest
        return int(token.numpy()[0, 0]), float(logit.numpy()[0, 0])


class Decoder:
    """A model's weights on the device, and a cache for one sequence (caches: of each layer).

    source    what files.open_model gives; config: its Config
    context   of vkattn
    capacity  tokens that the cache has room for
    kv_type   of keys and values in the cache, one of vkattn.cache_types(); value_type: of values, None: kv_type
    kv_rotation  of both, as Layer.cache takes it
    kv_scales  "row": those of floats of 8 bits have a scale for each token and head; None: none
    progress  has update(1), called for every weight
    """

    def __init__(self, source, config, context, *, capacity, kv_type, progress, value_type=None, kv_rotation=None,
                 kv_scales=None):
        self.config, self.context, self.capacity, self.where = config, context, capacity, source.where
        weights = Weights(context, source, config, progress)
        embedding = weights.take("token_embd.weight", None, config.width)
        self.vocabulary = embedding.shape[0]
        self._blocks = [_Block(weights, config, i, scaling) for i, scaling in enumerate(rope_scalings(weights, config, capacity))]
        self._norm = weights.norm("output_norm.weight", config.width)
        head = weights.maybe("output.weight", self.vocabulary, config.width)
        self.embedding_parts = reachable_parts(embedding)
        self._head = self.embedding_parts if head is None else reachable_parts(head)
        weights.check_none_left()
        self.weight_bytes = weights.nbytes
        self._prompt_at_once = max(min(_PROMPT_AT_ONCE, _NUMBERS_AT_ONCE // config.widest), 1)
        self._between = "float16" if context.facts["half_workspaces"] else "float32"
        self._numbers = {}
        self._tokens, self._saved, self._whole = [], 0, True  # of layers that keep a state, see rewind
        self.empty_caches(kv_type, value_type, kv_rotation, kv_scales)

    def empty_caches(self, kv_type, value_type=None, kv_rotation=None, kv_scales=None):
        """Makes caches of these types, without a token, in place of those that there are."""
        scaled = [kv_scales if name.startswith("f8") else None for name in (kv_type, value_type or kv_type)]
        if kv_scales and not any(scaled):
            raise ModelError(f"kv_scales: {kv_scales!r} beside {kv_type}, expected a type f8_e4m3 or f8_e5m2")
        self._step = None  # of the caches that it was recorded with; made for the first token that comes alone
        types = kv_type if value_type in (None, kv_type) else f"{kv_type} and {value_type}"
        with naming(f"{self.where}: keys and values in {types}", "types that its heads can have"):
            self.caches = [block.attention.cache() if block.recurrent else block.attention.cache(
                self.capacity, key_type=kv_type, value_type=value_type, kv_rotation=kv_rotation, key_scales=scaled[0],
                value_scales=None if self.config.latent else scaled[1]) for block in self._blocks]
        self._states = [cache for cache, block in zip(self.caches, self._blocks) if block.recurrent]
        self._rows = [cache for cache, block in zip(self.caches, self._blocks) if not block.recurrent]
        self._tokens, self._saved, self._whole = [], 0, True

    @property
    def cache_bytes(self):
        return sum(cache.nbytes for cache in self.caches)

    @property
    def length(self):
        """Tokens that the cache holds."""
        return self._rows[0].lengths[0]

    def rewind(self, length):
        """Forgets all tokens but the first `length`. A state cannot go back: layers that keep one go on from a copy, made before the last
        tokens that came together, or from the beginning, and the tokens after it are computed once more."""
        begin = length
        if self._states and not (self._whole and length == len(self._tokens)):
            if not 0 <= length <= len(self._tokens):
                raise ModelError(f"rewind: {length} tokens, expected at most {len(self._tokens)}, which are held")
            begin, self._whole = self._saved if self._saved <= length else 0, False
            for states in self._states:
                states.restore() if begin else states.clear()
        for cache in self._rows:
            cache.rewind(0, begin)
        if self._states:
            kept, self._saved = self._tokens[:length], min(self._saved, begin)
            self._compute_again(kept, begin)

    def _compute_again(self, kept, begin):
        """Appends the kept tokens from `begin` on, which are not held. Interrupted, all are kept, for the next rewind."""
        try:
            self._tokens, self._whole = kept[:begin], True
            for _ in self._hidden(kept[len(self._tokens):], None) if len(kept) > len(self._tokens) else ():
                pass
        except BaseException:
            self._tokens, self._whole = kept, False
            raise

    @contextlib.contextmanager
    def _appending(self, tokens):
        """Around what appends tokens: where it is interrupted, states hold some of them."""
        self._whole = False
        yield
        self._tokens.extend(tokens)
        self._whole = True

    def logits(self, tokens, progress=None):
        """Appends tokens, and returns the logits after the last [vocabulary] float32."""
        return self._append(tokens, progress).numpy()[0, 0]

    def next_token(self, tokens, sampler, progress=None):
        """Appends tokens, and returns the one that a Sampler chooses after the last: the most likely one on the device."""
        logits = self._append(tokens, progress)
        if len(tokens) == 1 and sampler.is_greedy:
            token, logit = self._step.most_likely()
            return sampler.checked(token, logit)
        return sampler(logits.numpy()[0, 0])

    def _append(self, tokens, progress):
        """The logits after the last token, an Array [1,1,vocabulary]."""
        if len(tokens) == 1:
            self._check(tokens)
            self._step = self._step or _Step(self)
            with self._appending(tokens):
                self._step.run(tokens[0])
            if progress is not None:
                progress.update(1)
            return self._step.logits
        hidden = None
        for hidden, _ in self._hidden(tokens, progress):
            pass
        return self.logits_of(hidden[:, hidden.shape[1] - 1:])

    def every_logits(self, tokens, start, progress=None):
        """Appends tokens, and yields (the place of the first, logits [n, vocabulary]) of those from `start` on, some at a time."""
        rows = max(LOGITS_AT_ONCE // self.vocabulary, 1)
        for hidden, at in self._hidden(tokens, progress):
            for first in range(max(start - at, 0), hidden.shape[1], rows):
                yield at + first, self.logits_of(hidden[:, first:first + rows]).numpy()[0]

    def _check(self, tokens):
        if not tokens or self.length + len(tokens) > self.capacity:
            raise ModelError(f"{len(tokens)} tokens after {self.length}, expected at least 1, and at most {self.capacity} in all: "
                             "see --context")
        if not 0 <= min(tokens) <= max(tokens) < self.vocabulary:
            raise ModelError(f"{self.where}: token {max(tokens)}, expected one of {self.vocabulary} that token_embd.weight has")

    def _hidden(self, tokens, progress):
        self._check(tokens)
        if self._states and self._tokens:
            self._saved = 0  # until all are copied
            for states in self._states:
                states.save()
            self._saved = len(self._tokens)
        for first in range(0, len(tokens), self._prompt_at_once):
            part = tokens[first:first + self._prompt_at_once]
            numbers = numpy.array([part], "i4")
            parts = [self.context.array(numbers - numpy.int32(at)) for at, _ in self.embedding_parts]
            with self._appending(part):
                hidden = self.forward(parts, progress)
            yield hidden, first

    def forward(self, tokens, progress=None):
        """What the blocks make of some tokens, [1,L,width] float32. tokens: for each of embedding_parts, counted from its
        first row. progress: told after each block of its share of the tokens."""
        hidden = self._embedded(tokens)
        if self.config.embedding_scale != 1.0:
            hidden = self._pointwise(hidden, self.config.embedding_scale)
        return self.layers(hidden, progress)

    def layers(self, hidden, progress=None):
        """What the blocks make of hidden states [1,L,width] float32, whose keys and values they append."""
        for block, cache in zip(self._blocks, self.caches):
            hidden = self._attended(block, cache, hidden)
            hidden = self._fed_forward(block, hidden)
            if progress is not None:
                progress.update(hidden.shape[1] / self.config.layers)
        return hidden

    def _embedded(self, tokens):
        """Their rows of the embedding: a part that does not have a token gives zeros."""
        total = None
        for own, (_, part) in zip(tokens, self.embedding_parts):
            rows = vkattn.embedding(own, part).astype("float32")
            total = rows if total is None else total + rows
        return total

    def _attended(self, block, cache, hidden):
        if block.recurrent:
            tokens, norm = self._tokens_and_norm(hidden, block.attention_norm)
            return block.attention(hidden, cache=cache, tokens=tokens, norm=norm, residual=hidden, between=self._between)
        after = block.after[0]
        attended = block.attention(hidden, cache=cache, is_causal=True, window=block.window, norm=block.attention_norm,
                                   norm_epsilon=self.config.epsilon,
                                   residual=hidden if after is None else None, intermediate_dtype=self._between)
        return attended if after is None else self._normed(attended, after, hidden)

    def _fed_forward(self, block, hidden):
        tokens, norm = self._tokens_and_norm(hidden, block.forward_norm)
        after = block.after[1]
        up = None if block.up is None else vkattn.linear(tokens, *block.up, **norm)
        gated = vkattn.linear(tokens, *block.gate, activation=self.config.architecture.activation, multiplier=up, out=up, **norm)
        down = vkattn.linear(gated, *block.down, residual=hidden if after is None else None, dtype=hidden.dtype)
        return down if after is None else self._normed(down, after, hidden)

    def _normed(self, hidden, weight, residual=None, **more):
        return vkattn.norm(hidden, weight, residual=residual, epsilon=self.config.epsilon, **more)

    def _tokens_and_norm(self, hidden, weight):
        """What products take, and how each normalises it: few tokens by themselves, more once for all of them."""
        if hidden.shape[1] > _TOKENS_NORMALISED_BY_PRODUCTS:
            return self._normed(hidden, weight, dtype=self._between), {}
        return hidden, {"norm": weight, "norm_epsilon": self.config.epsilon}

    def logits_of(self, hidden):
        """The logits after each token, an Array [1,L,vocabulary]."""
        tokens, norm = self._tokens_and_norm(hidden, self._norm)
        if len(self._head) == 1:
            return vkattn.linear(tokens, self._head[0][1], **norm, dtype=hidden.dtype)
        logits = self.context.empty((1, tokens.shape[1], self.vocabulary))
        for first, part in self._head:
            vkattn.linear(tokens, part, **norm, out=logits[:, :, first:first + len(part)], dtype=hidden.dtype)
        return logits

    def _pointwise(self, array, factor, bias=None, **more):
        """linear of one column: activation(factor * array + bias) * multiplier + residual, number by number."""
        column = {name: value.reshape(-1, 1) if isinstance(value, vkattn.Array) else value for name, value in more.items()}
        bias = None if bias is None else self._number(bias, 1)
        result = vkattn.linear(array.reshape(-1, 1), self._number(factor, 2), bias, **column)
        return result.reshape(array.shape)

    def _number(self, value, dimensions):
        """A number on the device, uploaded once."""
        if (value, dimensions) not in self._numbers:
            self._numbers[value, dimensions] = self.context.array(numpy.full((1,) * dimensions, value, "f4"))
        return self._numbers[value, dimensions]
