"""Single nodes with the attributes and inputs that models have less often, beside ONNX Runtime's processor."""
import models
import numpy as np
import pytest
from conftest import assert_close, cpu_session, run, vkattn_session
from onnx import TensorProto, helper

CONTRIB = "com.microsoft"
FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float16])


def compare(op, inputs, outputs, constants=(), bound=None, dtype=np.float32, domain=CONTRIB, **attributes):
    model = models.single(op, inputs, outputs, set(constants), dtype, domain, **attributes)
    feeds = {name: value for name, value in inputs.items() if value is not None and name not in constants}
    try:
        expected = run(cpu_session(model), feeds)
    except Exception as error:  # noqa: BLE001 - what this version has not
        pytest.skip(f"ONNX Runtime's processor does not run it: {str(error)[:150]}")
    found = run(vkattn_session(model, alone=True), feeds)
    for name in expected:
        assert_close(found[name], expected[name], bound)


@FLOATS
@pytest.mark.parametrize("block, inputs, points, bias", [
    (32, 96, None, False), (64, 128, "packed", True), (128, 256, "floats", False), (16, 80, "packed", True), (32, 72, None, True),
    (256, 512, "packed", False)])
def test_products(rng, dtype, block, inputs, points, bias):
    outputs, blocks, rows = int(rng.integers(1, 70)), -(-inputs // block), int(rng.integers(1, 40))
    scales = rng.uniform(0.01, 0.02, outputs * blocks).astype(np.float16).astype(dtype)
    given = {"A": rng.standard_normal((2, rows, inputs)).astype(dtype),
             "B": rng.integers(0, 256, (outputs, blocks, block // 2), dtype=np.uint8), "scales": scales, "points": None,
             "g_idx": None}
    if points == "packed":
        given["points"] = rng.integers(0, 256, outputs * ((blocks + 1) // 2), dtype=np.uint8)
    if points == "floats":
        given["points"] = rng.integers(0, 16, (outputs, blocks)).astype(dtype)
    if bias:
        given["bias"] = rng.standard_normal(outputs).astype(dtype)
    constants = [name for name, value in given.items() if name != "A" and value is not None]
    bound = 3e-3 if dtype == np.float32 and (points or block == 16 or inputs % 32) else None
    compare("MatMulNBits", given, ["Y"], constants, bound, dtype, K=inputs, N=outputs, bits=4, block_size=block)


def test_products_with_scales_that_float16_has_not(rng):
    """Of some outputs; each is judged by its own largest number."""
    scales = (rng.uniform(1, 2, (6, 2)) * np.array([[1e-2], [1e-7]] * 3)).astype(np.float32)
    given = {"A": rng.standard_normal((5, 64)).astype(np.float32),
             "B": rng.integers(0, 256, (6, 2, 16), dtype=np.uint8), "scales": scales.reshape(-1)}
    model = models.single("MatMulNBits", given, ["Y"], {"B", "scales"}, domain=CONTRIB, K=64, N=6, bits=4, block_size=32)
    found = run(vkattn_session(model, alone=True), {"A": given["A"]})["Y"]
    numbers = np.stack([given["B"] & 15, given["B"] >> 4], -1).reshape(6, 64) - 8.0
    expected = (given["A"] @ (numbers * scales.repeat(32, 1)).T).astype(np.float32)
    for output in range(6):
        largest = np.abs(expected[:, output]).max()
        np.testing.assert_allclose(found[:, output], expected[:, output], rtol=0, atol=1e-4 * largest)


@FLOATS
@pytest.mark.parametrize("case", ["bias", "lengths", "lengths-and-starts", "attention_bias", "past", "causal", "cross", "cross-bias"])
def test_multi_head_attention(rng, dtype, case):
    batch, heads, new, keys, dim = 2, 3, int(rng.integers(1, 20)), int(rng.integers(2, 30)), 16
    if case in ("past", "causal"):
        keys = new
    width = heads * dim

    def floats(*shape):
        return rng.standard_normal(shape).astype(dtype)

    given = {"query": floats(batch, new, width), "key": floats(batch, keys, width), "value": floats(batch, keys, width),
             "bias": None, "padding": None, "attention_bias": None, "past_key": None, "past_value": None}
    if case in ("bias", "cross-bias"):
        given["bias"] = floats(3 * width)
    if case == "lengths":
        given["padding"] = rng.integers(1, keys + 1, batch).astype(np.int32)
    if case == "lengths-and-starts":  # [3 * batch + 2]
        given["padding"] = np.concatenate([rng.integers(1, keys + 1, batch), np.arange(2 * batch + 2)]).astype(np.int32)
    if case == "attention_bias":
        given["attention_bias"] = floats(1, heads, new, keys)
    if case == "past":
        given.update(past_key=floats(batch, heads, 5, dim), past_value=floats(batch, heads, 5, dim))
    if case in ("cross", "cross-bias"):
        given.update(key=floats(batch, heads, keys, dim), value=floats(batch, heads, keys, dim))
    outputs = ["Y", "present_key", "present_value"] if case == "past" else ["Y"]
    compare("MultiHeadAttention", given, outputs, dtype=dtype, num_heads=heads, unidirectional=int(case == "causal"))


@FLOATS
@pytest.mark.parametrize("case", ["softcap", "smooth", "sink", "attention_bias", "packed"])
def test_group_query_attention(rng, dtype, case):
    heads, kv_heads, dim, new, past = 4, 2, 16, int(rng.integers(1, 2)), int(rng.integers(1, 30))

    def floats(*shape):
        return rng.standard_normal(shape).astype(dtype)

    width = (heads + 2 * kv_heads if case == "packed" else heads) * dim
    given = {"query": floats(1, new, width), "key": floats(1, new, kv_heads * dim), "value": floats(1, new, kv_heads * dim),
             "past_key": floats(1, kv_heads, past, dim), "past_value": floats(1, kv_heads, past, dim),
             "seqlens_k": np.array([past + new - 1], np.int32), "total": np.array(past + new, np.int32), "cos": None, "sin": None,
             "position_ids": None, "attention_bias": None}
    if case == "packed":
        given.update(key=None, value=None)
    if case == "attention_bias":
        given["attention_bias"] = floats(1, heads, new, past + new)
    if case == "sink":
        given["head_sink"] = floats(heads)
    compare("GroupQueryAttention", given, ["Y", "present_key", "present_value"], ["head_sink"], dtype=dtype, num_heads=heads,
            kv_num_heads=kv_heads, softcap=3.0 if case == "softcap" else 0.0, smooth_softmax=int(case == "smooth"))


@FLOATS
@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_of_heads_apart(rng, dtype, interleaved):
    """Before Attention, with sequences at positions of their own, partly rotated."""
    batch, heads, length, dim, pairs = 3, 2, int(rng.integers(1, 12)), 24, 8
    graph = models.Graph(rng, dtype)
    x = graph.input("x", [batch, heads, "length", dim])
    positions = graph.input("positions", [batch, "length"], 7)
    turned = graph.add("RotaryEmbedding", [x] + graph.rope_tables(64, pairs) + [positions], num_heads=heads,
                       rotary_embedding_dim=2 * pairs, interleaved=interleaved)
    graph.add("Attention", [turned, x, x], ["Y"])
    graph.output("Y", None)
    feeds = {"x": rng.standard_normal((batch, heads, length, dim)).astype(dtype), "positions": rng.integers(0, 64, (batch, length))}
    found, expected = run(vkattn_session(graph.model(), alone=True), feeds), run(cpu_session(graph.model()), feeds)
    assert_close(found["Y"], expected["Y"])


def rounded(values):
    """The same numbers in float32, each the nearest that bfloat16 has."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


def in_bfloat16(nodes, inputs, constants, output):
    """A model of nodes (operator, domain, inputs, attributes), the last one's output cast back: floats are cast before them, since
    NumPy has no bfloat16, and constants are in it."""
    graph = models.Graph(None)
    names = {"": ""}
    for name, value in inputs.items():
        element = helper.np_dtype_to_tensor_dtype(value.dtype)
        names[name] = graph.input(name, list(value.shape), element)
        if element == TensorProto.FLOAT:
            names[name] = graph.add("Cast", [name], to=TensorProto.BFLOAT16)
    for name, value in constants.items():
        names[name] = name
        if value.dtype == np.float32:
            raw = (value.view(np.uint32) >> 16).astype(np.uint16).tobytes()
            graph.constants.append(helper.make_tensor(name, TensorProto.BFLOAT16, value.shape, raw, raw=True))
        else:
            graph.constants.append(models.numpy_helper.from_array(value, name))
    for op, domain, given, attributes in nodes:
        found = graph.add(op, [names[name] for name in given], [f"of_{op}"], domain, **attributes)
        names[f"of_{op}"] = found[0] if isinstance(found, list) else found
    graph.add("Cast", [names[output]], ["Y"], to=TensorProto.FLOAT)
    graph.output("Y", None, TensorProto.FLOAT)
    return graph.model()


def in_float32(nodes, inputs, constants, output):
    """The same without casts."""
    graph = models.Graph(None)
    for name, value in inputs.items():
        graph.input(name, list(value.shape), helper.np_dtype_to_tensor_dtype(value.dtype))
    graph.constants += [models.numpy_helper.from_array(value, name) for name, value in constants.items()]
    for op, domain, given, attributes in nodes:
        graph.add(op, given, [f"of_{op}"], domain, **attributes)
    graph.output(output, None)
    return graph.model()


@pytest.mark.parametrize("case", ["Attention", "MultiHeadAttention", "MatMulNBits", "RotaryEmbedding"])
def test_bfloat16(rng, case):
    """Beside the same numbers in float32. ONNX Runtime's processor has no such node for bfloat16: left there, it fails the session."""
    length, heads, dim = int(rng.integers(1, 40)), 4, 32

    def floats(*shape):
        return rounded(rng.standard_normal(shape))

    constants = {}
    inputs = {"Q": floats(2, heads, length, dim), "K": floats(2, heads, 21, dim), "V": floats(2, heads, 21, dim)}
    nodes = [("Attention", "", ["Q", "K", "V"], {})]
    if case == "MultiHeadAttention":
        inputs = {name: floats(2, length, heads * dim) for name in "QKV"}
        nodes = [(case, CONTRIB, ["Q", "K", "V"], {"num_heads": heads})]
    if case == "MatMulNBits":
        inputs = {"A": floats(3, length, 64)}
        constants = {"B": rng.integers(0, 256, (10, 2, 16), dtype=np.uint8), "scales": rounded(rng.uniform(0.01, 0.02, 20))}
        nodes = [(case, CONTRIB, ["A", "B", "scales"], {"K": 64, "N": 10, "bits": 4, "block_size": 32})]
    if case == "RotaryEmbedding":  # beside a node that is taken
        angles = np.arange(64)[:, None] * 10000.0 ** (-np.arange(dim // 2) / (dim // 2))
        constants = {"cos": rounded(np.cos(angles)), "sin": rounded(np.sin(angles))}
        inputs["positions"] = rng.integers(0, 64, (2, length))
        nodes = [(case, "", ["Q", "cos", "sin", "positions"], {}), ("Attention", "", ["of_RotaryEmbedding", "K", "V"], {})]
    output = f"of_{nodes[-1][0]}"
    try:
        session = vkattn_session(in_bfloat16(nodes, inputs, constants, output))
    except Exception as error:  # noqa: BLE001 - what this version has not
        if "Type 'tensor(bfloat16)' of input parameter" in str(error):
            pytest.skip(f"this ONNX Runtime's {case} is without bfloat16")
        raise
    found = run(session, inputs)["Y"]
    expected = run(cpu_session(in_float32(nodes, inputs, constants, output)), inputs)[output]
    assert_close(found, expected, 2e-2)
