"""What vkattn and ggml are given alike for a WholeShape: random weights, tokens and caches, and what comes out, by float64."""
import ctypes
import os
import pathlib
import re

import numpy

EPSILON, THETA = 1e-5, 10000.0
WINDOW = 512  # Gemma 3 270m's
MOST_ERROR = 5e-4  # of test-backend-ops: the squares' sum of the differences over that of the values
LIBRARY = "/usr/lib/x86_64-linux-gnu/libggml-base.so.0"  # which knows the numbers in its blocks
BLOCKS = {"q4_1": (20, 32), "q5_0": (22, 32), "q8_0": (34, 32), "q4_K": (144, 256)}  # bytes and numbers of a block
MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


class Problem:
    """Of a WholeShape as a dictionary, its members by their names. Names of weights are GGUF's."""

    def __init__(self, shape):
        self.__dict__.update(shape)
        self.is_gemma = self.family == "gemma3"
        self.capacity = max(4096, 1 << (self.past + self.tokens - 1).bit_length())  # of caches
        random = self._random(0)
        self.token_ids = random.integers(0, max(self.vocabulary, 1), self.tokens).astype(numpy.int32)
        self.hidden_states = random.standard_normal((self.tokens, self.width), numpy.float32)

    def windows(self):
        """The keys that each layer's queries see, their own among them; 0: all. Gemma 3 has windows but in each sixth layer."""
        return [WINDOW if self.is_gemma and (i + 1) % 6 else 0 for i in range(self.layers)]

    @staticmethod
    def _random(*seed):
        return numpy.random.default_rng((7, *seed))

    def shapes(self):
        """Of all weights, by name."""
        rows, kv_rows = self.heads * self.head_dim, self.kv_heads * self.head_dim
        outs = {"attn_q": rows, "attn_k": kv_rows, "attn_v": kv_rows, "ffn_gate": self.hidden, "ffn_up": self.hidden}
        ins = {"attn_output": rows, "ffn_down": self.hidden}
        norms = {"attn_norm": self.width, "ffn_norm": self.width}
        if self.is_gemma:
            norms.update(attn_q_norm=self.head_dim, attn_k_norm=self.head_dim)
            norms.update(post_attention_norm=self.width, post_ffw_norm=self.width)
        found = {"token_embd.weight": (max(self.vocabulary, 8), self.width), "output_norm.weight": (self.width,)}
        for i in range(self.layers):
            found.update({f"blk.{i}.{name}.weight": (outs.get(name, self.width), ins.get(name, self.width)) for name in MATRICES})
            found.update({f"blk.{i}.{name}.weight": (size,) for name, size in norms.items()})
        return found

    def kind(self, name):
        shape = self.shapes()[name]
        if len(shape) == 1:
            return "f32"
        if self.weights == "f16" or name == "token_embd.weight":
            return "f16" if self.weights == "f16" else "q8_0"
        return "q5_0" if self.weights == "q4_K" and shape[1] % 256 else self.weights

    def stored(self, name):
        """What a tensor of the kind holds: float32, float16, or bytes [rows, bytes of a row]. Numbers such that products
        neither grow nor vanish."""
        shape, kind = self.shapes()[name], self.kind(name)
        random = self._random(1, list(self.shapes()).index(name))
        if kind == "f32":
            return 1 + random.standard_normal(shape, numpy.float32) / 10
        deviation = shape[1] ** -0.5
        if kind == "f16":
            return (random.random(shape, numpy.float32) * 2 - 1).astype("f2") * numpy.float16(deviation * 3 ** 0.5)
        return random_blocks(random, kind, shape, deviation)

    def values(self, name):
        """The numbers that it holds, in float32."""
        return numbers_of(self.stored(name), self.kind(name), self.shapes()[name])

    def past_rows(self, layer, part):
        """K or V [kv_heads, past, head_dim] of the tokens before, float16."""
        random = self._random(2, layer, "kv".index(part))
        return random.standard_normal((self.kv_heads, self.past, self.head_dim), numpy.float32).astype("f2")

    def visible(self, layer, places, keys):
        """[queries, keys]: which keys, of these places, each query sees."""
        window = self.windows()[layer] or self.past + self.tokens
        return (keys <= places[:, None]) & (keys > places[:, None] - window)

    def samples(self):
        """Tokens whose results are compared: of a model the last, whose logits are asked for."""
        return [self.tokens - 1] if self.vocabulary else sorted({0, self.tokens // 3, self.tokens - 1})

    def wanted(self):
        """Float64, of the samples: what the layers add to the hidden states, or logits."""
        if self.vocabulary:
            embedding = self.values("token_embd.weight")
            hidden = embedding[self.token_ids].astype("f8") * (numpy.float32(self.width ** 0.5) if self.is_gemma else 1)
        else:
            hidden = self.hidden_states.astype("f8")
        before = hidden[self.samples()]
        for layer in range(self.layers):
            hidden = self._layer(layer, hidden, self.samples() if layer == self.layers - 1 else list(range(self.tokens)))
        if not self.vocabulary:
            return hidden - before
        return normed(hidden, self.values("output_norm.weight")) @ embedding.T.astype("f8")

    def _layer(self, layer, hidden, rows):
        """What a layer makes of the hidden states, of these rows alone."""
        def product(values, name):
            return numpy.concatenate([values @ part.T.astype("f8") for part in
                                      numpy.array_split(self.values(f"blk.{layer}.{name}.weight"), 8)], axis=1)

        def norm(values, name):
            return normed(values, self.values(f"blk.{layer}.{name}.weight"))

        tokens = norm(hidden, "attn_norm")
        heads = {part: product(tokens if part != "q" else tokens[rows], f"attn_{part}").reshape(-1, count, self.head_dim)
                 for part, count in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads))}
        if self.is_gemma:
            heads.update({part: norm(heads[part], f"attn_{part}_norm") for part in "qk"})
        places = self.past + numpy.arange(self.tokens)
        heads["q"], heads["k"] = (rotated(heads["q"], places[rows], self.is_gemma), rotated(heads["k"], places, self.is_gemma))
        attended = product(self._attention(layer, heads, rows), "attn_output")
        hidden = hidden[rows] + (norm(attended, "post_attention_norm") if self.is_gemma else attended)
        tokens = norm(hidden, "ffn_norm")
        gate = product(tokens, "ffn_gate")
        gate = gelu(gate) if self.is_gemma else gate / (1 + numpy.exp(-gate))
        down = product(gate * product(tokens, "ffn_up"), "ffn_down")
        return hidden + (norm(down, "post_ffw_norm") if self.is_gemma else down)

    def _attention(self, layer, heads, rows):
        keys, values = (numpy.concatenate([self.past_rows(layer, part).astype("f8"), heads[part].transpose(1, 0, 2)], axis=1)
                        for part in "kv")
        result = numpy.empty((len(rows), self.heads, self.head_dim))
        visible = self.visible(layer, self.past + numpy.array(rows), numpy.arange(keys.shape[1]))
        for head in range(self.heads):
            of_kv = head * self.kv_heads // self.heads
            scores = heads["q"][:, head] @ keys[of_kv].T * self.head_dim ** -0.5
            scores[~visible] = -numpy.inf
            weights = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            result[:, head] = weights @ values[of_kv] / weights.sum(axis=1, keepdims=True)
        return result.reshape(len(rows), -1)


def normed(values, weight):
    return values / numpy.sqrt((values ** 2).mean(axis=-1, keepdims=True) + EPSILON) * weight


def gelu(values):
    return values / 2 * (1 + numpy.tanh((2 / numpy.pi) ** 0.5 * (values + 0.044715 * values ** 3)))


def rotated(values, places, in_halves):
    """RoPE of [tokens, heads, size], on pairs (2i, 2i+1), or (i, i + size/2) in halves."""
    half = values.shape[-1] // 2
    angles = (places[:, None] * THETA ** (-numpy.arange(half) / half))[:, None]
    first, second = (values[..., :half], values[..., half:]) if in_halves else (values[..., ::2], values[..., 1::2])
    turned = first * numpy.cos(angles) - second * numpy.sin(angles), first * numpy.sin(angles) + second * numpy.cos(angles)
    return numpy.concatenate(turned, axis=-1) if in_halves else numpy.stack(turned, axis=-1).reshape(values.shape)


def random_blocks(random, kind, shape, deviation):
    """Blocks of random bits, with scales (and minimums) for numbers of about mean 0 and this deviation."""
    size, numbers = BLOCKS[kind]
    blocks = random.integers(0, 256, (shape[0] * shape[1] // numbers, size), numpy.uint8)
    of_bits = {"q4_1": 4.61, "q5_0": 9.23, "q8_0": 73.9, "q4_K": 258.0}[kind]
    scales = (deviation / of_bits * (0.75 + random.random(len(blocks)) / 2)).astype("f2")
    blocks[:, :2] = scales.reshape(-1, 1).view("u1")
    if kind in ("q4_1", "q4_K"):
        blocks[:, 2:4] = (scales * numpy.float16(-7.5 if kind == "q4_1" else 7.5)).reshape(-1, 1).view("u1")
    return blocks.reshape(shape[0], -1)


def numbers_of(stored, kind, shape):
    if kind in ("f32", "f16"):
        return stored.astype("f4")
    values = numpy.empty(shape, "f4")
    convert = getattr(ctypes.CDLL(LIBRARY), f"dequantize_row_{kind}")
    convert.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    convert.restype = None
    stored = numpy.ascontiguousarray(stored)
    convert(stored.ctypes.data, values.ctypes.data, values.size)
    return values


def error(got, wanted):
    return float(((got - wanted) ** 2).sum() / (wanted ** 2).sum())


def dispatches_so_far():
    """Of this process, as the executor has counted them."""
    named = re.search(r"counters=([^,]*)", os.environ.get("VKATTN_EXECUTE", ""))
    file = pathlib.Path(named[1]) if named else None
    return file.read_bytes().count(b"\n") if file and file.exists() else 0


def tell(got, problem, counted):
    """Prints what compare reads. got: of the samples; counted: the dispatches that computed it, by their places."""
    print(f"dispatches {counted[0]} to {counted[1]}", flush=True)
    found = error(got, problem.wanted())
    print(f"{'right' if found <= MOST_ERROR else 'wrong'}, error {found:.2g}", flush=True)
