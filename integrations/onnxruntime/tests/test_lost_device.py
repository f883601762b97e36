"""A device that is lost while a graph runs, by integrations/driver.c."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

DRIVER = os.environ.get("VKATTN_ONNXRUNTIME_DRIVER", "")  # the folder of its libvulkan.so.1


@pytest.mark.parametrize("submission", ["1", "3", "30", "1,later", "30,later"])
def test_what_runs_is_told_and_a_new_device_serves(submission):
    if not DRIVER:
        pytest.skip("VKATTN_ONNXRUNTIME_DRIVER names no folder with a driver that loses its device")
    program = pathlib.Path(__file__).with_name("lost_device.py")
    paths = ":".join(filter(None, (DRIVER, os.environ.get("LD_LIBRARY_PATH"))))
    ended = subprocess.run([sys.executable, "-B", program], capture_output=True, text=True, timeout=120,
                           env=os.environ | {"LD_LIBRARY_PATH": paths, "TEST_LOSE_DEVICE": submission})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = dict(re.findall(r"^(step|the same session|another session|with its fallback|registered anew)(?: \d+)?: (?!done$)(.*)$",
                           ended.stdout, re.MULTILINE))
    assert sorted(told) == ["another session", "step", "the same session"], ended.stdout
    for line in told.values():  # ONNX Runtime's own kind of error, in one line
        assert re.search(r"^EPFail: .*vkattn: .*the device is lost, expected", line), ended.stdout
    for line in ("with its fallback: done", "registered anew: done"):
        assert line in ended.stdout.splitlines()
