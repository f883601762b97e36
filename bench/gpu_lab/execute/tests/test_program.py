"""What is not known ends the program with one line."""

import json
import os
import shlex
import subprocess

import pytest


def run(arguments, line="", settings=None):
    if "VKATTN_EXECUTE_INSTRUCTIONS" not in os.environ:
        pytest.skip("VKATTN_EXECUTE_INSTRUCTIONS is not set, expected the command that runs execute_instructions")
    environment = {**os.environ, **({"VKATTN_EXECUTE": settings} if settings else {})}
    command = shlex.split(os.environ["VKATTN_EXECUTE_INSTRUCTIONS"]) + arguments
    return subprocess.run(command, input=line, capture_output=True, text=True, env=environment)


def test_an_unknown_instruction_is_named():
    result = run(["navi31"], json.dumps({"code": "v_mqsad_u32_u8 v[0:3], v[4:5], v6, v[8:11]"}) + "\n")
    assert result.returncode == 98
    assert "v_mqsad_u32_u8" in result.stderr and "gfx1100" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "settings, expected",
    [
        ("order=sideways", "order is 'sideways', expected forward, reversed or random"),
        ("switch=-1", "switch is '-1', expected a number of at least 0"),
        ("waits=2", "waits is '2', expected 0 or 1"),
        ("barriers=1", "'barriers' is unknown, expected one of order"),
        ("lds", "'lds' has no value, expected NAME=VALUE"),
    ],
)
def test_wrong_settings_are_named(settings, expected):
    result = run(["navi31"], settings=settings)
    assert result.returncode == 98 and expected in result.stderr


@pytest.mark.parametrize("settings", ["model=1", "instructions=/dev/null"])
def test_a_model_without_counters_is_refused(settings):
    result = run(["navi31"], json.dumps({"code": "s_nop 0"}) + "\n", settings=settings)
    assert result.returncode == 98 and "model and instructions are for counters, expected counters=FILE, too" in result.stderr


def test_an_unknown_gpu_is_named():
    result = run(["navi99"])
    assert result.returncode == 98 and "'navi99' is unknown, expected one of polaris10 vega10" in result.stderr
