"""The statistics layer under a program of ours, on whatever driver there is: no work reaches it."""
import json
import os
import subprocess

import pytest

FOLDER, PROGRAM = os.environ.get("VKATTN_LAYER_FOLDER"), os.environ.get("VKATTN_PROGRAM")
pytestmark = pytest.mark.skipif(not (FOLDER and PROGRAM), reason="VKATTN_LAYER_FOLDER and VKATTN_PROGRAM say where things are")


def records(file, traits):
    """What the layer wrote of a run of the command, of which nothing reached the device."""
    settings = {"VK_LAYER_PATH": FOLDER, "VK_INSTANCE_LAYERS": "VK_LAYER_VKATTN_statistics", "VKATTN_STATISTICS_FILE": str(file),
                "VKATTN_DEVICE_TRAITS": f"self_test=0,{traits}", "VKATTN_VALIDATION": "0"}
    command = [PROGRAM, "bench", "--repeat", "2", "--input-sets", "1", "--heads", "2", "--q-len", "64", "--kv-len", "64",
               "--head-dim", "64", "--json"]
    output = subprocess.run(command, env=os.environ | settings, check=True, capture_output=True, timeout=300).stdout
    assert json.loads(output)["median_ms"] == 0
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_every_pipeline_is_written_down_and_nothing_runs(tmp_path):
    found = records(tmp_path / "constants.jsonl", "specialised_modules=0")
    specialised = records(tmp_path / "specialised.jsonl", "specialised_modules=1")
    assert found and len(specialised) == len(found)
    for record in found + specialised:
        assert list(record) == ["module", "spirv_bytes", "compile_ms", "subgroup_size", "workgroup_size", "constants", "statistics", "texts",
                                "device"]
        assert record["compile_ms"] > 0
        assert record["workgroup_size"] > 0
        assert record["device"]
    attention = found[-1]  # whose workgroup's size is a specialisation constant; other kernels have a fixed one
    assert attention["workgroup_size"] == attention["constants"]["0"] == specialised[-1]["workgroup_size"]
    assert not any(record["constants"] for record in specialised)  # the library put them into the modules
