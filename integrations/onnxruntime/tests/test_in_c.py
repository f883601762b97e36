"""The header in C: a program that registers the library by one call, linked with this machine's libonnxruntime."""
import os
import subprocess

import models
import numpy as np
import pytest
from conftest import NO_DEVICES

PROGRAM = os.environ.get("VKATTN_ONNXRUNTIME_SESSION", "")


@pytest.fixture
def session(tmp_path):
    if not os.path.exists(PROGRAM):
        pytest.skip("libonnxruntime was not there when the program was built")
    model = tmp_path / "model.onnx"
    model.write_bytes(models.single("Attention", {name: np.ones((1, 2, 4, 8), np.float32) for name in "QKV"}, ["Y"]))
    library = os.environ["VKATTN_ONNXRUNTIME_LIBRARY"]

    def run(*device, library=library, environment=()):
        return subprocess.run([PROGRAM, model, library, *device], capture_output=True, text=True, timeout=120,
                              env=os.environ | dict(environment))

    return run


def test_a_program_in_c(session):
    ended = session()
    assert ended.returncode == 0, ended.stderr
    assert "sum 64, expected 64" in ended.stdout


def test_its_errors(session):
    for ended in (session("no such device"), session(environment=NO_DEVICES)):  # twice the same, ORT_NOT_FOUND
        assert ended.returncode == 1
        said = [line for line in ended.stderr.splitlines() if line.endswith("vkattn: no such Vulkan device, expected one")]
        assert said == ["14 vkattn: no such Vulkan device, expected one"] * 2, ended.stderr
    ended = session(library="/nowhere.so")
    assert ended.returncode == 1 and "/nowhere.so" in ended.stderr
