"""What the command does with files, words and traits. VKATTN_PROGRAM: the command."""
import os
import pathlib
import shutil
import subprocess
import time

import pytest

PROGRAM = os.environ.get("VKATTN_PROGRAM")
CASE = pathlib.Path(__file__).parents[1] / "data/ref001_sdpa.safetensors"
pytestmark = pytest.mark.skipif(not PROGRAM, reason="VKATTN_PROGRAM names no command")


def run(*words, **environment):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


def refused(*words, says, **environment):
    """The one line with which the command refuses."""
    result = run(*words, **environment)
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stderr.startswith("vkattn: error: ") and result.stderr.count("\n") == 1
    assert says in result.stderr and "expected" in result.stderr, result.stderr
    return result


@pytest.mark.parametrize("words", [("devices",), ("check", CASE), ("estimate", "gqa-2", "--d-model", 64, "--heads", 4)])
def test_unknown_traits_are_refused(words):
    refused(*words, says='VKATTN_DEVICE_TRAITS: "speed" is unknown', VKATTN_DEVICE_TRAITS="speed=9")


def test_selftest_prints_as_it_goes():
    process = subprocess.Popen([PROGRAM, "selftest"], stdout=subprocess.PIPE, bufsize=0,
                               env={**os.environ, "MESA_SHADER_CACHE_DISABLE": "true"})
    arrivals = []
    while line := process.stdout.readline():
        arrivals.append((time.monotonic(), line))
    assert process.wait() == 0
    verdicts = [at for at, line in arrivals if b" PASS " in line]
    assert len(verdicts) >= 6 and verdicts[-1] - verdicts[0] > 0.1, arrivals  # the others are computed meanwhile
    assert arrivals[-1][1].endswith(b" passed, 0 failed\n")


def test_memory_says_what_it_leaves_out():
    result = run("estimate", "gqa-2", "--d-model", 512, "--heads", 8, "--memory", "2GiB")
    line = next(line for line in result.stdout.splitlines() if "fit" in line and line.startswith("In "))
    assert all(word in line for word in ("feed-forward", "embeddings", "activations")), line
