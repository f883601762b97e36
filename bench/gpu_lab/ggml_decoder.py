"""python3 ggml_decoder.py SHAPE: ggml's side of a WholeShape (JSON) on its first Vulkan device: the graph that llama.cpp builds, by
ggml's scheduler, which hands it to the backend as llama.cpp has it (fused, reordered), in the root of scripts/modern-root. Prints
which dispatches computed it, and "right" or "wrong" with the error."""
import ctypes
import json
import sys

import decoder_weights
import numpy
from ggml_graph import Ggml, Parameters

KINDS = {"f32": 0, "f16": 1, "q4_1": 3, "q5_0": 6, "q8_0": 8, "q4_K": 12, "i32": 26, "i64": 27}
OF_WEIGHTS, PRECISION_F32, CPU = 1, 10, 0  # usage of a buffer; of flash_attn_ext; type of a device
IN_PAIRS, IN_HALVES = 0, 2  # modes of RoPE
PADDED = 256  # llama.cpp's attention reads cells of its cache in multiples of this
MOST_NODES = 8192


class Graph:
    """Functions of ggml, by their names, that add a node."""

    def __init__(self):
        self.ggml = Ggml()
        self.context = self.ggml.init(Parameters(1 << 25, None, True))
        self.graph = self.ggml.new_graph_custom(self.context, MOST_NODES, False)

    def __getattr__(self, name):
        return lambda *arguments: getattr(self.ggml, name)(self.context, *arguments)

    def expand(self, node):
        self.ggml.build_forward_expand(self.graph, node)

    def compute(self, result, shape):
        """(the result's f32, the dispatches that made it). All on the Vulkan device, or it ends."""
        ggml = self.ggml
        backends = (ctypes.c_void_p * 2)(ggml.backend, ggml.backend_init_by_type(CPU, None))
        scheduler = ggml.backend_sched_new(backends, None, 2, MOST_NODES, False, True)
        if not ggml.backend_sched_alloc_graph(scheduler, self.graph):
            sys.exit("ggml_decoder.py: ggml has no memory for the graph")
        parts = ggml.backend_sched_get_n_splits(scheduler)
        if parts != 1:
            sys.exit(f"ggml_decoder.py: ggml computes it in {parts} parts, expected all on one device")
        before = decoder_weights.dispatches_so_far()
        if ggml.backend_sched_graph_compute(scheduler, self.graph) != 0:
            sys.exit("ggml_decoder.py: ggml's graph failed")
        counted = before, decoder_weights.dispatches_so_far()
        values = numpy.empty(shape, numpy.float32)
        ggml.backend_tensor_get(result, values.ctypes.data, 0, values.nbytes)
        return values, counted


class Memory:
    """Tensors of a buffer on the device, with their data."""

    def __init__(self, ggml):
        self.ggml, self.context, self.data = ggml, ggml.init(Parameters(1 << 22, None, True)), []

    def add(self, kind, sizes, data):
        tensor = self.ggml.new_tensor_4d(self.context, KINDS[kind], *sizes, *[1] * (4 - len(sizes)))
        self.data.append((tensor, data))
        return tensor

    def upload(self, usage=None):
        buffer = self.ggml.backend_alloc_ctx_tensors(self.context, self.ggml.backend)
        if not buffer:
            sys.exit("ggml_decoder.py: ggml has no memory for the tensors")
        if usage is not None:
            self.ggml.backend_buffer_set_usage(buffer, usage)
        for tensor, data in self.data:
            self.ggml.fill(tensor, data)
        self.data.clear()


class Decoder:
    """The graph of a Problem."""

    def __init__(self, problem):
        self.problem, self.graph = problem, Graph()
        weights, self.inputs = Memory(self.graph.ggml), Memory(self.graph.ggml)
        self.weights = {name: weights.add(problem.kind(name), shape[::-1], problem.stored(name))
                        for name, shape in problem.shapes().items()}
        weights.upload(OF_WEIGHTS)
        places = problem.past + numpy.arange(problem.tokens)
        self.positions = self.inputs.add("i32", [problem.tokens], places.astype(numpy.int32))
        self.samples = self.inputs.add("i32", [len(problem.samples())], numpy.array(problem.samples(), numpy.int32))
        self.by_window = {window: self._cells(layer, places) for layer, window in enumerate(problem.windows())}

    def _cells(self, layer, places):
        """(the first key that a layer's cache holds, its cells, those of the tokens, the mask). A window's cache has room for
        the window and a batch of 512, as llama.cpp's."""
        problem = self.problem
        window, keys = problem.windows()[layer], problem.past + problem.tokens
        first = max(keys - window - 512, 0) if window else 0
        cells = -(-(keys - first) // PADDED) * PADDED
        hidden = numpy.where(problem.visible(layer, places, first + numpy.arange(cells)), 0, -numpy.inf)
        mask = self.inputs.add("f16", [cells, problem.tokens], hidden.astype("f2"))
        return first, cells, self.inputs.add("i64", [problem.tokens], (places - first).astype(numpy.int64)), mask

    def _weight(self, layer, name):
        return self.weights[f"blk.{layer}.{name}.weight"]

    def _norm(self, values, weight):
        return self.graph.mul(self.graph.rms_norm(values, decoder_weights.EPSILON), weight)

    def _cache(self, layer, part):
        problem, (first, cells, _, _) = self.problem, self.by_window[self.problem.windows()[layer]]
        size = problem.kv_heads * problem.head_dim
        data = numpy.zeros((cells, size), "f2")
        data[:problem.past - first] = problem.past_rows(layer, part)[:, first:].transpose(1, 0, 2).reshape(-1, size)
        return self.inputs.add("f16", [size, cells], data)

    def _attention(self, layer, values):
        problem, graph = self.problem, self.graph
        _, cells, own, mask = self.by_window[problem.windows()[layer]]
        size, mode = problem.head_dim, IN_HALVES if problem.is_gemma else IN_PAIRS
        parts = {}
        for part, heads in (("q", problem.heads), ("k", problem.kv_heads), ("v", problem.kv_heads)):
            product = graph.reshape_3d(graph.mul_mat(self._weight(layer, f"attn_{part}"), values), size, heads, problem.tokens)
            if part != "v":
                if problem.is_gemma:
                    product = self._norm(product, self._weight(layer, f"attn_{part}_norm"))
                product = graph.rope_ext(product, self.positions, None, size, mode, 8192, decoder_weights.THETA, 1.0, 0.0, 1.0, 32.0,
                                         1.0)
            parts[part] = product
        if problem.is_gemma:
            parts["q"] = graph.scale(parts["q"], size ** -0.5)
        for part in "qvk":  # in llama.cpp's order
            graph.expand(parts[part])
        row, held = size * problem.kv_heads, {}
        for part in "kv":
            cache = held[part] = self._cache(layer, part)
            all_rows = 4 * row * problem.tokens
            tokens = graph.view_4d(parts[part], row, problem.tokens, 1, 1, 4 * row, all_rows, all_rows, 0)
            graph.expand(graph.set_rows(cache, tokens, own))
        strides = 2 * size, 2 * row, 2 * row * cells
        keys, cached = [graph.permute(graph.view_4d(held[part], size, problem.kv_heads, cells, 1, *strides, 0), 0, 2, 1, 3)
                        for part in "kv"]
        scale = 1.0 if problem.is_gemma else size ** -0.5
        attended = graph.flash_attn_ext(graph.permute(parts["q"], 0, 2, 1, 3), keys, cached, mask, scale, 0.0, 0.0)
        graph.ggml.flash_attn_ext_set_prec(attended, PRECISION_F32)
        attended = graph.reshape_2d(attended, size * problem.heads, problem.tokens)
        graph.expand(attended)
        return graph.mul_mat(self._weight(layer, "attn_output"), attended)

    def _layer(self, layer, hidden):
        problem, graph = self.problem, self.graph
        attended = self._attention(layer, self._norm(hidden, self._weight(layer, "attn_norm")))
        if problem.vocabulary and layer == problem.layers - 1:  # of the last layer what is asked for alone
            attended, hidden = (graph.get_rows(each, self.samples) for each in (attended, hidden))
        if problem.is_gemma:
            attended = self._norm(attended, self._weight(layer, "post_attention_norm"))
        hidden = graph.add(attended, hidden)
        values = self._norm(hidden, self._weight(layer, "ffn_norm"))
        up = graph.mul_mat(self._weight(layer, "ffn_up"), values)
        gate = graph.mul_mat(self._weight(layer, "ffn_gate"), values)
        gated = (graph.geglu_split if problem.is_gemma else graph.swiglu_split)(gate, up)
        down = graph.mul_mat(self._weight(layer, "ffn_down"), gated)
        if problem.is_gemma:
            down = self._norm(down, self._weight(layer, "post_ffw_norm"))
        return graph.add(down, hidden)

    def _embedded(self):
        problem, graph = self.problem, self.graph
        if not problem.vocabulary:
            return self.inputs.add("f32", [problem.width, problem.tokens], problem.hidden_states)
        hidden = graph.get_rows(self.weights["token_embd.weight"], self.inputs.add("i32", [problem.tokens], problem.token_ids))
        return graph.scale(hidden, problem.width ** 0.5) if problem.is_gemma else hidden

    def compute(self):
        """(what decoder_weights.tell takes, the dispatches that made it)"""
        problem, result = self.problem, self._embedded()
        for layer in range(problem.layers):
            result = self._layer(layer, result)
        shape = problem.tokens, problem.width
        if problem.vocabulary:
            result = self.graph.mul_mat(self.weights["token_embd.weight"], self._norm(result, self.weights["output_norm.weight"]))
            shape = len(problem.samples()), problem.vocabulary
        self.graph.expand(result)
        self.inputs.upload()
        values, counted = self.graph.compute(result, shape)
        return (values if problem.vocabulary else (values.astype("f8") - problem.hidden_states)[problem.samples()]), counted


def main():
    problem = decoder_weights.Problem(json.loads(sys.argv[1]))
    decoder_weights.tell(problem=problem, **dict(zip(("got", "counted"), Decoder(problem).compute())))


if __name__ == "__main__":
    main()
