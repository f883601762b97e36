"""What Turnip submits is read off its command buffers."""

import json
import os
import pathlib
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
SHIM = "/usr/lib/x86_64-linux-gnu/libfreedreno_noop_drm_shim.so"


def submitted(tmp_path, *arguments):
    """The dispatches and copies of a command on adreno-740."""
    if "VKATTN_EXECUTE_INSTRUCTIONS" not in os.environ or not pathlib.Path(SHIM).exists():
        pytest.skip(f"VKATTN_EXECUTE_INSTRUCTIONS is not set, or there is no {SHIM}, expected both")
    library = ROOT / shlex.split(os.environ["VKATTN_EXECUTE_INSTRUCTIONS"])[-1]
    file = tmp_path / "commands.jsonl"
    environment = {**os.environ, "LD_PRELOAD": f"{library.parent / 'adreno_commands.so'}:{SHIM}", "FD_GPU_ID": "740",
                   "VK_DRIVER_FILES": "/usr/share/vulkan/icd.d/freedreno_icd.json", "VKATTN_ADRENO_COMMANDS": str(file),
                   "VKATTN_DEVICE_TRAITS": "self_test=0"}
    subprocess.run([ROOT / "build-modern/tools/vkattn", *arguments], cwd=ROOT, env=environment, capture_output=True)
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_an_attention_layer_submits_its_projections_its_attention_and_a_copy(tmp_path):
    sequences, tokens, features, tile = 2, 17, 64, 32  # of the case, and of linear layers' tiles
    found = submitted(tmp_path, "check", "tests/data/ref000_sdpa_self.safetensors")
    joined, projection = ([outputs // tile, -(-sequences * tokens // tile), 1] for outputs in (3 * features, features))
    attention = [2, 1, sequences], [128, 1, 1]  # two tiles of rows, since so few leave cores idle; one head
    dispatches = [each for each in found if each["kind"] == "dispatch"]
    linear = [2 * 64, 1, 1]  # a tile's invocations for each half of the features, since so few tiles leave cores idle
    assert [(each["groups"], each["workgroup"]) for each in dispatches] == [(joined, linear), attention, (projection, linear)]
    assert len({each["code"] for each in dispatches}) == 2
    assert all(each["code_bytes"] % 128 == 0 and each["code_bytes"] > 0 for each in dispatches)
    assert all(each["descriptors"] > 0 and each["constants"] > 0 for each in dispatches)
    assert dispatches[1]["shared_bytes"] == 18 << 10
    assert {"kind": "copy"} in found
