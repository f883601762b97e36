#!/usr/bin/env python3
"""Shots at a GPU that is there for minutes: what only a GPU can tell, in the order in which it is wanted, each by itself. A shot that
fails or takes too long is a line of the table, and the next one follows."""
import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time

from gpu import TESTS
from shapes import LinearShape, Shape

BUILD = pathlib.Path(os.environ.get("VKATTN_BUILD_DIR", "build"))
ROOT = pathlib.Path(__file__).resolve().parents[1]


def attention(name, q_len, kv_len, kind, **more):
    sizes = {"heads": 32, "kv_heads": 8, "head_dim": 128, "v_head_dim": 128, "causal": q_len > 1, "query_type": "f16", **more}
    return Shape(name, q_len=q_len, kv_len=kv_len, kv_type=kind, **sizes)


LATENT = {"heads": 128, "kv_heads": 1, "head_dim": 576, "v_head_dim": 512}
PREFILL = attention("prefill f16", 2048, 2048, "f16")
DECODE = attention("decode f16, 4,096 keys", 1, 4096, "f16")
MODULES = (PREFILL, attention("prefill q8_0", 2048, 2048, "q8_0"), attention("MLA decode, 4,096 keys", 1, 4096, "f16", **LATENT),
           attention("prefill with functions", 2048, 2048, "f16", variant=str(ROOT / "bench/gpu_lab/variant.glsl")),
           LinearShape("linear q4_K, 512 rows", 512, 4096, 4096, "f16", weight_type="q4_K"))
TILES = (PREFILL, attention("prefill f16 D 64", 2048, 2048, "f16", head_dim=64, v_head_dim=64),
         attention("prefill f16, 8,192", 8192, 8192, "f16"))
MATRICES = [attention(f"prefill f16 D {dims}, {length:,}", length, length, "f16", head_dim=dims, v_head_dim=dims)
            for dims in (64, 128) for length in (2048, 8192)]
LINEAR = [*(LinearShape(f"linear f16, {rows} rows", rows, 4096, 4096, "f16") for rows in (512, 4096)),
          *(LinearShape(f"linear {kind}, 1 row", 1, 4096, 14336, "f16", weight_type=kind) for kind in ("q4_K", "q8_0"))]
GRADIENTS = [attention(f"gradients {kind} D {dims}, 2,048", 2048, 2048, kind, query_type=kind, head_dim=dims, v_head_dim=dims, backward=True)
             for kind, dims in (("f16", 64), ("f16", 128), ("f32", 64))]
JOINS = (DECODE, attention("decode f16, 16,384 keys", 1, 16384, "f16"), attention("MLA decode, 4,096 keys", 1, 4096, "f16", **LATENT))


def small(shape):
    """The same for a driver of a CPU: that it runs, and no figure of anything."""
    if isinstance(shape, LinearShape):
        return dataclasses.replace(shape, rows=min(shape.rows, 20), in_features=256, out_features=256)
    return dataclasses.replace(shape, heads=4, kv_heads=min(shape.kv_heads, 2), q_len=min(shape.q_len, 40), kv_len=80)


@dataclasses.dataclass(frozen=True)
class Run:
    """A line of the table: a command, with traits of the device, and what reads its output."""
    text: str
    command: list
    read: object
    traits: str = ""


class Shots:
    """The runs of each shot, in order. seconds: of a run's timed runs."""

    def __init__(self, device, seconds, sized):
        self._common = ["--device", device] if device else []
        self._seconds, self._sized = ["--seconds", seconds], sized

    def all(self):
        return (("suites", self.suites()), ("modules", self.modules()), ("matrices of subgroups and of workgroups", self.matrices()),
                ("tiles of prefill", self.tiles(TILES)), ("tiles of linear", self.tiles(LINEAR)),
                ("tiles of gradients", self.tiles(GRADIENTS)), ("joins of decode", self.joins()), ("roofline", self.roofline()))

    def suites(self):
        return [Run("every kernel against float64", [BUILD / "tests/vkattn_tests", f"--test-suite={TESTS}"], assertions)]

    def _bench(self, shape, *more):
        return [BUILD / "tools/vkattn", "bench", *self._sized(shape).options(), "--json", *self._seconds, *self._common, *more]

    def modules(self):
        return [Run(f"{shape.name}, {text}", self._bench(shape), median, f"specialised_modules={value}")
                for shape in MODULES for value, text in ((1, "specialised"), (0, "whole modules"))]

    def matrices(self):
        return [Run(f"{shape.name}, {kernel}", self._bench(shape, "--kernel", kernel), median)
                for shape in MATRICES for kernel in ("coopmat", "coopmat2")]

    def tiles(self, shapes):
        """What tuning tries: matrices of rows, subgroups, keys, of whatever kernels have them."""
        return [Run(shape.name, [BUILD / "tools/vkattn", "tune", *self._sized(shape).options(), "--json", *self._common], candidates)
                for shape in shapes]

    def joins(self):
        """Keys in as many parts as fill the device, in a quarter, in four times as many, and not split."""
        return [Run(f"{shape.name}, {text}", self._bench(shape), median, traits) for shape in JOINS for text, traits in (
            ("parts by itself", ""), ("not split", "parallel_workgroups=1"), ("128 workgroups", "parallel_workgroups=128"),
            ("2,048 workgroups", "parallel_workgroups=2048"))]

    def roofline(self):
        return [Run("peaks", self._bench(DECODE, "--roofline"), peaks)]


def assertions(output):
    return [line.removeprefix("[doctest] ") for line in output.splitlines() if "assertions:" in line]


def median(output):
    result = json.loads(output)
    return [f"{result['kernel']}: {result['median_ms']:.4f} ms, {result['gflops'] / 1e3:.1f} TFLOP/s, {result['gbytes_per_s']:.0f} GB/s"]


def candidates(output):
    """Those that ran, the fastest first."""
    found = [each for problem in json.loads(output) for each in problem["candidates"] if not each["reason"]]
    return [f"{each['milliseconds']:.4f} ms: {'' if each['kernel'] == 'auto' else each['kernel'] + ' '}{each['tile']}{', kept' if each['kept'] else ''}"
            for each in sorted(found, key=lambda each: each["milliseconds"])]


def peaks(output):
    result = json.loads(output)
    return [f"{result['peak_gflops'] / 1e3:.1f} TFLOP/s of f32, {result['peak_matrix_gflops'] / 1e3:.1f} on matrix units, "
            f"{result['peak_gbytes_per_s']:.0f} GB/s read", *median(output)]


def lines_of(run, seconds):
    """What a run says, or why it says nothing, in at most so many seconds."""
    traits = ",".join(filter(None, (os.environ.get("VKATTN_DEVICE_TRAITS"), run.traits)))
    environment = {**os.environ, **({"VKATTN_DEVICE_TRAITS": traits} if traits else {})}
    try:
        done = subprocess.run([str(word) for word in run.command], capture_output=True, text=True, timeout=seconds, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"not done: {error if isinstance(error, OSError) else f'took more than {seconds:.0f} s'}"]
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        return [f"not done, status {done.returncode}: {''.join(last)}"]
    return run.read(done.stdout)


def main():
    parser = argparse.ArgumentParser(prog="bench/gpu --shots", description=__doc__)
    parser.add_argument("--device", default="", help="index or part of the name; default: the best one")
    parser.add_argument("--minutes", type=float, default=10, help="that all of it may take; default 10")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a shape's timed runs; default 0.5")
    parser.add_argument("--small", action="store_true", help="small shapes, to see on a CPU's driver that all of it runs")
    parser.add_argument("--only", default="", help="only the shots in whose name this is")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="write what is printed here too, line by line")
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    with arguments.output.open("w") if arguments.output else open(os.devnull, "w") as file:
        for name, runs in Shots(arguments.device, arguments.seconds, small if arguments.small else lambda shape: shape).all():
            if arguments.only not in name:
                continue
            lines = [f"\n## {name}\n"]
            for run in runs:
                left = end - time.monotonic()
                said = lines_of(run, left) if left > 1 else ["not begun: the time is up"]
                lines += [f"- {run.text}: {said[0]}", *(f"  - {line}" for line in said[1:])]
                for line in lines:
                    print(line, flush=True)
                    print(line, file=file, flush=True)
                lines = []


if __name__ == "__main__":
    sys.exit(main())
