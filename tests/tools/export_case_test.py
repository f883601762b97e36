#!/usr/bin/env python3
"""Cases exported from PyTorch, checked by the command. VKATTN names it. Run with pytest where PyTorch is."""
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools/cases"))
import export_case  # noqa: E402


def check(path):
    done = subprocess.run([os.environ["VKATTN"], "check", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_attention(tmp_path, dtype):
    q, k, v = random(2, 4, 7, 16, dtype=dtype), random(2, 2, 9, 16, dtype=dtype), random(2, 2, 9, 8, dtype=dtype)
    path = tmp_path / "case.safetensors"
    answer = export_case.attention(path, q, k, v, is_causal=True, enable_gqa=True, scale=0.3)
    assert answer.shape == (2, 4, 7, 8)
    check(path)


def test_attention_with_a_mask(tmp_path):
    mask = random(7, 9) > 0
    mask[3] = False  # a query that sees nothing
    export_case.attention(tmp_path / "case.safetensors", random(1, 2, 7, 16), random(1, 2, 9, 16), random(1, 2, 9, 16), attn_mask=mask)
    check(tmp_path / "case.safetensors")


def test_multihead_attention(tmp_path):
    layer = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    x = random(2, 6, 32)
    answer = export_case.module(tmp_path / "case.safetensors", layer, x)
    assert torch.allclose(answer.float(), layer(x, x, x, need_weights=False)[0], atol=1e-5)
    check(tmp_path / "case.safetensors")


@pytest.mark.parametrize("rotary_dim", [None, 2, 6])
def test_a_model_s_attention(tmp_path, rotary_dim):
    layer = torch.nn.Module()
    for name, rows in (("q_proj", 32), ("k_proj", 16), ("v_proj", 16), ("o_proj", 32)):
        setattr(layer, name, torch.nn.Linear(32, rows, bias=name != "o_proj"))
    export_case.module(tmp_path / "case.safetensors", layer, random(2, 6, 32), num_heads=4, num_kv_heads=2, rope_theta=1e4,
                       rotary_dim=rotary_dim, is_causal=True)
    check(tmp_path / "case.safetensors")


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match="enable_gqa"):
        export_case.attention(tmp_path / "x", random(1, 4, 3, 8), random(1, 2, 3, 8), random(1, 2, 3, 8))
    with pytest.raises(TypeError, match="k_proj"):
        export_case.module(tmp_path / "x", torch.nn.Linear(4, 4), random(1, 2, 4))
    with pytest.raises(TypeError, match="float64"):
        export_case.write(tmp_path / "x", {}, {"q": random(2).double()})
    assert not (tmp_path / "x").exists()
