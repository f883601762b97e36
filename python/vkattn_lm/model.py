"""A decoder on the device, described by its Config. A token is one submission, of a program that is recorded once; what leaves
the device is the next token, or logits."""
import numpy
import vkattn

from .errors import ModelError
from .weights import Weights

_PROMPT_AT_ONCE = 512        # tokens of a prompt that are computed in one go
_LOGITS_AT_ONCE = 16 << 20   # logits that are on the device at a time


class _Block:
    """The weights of one layer. Caches are made of `attention` by Decoder."""

    def __init__(self, weights, config, i, factors):
        """factors: of RoPE, that take the place of the config's scaling, or None."""
        name, width, head_dim = f"blk.{i}.", config.width, config.head_dim
        rows, kv_rows = config.heads * head_dim, config.kv_heads * head_dim
        rope, architecture = config.ropes[i], config.architecture
        parts = {}
        for own, part, outs, ins in (("q_proj", "attn_q", rows, width), ("k_proj", "attn_k", kv_rows, width),
                                     ("v_proj", "attn_v", kv_rows, width), ("out_proj", "attn_output", width, rows)):
            parts[f"{own}.weight"] = weights.take(f"{name}{part}.weight", outs, ins)
            must = architecture.qkv_bias and own != "out_proj"
            bias = (weights.take if must else weights.maybe)(f"{name}{part}.bias", outs)
            if bias is not None:
                parts[f"{own}.bias"] = bias
        if architecture.qk_norm:
            parts["q_norm.weight"] = weights.norm(f"{name}attn_q_norm.weight", head_dim)
            parts["k_norm.weight"] = weights.norm(f"{name}attn_k_norm.weight", head_dim)
        more = {"rope_scaling": factors or rope.scaling} if factors or rope.scaling else {}
        self.attention = vkattn.Layer(
            "mha", parts, context=weights.context, embed_dim=width, num_heads=config.heads, num_kv_heads=config.kv_heads,
            head_dim=head_dim, rope_theta=rope.theta, rope_interleaved=int(config.interleaved), scale=config.scale,
            norm_epsilon=config.epsilon, **more)
        self.window = (config.windows[i] - 1, 0) if config.windows[i] else None
        self.attention_norm = weights.norm(f"{name}attn_norm.weight", width)
        self.forward_norm = weights.norm(f"{name}ffn_norm.weight", width)
        self.after = [weights.norm(f"{name}{part}.weight", width) for part in ("post_attention_norm", "post_ffw_norm")] \
            if architecture.post_norms else [None, None]
        linears = [(part, weights.take(f"{name}ffn_{part}.weight", *((width, config.hidden) if part == "down" else
                                                                    (config.hidden, width))),
                    weights.maybe(f"{name}ffn_{part}.bias", width if part == "down" else config.hidden))
                   for part in ("gate", "up", "down")]
        self.gate, self.up, self.down = ((weight, bias) for _, weight, bias in linears)


def _rope_factors(weights, config):
    """What a GGUF file divides the frequencies of RoPE by, where it does: Llama 3's scaling as numbers. Longrope's scaling has
    such factors, and multiplies nothing else where its own factor is 1."""
    array = weights.maybe("rope_freqs.weight", config.head_dim // 2)
    if array is None:
        return None
    return {"kind": "longrope", "factor": 1.0, "original_max_position": config.context, "factors": array.numpy().tolist()}


def _parts(matrix):
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
    """A model's weights on the device, and a cache for one sequence.

    source    what files.open_model gives; config: its Config
    context   of vkattn
    capacity  tokens that the cache has room for
    kv_type   of keys and values in the cache, one of vkattn.cache_types(); value_type: of values, None: kv_type
    progress  has update(1), called for every weight
    """

    def __init__(self, source, config, context, *, capacity, kv_type, progress, value_type=None):
        self.config, self.context, self.capacity, self.where = config, context, capacity, source.where
        weights = Weights(context, source, config, progress)
        embedding = weights.take("token_embd.weight", None, config.width)
        self.vocabulary = embedding.shape[0]
        factors = _rope_factors(weights, config)
        self._blocks = [_Block(weights, config, i, factors) for i in range(config.layers)]
        self._norm = weights.norm("output_norm.weight", config.width)
        head = weights.maybe("output.weight", self.vocabulary, config.width)
        self.embedding_parts = _parts(embedding)
        self._head = self.embedding_parts if head is None else _parts(head)
        weights.check_none_left()
        self.weight_bytes = weights.nbytes
        self._numbers = {}
        self.empty_caches(kv_type, value_type)

    def empty_caches(self, kv_type, value_type=None):
        """Makes caches of these types, without a token, in place of those that there are."""
        self._step = None  # of the caches that it was recorded with; made for the first token that comes alone
        self._caches = [block.attention.cache(self.capacity, key_type=kv_type, value_type=value_type) for block in self._blocks]

    @property
    def cache_bytes(self):
        return sum(cache.nbytes for cache in self._caches)

    @property
    def length(self):
        """Tokens that the cache holds."""
        return self._caches[0].lengths[0]

    def rewind(self, length):
        """Forgets all tokens but the first `length`."""
        for cache in self._caches:
            cache.rewind(0, length)

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
            self._step.run(tokens[0])
            if progress is not None:
                progress.update(1)
            return self._step.logits
        hidden = None
        for hidden, _ in self._hidden(tokens, progress):
            pass
        return self.logits_of(hidden[:, hidden.shape[1] - 1:])

    def every_logits(self, tokens, start):
        """Appends tokens, and yields (the place of the first, logits [n, vocabulary]) of those from `start` on, some at a time."""
        rows = max(_LOGITS_AT_ONCE // self.vocabulary, 1)
        for hidden, at in self._hidden(tokens, None):
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
        for first in range(0, len(tokens), _PROMPT_AT_ONCE):
            part = tokens[first:first + _PROMPT_AT_ONCE]
            numbers = numpy.array([part], "i4")
            yield self.forward([self.context.array(numbers - numpy.int32(at)) for at, _ in self.embedding_parts]), first
            if progress is not None:
                progress.update(len(part))

    def forward(self, tokens):
        """What the blocks make of some tokens, [1,L,width] float32. tokens: for each of embedding_parts, counted from its
        first row."""
        hidden = self._embedded(tokens)
        if self.config.embedding_scale != 1.0:
            hidden = self._pointwise(hidden, self.config.embedding_scale)
        for block, cache in zip(self._blocks, self._caches):
            hidden = self._attended(block, cache, hidden)
            hidden = self._fed_forward(block, hidden)
        return hidden

    def _embedded(self, tokens):
        """Their rows of the embedding: a part that does not have a token gives zeros."""
        total = None
        for own, (_, part) in zip(tokens, self.embedding_parts):
            rows = vkattn.embedding(own, part).astype("float32")
            total = rows if total is None else total + rows
        return total

    def _attended(self, block, cache, hidden):
        normed = self._normed(hidden, block.attention_norm)
        after = block.after[0]
        attended = block.attention(normed, cache=cache, is_causal=True, window=block.window,
                                   residual=hidden if after is None else None)
        return attended if after is None else hidden + self._normed(attended, after)

    def _fed_forward(self, block, hidden):
        normed, after = self._normed(hidden, block.forward_norm), block.after[1]
        up = vkattn.linear(normed, *block.up)
        gated = vkattn.linear(normed, *block.gate, activation=self.config.architecture.activation, multiplier=up, out=up)
        down = vkattn.linear(gated, *block.down, residual=hidden if after is None else None)
        return down if after is None else hidden + self._normed(down, after)

    def _normed(self, hidden, weight):
        return vkattn.norm(hidden, weight, epsilon=self.config.epsilon)

    def logits_of(self, hidden):
        """The logits after each token, an Array [1,L,vocabulary]."""
        normed = self._normed(hidden, self._norm)
        if len(self._head) == 1:
            return vkattn.linear(normed, self._head[0][1])
        logits = self.context.empty((1, normed.shape[1], self.vocabulary))
        for first, part in self._head:
            vkattn.linear(normed, part, out=logits[:, :, first:first + len(part)])
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
