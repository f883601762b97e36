"""Layers that keep a state in place of keys and values, as models have them: Qwen3-Next's and Qwen3.5's gated delta rule, and Kimi
Linear's, whose decays are by channel (KDA)."""
import numpy
import vkattn


class Products:
    """Products of the same tokens: one, of the matrices behind each other, where they are held in one type."""

    def __init__(self, weights, parts, width):
        """parts: of each result the matrices that make it, behind each other, as Weights.take_rows takes them."""
        arrays, self._memory = weights.take_rows(*(matrix for part in parts for matrix in part), ins=(width,))
        given = iter(arrays)
        self._parts = [[next(given) for _ in part] for part in parts]
        self._context = weights.context

    def __call__(self, tokens, **more):
        """The results [1,L,rows]."""
        ends = numpy.cumsum([0, *(sum(map(len, part)) for part in self._parts)]).tolist()
        if self._memory is not None:
            every = vkattn.linear(tokens, self._memory, **more)
            return [every[:, :, first:end] for first, end in zip(ends, ends[1:])]
        results = []
        for part, first, end in zip(self._parts, ends, ends[1:]):
            result, at = self._context.empty((1, tokens.shape[1], end - first), more["dtype"]), 0
            for matrix in part:
                vkattn.linear(tokens, matrix, out=result[:, :, at:at + len(matrix)], **more)
                at += len(matrix)
            results.append(result)
        return results


class States:
    """What a layer keeps of one sequence, however long it is: the state, and what the convolution looks back at."""

    def __init__(self, context, sizes, groups):
        heads = sizes.value_heads // groups
        self._context = context
        self.state = context.empty((groups, heads, sizes.key_dim, sizes.value_dim), "float32")
        self.inputs = context.empty((1, sizes.kernel - 1, sizes.channels), "float32")
        self._saved = [context.empty(array.shape, "float32") for array in self._arrays()]
        self.clear()

    def _arrays(self):
        return self.state, self.inputs

    @property
    def nbytes(self):
        return sum(array.nbytes for array in (*self._arrays(), *self._saved))

    def clear(self):
        """As before the first token."""
        for array in self._arrays():
            array.assign(numpy.zeros(array.shape, "f4"))

    def save(self):
        """Keeps a copy in place of the last one."""
        self._copy(self._arrays(), self._saved)

    def restore(self):
        """Goes back to the copy."""
        self._copy(self._saved, self._arrays())

    def _copy(self, sources, targets):
        for source, target in zip(sources, targets):
            rows = source.shape[0] * source.shape[1]
            places = self._context.array(numpy.arange(rows, dtype="i4"))
            vkattn.embedding(places, source.reshape(rows, -1), out=target.reshape(rows, -1))


def _heads(tokens, heads):
    """[1,L,heads * size] as [1,heads,L,size]."""
    _, length, width = tokens.shape
    size, stride = width // heads, tokens.strides[1]
    return vkattn.Array(tokens.context, tokens.buffer, (1, heads, length, size), tokens.dtype, (0, size, stride, 1), tokens.offset)


class Recurrent:
    """A layer of them, called as vkattn.Layer is.

    sizes    a Config's Linear
    groups   value heads come in so many runs, each one head of every key head's (as GGUF files of Qwen3.5 have them); 1: those of a
             key head lie together
    inputs   Products of the tokens: of queries, keys and values; what the gate is made of; and, of KDA, what decays are made of
    taps     of the convolution [channels, kernel]
    beta     a matrix
    decay    (matrix, bias [outs], rate [outs]): decays are rate * softplus(product + bias)
    gate     of KDA: a matrix
    norm     weight [value_dim]
    out      a matrix
    """

    def __init__(self, context, sizes, groups, *, inputs, taps, beta, decay, gate, norm, out, epsilon):
        self._context, self._sizes, self._groups = context, sizes, groups
        self._inputs, self._taps, self._beta, self._gate, self._norm, self._out = inputs, taps, beta, gate, norm, out
        self._decay, self._epsilon = decay, epsilon

    def cache(self):
        return States(self._context, self._sizes, self._groups)

    def __call__(self, hidden, *, cache, tokens, norm, residual, between):
        """What it adds to hidden states [1,L,width]; residual: added, too. tokens, norm: what products take (see
        Decoder._tokens_and_norm). between: the type of what lies between its steps."""
        mixed, *others = self._inputs(tokens, dtype=between, **norm)
        beta = vkattn.linear(tokens, self._beta, activation="sigmoid", dtype="float32", **norm)
        of_decay, norm = (others[1], {}) if self._sizes.by_channel else (tokens, norm)
        matrix, bias, rate = self._decay
        rates = vkattn.Array(rate.context, rate.buffer, (1, hidden.shape[1], len(rate)), rate.dtype, (0, 0, 1), rate.offset)
        decay = vkattn.linear(of_decay, matrix, bias, activation="softplus", multiplier=rates, dtype="float32", **norm)
        mixed, _ = vkattn.causal_conv1d(mixed, self._taps, activation="silu", initial_state=cache.inputs, final_state=cache.inputs)
        attended = self._attended(mixed, decay, beta, cache)
        return vkattn.linear(self._gated(attended, others[0]), self._out, residual=residual, dtype=hidden.dtype)

    def _attended(self, mixed, decay, beta, cache):
        """[1,L,value_heads * value_dim]"""
        sizes = self._sizes
        keys, values = sizes.key_heads * sizes.key_dim, sizes.value_heads * sizes.value_dim
        query, key, value = mixed[:, :, :keys], mixed[:, :, keys:2 * keys], mixed[:, :, 2 * keys:]
        output = self._context.empty((1, mixed.shape[1], values), mixed.dtype)

        def grouped(array, shared=False):
            """Of [1,heads,...] the heads of each group."""
            heads = array.shape[1] if shared else array.shape[1] // self._groups
            strides = (0 if shared else heads * array.strides[1], *array.strides[1:])
            return vkattn.Array(array.context, array.buffer, (self._groups, heads, *array.shape[2:]), array.dtype, strides, array.offset)

        decay, beta = _heads(decay, sizes.value_heads), _heads(beta, sizes.value_heads)
        beta, decay = beta[:, :, :, 0], decay if sizes.by_channel else decay[:, :, :, 0]
        of_keys = [grouped(_heads(array, sizes.key_heads), shared=True) for array in (query, key)]
        vkattn.linear_attention(*of_keys, grouped(_heads(value, sizes.value_heads)), decay=grouped(decay), beta=grouped(beta),
                                qk_l2norm=True, initial_state=cache.state, final_state=cache.state,
                                out=grouped(_heads(output, sizes.value_heads)))
        return output

    def _gated(self, attended, gate):
        rows = (*attended.shape[1:2], self._sizes.value_heads, self._sizes.value_dim)  # of each token its heads
        of_heads = attended.reshape(rows)
        if self._gate is None:
            gate = vkattn.Array(gate.context, gate.buffer, rows, gate.dtype, (gate.strides[1], rows[2], 1), gate.offset)
            return vkattn.gated_rms_norm(of_heads, gate, self._norm, epsilon=self._epsilon, out=of_heads).reshape(attended.shape)
        normed = vkattn.norm(of_heads, self._norm, epsilon=self._epsilon).reshape(attended.shape)
        return vkattn.linear(gate, self._gate, activation="sigmoid", multiplier=normed, out=normed)


def gated_delta(weights, config, name):
    """Qwen3-Next's and Qwen3.5's, its weights' names after `name`."""
    sizes, width = config.linear, config.width
    keys, values, of_key = sizes.key_heads * sizes.key_dim, sizes.value_heads * sizes.value_dim, sizes.value_heads // sizes.key_heads
    groups = of_key if config.tiled_values else 1

    def of_each(parts):
        """Of rows that lie by key heads the runs of each part."""
        ends = numpy.cumsum([0, *parts])
        return [[(head * ends[-1] + first, head * ends[-1] + end) for head in range(sizes.key_heads)]
                for first, end in zip(ends, ends[1:])]
    if weights.has(f"{name}ssm_in.weight"):
        every = (sizes.key_dim, sizes.key_dim, of_key * sizes.value_dim, of_key * sizes.value_dim)
        query, key, value, gate = of_each(every)
        parts = [[(f"{name}ssm_in.weight", 2 * (keys + values), runs)] for runs in (query + key + value, gate)]
    else:
        parts = [[(f"{name}attn_qkv.weight", 2 * keys + values, None)], [(f"{name}attn_gate.weight", values, None)]]
    inputs = Products(weights, parts, width)
    if weights.has(f"{name}ssm_ba.weight"):
        both = [(f"{name}ssm_ba.weight", 2 * sizes.value_heads, runs) for runs in of_each((of_key, of_key))]
    else:
        both = [(f"{name}ssm_{part}.weight", sizes.value_heads, None) for part in ("beta", "alpha")]
    (beta, alpha), _ = weights.take_rows(*both, ins=(width,))
    return Recurrent(weights.context, sizes, groups, inputs=inputs, beta=beta,
                     taps=weights.taps(f"{name}ssm_conv1d.weight", sizes.channels, sizes.kernel),
                     decay=(alpha, weights.take(f"{name}ssm_dt.bias", sizes.value_heads), _rates(weights, config, name)),
                     gate=None, norm=weights.take(f"{name}ssm_norm.weight", sizes.value_dim),
                     out=weights.take(f"{name}ssm_out.weight", width, values), epsilon=config.epsilon)


def by_channel(weights, config, name):
    """Kimi Linear's KDA, its weights' names after `name`."""
    sizes, width = config.linear, config.width
    rows, rank = sizes.value_heads * sizes.value_dim, sizes.value_dim
    inputs = Products(weights, [[(f"{name}attn_{part}.weight", rows, None) for part in "qkv"],
                                *([(f"{name}ssm_{part}_a.weight", rank, None)] for part in "gf")], width)
    taps = numpy.concatenate([weights.numbers(f"{name}ssm_conv1d_{part}.weight", rows * sizes.kernel) for part in "qkv"])
    return Recurrent(weights.context, sizes, 1, inputs=inputs, taps=weights.context.array(taps.reshape(-1, sizes.kernel)),
                     beta=weights.take(f"{name}ssm_beta.weight", sizes.value_heads, width),
                     decay=(weights.take(f"{name}ssm_f_b.weight", rows, rank), weights.take(f"{name}ssm_dt.bias", rows),
                            _rates(weights, config, name)),
                     gate=weights.take(f"{name}ssm_g_b.weight", rows, rank), norm=weights.take(f"{name}ssm_norm.weight", rank),
                     out=weights.take(f"{name}attn_output.weight", width, rows), epsilon=config.epsilon)


def _rates(weights, config, name):
    """What softplus is multiplied by, of each head, or of each of its channels: -exp(A_log), which GGUF files hold."""
    sizes, rates = config.linear, weights.numbers(f"{name}ssm_a", config.linear.value_heads)
    rates = rates if config.rates_given else -numpy.exp(rates)
    return weights.context.array(numpy.repeat(rates, sizes.key_dim) if sizes.by_channel else rates)
