"""Compiles the problems on a GPU of the lab, vkattn's kernels and ggml's, and gathers a row of figures a pipeline."""
import collections
import csv
import dataclasses
import json
import re
import subprocess

import assembly
import lab
import peer
import tiles
from figures import Figures, figures_of
from shapes import Shape

VKATTN = lab.BUILD / "tools/vkattn"
VKATTN_ARM64 = lab.BUILD_ARM64 / "tools/vkattn"
TOO_LONG = f"not compiled within {lab.LONGEST_SECONDS} s"


@dataclasses.dataclass(frozen=True)
class Gpu:
    name: str
    product: str
    vendor: str  # amd, nvidia, intel, apple, qualcomm, arm
    is_emulated: bool = False  # its driver is for 64-bit ARM
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
    useful_rows: float | None = None  # the part of the tile's rows that the problem fills


def gpus():
    """Every GPU of the table, those that cannot be had too."""
    listed = subprocess.run([lab.LAB, "list"], check=True, capture_output=True, text=True).stdout
    reasons = dict(re.findall(r"^(\S+) .*unavailable: (.*)$", listed, re.MULTILINE))
    with open(lab.ROOT / "bench/gpu_lab/gpus.tsv", newline="") as table:
        return [Gpu(row["name"], row["product"], row["vendor"].lower(), row["source"] == "arm64",
                    reasons.get(row["name"], ""))
                for row in csv.DictReader(table, delimiter="\t")]


def ours(gpu, problem, with_code=True):
    """A row for each pipeline that vkattn's plan of the problem has; one with a reason where it cannot be planned. The hot
    loop is found with_code only."""
    report, reason = shaders_of(gpu, problem, *(["--assembly"] if with_code and gpu.is_emulated else []))
    if reason:
        return [failed(problem, "vkattn", reason)]
    if with_code and not gpu.is_emulated:  # compiled once more, since to keep the code takes a driver far longer than to make it
        again, reason = shaders_of(gpu, problem, "--assembly")
        for shader, other in zip(report["shaders"], again["shaders"] if again else []):
            shader["texts"] = other.get("texts", {})
        if gpu.vendor == "apple":
            add_printed_code(gpu, problem, report["shaders"])
    rows = [row_of(gpu, problem, "vkattn", report["kernel"], "", shader, with_code,
                   tiles.multiply_adds(shader["module"], shader["constants"]),
                   useful(problem, False, tiles.rows(shader["module"], shader["constants"])))
            for shader in numbered(report["shaders"])]
    for row in rows:
        row.driver = report["driver"]
        row.reason = row.reason or reason
    return rows


def shaders_of(gpu, problem, *options):
    """What `vkattn shaders` says of the problem, and "", or None and why it says nothing."""
    try:
        ran = lab.run(gpu.name, VKATTN_ARM64 if gpu.is_emulated else VKATTN, "shaders", *problem.options(), "--json", *options)
    except subprocess.TimeoutExpired:
        return None, TOO_LONG
    if ran.returncode != 0:
        return None, last_line(ran.stderr) or f"ended with {ran.returncode}"
    return json.loads(ran.stdout)[0], ""


def add_printed_code(gpu, problem, shaders):
    """Of a driver that prints its code and does not hand it out: through the statistics layer, which reads what is printed."""
    try:
        _, records = lab.run_under_layer(gpu.name, VKATTN, "shaders", *problem.options(), "--json")
    except subprocess.TimeoutExpired:
        records = []
    for shader in shaders:
        shader["texts"] = printed_code(shader, records)


def printed_code(shader, records):
    """The texts of the record that has the shader's statistics."""
    return next((record["texts"] for record in records if record["statistics"] == shader["statistics"]), {})


def numbered(shaders):
    """A plan may have a module twice, with other constants: the second is "flash #2". A variant's are called as those that it is
    made of."""
    count = collections.Counter()
    for shader in shaders:
        shader["module"] = re.sub(r" of variant \d+$", "", shader["module"])
        count[shader["module"]] += 1
        if count[shader["module"]] > 1:
            shader["module"] += f" #{count[shader['module']]}"
    return shaders


def theirs(gpu, problem):
    """The same of ggml's attention on the same GPU."""
    if gpu.is_emulated:
        return [failed(problem, "ggml", "the driver runs emulated, where ggml and the statistics layer are not installed")]
    try:
        found = peer.compile_attention(problem, gpu.name)
    except subprocess.TimeoutExpired:
        return [failed(problem, "ggml", TOO_LONG)]
    if found.reason:
        return [failed(problem, "ggml", found.reason)]
    return [row_of(gpu, problem, "ggml", pipeline["path"], f"{pipeline['tile']['rows']} x {pipeline['tile']['keys']}", pipeline,
                   tile_multiply_adds=pipeline["multiply_adds"], useful_rows=useful(problem, True, pipeline["tile"]["rows"]))
            for pipeline in found.pipelines]


def useful(problem, is_ggml, tile_rows):
    """As tiles.useful_rows; None of linear layers. Query heads that share K and V are rows of one tile: in vkattn's kernels
    always, in ggml's where there is one query a head."""
    if not isinstance(problem, Shape):
        return None
    is_packed = not is_ggml or problem.q_len == 1
    rows = problem.q_len * (problem.heads // problem.kv_heads if is_packed else 1)
    return tiles.useful_rows(rows, tile_rows)


def row_of(gpu, problem, side, kernel, tile, shader, with_code=True, tile_multiply_adds=None, useful_rows=None):
    hot, reason = None, ""
    if with_code:
        hot, reason = assembly.analyse(gpu.vendor, shader["statistics"], shader.get("texts", {}), shader["subgroup_size"],
                                       gpu.name, tile_multiply_adds)
    figures = figures_of(gpu.vendor, shader)
    if gpu.is_emulated:
        figures.compile_ms = None  # the emulator's
    return Row(problem.name, side, kernel, tile, figures, hot, reason, useful_rows=useful_rows)


def failed(problem, side, reason):
    return Row(problem.name, side, "", "", None, None, reason)


def last_line(text):
    """The last line of an error that a command of ours printed; drivers print before it."""
    lines = [line for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("vkattn:")]
    return (ours or lines or [""])[-1].removeprefix("vkattn: error: ")
