"""Small models of random weights, as exporters write them: what the tests and the benchmark run."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONTRIB = "com.microsoft"
TYPES = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16}


class Graph:
    """Nodes, constants, inputs and outputs of a model, in the order in which they are added."""

    def __init__(self, rng, dtype=np.float32):
        self.rng, self.dtype, self.type = rng, dtype, TYPES[dtype]
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []

    def name(self, stem):
        return f"{stem}_{len(self.nodes) + len(self.constants)}"

    def input(self, name, shape, element=None):
        self.inputs.append(helper.make_tensor_value_info(name, element or self.type, shape))
        return name

    def output(self, name, shape, element=None):
        self.outputs.append(helper.make_tensor_value_info(name, element or self.type, shape))

    def constant(self, value, stem="constant"):
        name = self.name(stem)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, *shape, scale=None):
        scale = scale or 1 / np.sqrt(shape[0])
        return self.constant((self.rng.standard_normal(shape) * scale).astype(self.dtype), "weight")

    def add(self, op, inputs, outputs=1, domain="", **attributes):
        """Adds a node; outputs: how many, or their names. Returns the names, of one output as it is."""
        names = [self.name(op.lower()) + f"_{each}" for each in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op, inputs, names, name=self.name(op), domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def linear(self, x, inputs, outputs):
        return self.add("MatMul", [x, self.weight(inputs, outputs)])

    def linear_4_bits(self, x, inputs, outputs, block=32, points=False, plain_scales=False):
        """MatMulNBits with scales that f16 holds exactly, but with plain_scales; their products with points, too."""
        blocks = -(-inputs // block)
        scales = self.rng.integers(32, 96, (outputs, blocks)) / 64 / 2 ** np.ceil(2 + np.log2(inputs) / 2)
        if plain_scales:
            scales *= self.rng.uniform(0.9, 1.1, scales.shape)
        scales = scales.astype(np.float32 if plain_scales else np.float16).astype(self.dtype)
        packed = self.rng.integers(0, 256, (outputs, blocks, block // 2), dtype=np.uint8)
        weights = [self.constant(packed, "packed"), self.constant(scales.reshape(-1), "scales")]
        if points:
            weights.append(self.constant(self.rng.integers(0, 256, outputs * ((blocks + 1) // 2), dtype=np.uint8), "points"))
        return self.add("MatMulNBits", [x] + weights, domain=CONTRIB, K=inputs, N=outputs, bits=4, block_size=block)

    def rms_norm(self, x, width):
        return self.add("SimplifiedLayerNormalization", [x, self.constant(np.ones(width, self.dtype))], axis=-1, epsilon=1e-6)

    def layer_norm(self, x, width):
        return self.add("LayerNormalization", [x] + [self.constant(np.full(width, each, self.dtype)) for each in (1, 0)])

    def rope_tables(self, positions, pairs, theta=10000.0):
        angles = np.arange(positions)[:, None] * theta ** (-np.arange(pairs) / pairs)
        return [self.constant(np.cos(angles).astype(self.dtype)), self.constant(np.sin(angles).astype(self.dtype))]

    def model(self, opset=23):
        graph = helper.make_graph(self.nodes, "random", self.inputs, self.outputs, self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(CONTRIB, 1)])
        made.ir_version = 10
        return made.SerializeToString()


def cache_names(layer):
    return f"past_key_{layer}", f"past_value_{layer}", f"present_key_{layer}", f"present_value_{layer}"


def gqa_decoder(rng, dtype=np.float32, layers=2, heads=4, kv_heads=2, head_dim=32, packed=False, interleaved=False, rotary_dim=None,
                window=-1, vocabulary=64, ffn=128, positions=256, **quantised):
    """A decoder as ONNX Runtime's model builder exports them: GroupQueryAttention with its rotary embedding, and MatMulNBits."""
    graph, width = Graph(rng, dtype), heads * head_dim
    x = graph.input("x", ["batch", "new", width])
    lengths = [graph.input("seqlens_k", ["batch"], TensorProto.INT32), graph.input("total", [], TensorProto.INT32)]
    tables = graph.rope_tables(positions, (rotary_dim or head_dim) // 2)
    for layer in range(layers):
        past_key, past_value, present_key, present_value = cache_names(layer)
        for past in (past_key, past_value):
            graph.input(past, ["batch", kv_heads, "past", head_dim])
        normed = graph.rms_norm(x, width)
        sizes = [(heads + 2 * kv_heads) * head_dim] if packed else [width, kv_heads * head_dim, kv_heads * head_dim]
        projected = [graph.linear_4_bits(normed, width, size, **quantised) for size in sizes] + ["", ""] * packed
        attended = graph.add("GroupQueryAttention", projected + [past_key, past_value] + lengths + tables,
                             [graph.name("attended"), present_key, present_value], CONTRIB, num_heads=heads, kv_num_heads=kv_heads,
                             do_rotary=1, rotary_interleaved=int(interleaved), local_window_size=window)[0]
        for present in (present_key, present_value):
            graph.output(present, ["batch", kv_heads, "total", head_dim])
        x = graph.add("Add", [x, graph.linear_4_bits(attended, width, width, **quantised)])
        normed = graph.rms_norm(x, width)
        gate, up = (graph.linear_4_bits(normed, width, ffn, **quantised) for _ in range(2))
        gated = graph.add("Mul", [graph.add("Mul", [gate, graph.add("Sigmoid", [gate])]), up])
        x = graph.add("Add", [x, graph.linear_4_bits(gated, ffn, width, **quantised)])
    graph.add("MatMul", [graph.rms_norm(x, width), graph.weight(width, vocabulary)], ["logits"])
    graph.output("logits", ["batch", "new", vocabulary])
    return graph.model()


def mha_encoder(rng, dtype=np.float32, layers=2, heads=4, head_dim=32, vocabulary=100, ffn=256):
    """An encoder as MiniLM is exported, with MultiHeadAttention that adds the projections' biases and takes the padding mask."""
    graph, width = Graph(rng, dtype), heads * head_dim
    tokens = graph.input("tokens", ["batch", "len"], TensorProto.INT64)
    mask = graph.add("Cast", [graph.input("attention_mask", ["batch", "len"], TensorProto.INT64)], to=TensorProto.INT32)
    x = graph.layer_norm(graph.add("Gather", [graph.weight(vocabulary, width, scale=1), tokens]), width)
    for _ in range(layers):
        projected = [graph.linear(x, width, width) for _ in range(3)]
        bias = graph.constant((rng.standard_normal(3 * width) * 0.2).astype(dtype))
        attended = graph.add("MultiHeadAttention", projected + [bias, mask], domain=CONTRIB, num_heads=heads)
        x = graph.layer_norm(graph.add("Add", [x, graph.linear(attended, width, width)]), width)
        hidden = graph.add("Gelu", [graph.linear(x, width, ffn)])
        x = graph.layer_norm(graph.add("Add", [x, graph.linear(hidden, ffn, width)]), width)
    graph.add("Identity", [x], ["embedding"])
    graph.output("embedding", ["batch", "len", width])
    return graph.model()


def onnx_decoder(rng, dtype=np.float32, layers=2, heads=4, kv_heads=2, head_dim=32, vocabulary=64, softcap=0.0,
                 contrib_rotary=False):
    """A decoder of ONNX's own operators: RotaryEmbedding and Attention of opset 23 with a past, and an additive mask."""
    graph, width = Graph(rng, dtype), heads * head_dim
    x = graph.input("x", ["batch", "new", width])
    mask = graph.input("mask", ["batch", 1, "new", "total"])
    positions = graph.input("positions", ["batch", "new"], TensorProto.INT64)
    tables = graph.rope_tables(256, head_dim // 2)
    for layer in range(layers):
        past_key, past_value, present_key, present_value = cache_names(layer)
        for past in (past_key, past_value):
            graph.input(past, ["batch", kv_heads, "past", head_dim])
        projected = [graph.linear(x, width, size * head_dim) for size in (heads, kv_heads, kv_heads)]
        for each, count in ((0, heads), (1, kv_heads)):
            if contrib_rotary:
                projected[each] = graph.add("RotaryEmbedding", [projected[each], positions] + tables, domain=CONTRIB)
            else:
                projected[each] = graph.add("RotaryEmbedding", [projected[each]] + tables + [positions], num_heads=count)
        attended = graph.add("Attention", projected + [mask, past_key, past_value],
                             [graph.name("attended"), present_key, present_value], q_num_heads=heads, kv_num_heads=kv_heads,
                             is_causal=1, softcap=softcap)[0]
        for present in (present_key, present_value):
            graph.output(present, ["batch", kv_heads, "total", head_dim])
        x = graph.add("Add", [x, graph.linear(attended, width, width)])
    graph.add("MatMul", [x, graph.weight(width, vocabulary)], ["logits"])
    graph.output("logits", ["batch", "new", vocabulary])
    return graph.model()


def single(op, inputs, outputs, constants=None, dtype=np.float32, domain="", opset=23, **attributes):
    """A model of one node. inputs: the names with their example arrays, None for one that is left out; constants: as inputs, a
    part of the model; outputs: names."""
    graph = Graph(np.random.default_rng(0), dtype)
    constants = constants or {}
    names = []
    for name, value in inputs.items():
        if value is None:
            names.append("")
        elif name in constants:
            graph.constants.append(numpy_helper.from_array(value, name))
            names.append(name)
        else:
            element = helper.np_dtype_to_tensor_dtype(value.dtype)
            names.append(graph.input(name, [f"{name}_{each}" for each in range(value.ndim - 1)] + list(value.shape[-1:]), element))
    graph.nodes.append(helper.make_node(op, names, outputs, name="the_node", domain=domain, **attributes))
    for name in outputs:
        if name:
            graph.outputs.append(onnx.ValueInfoProto(name=name))
    return graph.model(opset)
