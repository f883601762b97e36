"""bench/gpu --shots: its lines, and with a program and a driver that all of its runs are accepted."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))  # bench

import gpu_shots  # noqa: E402

PROGRAM = os.environ.get("VKATTN_PROGRAM")


def test_a_run_that_fails_or_takes_long_is_a_line():
    def run(code):
        return gpu_shots.Run("text", [sys.executable, "-c", code], gpu_shots.assertions)

    assert gpu_shots.lines_of(run("print('[doctest] assertions: 3')"), 60) == ["assertions: 3"]
    assert gpu_shots.lines_of(run("import sys; sys.exit('no device')"), 60) == ["not done, status 1: no device"]
    assert gpu_shots.lines_of(run("import time; time.sleep(60)"), 0.2) == ["not done: took more than 0 s"]
    assert gpu_shots.lines_of(gpu_shots.Run("text", ["/nowhere"], None), 60)[0].startswith("not done: ")


def test_candidates_stand_by_their_times():
    tried = [{"kernel": "flash", "tile": "a", "milliseconds": 2.0, "kept": False, "reason": ""},
             {"kernel": "flash", "tile": "b", "milliseconds": 0.0, "kept": False, "reason": "too large"},
             {"kernel": "coopmat", "tile": "c", "milliseconds": 1.0, "kept": True, "reason": ""}]
    assert gpu_shots.candidates(json.dumps([{"candidates": tried}])) == ["1.0000 ms: coopmat c, kept", "2.0000 ms: flash a"]


def test_shots_are_in_the_order_in_which_they_are_wanted():
    shots = gpu_shots.Shots("", 0.5, gpu_shots.small).all()
    assert [name for name, _ in shots] == ["suites", "modules", "matrices of subgroups and of workgroups", "tiles of prefill",
                                        "tiles of linear", "tiles of gradients", "joins of decode", "roofline"]
    assert all(runs for _, runs in shots)


@pytest.mark.skipif(not PROGRAM, reason="VKATTN_PROGRAM says where the command is")
@pytest.mark.parametrize("shot", ["modules", "tiles of linear", "tiles of gradients", "joins of decode", "roofline"])
def test_the_command_takes_every_run(shot):
    command = [sys.executable, "-B", gpu_shots.__file__, "--small", "--only", shot, "--seconds", "0.01"]
    environment = {**os.environ, "VKATTN_BUILD_DIR": str(pathlib.Path(PROGRAM).parents[1])}
    said = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=600).stdout
    runs = [line for line in said.splitlines() if line.startswith("- ")]
    refused = [line for line in runs if "not done" in line and "functions" not in line]  # which a build without glslang has not
    assert runs and not refused, said
