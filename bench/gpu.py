#!/usr/bin/env python3
"""What bench/gpu runs: tests first, then shapes one after the other, each timed by vkattn's timestamps, PyTorch's events and
ggml's own benchmark."""
import argparse
import datetime
import os
import pathlib
import re
import statistics
import subprocess
import sys

import ggml_attention
from shapes import LinearShape, Shape, time_vkattn

BUILD = pathlib.Path(os.environ.get("VKATTN_BUILD_DIR", "build"))
VKATTN = BUILD / "tools/vkattn"
TESTS = "attention.*,masks.alone,masks.hidden,kv_append,sequences,merge,split,operators,layer,layers,caches,self_test"
MOST_BYTES = 2 << 30  # of a tensor
BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")


def prefill_shapes():
    for kind in ("f16", "bf16"):
        for heads, kv_heads in ((32, 8), (128, 128)):
            for size in (64, 128, 256):
                for length in (512, 2048, 8192, 16384):
                    for batch in (1, 4):
                        for causal in (True, False):
                            if batch * heads * length * size * 2 <= MOST_BYTES and (batch == 1 or length <= 2048):
                                yield Shape(f"prefill B{batch} H{heads}/{kv_heads} D{size} L{length}"
                                            + (" causal" if causal else ""), heads, kv_heads, length, length, size, size,
                                            causal, kind, batch, kind)


def decode_shapes():
    for batch in (1, 16, 64):
        for length in (1024, 4096, 16384, 65536, 131072):
            for kind in ("f16", "bf16", "q8_0"):
                if batch * 8 * length * 128 * 2 <= MOST_BYTES:
                    yield Shape(f"decode B{batch} H32/8 D128 Lk{length}", 32, 8, 1, length, 128, 128, False, kind, batch,
                                "f16" if kind == "q8_0" else kind)
    for batch in (1, 8):
        for length in (4096, 16384, 65536):
            for kind in ("f16", "bf16"):
                yield Shape(f"MLA decode B{batch} H128 576/512 Lk{length}", 128, 1, 1, length, 576, 512, False, kind, batch, kind)


def linear_shapes():
    for in_features, out_features in ((4096, 4096), (4096, 14336), (14336, 4096)):
        for rows in (1, 16, 512, 4096):
            for kind in ("f16", "bf16"):
                yield LinearShape(f"linear {rows} x {in_features} to {out_features}", rows, in_features, out_features, kind)


def check(device):
    """Every kernel against float64, on random inputs."""
    environment = {**os.environ, **({"VKATTN_TEST_DEVICE": device} if device else {})}
    result = subprocess.run([BUILD / "tests/vkattn_tests", f"--test-suite={TESTS}"], capture_output=True, text=True, env=environment)
    summary = [line for line in result.stdout.splitlines() if "assertions:" in line]
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    return summary[-1].removeprefix("[doctest] ")


def load_torch():
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def time_torch(torch, shape, seconds):
    """(milliseconds, backend) of the fastest of PyTorch's; None: it has none for the shape."""
    return (time_torch_linear if isinstance(shape, LinearShape) else time_torch_attention)(torch, shape, seconds)


def kinds_of(torch):
    return {"f16": torch.float16, "bf16": torch.bfloat16}


def time_torch_linear(torch, shape, seconds):
    kind = kinds_of(torch)[shape.kind]
    tokens = torch.randn(shape.rows, shape.in_features, device="cuda", dtype=kind)
    weight = torch.randn(shape.out_features, shape.in_features, device="cuda", dtype=kind)
    return median_of_events(torch, seconds, lambda: torch.nn.functional.linear(tokens, weight)), "linear"


def time_torch_attention(torch, shape, seconds):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    kinds = kinds_of(torch)
    if shape.kv_type not in kinds:
        return None
    tensors = [torch.randn(shape.batch, heads, length, size, device="cuda", dtype=kinds[shape.kv_type]) for heads, length, size in
               ((shape.heads, shape.q_len, shape.head_dim), (shape.kv_heads, shape.kv_len, shape.head_dim),
                (shape.kv_heads, shape.kv_len, shape.v_head_dim))]
    best = None
    for name in BACKENDS:
        if best and name == "MATH":  # which writes the whole matrix of scores
            continue
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                milliseconds = median_of_events(torch, seconds, lambda: torch.nn.functional.scaled_dot_product_attention(
                    *tensors, is_causal=shape.causal, enable_gqa=shape.heads != shape.kv_heads))
        except (AttributeError, RuntimeError):  # a backend that does not take the shape
            torch.cuda.empty_cache()
            continue
        if best is None or milliseconds < best[0]:
            best = milliseconds, name
    return best


def median_of_events(torch, seconds, run):
    samples, spent = [], 0.0
    run()
    while len(samples) < 5 or (spent < 1e3 * seconds and len(samples) < 100):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end))
        spent += samples[-1]
    return statistics.median(samples)


def ggml_command(program):
    """How to run test-backend-ops: the program, or Debian's; None: there is none."""
    try:
        return ggml_attention.command(program=program)
    except (OSError, subprocess.CalledProcessError):
        return None


def time_ggml(command, shape):
    """Milliseconds of ggml's Vulkan backend; None: it has none for the shape."""
    if isinstance(shape, LinearShape) or shape.kv_type not in ggml_attention.TYPES:
        return None
    with ggml_attention.case_file(shape) as cases:
        result = subprocess.run([*command, "--test-file", cases], capture_output=True, text=True)
    microseconds = re.search(r"([0-9.]+) us/run", result.stdout)
    return float(microseconds.group(1)) / 1e3 if microseconds else None


def row(shape, result, peaks, torchs, ggml):
    reached = max(result["gflops"] / max(peaks["peak_matrix_gflops"], peaks["peak_gflops"]),
                  result["gbytes_per_s"] / peaks["peak_gbytes_per_s"])
    ratio = f"{torchs[0]:.3f} | {torchs[1].removesuffix('_ATTENTION').lower()} | {torchs[0] / result['median_ms']:.2f}" if torchs else "– | – | –"
    ggml_ratio = f"{ggml:.3f} | {ggml / result['median_ms']:.2f}" if ggml else "– | –"
    kind = shape.kind if isinstance(shape, LinearShape) else shape.kv_type
    return (f"| {shape.name} | {kind} | {result['kernel']} | {result['median_ms']:.3f} | {result['gflops'] / 1e3:.1f} | "
            f"{result['gbytes_per_s']:.0f} | {100 * reached:.0f} % | {ratio} | {ggml_ratio} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="", help="only shapes whose names match this regular expression")
    parser.add_argument("--device", default="", help="index or part of the name; default: the best one")
    parser.add_argument("--no-check", action="store_true", help="leave out the tests")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a shape's timed runs, of vkattn and PyTorch each; default 0.5")
    parser.add_argument("--ggml", help="ggml's test-backend-ops with its Vulkan backend; default: that of Debian's llama.cpp-tests")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="write the table here too, line by line")
    arguments = parser.parse_args()
    torch = load_torch()
    ggml = ggml_command(arguments.ggml)
    output = arguments.output.open("w") if arguments.output else None

    def say(line):
        print(line, flush=True)
        if output:
            print(line, file=output, flush=True)

    if not arguments.no_check:
        say(f"Tests of every kernel against float64: {check(arguments.device)}\n")
    options = ["--device", arguments.device] if arguments.device else []
    peaks = None
    for shape in [*prefill_shapes(), *decode_shapes(), *linear_shapes()]:
        if not re.search(arguments.shapes, shape.name):
            continue
        try:
            result = time_vkattn(VKATTN, shape, "--seconds", arguments.seconds, *options, *([] if peaks else ["--roofline"]))
        except subprocess.CalledProcessError as error:
            print(f"{shape.name}: {error.stderr.strip()}", file=sys.stderr)
            continue
        if peaks is None:
            peaks = result
            say(f"{datetime.date.today()}, {result['device']}, {result['driver']}, clock: {result['clock']}, PyTorch "
                f"{torch.__version__ if torch else 'without a GPU'}.")
            say(f"Roofline: {result['peak_gflops'] / 1e3:.1f} TFLOP/s, {result['peak_matrix_gflops'] / 1e3:.1f} on matrix units, "
                f"{result['peak_gbytes_per_s']:.0f} GB/s, measured (of the first shape's run).\n")
            say("| shape | K, V or weight | kernel | ms | TFLOP/s | GB/s | of roofline | PyTorch ms | its backend | "
                "over PyTorch | ggml Vulkan ms | over ggml |")
            say("|" + 12 * "---|")
        say(row(shape, result, peaks, time_torch(torch, shape, arguments.seconds) if torch else None, time_ggml(ggml, shape) if ggml else None))


if __name__ == "__main__":
    main()
