"""Sessions: threads, caches on the device, why nodes are left, and what is wrong with inputs."""
import os
import pathlib
import re
import subprocess
import sys
import threading

import models
import numpy as np
import onnx
import onnxruntime
import pytest
import vkattn_onnxruntime
from conftest import NO_DEVICES, VERSION, assert_close, cpu_session, run, vkattn_session
from onnx import helper, numpy_helper
from test_models import Decoder, gqa_steps


def heads(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def attention(rng, constants=(), dtype=np.float32, outputs=("Y",), opset=23, **changed):
    """A model of one Attention node and what it is fed, with other inputs or attributes where they are given."""
    inputs = {"Q": heads(rng, 2, 4, 5, 16, dtype=dtype), "K": heads(rng, 2, 2, 7, 16, dtype=dtype),
              "V": heads(rng, 2, 2, 7, 24, dtype=dtype)}
    attributes = {name: value for name, value in changed.items() if not isinstance(value, np.ndarray) and value is not None}
    inputs.update({name: value for name, value in changed.items() if name not in attributes})
    model = models.single("Attention", inputs, list(outputs), set(constants), dtype, opset=opset, **attributes)
    return model, {name: value for name, value in inputs.items() if value is not None and name not in constants}


def causal(query, key, value, dim):
    """Causal attention of [1,L,heads*dim] in float64, the queries at the end of the keys."""
    q, k, v = (each[0].astype(np.float64).reshape(each.shape[1], -1, dim).swapaxes(0, 1) for each in (query, key, value))
    k, v = (each.repeat(len(q) // len(each), 0) for each in (k, v))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(dim)
    scores[:, ~np.tril(np.ones(scores.shape[1:], bool), k.shape[1] - q.shape[1])] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    output = weights / weights.sum(-1, keepdims=True) @ v
    return output.swapaxes(0, 1).reshape(query.shape).astype(query.dtype)


# ------------------------------------------------------------------------------------------------ threads


def test_two_sessions_in_two_threads(rng):
    jobs = []
    for dtype in (np.float32, np.float16):
        model = models.gqa_decoder(rng, dtype)
        steps = list(gqa_steps(rng, dtype, 128, 2, (9, 1, 1, 1, 1, 1)))
        jobs.append((model, dtype, steps, [Decoder(cpu_session(model))]))
    failures = []

    def work(model, dtype, steps, theirs):
        try:
            ours = Decoder(vkattn_session(model))
            for feeds in steps:
                found, expected = ours.step(feeds, dtype), theirs[0].step(feeds, dtype)
                for name in expected:
                    assert_close(found[name], expected[name])
                ours.past = dict(theirs[0].past)
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a session hangs"
    assert not failures, failures


def test_one_session_in_two_threads(rng):
    model, feeds = attention(rng)
    session, expected, found = vkattn_session(model, alone=True), run(cpu_session(model), feeds)["Y"], [None, None]

    def work(number):
        for _ in range(20):
            found[number] = run(session, feeds)["Y"]

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a session hangs"
    for each in found:
        assert_close(each, expected)


# ------------------------------------------------------------------------------------------------ caches on the device


def cached(rng, past, total, seqlens, new, bias=None):
    """A model of GroupQueryAttention of 4 heads in 2 groups of 16, and what it is fed."""
    batch = len(seqlens)
    inputs = {"query": heads(rng, batch, new, 64), "key": heads(rng, batch, new, 32), "value": heads(rng, batch, new, 32),
              "past_key": heads(rng, batch, 2, past, 16), "past_value": heads(rng, batch, 2, past, 16),
              "seqlens_k": np.array(seqlens, np.int32), "total": np.array(total, np.int32), "cos": None, "sin": None,
              "position_ids": None}
    if bias is not None:
        inputs["attention_bias"] = heads(rng, 1, 4, new, bias)
    model = models.single("GroupQueryAttention", inputs, ["Y", "present_key", "present_value"], domain="com.microsoft", num_heads=4,
                          kv_num_heads=2)
    return model, {name: value for name, value in inputs.items() if value is not None}


def rows(value):
    """[B,L,H*D] as [B,H,L,D]."""
    return value.reshape(value.shape[0], value.shape[1], -1, 16).swapaxes(1, 2)


def test_present_has_the_rest_of_its_past_and_zeros_behind(rng):
    model, feeds = cached(rng, 9, 4, [3], 4)  # a prompt into a larger cache
    found = run(vkattn_session(model, alone=True), feeds)
    for name in ("key", "value"):
        expected = np.concatenate([rows(feeds[name]), feeds[f"past_{name}"][:, :, 4:]], 2)
        assert np.array_equal(found[f"present_{name}"], expected)
    assert_close(found["Y"], causal(feeds["query"], feeds["key"], feeds["value"], 16))
    model, feeds = cached(rng, 5, 8, [7, 3], 3)  # the second sequence is shorter than the past
    session = vkattn_session(model, alone=True)
    for _ in range(2):  # also in memory that was used
        found = run(session, feeds)
        for name in ("key", "value"):
            new, expected = rows(feeds[name]), np.zeros((2, 2, 8, 16), np.float32)
            expected[:, :, :5] = feeds[f"past_{name}"]
            expected[0, :, 5:8], expected[1, :, 1:4] = new[0], new[1]
            assert np.array_equal(found[f"present_{name}"], expected)
        feeds = {name: each * 2 if each.dtype == np.float32 else each for name, each in feeds.items()}


def test_bias_of_fewer_keys_than_the_cache_has(rng):
    model, feeds = cached(rng, 7, 1, [0], 1, bias=1)  # one key is seen, whatever is added
    model = onnx.load_from_string(model)
    model.graph.input[-1].type.tensor_type.shape.dim[-1].dim_param = "total"  # as exporters have it
    model = model.SerializeToString()
    found = run(vkattn_session(model, alone=True), feeds)["Y"]
    assert_close(found, feeds["value"].reshape(1, 1, 2, 1, 16).repeat(2, 3).reshape(1, 1, 64))
    model, feeds = cached(rng, 7, 3, [2], 1, bias=3)
    found = run(vkattn_session(model, alone=True), feeds)["Y"].reshape(4, 16)
    for head in range(4):
        key, value = (np.concatenate([feeds[f"past_{name}"][0, head // 2, :2], rows(feeds[name])[0, head // 2]]) for name in
                      ("key", "value"))
        scores = key @ feeds["query"].reshape(4, 16)[head] / 4 + feeds["attention_bias"][0, head, 0]
        weights = np.exp(scores - scores.max())
        assert_close(found[head], (weights / weights.sum() @ value).astype(np.float32))


def test_lengths_beyond_int32_mean_no_padding(rng):
    plain, feeds = attention(rng, attn_mask=None)
    expected = run(cpu_session(plain), feeds)["Y"]
    lengths = np.array([2**63 - 1, 2**32 + 7])
    model, feeds = attention(rng, opset=24, attn_mask=None, past_key=None, past_value=None, lengths=lengths, **feeds)
    assert_close(run(vkattn_session(model, alone=True), feeds)["Y"], expected)


def test_input_that_vkattn_and_the_processor_read(rng):
    graph = models.Graph(rng)
    x = graph.input("x", [1, 2, "length", 16])
    attended = graph.add("Attention", [x, x, x])
    graph.add("Add", [graph.add("Sin", [x]), attended], ["Y"])
    graph.output("Y", None)
    session, processor = vkattn_session(graph.model()), cpu_session(graph.model())
    for length in (3, 5, 3):
        feeds = {"x": heads(rng, 1, 2, length, 16)}
        assert_close(run(session, feeds)["Y"], run(processor, feeds)["Y"])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_cache_shared_by_past_and_present_stays_on_the_device(rng, dtype):
    capacity, heads_, dim, new = 24, 2, 16, 5
    inputs = {"query": heads(rng, 1, new, 4 * dim, dtype=dtype), "key": heads(rng, 1, new, heads_ * dim, dtype=dtype),
              "value": heads(rng, 1, new, heads_ * dim, dtype=dtype), "past_key": np.zeros((1, heads_, capacity, dim), dtype),
              "past_value": np.zeros((1, heads_, capacity, dim), dtype), "seqlens_k": np.zeros(1, np.int32),
              "total": np.zeros(1, np.int32)}
    model = models.single("GroupQueryAttention", inputs, ["output", "present_key", "present_value"], dtype=dtype,
                          domain="com.microsoft", num_heads=4, kv_num_heads=heads_)
    session = vkattn_session(model, alone=True)
    device = vkattn_onnxruntime.devices()[0]
    caches = {name: vkattn_onnxruntime.on_device(inputs[f"past_{name}"], device) for name in ("key", "value")}
    keys, values, held = [], [], 0
    for count in (new, 1, 1):
        held += count
        widths = {"query": 4 * dim, "key": heads_ * dim, "value": heads_ * dim}
        fed = {name: heads(rng, 1, count, width, dtype=dtype) for name, width in widths.items()}
        keys.append(fed["key"])
        values.append(fed["value"])
        fed.update(seqlens_k=np.array([held - 1], np.int32), total=np.array([held], np.int32))
        binding = session.io_binding()
        for name, value in fed.items():
            binding.bind_cpu_input(name, value)
        for name, cache in caches.items():
            binding.bind_ortvalue_input(f"past_{name}", cache)
            binding.bind_ortvalue_output(f"present_{name}", cache)
        binding.bind_output("output")
        session.run_with_iobinding(binding)
        found = binding.get_outputs()[-1].numpy()
        assert_close(found, causal(fed["query"], np.concatenate(keys, 1), np.concatenate(values, 1), dim))
    rows = np.concatenate(keys, 1).reshape(held, heads_, dim).swapaxes(0, 1)
    assert np.array_equal(vkattn_onnxruntime.to_host(caches["key"])[0, :, :held], rows)


def test_constants_of_the_model_lie_on_the_device(rng):
    model, feeds = attention(rng, constants=("K", "V", "attn_mask"), attn_mask=rng.random((5, 7)) < 0.7)
    assert_close(run(vkattn_session(model, alone=True), feeds)["Y"], run(cpu_session(model), feeds)["Y"])


def test_no_queries_and_no_keys(rng):
    for shape in ({"Q": heads(rng, 2, 4, 0, 16)}, {"K": heads(rng, 2, 2, 0, 16), "V": heads(rng, 2, 2, 0, 24)}):
        model, feeds = attention(rng, **shape)
        found = run(vkattn_session(model, alone=True), feeds)["Y"]
        assert found.shape == (2, 4, feeds["Q"].shape[2], 24) and not found.any()


@pytest.mark.parametrize("places", [("then", "else"), ("main", "then"), ("then",)], ids="-".join)
def test_nodes_of_several_graphs(rng, capfd, places):
    """Products in the branches of a condition and before it, with weights of the outer graph."""
    names = {"main": ("X", "A"), "then": ("A", "Y"), "else": ("A", "Y")}
    floats, width = onnx.TensorProto.FLOAT, 64
    nodes = {place: helper.make_node("MatMulNBits", [source, "B", "scales"], [made], place, domain="com.microsoft", K=width, N=width,
                                     bits=4, block_size=32) if place in places else helper.make_node("Identity", [source], [made])
             for place, (source, made) in names.items()}
    branches = {f"{place}_branch": helper.make_graph([nodes[place]], place, [], [helper.make_tensor_value_info("Y", floats, None)])
                for place in ("then", "else")}
    graph = helper.make_graph(
        [nodes["main"], helper.make_node("If", ["condition"], ["output"], **branches)], "main",
        [helper.make_tensor_value_info("condition", onnx.TensorProto.BOOL, []), helper.make_tensor_value_info("X", floats, ["n", width])],
        [helper.make_tensor_value_info("output", floats, None)],
        [numpy_helper.from_array(rng.integers(0, 256, (width, 2, 16), dtype=np.uint8), "B"),
         numpy_helper.from_array(np.full(2 * width, 1 / 16, np.float32), "scales")])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    capfd.readouterr()
    session = vkattn_session(model, fallback_reasons=True)
    told = capfd.readouterr().err.count("nodes of another graph of the model are taken")
    assert told == 0 if VERSION >= (1, 32) else (told > 0) == (len(places) > 1)
    for condition in (True, False):
        feeds = {"condition": np.array(condition), "X": heads(rng, 5, width)}
        assert_close(session.run(None, feeds)[0], cpu_session(model).run(None, feeds)[0])


def test_nodes_beside_a_function_of_the_model(rng):
    """ONNX Runtime asks for nodes before it inlines functions, and once more."""
    floats, opsets = onnx.TensorProto.FLOAT, [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    function = helper.make_function("local", "Twice", ["x"], ["y"], [helper.make_node("Add", ["x", "x"], ["y"])], opsets[:1])
    graph = helper.make_graph(
        [helper.make_node("MatMulNBits", ["A", "B", "scales"], ["t"], "product", domain="com.microsoft", K=64, N=8, bits=4, block_size=32),
         helper.make_node("Twice", ["t"], ["Y"], domain="local")], "main", [helper.make_tensor_value_info("A", floats, ["n", 64])],
        [helper.make_tensor_value_info("Y", floats, None)],
        [numpy_helper.from_array(rng.integers(0, 256, (8, 2, 16), dtype=np.uint8), "B"), numpy_helper.from_array(np.full(16, 1 / 16, np.float32), "scales")])
    model = helper.make_model(graph, functions=[function], opset_imports=[*opsets, helper.make_opsetid("local", 1)], ir_version=10)
    model, feeds = model.SerializeToString(), {"A": heads(rng, 3, 64)}
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, "/tmp/vkattn_profile"
    vkattn_onnxruntime.add(options)
    session = onnxruntime.InferenceSession(model, options)
    assert_close(session.run(None, feeds)[0], cpu_session(model).run(None, feeds)[0])
    profile = pathlib.Path(session.end_profiling())
    assert "VkattnExecutionProvider" in profile.read_text()
    profile.unlink()


def test_sizes_whose_products_wrap_are_left(rng, capfd):
    inputs = {"A": heads(rng, 3, 64), "B": np.zeros((8, 1, 0), np.uint8), "scales": np.ones(8, np.float32)}
    model = models.single("MatMulNBits", inputs, ["Y"], {"B", "scales"}, domain="com.microsoft", K=64, N=8, bits=4, block_size=1 << 61)
    try:
        vkattn_session(model, fallback_reasons=True)
    except Exception as error:  # noqa: BLE001 - nobody takes the node
        assert "vkattn" not in str(error)
    assert "block_size is larger than any weight's" in capfd.readouterr().err


def test_an_output_for_which_there_is_no_memory(rng):
    inputs = {"A": heads(rng, 20000, 32), "B": rng.integers(0, 256, (1 << 22, 1, 16), dtype=np.uint8), "scales": np.ones(1 << 22, np.float32)}
    model = models.single("MatMulNBits", inputs, ["Y"], {"B", "scales"}, domain="com.microsoft", K=32, N=1 << 22, bits=4, block_size=32)
    session = vkattn_session(model)
    session.disable_fallback()
    with pytest.raises(Exception, match=rf"EP_FAIL|EPFail|output 0: no memory for {20000 << 24} bytes on ") as refused:
        session.run(None, {"A": inputs["A"]})
    assert f"output 0: no memory for {20000 << 24} bytes on " in str(refused.value)


def test_the_largest_buffer_of_a_device_is_had(capfd):
    bytes_of = 4_100_000_000  # whose next step of an eighth is 2^32
    capfd.readouterr()
    device = vkattn_onnxruntime.devices()[0]
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type((bytes_of,), np.uint8, "gpu", int(device.ep_metadata["vulkan_device"]),
                                                              vkattn_onnxruntime.MEMORY_VENDOR)
    told = capfd.readouterr().err
    limit = re.search(r"expected at most (\d+)", told)
    assert value.data_ptr() != 0 or (limit and int(limit[1]) < bytes_of), told


# ------------------------------------------------------------------------------------------------ reasons


def product(rng, bits=4, constants=("B", "scales"), **attributes):
    inputs = {"A": heads(rng, 3, 64), "B": rng.integers(0, 256, (8, 2, 4 * bits), dtype=np.uint8),
              "scales": np.ones(16, np.float32)}
    model = models.single("MatMulNBits", inputs, ["Y"], set(constants), domain="com.microsoft", K=64, N=8, bits=bits, block_size=32)
    return model, {name: value for name, value in inputs.items() if name not in constants}


def rotary(rng):
    inputs = {"X": heads(rng, 1, 2, 5, 16), "cos": np.ones((9, 8), np.float32), "sin": np.zeros((9, 8), np.float32),
              "position_ids": np.arange(5)[None]}
    model = models.single("RotaryEmbedding", inputs, ["Y"], {"cos", "sin"})
    return model, {name: inputs[name] for name in ("X", "position_ids")}


def multi_head(rng, dim, value_dim=16, num_heads=2, **changed):
    inputs = {"query": heads(rng, 1, 3, 2 * dim), "key": heads(rng, 1, 3, 2 * dim), "value": heads(rng, 1, 3, 2 * value_dim)}
    inputs.update(changed)
    return models.single("MultiHeadAttention", inputs, ["Y"], domain="com.microsoft", num_heads=num_heads), inputs


def omitted_product(rng):
    if VERSION < (1, 32):
        pytest.skip("ONNX Runtime's processor crashes")
    inputs = {"A": heads(rng, 3, 64), "B": np.zeros((0, 2, 16), np.uint8), "scales": np.ones(16, np.float32)}
    model = models.single("MatMulNBits", inputs, ["Y"], {"B", "scales"}, domain="com.microsoft", K=64, N=8, bits=4, block_size=32)
    return model, {"A": inputs["A"]}


def hidden_a_little(rng):
    inputs = {name: heads(rng, 1, 3, 32) for name in ("query", "key", "value")}
    inputs.update(bias=None, key_padding_mask=np.array([[1, 0, 1]], np.int32))
    model = models.single("MultiHeadAttention", inputs, ["Y"], domain="com.microsoft", num_heads=2, mask_filter_value=-1.0)
    return model, {name: value for name, value in inputs.items() if value is not None}


def product_points(rng):
    inputs = {"A": heads(rng, 3, 64), "B": rng.integers(0, 256, (8, 2, 16), dtype=np.uint8), "scales": np.ones(16, np.float32),
              "points": np.full((8, 2), 8, np.int32)}
    model = models.single("MatMulNBits", inputs, ["Y"], {"B", "scales", "points"}, domain="com.microsoft", K=64, N=8, bits=4,
                          block_size=32)
    return model, {"A": inputs["A"]}


@pytest.mark.parametrize("make, reason", [
    (lambda rng: attention(rng, outputs=("Y", "", "", "scores")), "qk_matmul_output is asked for"),
    (lambda rng: attention(rng, softmax_precision=11), "softmax_precision is double"),
    (lambda rng: attention(rng, attn_mask=np.ones((5, 1), bool)), "attn_mask has 1 as its last dimension"),
    (lambda rng: product(rng, bits=8), "weights of 8 bits, expected 4"),
    (lambda rng: product(rng, constants=()), "is no constant of the model"),
    (rotary, "no neighbour is taken"),
    (lambda rng: attention(rng, Q=heads(rng, 1, 2, 3, 600), K=heads(rng, 1, 2, 4, 600), V=heads(rng, 1, 2, 4, 8)),
     "Q has heads of 600 elements, expected at most 576"),
    (lambda rng: attention(rng, Q=heads(rng, 1, 2, 3, 8), K=heads(rng, 1, 2, 4, 8), V=heads(rng, 1, 2, 4, 577)),
     "V has heads of 577 elements, expected at most 576"),
    (lambda rng: multi_head(rng, 580), "query has heads of 580 elements"),
    (lambda rng: multi_head(rng, 16, 580), "value has heads of 580 elements"),
    (omitted_product, "B, scales or zero_points have other sizes than N, K and block_size say"),
    (hidden_a_little, "mask_filter_value is -1.0"),
], ids=["scores", "double", "narrow-mask", "8-bits", "weights-fed", "rotary-alone", "head-600", "value-577", "mha-580",
        "mha-value-580", "omitted", "filter"])
def test_what_is_left_is_told_with_a_reason(rng, capfd, make, reason):
    model, feeds = make(rng)
    try:
        expected = cpu_session(model).run(None, feeds)
    except Exception:  # noqa: BLE001 - what this version's processor has not either
        pytest.skip("ONNX Runtime's processor has no such node")
    capfd.readouterr()
    session = vkattn_session(model, fallback_reasons=True)
    told = capfd.readouterr().err
    assert "node 'the_node'" in told and "left to other providers: " in told and reason in told
    for one, other in zip(session.run(None, feeds), expected):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make, reason", [
    (lambda rng: multi_head(rng, 8, num_heads=0), "num_heads is 0, expected 1 or more"),
    (lambda rng: grouped(rng, [2], 3, num_heads=0), "num_heads is 0, expected 1 or more"),
    (lambda rng: grouped(rng, [2], 3, kv_num_heads=-2), "kv_num_heads is -2, expected 1 or more"),
    (lambda rng: attention(rng, Q=heads(rng, 1, 3, 8), q_num_heads=0), "Q has 0 heads, expected 1 or more"),
    (lambda rng: attention(rng, attn_mask=np.zeros((5, 7), np.int64)), "attn_mask is int64, expected bool, float or float16"),
    (lambda rng: attention(rng, attn_mask=np.zeros((5, 7), np.float64)), "attn_mask is double, expected bool, float or float16"),
    (lambda rng: multi_head(rng, 0, query=heads(rng, 1, 3, 1, 3, 580), key=None, value=None, num_heads=1),
     "query has heads of 580 elements"),
    (lambda rng: grouped(rng, [2], 3, dim=584, do_rotary=0), "query has heads of 584 elements"),
    (product_points, "zero_points is int32, expected"),
], ids=["mha-heads", "gqa-heads", "gqa-kv-heads", "heads", "int64-mask", "double-mask", "mha-packed-580", "gqa-584",
        "int32-points"])
def test_what_the_processor_has_not_either_is_told(rng, capfd, make, reason):
    model, _ = make(rng)
    capfd.readouterr()
    refused = ""
    try:
        vkattn_session(model, fallback_reasons=True)
    except Exception as error:  # noqa: BLE001 - nobody takes the node
        refused = str(error)
    told = capfd.readouterr().err
    if refused and "left to other providers" not in told and "vkattn" not in refused:
        pytest.skip(f"ONNX Runtime refuses it before it asks for providers: {refused[:150]}")
    assert reason in told


def test_reasons_are_not_told_unasked(rng, capfd):
    vkattn_session(attention(rng, softmax_precision=11)[0])
    assert "left to other providers" not in capfd.readouterr().err


# ------------------------------------------------------------------------------------------------ wrong inputs


def grouped(rng, seqlens, total, past=0, positions=8, keys=3, values=3, ids=None, dim=16, **attributes):
    inputs = {"query": heads(rng, 1, 3, 4 * dim), "key": heads(rng, 1, keys, 2 * dim), "value": heads(rng, 1, values, 2 * dim),
              "past_key": heads(rng, 1, 2, past, dim), "past_value": heads(rng, 1, 2, past, dim),
              "seqlens_k": np.array(seqlens, np.int32), "total": np.array(total, np.int32),
              "cos": np.ones((positions, 8), np.float32), "sin": np.zeros((positions, 8), np.float32)}
    if ids:
        inputs["position_ids"] = np.array([ids])
    attributes = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1} | attributes
    model = models.single("GroupQueryAttention", inputs, ["Y", "present_key", "present_value"], {"cos", "sin"},
                          domain="com.microsoft", **attributes)
    return model, {name: value for name, value in inputs.items() if name not in ("cos", "sin")}


@pytest.mark.parametrize("make, line", [
    (lambda rng: attention(rng, K=heads(rng, 2, 3, 7, 16), V=heads(rng, 2, 3, 7, 24)), "expected"),
    (lambda rng: attention(rng, attn_mask=np.ones((5, 9), bool)), "attn_mask has shape [5,9], expected 7 keys"),
    (lambda rng: attention(rng, attn_mask=None, past_key=heads(rng, 2, 3, 4, 16), past_value=heads(rng, 2, 3, 4, 24)),
     "the past has shape"),
    (lambda rng: grouped(rng, [2], 2), "total_sequence_length is 2, expected at least the 3 new tokens"),
    (lambda rng: grouped(rng, [9], 3), "seqlens_k holds 9, expected 0 to 2"),
    (lambda rng: grouped(rng, [1], 5, past=2), "seqlens_k holds 1, expected at least the 3 new tokens less 1"),
    (lambda rng: grouped(rng, [9], 10, past=7), "position 8, expected 0 to 7, the rows of cos_cache"),
    (lambda rng: grouped(rng, [2, 2], 3), "seqlens_k has 2 elements, expected one for each of 1 sequences"),
    (lambda rng: grouped(rng, [7], 8, past=2), "the past has shape [1,2,2,16], expected the 5 tokens before seqlens_k's new ones"),
    (lambda rng: grouped(rng, [2], 3, keys=2), "key has shape [1,2,32], expected the query's 3 new tokens"),
    (lambda rng: grouped(rng, [2], 3, values=1), "value has shape [1,1,32], expected the query's 3 new tokens"),
    (lambda rng: grouped(rng, [4], 5, past=2, ids=[2, 2**32 + 3, 4]), "position 4294967299, expected 0 to 7"),
    (lambda rng: grouped(rng, [2], 3, ids=[2**63 - 1]), "expected 0 to 7"),
    (lambda rng: grouped(rng, [2**31 - 1], 2**31 - 1, past=2), "seqlens_k holds 2147483647, expected 0 to"),
], ids=["heads", "mask", "past", "total", "length", "short-length", "position", "lengths", "past-tokens", "key-tokens",
        "value-tokens", "wide-position", "widest-position", "longest"])
def test_wrong_inputs_are_refused_in_one_line(rng, make, line):
    model, feeds = make(rng)
    with pytest.raises(Exception) as caught:
        vkattn_session(model, alone=True).run(None, feeds)
    said = str(caught.value)
    assert "vkattn: node 'the_node' (" in said and line in said
    assert said.count("\n") <= 1 and type(caught.value).__name__ in ("InvalidArgument", "NotImplemented")
    good, feeds = attention(rng)  # and what comes next runs
    assert_close(run(vkattn_session(good, alone=True), feeds)["Y"], run(cpu_session(good), feeds)["Y"])


def test_wrong_names_of_library_and_device(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist, expected the library"):
        vkattn_onnxruntime._library(tmp_path / "none.so")
    vkattn_onnxruntime.devices()
    for device in ("no such device", 99, -1):
        with pytest.raises(LookupError, match="no Vulkan device .*, expected one of"):
            vkattn_onnxruntime.add(onnxruntime.SessionOptions(), device=device)


def test_a_machine_without_devices_says_so_each_time():
    program = ("import onnxruntime, vkattn_onnxruntime\n"
               "for _ in range(3):\n"
               "    try:\n"
               "        vkattn_onnxruntime.add(onnxruntime.SessionOptions())\n"
               "    except LookupError as error:\n"
               "        print(error)\n")
    python = pathlib.Path(vkattn_onnxruntime.__file__).parent
    paths = [str(python), os.environ.get("PYTHONPATH", "")]
    ended = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=120,
                           env=os.environ | {"PYTHONPATH": ":".join(paths), **NO_DEVICES})
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("no Vulkan device here, expected an installed Vulkan driver") == 3


def test_wrong_option():
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(vkattn_onnxruntime.devices()[:1], {"fallback_reasons": "perhaps"})
    model = models.single("Attention", {name: np.zeros((1, 1, 2, 8), np.float32) for name in "QKV"}, ["Y"])
    with pytest.raises(Exception, match="fallback_reasons is 'perhaps', expected 0 or 1"):
        onnxruntime.InferenceSession(model, options, enable_fallback=0)
