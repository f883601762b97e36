"""Sizes of 0 are ordinary: no keys give zeros, no queries, heads, sequences or tokens nothing."""
import numpy
import pytest

import vkattn
from test_vkattn import random

CONTEXT = vkattn.default_context()
KINDS = pytest.mark.parametrize("kind", [numpy.asarray, CONTEXT.array])


def host(result):
    return result.numpy() if isinstance(result, vkattn.Array) else result


@KINDS
def test_no_keys_give_zeros(kind):
    query, key = random(2, 4, 3, 8), random(2, 2, 0, 8)
    more = ({}, {"is_causal": True}, {"window": (1, 1)}, {"attn_mask": kind(numpy.ones((3, 0), bool))}, {"key_lengths": [0, 0]},
            {"attn_mask": kind(numpy.ones((3, 1), bool))}, {"key_padding_mask": kind(numpy.ones((2, 0), bool))})
    for arguments in more:
        output, sums = vkattn.attention(kind(query), kind(key), kind(key[..., :6]), enable_gqa=True, return_lse=True, **arguments)
        assert output.shape == (2, 4, 3, 6) and (host(output) == 0).all() and (host(sums) == -numpy.inf).all()


@KINDS
@pytest.mark.parametrize("shapes", [((2, 4, 0, 8), (2, 2, 5, 8)), ((0, 4, 3, 8), (0, 2, 5, 8)), ((2, 0, 3, 8), (2, 2, 5, 8)),
                                    ((0, 4, 0, 8), (0, 2, 0, 8))])
def test_nothing_asked_gives_nothing(shapes, kind):
    query, key = (kind(random(*shape)) for shape in shapes)
    output, sums = vkattn.attention(query, key, key, enable_gqa=True, is_causal=True, return_lse=True)
    assert output.shape == shapes[0] and sums.shape == shapes[0][:3] and host(output).size == 0


@KINDS
def test_no_tokens_of_packed_sequences(kind):
    query, key = kind(random(1, 4, 0, 8)), kind(random(1, 2, 5, 8))
    assert vkattn.attention(query, key, key, enable_gqa=True, cu_seqlens_q=[0, 0, 0], cu_seqlens_k=[0, 2, 5]).shape == (1, 4, 0, 8)


@KINDS
def test_operators_of_nothing(kind):
    weight = random(24, 16)
    assert host(vkattn.linear(kind(random(2, 0, 16)), weight, weight[:, 0], residual=kind(random(2, 0, 24)))).shape == (2, 0, 24)
    assert host(vkattn.norm(kind(random(0, 16)), weight[0])).shape == (0, 16)
    assert host(vkattn.embedding(kind(numpy.zeros((3, 0), "i4")), weight)).shape == (3, 0, 16)
    parts = [(kind(random(2, 4, 0, 8)), kind(random(2, 4, 0)))] * 2
    output, sums = vkattn.merge([o for o, _ in parts], [s for _, s in parts], return_lse=True)
    assert host(output).shape == (2, 4, 0, 8) and host(sums).shape == (2, 4, 0)
    cache = CONTEXT.array(random(2, 3, 8, 16))
    before = cache.numpy()
    vkattn.kv_append(kind(random(2, 3, 0, 16)), cache, offset=2)
    vkattn.kv_append(kind(random(1, 3, 0, 16)), cache, cu_seqlens=[0, 0, 0], past_lengths=[1, 1])
    assert (cache.numpy() == before).all()


@KINDS
def test_layers_of_no_tokens(kind):
    weights = {f"{name}.weight": numpy.eye(16, dtype="f4") for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    layer = vkattn.Layer("mha", weights, embed_dim=16, num_heads=2)
    assert host(layer(kind(random(2, 0, 16)))).shape == (2, 0, 16)
    cache = layer.cache(8, batch=2)
    assert host(layer(kind(random(2, 0, 16)), cache=cache, is_causal=True)).shape == (2, 0, 16)
    assert cache.lengths == [0, 0]
    layer(kind(random(2, 3, 16)), cache=cache, is_causal=True)
    layer(kind(random(2, 0, 16)), cache=cache, is_causal=True)
    assert cache.lengths == [3, 3]


def test_arrays_of_nothing():
    for dtype in ("float32", "float16", "bfloat16", "bool", "int32", "q8_0"):
        array = CONTEXT.empty((2, 0, 32), dtype)
        assert (array.size, array.nbytes, array.shape) == (0, 0, (2, 0, 32)) and array.download().shape == (2, 0, 32)
        assert array.reshape(0, 32).shape == (0, 32)
    assert CONTEXT.array(numpy.zeros((0, 4), "f4"), "float16").dtype == "float16"
    assert vkattn.from_dlpack(numpy.zeros((0, 4), "f4")).shape == (0, 4)
