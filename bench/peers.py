#!/usr/bin/env python3
"""What bench/peers runs inside Debian testing. Times are wall clock, medians of many runs; a round measures every peer
of a shape once, one after the other, and the table has the medians of the rounds' ratios; beside them that of the smallest
times, which says more where others share the machine. One set of inputs each."""
import argparse
import datetime
import functools
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as functional

import ggml_attention
from shapes import Shape, time_vkattn

VKATTN = "build-modern/tools/vkattn"
# Of the shapes that ggml's own list times with many queries.
GGML_NEAREST = {64: "hsk=72,", 128: "hsk=72,", 256: "hsk=256,.*nb=512", 576: "hsk=576,.*nb=32"}


def shapes():
    for kv in ("f32", "f16"):
        yield Shape("prefill H12 L512 D64", 12, 12, 512, 512, 64, 64, False, kv)
        yield Shape("prefill H32 L2048 D64", 32, 32, 2048, 2048, 64, 64, False, kv)
        yield Shape("prefill H32/8 L1024 D128 causal", 32, 8, 1024, 1024, 128, 128, True, kv)
        yield Shape("prefill H24/4 Lq512 Lk4096 D256", 24, 4, 512, 4096, 256, 256, False, kv)
        yield Shape("decode H32/8 Lk4096 D128", 32, 8, 1, 4096, 128, 128, False, kv)
    for kv in ("f32", "f16", "q8_0", "q4_0"):
        yield Shape("decode H64/8 Lk7680 D64", 64, 8, 1, 7680, 64, 64, False, kv)
    for heads, q_len in ((16, 1), (20, 1), (16, 32)):
        yield Shape(f"MLA absorbed H{heads} Lq{q_len} Lk8192", heads, 1, q_len, 8192, 576, 512, False, "f16")


def time_torch(shape):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, size) for heads, length, size in
               ((shape.heads, shape.q_len, shape.head_dim), (shape.kv_heads, shape.kv_len, shape.head_dim),
                (shape.kv_heads, shape.kv_len, shape.v_head_dim)))

    def run():
        start = time.perf_counter()
        functional.scaled_dot_product_attention(q, k, v, is_causal=shape.causal, enable_gqa=shape.heads != shape.kv_heads)
        return (time.perf_counter() - start) * 1e3

    def run_for(seconds, fewest):
        samples, begin = [], time.monotonic()
        while len(samples) < fewest or time.monotonic() < begin + seconds:
            samples.append(run())
        return samples

    run_for(0.3, 2)  # as `vkattn bench` warms up
    samples = run_for(3.0, 3)
    return statistics.median(samples), min(samples)


@functools.cache
def run_ggml(*arguments):
    """What ggml's Vulkan backend says of itself on the CPU device; it decides the number of runs itself, by bytes."""
    output = subprocess.run([*ggml_attention.command(), *arguments], env={**os.environ, "GGML_VK_VISIBLE_DEVICES": "0"}, check=True,
                            capture_output=True, text=True).stdout
    if "Device description: llvmpipe" not in output:
        sys.exit("ggml did not run on lavapipe:\n" + output)
    return output


def ggml_gflops(shape):
    """GFLOP/s of the shape itself, or (prefill, which takes minutes so) of the nearest of ggml's own list; None: has none."""
    if shape.q_len == 1:
        with ggml_attention.case_file(shape) as cases:
            output = run_ggml("--test-file", cases)
        return shape.flops() / float(re.search(r"([0-9.]+) us/run", output).group(1)) / 1e3
    if shape.kv_type != "f16":
        return None
    rates = re.findall(r"([0-9.]+) ([GM])FLOPS", run_ggml("-p", GGML_NEAREST[shape.head_dim] + ".*type_K=f16"))
    return max(float(rate) / (1 if unit == "G" else 1e3) for rate, unit in rates)


def rows(arguments):
    for shape in shapes():
        if not re.search(arguments.shapes, shape.name):
            continue
        ours, torchs, ratios = [], [], []
        least = torch_least = math.inf
        for _ in range(arguments.rounds):
            torch_median, torch_min = time_torch(shape)
            times = time_vkattn(VKATTN, shape)
            torchs.append(torch_median)
            ours.append(times["median_ms"])
            ratios.append(torchs[-1] / ours[-1])
            least, torch_least = min(least, times["min_ms"]), min(torch_least, torch_min)
        ggml = None if arguments.no_ggml else ggml_gflops(shape)
        again = time_vkattn(VKATTN, shape, "--roofline")
        last = statistics.median([*ours, again["median_ms"]])
        print(f"{shape.name} {shape.kv_type}: {last:.3f} ms", file=sys.stderr)
        yield {"shape": shape.name, "kv": shape.kv_type, "ms": last, "gflops": shape.flops() / last / 1e6,
               "roofline": again["percent_of_roofline"], "peak_gflops": again["peak_gflops"],
               "peak_gbytes": again["peak_gbytes_per_s"],
               "torch_ms": statistics.median(torchs), "over_torch": statistics.median(ratios),
               "least_over_torch": torch_least / least, "ggml_gflops": ggml,
               "nearest": shape.q_len != 1, "over_ggml": shape.flops() / again["median_ms"] / 1e6 / ggml if ggml else None,
               "kernel": again["kernel"], "first_dispatch_ms": again["first_dispatch_ms"],
               "device": again["device"], "driver": again["driver"]}


def cpu_name():
    """What Linux calls it; "" where it does not say (64-bit ARM)."""
    return next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")


def table(results):
    peaks = [statistics.median(r[key] for r in results) for key in ("peak_gflops", "peak_gbytes")]
    yield f"{datetime.date.today()}, {results[0]['device']}, {results[0]['driver']}, " \
          f"{os.cpu_count()} cores {platform.machine()} {cpu_name()}, " \
          f"PyTorch {torch.__version__} (f32, {torch.get_num_threads()} threads)."
    yield f"Roofline: {peaks[0]:.0f} GFLOP/s of multiply-adds and {peaks[1]:.1f} GB/s, measured on the driver (medians). " \
          "¹ the nearest shape of ggml's own list"
    yield ""
    yield "| shape | K, V | kernel | vkattn ms | GFLOP/s | of roofline | PyTorch f32 ms | over PyTorch | " \
          "smallest over smallest | ggml Vulkan GFLOP/s | over ggml | first dispatch ms |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for r in results:
        ggml = f"{r['ggml_gflops']:.2f}{'¹' if r['nearest'] else ''} | {r['over_ggml']:.1f}" if r["ggml_gflops"] else "– | –"
        yield f"| {r['shape']} | {r['kv']} | {r['kernel']} | {r['ms']:.3f} | {r['gflops']:.1f} | {r['roofline']:.0f} % | " \
              f"{r['torch_ms']:.3f} | {r['over_torch']:.2f} | {r['least_over_torch']:.2f} | {ggml} | " \
              f"{r['first_dispatch_ms']:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each peer, alternating")
    parser.add_argument("--no-ggml", action="store_true", help="leave out ggml, which takes a minute a shape")
    parser.add_argument("--shapes", default="", help="only shapes whose names match this regular expression")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="write the table here too")
    arguments = parser.parse_args()
    text = "\n".join(table(list(rows(arguments)))) + "\n"
    print(text, end="")
    if arguments.output:
        arguments.output.write_text(text)


if __name__ == "__main__":
    main()
