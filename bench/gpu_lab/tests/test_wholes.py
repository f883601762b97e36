"""Wholes of scripts/gpu-lab compare, where VKATTN_PROFILE_GPU names a GPU of AMD whose lab stands: each side computes what float64 does, in
dispatches that are counted."""
import os
import subprocess

import pytest

import compare
import lab
from shapes import ServingShape, WholeShape

GPU = os.environ.get("VKATTN_PROFILE_GPU")
pytestmark = pytest.mark.skipif(not GPU, reason="VKATTN_PROFILE_GPU names no GPU to execute on")
SIZES = dict(width=256, heads=4, kv_heads=2, head_dim=64, hidden=512, weights="q4_K")
SHAPES = [WholeShape("token", **SIZES, tokens=1, past=40), WholeShape("prompt", **{**SIZES, "weights": "f16"}, tokens=37, past=0),
          WholeShape("model", **SIZES, tokens=9, past=20, layers=2, vocabulary=100, family="gemma3")]


def has_ggml():
    ran = subprocess.run([lab.ROOT / "scripts/modern-root", "run", "dpkg-query", "-W", "libggml0-backend-vulkan"], capture_output=True,
                         cwd=lab.ROOT)
    return ran.returncode == 0 and len(ran.stdout.split()) == 2  # a name and a version: what is known but not there has none


def check(found):
    what, dispatches = found
    assert what == "right"
    row = compare.row_of(GPU, SHAPES[0], "side", what, dispatches)
    assert row.instructions > 0 and row.us > 0 and 1 <= row.waits <= row.dispatches


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("side", ["vkattn", "ggml"])
def test_a_whole_is_right_and_counted(shape, side):
    if side == "ggml" and not has_ggml():
        pytest.skip("the modern root has no libggml0-backend-vulkan")
    check(dict(compare.sides_of(shape))[side](GPU, shape))


def test_a_serving_step_is_right_packed_and_apart():
    for _, run in compare.sides_of(ServingShape("step", prompt=40, decodes=3, past=33)):
        check(run(GPU, ServingShape("step", prompt=40, decodes=3, past=33)))


def test_what_failed_is_said():
    said, dispatches = compare.run_whole(GPU, ServingShape("step", prompt=40, decodes=3, past=33), "vkattn_serving.py", "nothing")
    assert "KeyError" in said and dispatches == []
