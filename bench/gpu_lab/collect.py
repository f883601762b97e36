"""Compiles the problems on a GPU of the lab, vkattn's kernels and ggml's, and gathers a row of figures a pipeline."""
import csv
import dataclasses
import json
import pathlib
import re
import subprocess

import assembly
import peer
from figures import Figures, figures_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = ROOT / "scripts/gpu-lab"
BUILD = "build-modern"
VKATTN = f"{BUILD}/tools/vkattn"
LONGEST_SECONDS = 300  # of one problem on one GPU


@dataclasses.dataclass(frozen=True)
class Gpu:
    name: str
    product: str
    vendor: str  # amd, nvidia, intel, apple, qualcomm, arm
    unavailable: str = ""  # why it cannot be had


@dataclasses.dataclass
class Row:
    problem: str
    side: str  # vkattn or ggml
    kernel: str
    tile: str
    figures: Figures | None
    hot: assembly.hot_loop.HotLoop | None = None
    reason: str = ""  # why there are no figures, or no hot loop
    driver: str = ""


def gpus():
    """Every GPU of the table, those that cannot be had too."""
    listed = subprocess.run([LAB, "list"], check=True, capture_output=True, text=True).stdout
    reasons = dict(re.findall(r"^(\S+) .*unavailable: (.*)$", listed, re.MULTILINE))
    with open(ROOT / "bench/gpu_lab/gpus.tsv", newline="") as table:
        return [Gpu(row["name"], row["product"], row["vendor"].lower(), reasons.get(row["name"], ""))
                for row in csv.DictReader(table, delimiter="\t")]


def driver_of(gpu):
    """The driver's name and version, or "" where no device comes up."""
    ran = run(gpu, VKATTN, "devices", "--json")
    try:
        device = json.loads(ran.stdout)[0]
    except (ValueError, IndexError):
        return ""
    return device["driver"] if isinstance(device["driver"], str) else device["driver"]["name"]


def run(gpu, *command):
    return subprocess.run([str(word) for word in (LAB, "run", gpu.name, *command)], cwd=ROOT, capture_output=True, text=True,
                          errors="replace", timeout=LONGEST_SECONDS)


def ours(gpu, problem):
    """A row for each pipeline that vkattn's plan of the problem has; one with a reason where it cannot be planned."""
    try:
        ran = run(gpu, VKATTN, "shaders", *problem.options(), "--json", "--assembly")
    except subprocess.TimeoutExpired:
        return [failed(problem, "vkattn", f"not compiled within {LONGEST_SECONDS} s")]
    if ran.returncode != 0:
        return [failed(problem, "vkattn", last_line(ran.stderr) or f"ended with {ran.returncode}")]
    report = json.loads(ran.stdout)[0]
    names = {}
    rows = []
    for shader in report["shaders"]:
        names[shader["module"]] = names.get(shader["module"], 0) + 1
        if names[shader["module"]] > 1:
            shader["module"] += f" #{names[shader['module']]}"
        row = row_of(gpu, problem, "vkattn", report["kernel"], "", shader)
        row.driver = report["driver"]
        rows.append(row)
    return rows


def theirs(gpu, problem):
    """The same of ggml's attention on the same GPU."""
    try:
        shaders, reason = peer.shaders(LAB, gpu.name, BUILD, problem)
    except subprocess.TimeoutExpired:
        return [failed(problem, "ggml", f"not compiled within {LONGEST_SECONDS} s")]
    if reason:
        return [failed(problem, "ggml", reason)]
    return [row_of(gpu, problem, "ggml", shader["module"], shader["tile"], shader) for shader in shaders]


def row_of(gpu, problem, side, kernel, tile, shader):
    hot, reason = assembly.analyse(gpu.vendor, shader["statistics"], shader["texts"], shader["subgroup_size"], gpu.name)
    return Row(problem.name, side, kernel, tile, figures_of(gpu.vendor, shader), hot, reason)


def failed(problem, side, reason):
    return Row(problem.name, side, "", "", None, None, reason)


def last_line(text):
    """The last line of an error that a command of ours printed; drivers print before it."""
    lines = [line for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("vkattn:")]
    return (ours or lines or [""])[-1].removeprefix("vkattn: error: ")
