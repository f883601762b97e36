"""A decoder whose weights stay as they are, and adapters of low rank that learn, on the device. A step is one submission, of a program
that is recorded once."""
import dataclasses
import itertools
import types
import zlib

import numpy
import vkattn

from .adapter import Update, modules_of, rows_of_folder
from .errors import ModelError
from .model import LOGITS_AT_ONCE, reachable_parts, rope_scalings
from .weights import Weights

_ALIGNED = 4  # numbers at whose multiples a matrix may begin in a buffer
_ROW = 64     # numbers of the rows as which whole buffers are copied
_SUMMED_AT_ONCE = 1 << 15  # logits of whose gradients one product makes those of hidden states: some CPU drivers end longer loops


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a training run is made of. A run that goes on has the same, but for its steps.

    targets  modules of each layer that get an adapter, by their names in folders; rank, alpha: of each, which adds alpha / rank * B A
    batch    sequences of `length` tokens of a step
    learning_rate, warmup, weight_decay  of AdamW; the rate rises in the first `warmup` steps, then stays
    clip     the gradients' norm at most
    seed     of the adapters' beginning, and of the sequences' order
    """
    targets: tuple
    rank: int
    alpha: float
    batch: int
    length: int
    learning_rate: float
    warmup: int
    weight_decay: float
    clip: float
    seed: int

    @property
    def scale(self):
        return self.alpha / self.rank

    def rate_of(self, step):
        """Of a step, counted from 0."""
        return self.learning_rate * min((step + 1) / max(self.warmup, 1), 1.0)


def check_trainable(config, where):
    """Raises where the gradients of a model's layers are not computed."""
    kind = "multi-head latent attention" if config.latent else "linear attention" if any(config.recurrent) else None
    if kind:
        raise ModelError(f"{where}: {config.name}: the gradients of {kind} are not computed, expected a model whose layers have "
                         "keys and values of heads alone")


def checked_targets(names, config, where):
    """The modules that get adapters, in a layer's order. names: of modules of this Config, None: all."""
    known = tuple(modules_of(config.architecture))
    for name in names or ():
        if name not in known:
            raise ModelError(f"--target-modules: {name!r}, expected some of {', '.join(known)}, which {where} has")
    return tuple(name for name in known if names is None or name in names)


class _Parameters:
    """Matrices that learn, in one buffer, with their gradients and moments in others: AdamW takes all of them at once.

    scale  the layers read the matrices times it; None: as they are
    """

    def __init__(self, context, shapes, scale):
        sizes = [-(-rows * columns // _ALIGNED) * _ALIGNED for rows, columns in shapes]
        self._ends, self._shapes, self.scale = list(itertools.accumulate(sizes)), shapes, scale
        self._firsts = [end - size for end, size in zip(self._ends, sizes)]
        self._context, self.size = context, -(-self._ends[-1] // _ROW) * _ROW
        zeros = numpy.zeros(self.size, "f4")
        self.value, self.gradient, self.first, self.second = (context.array(zeros) for _ in range(4))
        self.read = self.value if scale is None else context.array(zeros)

    def views(self, array):
        """The matrices in one of the buffers."""
        return [array[first:first + rows * columns].reshape(rows, columns) for first, (rows, columns) in zip(self._firsts, self._shapes)]

    def set(self, matrices):
        """Begins with these."""
        value = numpy.zeros(self.size, "f4")
        for view, matrix in zip(self.views(value), matrices):
            view[:] = matrix
        self.load({"value": value, "first": numpy.zeros_like(value), "second": numpy.zeros_like(value)})

    def state(self):
        return {name: getattr(self, name).numpy() for name in ("value", "first", "second")}

    def load(self, state):
        for name, numbers in state.items():
            getattr(self, name).assign(numbers)
        if self.scale is not None:
            self.read.assign(state["value"] * numpy.float32(self.scale))

    def begin_gradient(self, zeros):
        self._context.convert(zeros[:self.size].reshape(-1, _ROW), self.gradient.reshape(-1, _ROW))

    def add_squares(self, out, accumulate):
        vkattn.squared_norm(self.gradient, scale=1.0 if self.scale is None else self.scale, accumulate=accumulate, out=out)

    def update(self, step, rate, factor, weight_decay):
        more = {} if self.scale is None else {"copy": self.read, "copy_scale": self.scale}
        vkattn.adamw(self.value, self.gradient, self.first, self.second, step, rate, factor=factor, weight_decay=weight_decay, **more)


@dataclasses.dataclass(frozen=True)
class _LowRank:
    """Adds b a to a matrix; d_a and d_b: what their gradients are added to."""
    a: vkattn.Array
    b: vkattn.Array
    d_a: vkattn.Array
    d_b: vkattn.Array


class _Linear:
    """A product with a matrix that stays, and with an adapter, if it has one."""

    def __init__(self, weights, name, outs, ins, adapters):
        self.weight, self.bias = weights.take(f"{name}.weight", outs, ins), weights.maybe(f"{name}.bias", outs)
        self.adapter = adapters.get(f"{name}.weight")

    def __call__(self, tokens, residual=None):
        """(the product, what backward takes of it)"""
        result = vkattn.linear(tokens, self.weight, self.bias, residual=residual)
        if self.adapter is None:
            return result, (tokens, None)
        inner = vkattn.linear(tokens, self.adapter.a)
        return vkattn.linear(inner, self.adapter.b, residual=result, out=result), (tokens, inner)

    def backward(self, taken, d_output, residual=None, needs_input=True):
        """The gradient of the tokens, to which residual is added; None where it is not needed."""
        tokens, inner = taken
        if self.adapter is not None:
            d_inner = vkattn.linear_backward(None, self.adapter.b, d_output, gradients="input")
            vkattn.linear_backward(inner, None, d_output, gradients="weight", d_weight=self.adapter.d_b)
            vkattn.linear_backward(tokens, None, d_inner, gradients="weight", d_weight=self.adapter.d_a)
        if not needs_input:
            return None
        d_tokens = vkattn.linear_backward(None, self.weight, d_output, gradients="input", residual=residual)
        if self.adapter is None:
            return d_tokens
        return vkattn.linear_backward(None, self.adapter.a, d_inner, gradients="input", residual=d_tokens)


class _Block:
    """A layer, forwards and backwards."""

    def __init__(self, weights, config, i, scaling, adapters):
        """scaling: of RoPE, as rotary_embedding takes it, or None."""
        name, width, hidden, head_dim = f"blk.{i}.", config.width, config.hidden, config.head_dim
        architecture, self._config, self._context = config.architecture, config, weights.context
        ends = list(itertools.accumulate((config.heads, config.kv_heads, config.kv_heads)))
        self._places, self._halves = list(zip([0, *ends], ends)), [(0, hidden), (hidden, 2 * hidden)]
        rows, kv_rows = config.heads * head_dim, config.kv_heads * head_dim

        def linear(part, outs, ins):
            return _Linear(weights, name + part, outs, ins, adapters)

        def norm(part, size):
            return weights.norm(f"{name}{part}.weight", size)
        # of one matrix for all, or of one for each
        self._qkv = [linear("attn_qkv", rows + 2 * kv_rows, width)] if architecture.fused else [
            linear(f"attn_{part}", outs, width) for part, outs in zip("qkv", (rows, kv_rows, kv_rows))]
        self._gate_up = [linear("ffn_up", 2 * hidden, width)] if architecture.fused else [
            linear(f"ffn_{part}", hidden, width) for part in ("gate", "up")]
        self._output, self._down = linear("attn_output", width, rows), linear("ffn_down", width, hidden)
        self._norms = norm("attn_norm", width), norm(architecture.forward_norm, width)
        self._after = [norm(part, width) for part in ("post_attention_norm", "post_ffw_norm")] if architecture.post_norms else [None, None]
        self._head_norms = [norm(f"attn_{part}_norm", head_dim) for part in "qk"] if architecture.qk_norm else []
        self._rope = {"rope_theta": config.ropes[i].theta, "rope_scaling": scaling, "rotary_dim": config.rotary_dim,
                      "rope_interleaved": config.interleaved}
        window = (config.windows[i] - 1, 0) if config.windows[i] else None
        self._attention = {"is_causal": True, "scale": config.scale, "enable_gqa": config.heads != config.kv_heads, "window": window}

    def _normed(self, tokens, weight, residual=None):
        return vkattn.norm(tokens, weight, residual=residual, epsilon=self._config.epsilon)

    def _normed_backward(self, tokens, weight, d_output, residual=None):
        return vkattn.norm_backward(tokens, weight, d_output, epsilon=self._config.epsilon, gradients="input", residual=residual)

    def forward(self, hidden):
        """(what the layer makes of hidden states [B,L,width], what backward takes of it)"""
        kept = types.SimpleNamespace(hidden=hidden)
        middle = self._attend(kept, self._normed(hidden, self._norms[0]))
        return self._feed(kept, middle, self._normed(middle, self._norms[1])), kept

    def _attend(self, kept, normed):
        batch, length, _ = normed.shape
        made = [linear(normed) for linear in self._qkv]
        kept.of_qkv = [taken for _, taken in made]
        rows = [result.reshape(batch, length, -1, self._config.head_dim) for result, _ in made]
        if len(rows) == 1:
            rows = [rows[0][:, :, first:end] for first, end in self._places]
        kept.of_head_norms = rows[:2] if self._head_norms else []
        rows[:2] = [self._normed(part, weight) for part, weight in zip(kept.of_head_norms, self._head_norms)] or rows[:2]
        query, key, value = (part.transpose(0, 2, 1, 3) for part in rows)
        query, key = (vkattn.rotary_embedding(part, **self._rope) for part in (query, key))
        output = self._context.result((batch, length, self._config.heads, self._config.head_dim))
        kept.rows, kept.output = (query, key, value), output.transpose(0, 2, 1, 3)
        _, kept.log_sum_exp = vkattn.attention(*kept.rows, return_lse=True, out=kept.output, **self._attention)
        return self._added(kept, "of_output", self._output, output.reshape(batch, length, -1), kept.hidden, self._after[0])

    def _feed(self, kept, middle, normed):
        made = [linear(normed) for linear in self._gate_up]
        kept.of_gate_up, kept.gate_up, hidden = [taken for _, taken in made], [result for result, _ in made], self._config.hidden
        if len(made) == 1:
            kept.gate_up = [made[0][0][:, :, first:first + hidden].contiguous() for first in (0, hidden)]
        gated = vkattn.gated_activation(*kept.gate_up, self._config.architecture.activation)
        kept.middle = middle
        return self._added(kept, "of_down", self._down, gated, middle, self._after[1])

    def _added(self, kept, name, linear, tokens, residual, after):
        """residual and the product, with a norm after it, if there is one; what backward takes is kept by this name."""
        result, taken = linear(tokens, residual if after is None else None)
        setattr(kept, name, (taken, None if after is None else result))
        return result if after is None else self._normed(result, after, residual)

    def _added_backward(self, kept, linear, after, d_result):
        """The gradient of the tokens of _added."""
        taken, result = kept
        return linear.backward(taken, d_result if after is None else self._normed_backward(result, after, d_result))

    def backward(self, kept, d_result, needs_input):
        """The gradient of the hidden states; None where it is not needed."""
        d_gated = self._added_backward(kept.of_down, self._down, self._after[1], d_result)
        gate, up = kept.gate_up
        d_parts = vkattn.gated_activation_backward(gate, d_gated, up, self._config.architecture.activation)
        d_normed = self._joined_backward(self._gate_up, kept.of_gate_up, d_parts, self._halves, True)
        d_middle = self._normed_backward(kept.middle, self._norms[1], d_normed, d_result)
        d_output = self._added_backward(kept.of_output, self._output, self._after[0], d_middle)
        d_normed = self._attend_backward(kept, d_output.reshape(kept.output.transpose(0, 2, 1, 3).shape), needs_input)
        return self._normed_backward(kept.hidden, self._norms[0], d_normed, d_middle) if needs_input else None

    def _attend_backward(self, kept, d_output, needs_input):
        d_rows = vkattn.attention_backward(*kept.rows, d_output.transpose(0, 2, 1, 3), output=kept.output,
                                           log_sum_exp=kept.log_sum_exp, **self._attention)
        d_rows = [*(vkattn.rotary_embedding(part, inverse=True, **self._rope) for part in d_rows[:2]), d_rows[2]]
        d_rows = [part.transpose(0, 2, 1, 3) for part in d_rows]
        d_rows[:2] = [self._normed_backward(part, weight, d_part.contiguous()) for part, weight, d_part in
                      zip(kept.of_head_norms, self._head_norms, d_rows)] or d_rows[:2]
        batch, length = d_output.shape[:2]
        if len(self._qkv) > 1:
            d_rows = [part.contiguous().reshape(batch, length, -1) for part in d_rows]
        return self._joined_backward(self._qkv, kept.of_qkv, d_rows, self._places, needs_input)

    def _joined_backward(self, linears, kept, d_parts, places, needs_input):
        """The gradient of the tokens that all these took. d_parts: of what they made; where one made all parts, at these places of the
        last axis but one."""
        if len(linears) == 1:
            batch, length = d_parts[0].shape[:2]
            joined = self._context.result((batch, length, places[-1][1], *d_parts[0].shape[3:]))
            for part, (first, end) in zip(d_parts, places):
                self._context.convert(part, joined[:, :, first:end])
            d_parts = [joined.reshape(batch, length, -1)]
        d_tokens = None
        for linear, taken, d_part in zip(linears, kept, d_parts):
            d_tokens = linear.backward(taken, d_part, d_tokens, needs_input)
        return d_tokens


class Trainer:
    """The model on the device, its adapters, and the optimizer's state.

    source    what files.open_model gives; config: its Config
    context   of vkattn
    recompute  True: what a layer computed is computed again where its gradients are: less memory, more time
    progress  has update(1), called for every weight
    """

    def __init__(self, source, config, context, recipe, recompute, progress):
        check_trainable(config, source.where)
        self.config, self.context, self.recipe, self.where, self._recompute = config, context, recipe, source.where, recompute
        weights = Weights(context, source, config, progress)
        embedding = weights.take("token_embd.weight", None, config.width)
        self.vocabulary = embedding.shape[0]
        self._matrices = self._adapted_matrices()
        shapes = self._matrices.values()
        self._a = _Parameters(context, [(recipe.rank, ins) for _, ins in shapes], None)
        self._b = _Parameters(context, [(outs, recipe.rank) for outs, _ in shapes], recipe.scale)
        self._begin()
        views = ((self._a, self._a.read), (self._b, self._b.read), (self._a, self._a.gradient), (self._b, self._b.gradient))
        adapters = {name: _LowRank(*of) for name, *of in zip(self._matrices, *(of.views(array) for of, array in views))}
        scalings = rope_scalings(weights, config, recipe.length)
        self._blocks = [_Block(weights, config, i, scaling, adapters) for i, scaling in enumerate(scalings)]
        self._norm = weights.norm("output_norm.weight", config.width)
        head = weights.maybe("output.weight", self.vocabulary, config.width)
        self._embedding = reachable_parts(embedding)
        self._head = [(at + first, part[first:first + _SUMMED_AT_ONCE])
                      for at, part in (self._embedding if head is None else reachable_parts(head))
                      for first in range(0, len(part), _SUMMED_AT_ONCE)]
        weights.check_none_left()
        self.weight_bytes, self.parameters = weights.nbytes, sum(recipe.rank * (outs + ins) for outs, ins in shapes)
        self._record()

    def _adapted_matrices(self):
        """(rows, columns) of each matrix that gets an adapter, by GGUF's names."""
        config = self.config
        rows, kv_rows = config.heads * config.head_dim, config.kv_heads * config.head_dim
        fused, modules = config.architecture.fused, modules_of(config.architecture)
        sizes = {"attn_q": (rows, config.width), "attn_k": (kv_rows, config.width), "attn_v": (kv_rows, config.width),
                 "attn_qkv": (rows + 2 * kv_rows, config.width), "attn_output": (config.width, rows),
                 "ffn_gate": (config.hidden, config.width), "ffn_up": (config.hidden * (2 if fused else 1), config.width),
                 "ffn_down": (config.width, config.hidden)}
        parts = [modules[own][1] for own in self.recipe.targets]
        return {f"blk.{i}.{part}.weight": sizes[part] for i in range(config.layers) for part in parts}

    def _begin(self):
        """A as PEFT begins it, uniform within 1 / sqrt(columns), B zeros: the model is as it was."""
        def drawn(name, columns):
            random = numpy.random.default_rng([self.recipe.seed, zlib.crc32(name.encode())])
            return random.uniform(-1, 1, (self.recipe.rank, columns)) / columns ** 0.5
        self._a.set([drawn(name, columns) for name, (_, columns) in self._matrices.items()])
        self._b.set([numpy.zeros((rows, self.recipe.rank)) for rows, _ in self._matrices.values()])

    def _record(self):
        context, shape = self.context, (self.recipe.batch, self.recipe.length)
        self._tokens = [context.empty(shape, "int32") for _ in self._embedding]
        self._labels = context.empty(shape, "int32")
        self._rate, self._step = context.empty((1,)), context.array(numpy.zeros(1, "i4"))
        self._scale = context.array(numpy.full((1, 1), self.config.embedding_scale, "f4"))
        self._shares = {}
        zeros = context.array(numpy.zeros(max(self._a.size, self._b.size), "f4"))
        with vkattn.record(context) as self._training:
            for parameters in (self._a, self._b):
                parameters.begin_gradient(zeros)
            self._losses = self._forward_and_backward()
            squares = context.result((1,))
            self._a.add_squares(squares, False)
            self._b.add_squares(squares, True)
            factor = vkattn.optimizer_step(squares, self._step, max_norm=self.recipe.clip)
            for parameters in (self._a, self._b):
                parameters.update(self._step, self._rate, factor, self.recipe.weight_decay)
        with vkattn.record(context) as self._evaluation:
            hidden = self._embedded()
            for block in self._blocks:
                hidden, _ = block.forward(hidden)
            self._evaluated, _ = self._loss(hidden, False)

    def _embedded(self):
        total = None
        for own, (_, part) in zip(self._tokens, self._embedding):  # a part that does not have a token gives zeros
            rows = vkattn.embedding(own, part).astype("float32")
            total = rows if total is None else total + rows
        if self.config.embedding_scale == 1.0:
            return total
        return vkattn.linear(total.reshape(-1, 1), self._scale).reshape(total.shape)

    def _forward_and_backward(self):
        hidden, kept = self._embedded(), []
        for block in self._blocks:
            before, (hidden, of_block) = hidden, block.forward(hidden)
            kept.append(before if self._recompute else of_block)
        del of_block
        losses, d_hidden = self._loss(hidden, True)
        del hidden, before
        for i, block in reversed(list(enumerate(self._blocks))):
            of_block = kept.pop()
            if self._recompute:
                _, of_block = block.forward(of_block)
            d_hidden = block.backward(of_block, d_hidden, needs_input=i > 0)
        return losses

    def _loss(self, hidden, has_gradient):
        """(the losses of some tokens after the others, the gradient of the mean of all to the hidden states). Every label counts then."""
        normed = vkattn.norm(hidden, self._norm, epsilon=self.config.epsilon)
        rows, labels = normed.reshape(1, -1, normed.shape[-1]), self._labels.reshape(1, -1)
        at_once, losses = max(LOGITS_AT_ONCE // self.vocabulary, 1), []
        d_normed = self.context.result(rows.shape) if has_gradient and at_once < rows.shape[1] else None
        for first in range(0, rows.shape[1], at_once):
            part, own = rows[:, first:first + at_once], labels[:, first:first + at_once]
            logits = self.context.result((*own.shape, self.vocabulary))
            for at, matrix in self._head:
                vkattn.linear(part, matrix, out=logits[:, :, at:at + len(matrix)])
            if not has_gradient:
                losses.append(vkattn.cross_entropy(logits, own, return_losses=True)[1])
                continue
            share = self._share(own.shape[1] / rows.shape[1])
            losses.append(vkattn.cross_entropy(logits, own, return_losses=True, loss_scale=share, out=logits)[1])
            d_part = None
            for at, matrix in self._head:
                d_part = vkattn.linear_backward(None, matrix, logits[:, :, at:at + len(matrix)], gradients="input", residual=d_part)
            if d_normed is None:
                d_normed = d_part
            else:
                self.context.convert(d_part, d_normed[:, first:first + at_once])
        if not has_gradient:
            return losses, None
        return losses, vkattn.norm_backward(hidden, self._norm, d_normed.reshape(hidden.shape), epsilon=self.config.epsilon,
                                            gradients="input")

    def _share(self, number):
        """A number on the device, uploaded once."""
        if number not in self._shares:
            self._shares[number] = self.context.array(numpy.full(1, number, "f4"))
        return self._shares[number]

    def _assign(self, tokens, labels):
        highest = max(tokens.max(), labels.max())
        if not 0 <= tokens.min() <= highest < self.vocabulary:
            raise ModelError(f"{self.where}: token {highest}, expected one of {self.vocabulary} that token_embd.weight has")
        for array, (first, _) in zip(self._tokens, self._embedding):
            array.assign((tokens - first).astype("i4"))
        self._labels.assign(labels.astype("i4"))

    def step(self, tokens, labels, rate):
        """A step by the mean loss of these [batch, length], which it returns as it was before."""
        self._assign(tokens, labels)
        self._rate.assign(numpy.full(1, rate, "f4"))
        self._training.replay()
        return float(numpy.concatenate([each.numpy().reshape(-1) for each in self._losses]).mean(dtype="f8"))

    def losses(self, tokens, labels):
        """Of each label [batch, length], by which nothing is learned; 0 of a label of -100."""
        self._assign(tokens, labels)
        self._evaluation.replay()
        return numpy.concatenate([each.numpy().reshape(-1) for each in self._evaluated]).reshape(labels.shape)

    def state(self):
        """All that a step changes, as arrays by name."""
        named = {f"{name}.{part}": array for name, of in (("a", self._a), ("b", self._b)) for part, array in of.state().items()}
        return {**named, "step": self._step.numpy()}

    def load_state(self, state):
        self._step.assign(state["step"])
        for name, of in (("a", self._a), ("b", self._b)):
            of.load({part: state[f"{name}.{part}"] for part in ("value", "first", "second")})

    def updates(self):
        """The adapters as they are, by GGUF's names."""
        a, b = (of.views(of.value) for of in (self._a, self._b))
        return {name: Update(one.numpy(), rows_of_folder(self.config, name, other.numpy()), self.recipe.scale)
                for name, one, other in zip(self._matrices, a, b)}
