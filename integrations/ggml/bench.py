"""python3 integrations/ggml/bench.py LLAMA_BENCH MODEL.gguf [--depths 0,2048,8192] [--prompt 128] [--new 8] [--rounds 2]: a table of
llama-bench with vkattn and without, one process a depth, a side and a round, in turn; the lesser of the repetitions in all rounds.

Wall times are llama-bench's own. Processor time is that of the whole process between the lines by which llama-bench tells what it does:
on a driver of a CPU shaders run there, and what else a machine does does not lengthen it. On a GPU read the wall times alone."""
import argparse
import collections
import os
import re
import subprocess
import sys
import time

SIDES = {"vkattn": {}, "ggml": {"GGML_VK_DISABLE_VKATTN": "1"}}
PHASE = re.compile(r"llama-bench: benchmark \d+/\d+: (warmup |)(depth|prompt|generation) run( \d+/\d+|)(.*)")


def clocks(pid):
    """(seconds, processor seconds of a process)"""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return time.monotonic(), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(arguments, depth, side):
    """{phase: [(seconds, processor seconds) of each run]} of one process."""
    command = [arguments.llama_bench, "-m", arguments.model, "-ngl", "99", "-fa", "1", "-t", "1", "-p", str(arguments.prompt), "-n",
               str(arguments.new), "-d", str(depth), "-r", "2", "-o", "jsonl", "--progress"]
    runs, phase, before, said = collections.defaultdict(list), None, None, []
    with subprocess.Popen(command, env={**os.environ, **SIDES[side]}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as process:
        for line in process.stdout:
            said.append(line)
            started = PHASE.match(line)
            if not started and not line.startswith("{"):
                continue
            now = clocks(process.pid)
            if phase:
                runs[phase].append(tuple(after - start for after, start in zip(now, before)))
            # warm-ups compile; a cached depth is a copy
            phase = None if not started or started[1] or "cached" in started[4] else started[2]
            before = now
    if process.returncode != 0 or "generation" not in runs:
        sys.exit(f"{' '.join(command)} by {side}: status {process.returncode}: {''.join(said)[-2000:]}")
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_bench")
    parser.add_argument("model")
    parser.add_argument("--depths", default="0,2048,8192")
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    for file in (arguments.llama_bench, arguments.model):
        if not os.path.isfile(file):
            sys.exit(f"integrations/ggml/bench.py: {file} is no file, expected llama-bench and a model")

    print("| | vkattn, tokens/s | ggml, tokens/s | ratio of times | processor s of vkattn | of ggml | ratio |\n|---|---:|---:|---:|---:|---:|---:|")
    for depth in map(int, arguments.depths.split(",")):
        best = {}
        for _ in range(arguments.rounds):
            for side in SIDES:
                for phase, runs in measure(arguments, depth, side).items():
                    for clock in (0, 1):
                        key = phase, side, clock
                        best[key] = min([best.get(key, float("inf")), *(run[clock] for run in runs)])
        for phase, name, tokens in (("depth", f"prompt of {depth:,}", depth), ("prompt", f"prompt of {arguments.prompt} after {depth:,}", arguments.prompt),
                                    ("generation", f"{arguments.new} tokens one by one after {depth:,}", arguments.new)):
            if (phase, "ggml", 0) in best:
                wall, busy = ([best[phase, side, clock] for side in SIDES] for clock in (0, 1))
                print(f"| {name} | {tokens / wall[0]:.1f} | {tokens / wall[1]:.1f} | {wall[0] / wall[1]:.2f} | {busy[0]:.2f} | {busy[1]:.2f} |"
                      f" {busy[0] / busy[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
