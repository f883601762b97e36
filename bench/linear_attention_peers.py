#!/usr/bin/env python3
"""The gated delta rule of 32 heads of 128, f32, beside others on the same processor: llama.cpp's GATED_DELTA_NET on the same Vulkan
driver (Debian's llama.cpp-tests), and what transformers computes without CUDA, in PyTorch (Qwen3-Next's functions: a token, or
chunks). Each length is measured a round after the other, of all rounds the fastest. In ggml the norms of keys and queries are
operators of their own, which are not counted.

    bench/linear_attention_peers.py VKATTN     inside Debian testing, with transformers on PYTHONPATH: prints a table
"""
import json
import os
import re
import subprocess
import sys
import time

import torch
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

import ggml_attention

HEADS, SIZE, LENGTHS, ROUNDS = 32, 128, (1, 64, 256, 512, 1024, 4096), 3


def vkattn_ms(vkattn, length):
    told = subprocess.run([vkattn, "bench", "--op", "linear_attention", "--heads", str(HEADS), "--head-dim", str(SIZE),
                           "--q-len", str(length), "--dtype", "f32", "--seconds", "1", "--json"], check=True,
                          capture_output=True, text=True).stdout
    return json.loads(told)["min_ms"]


def ggml_ms(length):
    """None: not in ggml's list."""
    program = ggml_attention.command()[0]
    told = subprocess.run([program, "perf", "-o", "GATED_DELTA_NET", "-b", "Vulkan0", "-p",
                           f"head_count={HEADS},head_size={SIZE},n_seq_tokens={length},n_seqs=1,v_repeat=1,permuted=0,kda=0"],
                          capture_output=True, text=True, env={**os.environ, "GGML_VK_VISIBLE_DEVICES": "0"}).stdout
    times = re.findall(r"([0-9.]+) us/run", told)
    return min(map(float, times)) / 1000 if times else None


def torch_ms(length):
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, length, HEADS, SIZE) for _ in range(3))
    decay, beta = -torch.rand(1, length, HEADS), torch.rand(1, length, HEADS)
    state = torch.randn(1, HEADS, SIZE, SIZE)
    compute = qwen3_next.torch_recurrent_gated_delta_rule if length == 1 else qwen3_next.torch_chunk_gated_delta_rule
    fastest, begin = float("inf"), time.monotonic()
    with torch.no_grad():
        while time.monotonic() < begin + 1:
            start = time.perf_counter()
            compute(query, key, value, g=decay, beta=beta, initial_state=state, output_final_state=True,
                    use_qk_l2norm_in_kernel=True)
            fastest = min(fastest, time.perf_counter() - start)
    return 1000 * fastest


def main(vkattn):
    print("| tokens | vkattn, ms | llama.cpp, ms | | transformers, ms | |\n|---:|---:|---:|---:|---:|---:|")
    for length in LENGTHS:
        rounds = [(vkattn_ms(vkattn, length), ggml_ms(length), torch_ms(length)) for _ in range(ROUNDS)]
        ours, ggml, pytorch = (min(each) if None not in each else None for each in zip(*rounds))
        beside = f"{ggml:.3g} | {ggml / ours:.2f}" if ggml else "- | -"
        print(f"| {length:,} | {ours:.3g} | {beside} | {pytorch:.3g} | {pytorch / ours:.1f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("bench/linear_attention_peers.py: expected the command vkattn")
    main(sys.argv[1])
