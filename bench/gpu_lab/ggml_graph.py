"""python3 ggml_graph.py SHAPE: one operation of ggml's on its first Vulkan device, with inputs that are right for it, in the root of
scripts/modern-root. SHAPE: JSON of a Shape or a LinearShape. Prints "right" or "wrong" with the error, by float64 on some rows.
test-backend-ops cannot take its place: it fills masks at random, and what they hide is what ggml leaves out."""
import ctypes
import json
import pathlib
import sys

import decoder_weights
import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from ggml_attention import TYPES  # noqa: E402

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
POINTER, INTEGER, LENGTH, REAL = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_float
MOST_ERROR = 5e-4  # of test-backend-ops: the squares' sum of the differences over that of the values


class Parameters(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("memory", POINTER), ("has_no_data", ctypes.c_bool)]


FUNCTIONS = {
    "ggml_backend_load_all": (None,),
    "ggml_backend_dev_by_name": (POINTER, ctypes.c_char_p),
    "ggml_backend_dev_init": (POINTER, POINTER, ctypes.c_char_p),
    "ggml_backend_alloc_ctx_tensors": (POINTER, POINTER, POINTER),
    "ggml_backend_graph_compute": (INTEGER, POINTER, POINTER),
    "ggml_backend_tensor_set": (None, POINTER, POINTER, ctypes.c_size_t, ctypes.c_size_t),
    "ggml_backend_tensor_get": (None, POINTER, POINTER, ctypes.c_size_t, ctypes.c_size_t),
    "ggml_init": (POINTER, Parameters),
    "ggml_new_tensor_4d": (POINTER, POINTER, INTEGER, *[LENGTH] * 4),
    "ggml_view_4d": (POINTER, POINTER, POINTER, *[LENGTH] * 4, *[ctypes.c_size_t] * 4),
    "ggml_flash_attn_ext": (POINTER, *[POINTER] * 5, *[REAL] * 3),
    "ggml_flash_attn_ext_set_prec": (None, POINTER, INTEGER),
    "ggml_mul_mat": (POINTER, *[POINTER] * 3),
    "ggml_cast": (POINTER, POINTER, POINTER, INTEGER),
    "ggml_new_graph": (POINTER, POINTER),
    "ggml_build_forward_expand": (None, POINTER, POINTER),
    "ggml_backend_init_by_type": (POINTER, INTEGER, POINTER),
    "ggml_backend_buffer_set_usage": (None, POINTER, INTEGER),
    "ggml_backend_sched_new": (POINTER, POINTER, POINTER, INTEGER, ctypes.c_size_t, ctypes.c_bool, ctypes.c_bool),
    "ggml_backend_sched_alloc_graph": (ctypes.c_bool, POINTER, POINTER),
    "ggml_backend_sched_graph_compute": (INTEGER, POINTER, POINTER),
    "ggml_backend_sched_get_n_splits": (INTEGER, POINTER),
    "ggml_new_graph_custom": (POINTER, POINTER, ctypes.c_size_t, ctypes.c_bool),
    "ggml_add": (POINTER, *[POINTER] * 3),
    "ggml_mul": (POINTER, *[POINTER] * 3),
    "ggml_scale": (POINTER, POINTER, POINTER, REAL),
    "ggml_rms_norm": (POINTER, POINTER, POINTER, REAL),
    "ggml_swiglu_split": (POINTER, *[POINTER] * 3),
    "ggml_geglu_split": (POINTER, *[POINTER] * 3),
    "ggml_get_rows": (POINTER, *[POINTER] * 3),
    "ggml_set_rows": (POINTER, *[POINTER] * 4),
    "ggml_permute": (POINTER, POINTER, POINTER, *[INTEGER] * 4),
    "ggml_reshape_2d": (POINTER, POINTER, POINTER, *[LENGTH] * 2),
    "ggml_reshape_3d": (POINTER, POINTER, POINTER, *[LENGTH] * 3),
    "ggml_rope_ext": (POINTER, *[POINTER] * 4, *[INTEGER] * 3, *[REAL] * 6),
    "ggml_quantize_chunk": (ctypes.c_size_t, INTEGER, POINTER, POINTER, LENGTH, LENGTH, LENGTH, POINTER),
}


class Ggml:
    """Its functions, by their names without ggml_, and a context for tensors."""

    def __init__(self):
        libraries = [ctypes.CDLL(f"{LIBRARIES}/{name}", ctypes.RTLD_GLOBAL) for name in ("libggml-base.so.0", "libggml.so.0")]
        for name, (result, *arguments) in FUNCTIONS.items():
            function = next(getattr(library, name) for library in libraries if hasattr(library, name))
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("ggml_"), function)
        self.backend_load_all()
        device = self.backend_dev_by_name(b"Vulkan0")
        if not device:
            sys.exit("ggml_graph.py: ggml has no device Vulkan0")
        self.backend = self.backend_dev_init(device, None)
        self.context = self.init(Parameters(1 << 22, None, True))

    def tensor(self, kind, *sizes):
        return self.new_tensor_4d(self.context, TYPES[kind][0], *sizes, *[1] * (4 - len(sizes)))

    def fill(self, tensor, data):
        data = numpy.ascontiguousarray(data)
        self.backend_tensor_set(tensor, data.ctypes.data, 0, data.nbytes)

    def compute(self, result, inputs, shape):
        """The result's f32 as an array of the shape; inputs: tensors and their data."""
        graph = self.new_graph(self.context)
        self.build_forward_expand(graph, result)
        if not self.backend_alloc_ctx_tensors(self.context, self.backend):
            sys.exit("ggml_graph.py: ggml has no memory for the tensors")
        for tensor, data in inputs:
            self.fill(tensor, data)
        if self.backend_graph_compute(self.backend, graph) != 0:
            sys.exit("ggml_graph.py: ggml's graph failed")
        values = numpy.empty(shape, numpy.float32)
        self.backend_tensor_get(result, values.ctypes.data, 0, values.nbytes)
        return values


def stored(ggml, kind, values):
    """What a tensor of the type holds of rows of f32, and the values that it then has."""
    if kind == "f16":
        halves = values.astype(numpy.float16)
        return halves, halves.astype(numpy.float32)
    number, block_bytes, block = TYPES[kind]
    rows = values.size // values.shape[-1]
    blocks = numpy.empty((values.size // block, block_bytes), numpy.uint8)
    ggml.quantize_chunk(number, numpy.ascontiguousarray(values).ctypes.data, blocks.ctypes.data, 0, rows, values.shape[-1], None)
    return blocks, decoder_weights.numbers_of(blocks, kind, values.shape)


def attention(ggml, shape, precision):
    """Of one sequence. The error on some rows of some heads."""
    random = numpy.random.default_rng(1)
    heads, kv_heads, q_len, kv_len, size, v_size = (
        shape[name] for name in ("heads", "kv_heads", "q_len", "kv_len", "head_dim", "v_head_dim"))
    query_values = random.standard_normal((heads, q_len, size), numpy.float32)
    query, keys = ggml.tensor("f32", size, q_len, heads), ggml.tensor(shape["kv_type"], size, kv_len, kv_heads)
    key_data, key_values = stored(ggml, shape["kv_type"], random.standard_normal((kv_heads, kv_len, size), numpy.float32))
    inputs = [(query, query_values), (keys, key_data)]
    if v_size != size:  # the first elements of the keys
        row = TYPES[shape["kv_type"]][1] * size // TYPES[shape["kv_type"]][2]
        values, value_values = ggml.view_4d(ggml.context, keys, v_size, kv_len, kv_heads, 1, row, row * kv_len,
                                            row * kv_len * kv_heads, 0), key_values[..., :v_size]
    else:
        values = ggml.tensor(shape["kv_type"], size, kv_len, kv_heads)
        value_data, value_values = stored(ggml, shape["kv_type"], random.standard_normal((kv_heads, kv_len, size), numpy.float32))
        inputs.append((values, value_data))
    mask, hidden = None, numpy.zeros((q_len, kv_len), numpy.float32)
    if shape["causal"]:
        hidden[numpy.triu_indices(q_len, kv_len - q_len + 1, kv_len)] = -numpy.inf
        mask = ggml.tensor("f16", kv_len, q_len)
        inputs.append((mask, hidden.astype(numpy.float16)))
    result = ggml.flash_attn_ext(ggml.context, query, keys, values, mask, size ** -0.5, 0.0, 0.0)
    ggml.flash_attn_ext_set_prec(result, precision)
    got = ggml.compute(result, inputs, (q_len, heads, v_size))
    wanted = []
    rows = sorted({(head, position) for head in (0, heads // 2, heads - 1) for position in (0, q_len // 3, q_len - 1)})
    for head, position in rows:
        kv_head = head * kv_heads // heads
        scores = key_values[kv_head].astype(numpy.float64) @ query_values[head, position] * size ** -0.5 + hidden[position]
        weights = numpy.exp(scores - scores.max())
        wanted.append(weights @ value_values[kv_head] / weights.sum())
    return error(numpy.array([got[position, head] for head, position in rows]), numpy.array(wanted))


def linear(ggml, shape):
    """The error on some rows. Without outputs: the rows are made f16, and f32 again."""
    random, kind = numpy.random.default_rng(1), shape["weight_type"] or shape["kind"]
    rows = random.standard_normal((shape["rows"], shape["in_features"]), numpy.float32)
    values = ggml.tensor("f32", *rows.shape[::-1])
    if shape["out_features"] == 0:
        again = ggml.cast(ggml.context, ggml.cast(ggml.context, values, TYPES["f16"][0]), TYPES["f32"][0])
        return error(ggml.compute(again, [(values, rows)], rows.shape), rows)
    weight_data, weights = stored(ggml, kind, random.standard_normal((shape["out_features"], shape["in_features"]), numpy.float32))
    weight = ggml.tensor(kind, *weights.shape[::-1])
    got = ggml.compute(ggml.mul_mat(ggml.context, weight, values), [(weight, weight_data), (values, rows)],
                       (shape["rows"], shape["out_features"]))
    some = [0, shape["rows"] // 2, shape["rows"] - 1]
    return error(got[some], rows[some].astype(numpy.float64) @ weights.T)


def error(got, wanted):
    return float(((got - wanted) ** 2).sum() / (wanted ** 2).sum())


def main():
    shape = json.loads(sys.argv[1])
    ggml = Ggml()
    found = linear(ggml, shape) if "in_features" in shape else attention(ggml, shape, shape["precision"])
    print(f"{'right' if found <= MOST_ERROR else 'wrong'}, error {found:.2g}", flush=True)


if __name__ == "__main__":
    main()
