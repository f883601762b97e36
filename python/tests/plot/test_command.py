"""What the command really prints has all that the pictures need. VKATTN_PROGRAM: the command."""
import os
import pathlib
import subprocess

import pytest

from vkattn_plot.__main__ import main

PROGRAM = os.environ.get("VKATTN_PROGRAM")
CASE = pathlib.Path(__file__).parents[3] / "tests/data/ref004_gqa_causal_padding.safetensors"
SMALL = ("--heads", 2, "--repeat", 1)
pytestmark = pytest.mark.skipif(not PROGRAM, reason="VKATTN_PROGRAM names no command")


def printed(name, *words):
    text = subprocess.run([PROGRAM, *map(str, words), "--json"], check=True, capture_output=True).stdout
    pathlib.Path(name).write_bytes(text)
    return name


def test_what_the_command_prints_is_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("tokens").write_text("".join(f"token {index}\n" for index in range(24)))
    sweep = printed("sweep.json", "bench", *SMALL, "--head-dim", 16, "--kv-len", "16,32", "--roofline")
    linear = printed("linear.json", "bench", "--op", "linear", "--rows", "1,2", "--in-features", 32, "--out-features",
                     32, "--repeat", 1)
    variants = printed("variants.json", "bench", "--variants", "mha,mqa", "--d-model", 32, "--len", 16, *SMALL)
    estimate = printed("estimate.json", "estimate", "gqa-2", "mla", "encoder_layer", "--d-model", 512, "--heads", 8,
                       "--memory", "2GiB")
    weights = printed("weights.json", "show", CASE, "--tokens", "tokens", "--heads", "0,3")
    devices = printed("devices.json", "devices")
    for command, file in (("bench", sweep), ("bench", linear), ("bench", variants), ("estimate", estimate),
                          ("weights", weights)):
        assert main([command, file, "-o", f"{file}.png"]) == 0
    assert main(["report", sweep, linear, variants, estimate, weights, devices, "-o", "report.html"]) == 0
    assert "token 23" in pathlib.Path("report.html").read_text()


@pytest.mark.parametrize("words, suffixes", [
    (("bench", "--svg", "x.svg"), ".png, .svg or .pdf"), (("bench", "--html", "x.html"), ".html"),
    (("show", "case", "-o", "x.jpg"), ".png, .svg or .pdf"), (("estimate", "--svg", "x.svg"), ".png, .svg or .pdf")])
def test_the_command_says_who_draws(words, suffixes):
    result = subprocess.run([PROGRAM, *words], capture_output=True, text=True)
    assert result.returncode == 2 and "vkattn-plot" in result.stderr and result.stderr.count("\n") == 1
    assert result.stderr.endswith(f" to draw it as {suffixes}\n")
