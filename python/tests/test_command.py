"""The command of a wheel: the program beside the library, or one line that says why there is none."""
import os
import pathlib
import subprocess
import sys

import pytest

PYTHON = pathlib.Path(__file__).parents[1]


def run(folder, *words):
    """vkattn_command in an installation whose package vkattn is a folder's."""
    (folder / "vkattn").mkdir(exist_ok=True)
    (folder / "vkattn" / "__init__.py").write_text("raise ImportError('the library is not loaded for the command')")
    path = os.pathsep.join([str(folder), str(PYTHON)])
    program = "import sys, vkattn_command; sys.exit(vkattn_command.main())"
    return subprocess.run([sys.executable, "-B", "-c", program, *words], env={**os.environ, "PYTHONPATH": path},
                          capture_output=True, text=True)


def test_an_installation_without_the_command_says_what_it_takes(tmp_path):
    result = run(tmp_path, "devices")
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("vkattn: error: the command is not in this installation, expected one")
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell's")
def test_words_and_status_are_the_programs(tmp_path):
    (tmp_path / "vkattn").mkdir()
    program = tmp_path / "vkattn" / "vkattn"
    program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\nexit 7\n')
    program.chmod(0o755)
    result = run(tmp_path, "check", "a file")
    assert (result.returncode, result.stdout, result.stderr) == (7, "<check><a file>", "")
