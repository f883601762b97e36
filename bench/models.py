#!/usr/bin/env python3
"""Tokens per second of real small models by vkattn-lm and by llama.cpp's CPU and Vulkan backends, on the same file and driver.

    bench/models.py measure FOLDER [OPTION...]   FOLDER: for files that it makes
    bench/models.py show [--csv FILE]           writes the page of the results

bench/models fetches what is needed, and runs the first. Each round measures vkattn and its peers one after the other, K and V in
f16. llama.cpp on lavapipe takes a second for some tokens: it gets fewer, and its caches are filled by its CPU backend, which saves
them to a file. With --threads 1 what is measured is processor time: where others use the machine, threads that wait for each other
measure them.
"""
import argparse
import csv
import datetime
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import llama_cpp

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

RESULTS = ROOT / "bench/results/models.csv"
PAGE = RESULTS.with_suffix(".md")
DEPTHS = "4096,1024,0"  # tokens in the cache before those that are timed
NEW, NEW_ON_CPU = 16, 48
PROMPT_ON_VULKAN, NEW_ON_VULKAN = 32, 4
MOST_NEW = 64  # at a time, warm-ups' own among them
VKATTN, CPU, VULKAN = "vkattn", "llama.cpp, CPU", "llama.cpp, Vulkan"
MODELS = {"SmolLM2-135M, Q4_1": lambda folder: llama_cpp.smollm2(), "Gemma 3 270m, Q4_K_M": llama_cpp.gemma3}
FIELDS = ("model", "program", "what", "threads", "tokens", "round", "seconds", "processor_seconds", "load")


class Silent:
    def update(self, count):
        pass


class Vkattn:
    """vkattn-lm's decoder."""
    name = VKATTN

    def __init__(self, file, capacity):
        import vkattn
        from vkattn_lm.files import open_model
        from vkattn_lm.model import Decoder
        from vkattn_lm.sampling import Sampler
        source = open_model(file)
        self._decoder = Decoder(source, source.config(), vkattn.default_context(), capacity=capacity, kv_type="f16", progress=Silent())
        self._greedy = Sampler(0, 0, 1, 0)

    def fill(self, tokens):
        self._decoder.rewind(0)
        self._decoder.logits(tokens)

    def clocks(self):
        """(seconds, processor seconds of all threads)"""
        return time.perf_counter(), time.process_time()

    def prompt(self, tokens):
        """(tokens, the clocks before)"""
        self._decoder.rewind(0)
        before = self.clocks()
        self._decoder.next_token(tokens, self._greedy)
        return len(tokens), before

    def new(self, depth, tokens):
        """(new tokens after the first `depth` of those that the cache holds, the clocks before)"""
        self._decoder.rewind(depth)
        token, before = tokens[depth], self.clocks()
        for _ in range(NEW):
            token = self._decoder.next_token([token], self._greedy)
        return NEW, before


class LlamaCpp:
    """llama-server on a device. Saved caches lie in a folder, which its backends share."""

    def __init__(self, name, server, count, most):
        self.name, self._server, self._count, self._most = name, server, count, most

    def clocks(self):
        return time.perf_counter(), self._server.processor_seconds()

    def save(self, tokens, depth):
        """Fills its cache with tokens after those that it holds, and saves it."""
        self._server.complete(tokens[:depth], 1)
        self._server.ask("/slots/0?action=save", filename=f"{depth}.slot")

    def prompt(self, tokens):
        before = self.clocks()
        return self._server.complete(tokens[:self._most], 1, cache_prompt=False)["timings"]["prompt_n"], before

    def new(self, depth, tokens):
        if depth:
            self._server.ask("/slots/0?action=restore", filename=f"{depth}.slot")
        before = self.clocks()
        timings = self._server.complete(tokens[:depth + 1], self._count, cache_prompt=depth > 0, ignore_eos=True)["timings"]
        if timings["prompt_n"] != 1:
            raise RuntimeError(f"llama-server computed {timings['prompt_n']} tokens again, expected the cache that it restored")
        return timings["predicted_n"], before  # each by the one before it


def measure_model(name, file, folder, depths, prompt, rounds, threads, write):
    capacity = max(*depths, prompt) + MOST_NEW
    ours = Vkattn(file, capacity)
    tokens = [1 + i * 7919 % 40000 for i in range(capacity)]
    more = ("--slot-save-path", folder, "--threads", threads, "--flash-attn", "on")
    with llama_cpp.Server(file, llama_cpp.CPU, capacity, *more) as on_cpu, \
            llama_cpp.Server(file, llama_cpp.VULKAN, capacity, *more) as on_vulkan:
        on_their_cpu, on_their_vulkan = LlamaCpp(CPU, on_cpu, NEW_ON_CPU, prompt), LlamaCpp(VULKAN, on_vulkan, NEW_ON_VULKAN, PROMPT_ON_VULKAN)
        programs = (ours, on_their_cpu, on_their_vulkan)

        def timed(what, run):
            for i in range(rounds + 1):  # the first compiles
                for program in programs:
                    print(f"{name}: {what}, {program.name}, {'warm-up' if i == 0 else f'round {i}'}", file=sys.stderr, flush=True)
                    count, before = run(program)
                    took = [f"{now - then:.4g}" for now, then in zip(program.clocks(), before)]
                    if i > 0:
                        write(name, program.name, what, threads, count, i, *took, f"{os.getloadavg()[0]:.1f}")
        ours.fill(tokens[:max(depths)])
        for depth in sorted(depths):
            if depth:
                on_their_cpu.save(tokens, depth)
        for depth in sorted(depths, reverse=True):  # what ours has rewound it cannot have back
            timed(depth, lambda program: program.new(depth, tokens))
        timed("prompt", lambda program: program.prompt(tokens[:prompt]))


def driver_of_vkattn():
    import vkattn
    facts = vkattn.default_context().facts
    return f"{facts['name']}, {facts['driver_info'] or facts['driver_name']}"


def version_of(package):
    return subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True).stdout


def cpu_name():
    """What Linux calls it; "" where it does not say (64-bit ARM)."""
    return next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")


def measure(arguments):
    os.environ["LP_NUM_THREADS"] = str(arguments.threads)  # of the driver
    device, folder = llama_cpp.vulkan_device(), arguments.folder.resolve()
    if not device.startswith("llvmpipe"):
        raise SystemExit(f"models.py: llama.cpp's Vulkan device is {device}, expected llvmpipe")
    depths = list(map(int, arguments.depths.split(",")))
    where = f"{datetime.date.today()}, {driver_of_vkattn()}, {os.cpu_count()} cores {platform.machine()} {cpu_name()}, llama.cpp " \
            f"{version_of('llama.cpp-tools')}, ggml {version_of('libggml0')}, vkattn {arguments.commit or 'of no commit'}"
    with open(arguments.csv, "w", encoding="utf-8", newline="") as file:
        file.write(f"# {where}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)

        def write(*row):
            writer.writerow(row)
            file.flush()
        for name, find in MODELS.items():
            if arguments.model in name:
                measure_model(name, find(folder), folder, depths, arguments.prompt, arguments.rounds, arguments.threads, write)


def read(path):
    """(what was measured where, its rows)"""
    with open(path, encoding="utf-8", newline="") as file:
        return file.readline().removeprefix("# ").strip(), list(csv.DictReader(file))


def clock_of(rows):
    return "processor_seconds" if rows[0]["threads"] == "1" else "seconds"


def table(rows):
    yield f"| model | what | {' | '.join((VKATTN, CPU, VULKAN))} | vkattn over llama.cpp, CPU | over llama.cpp, Vulkan |"
    yield "|---|---|---|---|---|---|---|"
    for model in dict.fromkeys(row["model"] for row in rows):
        depths = {int(row["what"]) for row in rows if row["model"] == model and row["what"] != "prompt"}
        for what in ("prompt", *map(str, sorted(depths))):
            own = [row for row in rows if row["model"] == model and row["what"] == what]
            speeds = {program: {row["round"]: int(row["tokens"]) / float(row[clock_of(rows)]) for row in own if row["program"] == program}
                      for program in (VKATTN, CPU, VULKAN)}
            ratios = [statistics.median(speeds[VKATTN][i] / speeds[peer][i] for i in speeds[peer]) for peer in (CPU, VULKAN)]
            count = {row["program"]: int(row["tokens"]) for row in own}
            words = f"prompt of {count[VKATTN]}" if what == "prompt" else f"new tokens after {int(what):,}"
            yield f"| {model} | {words} | {' | '.join(f'{statistics.median(each.values()):.3g}' for each in speeds.values())} | " \
                  f"{' | '.join(f'{ratio:.2f}' for ratio in ratios)} |"


def page(where, rows):
    loads = [float(row["load"]) for row in rows]
    tokens = {(row["program"], row["what"] == "prompt"): row["tokens"] for row in rows}
    rounds, threads = max(int(row["round"]) for row in rows), rows[0]["threads"]
    of_what = " of processor time, one thread each" if threads == "1" else f", {threads} threads each"
    return f"""# Models beside llama.cpp

{where}.

Tokens per second{of_what}, {f"medians of {rounds} rounds" if rounds > 1 else "one round"}; a round measures one program after the other. `bench/models` measured it:
models as GGUF files ({', '.join(dict.fromkeys(row['model'] for row in rows))}), by `vkattn-lm`'s decoder, by llama.cpp's CPU backend, and by its Vulkan
backend on the same driver as vkattn's, which computes on the CPU. K and V are in f16, the tokens greedy. Ratios above 1: vkattn is
faster{"; they are medians of the rounds' own" if rounds > 1 else ""}.

{chr(10).join(table(rows))}

New tokens: {tokens[VKATTN, False]} at a time, {tokens[CPU, False]} of llama.cpp on the CPU and {tokens[VULKAN, False]} on Vulkan, after as many in the
cache as the table says (its Vulkan backend reads those that its CPU backend has saved). Of the prompt llama.cpp on Vulkan reads
{tokens[VULKAN, True]} tokens. The load of the machine, its threads that run or wait in the mean of a minute, was {min(loads)} to {max(loads)}.
llama.cpp's processor time is counted in hundredths of a second.

llama.cpp's CPU backend is code for this processor's vectors, and multiplies weights in Q4_1, Q4_K and the like by activations that
it rounds to 8 bits. vkattn and llama.cpp's Vulkan backend run shaders, which the driver compiles for the CPU, and multiply by
activations in floats. These are no figures of a GPU.

Each sample is in [{RESULTS.name}]({RESULTS.name}).
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = commands.add_parser("measure", help="writes the CSV")
    made.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    made.add_argument("--depths", default=DEPTHS, help=f"tokens in the cache before those that are timed (default: {DEPTHS})")
    made.add_argument("--prompt", type=int, default=512, help="tokens of the prompt that is timed (default: 512)")
    made.add_argument("--rounds", type=int, default=3, help="of all programs in turn (default: 3)")
    made.add_argument("--threads", type=int, default=os.cpu_count(), help="of each program (default: the machine's)")
    made.add_argument("--model", default="", help="the one whose name has this in it")
    made.add_argument("--commit", default="", help="what is measured")
    made.add_argument("--csv", type=pathlib.Path, default=RESULTS)
    made = commands.add_parser("show", help=f"writes {PAGE.relative_to(ROOT)}")
    made.add_argument("--csv", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.command == "measure":
        measure(arguments)
    else:
        PAGE.write_text(page(*read(arguments.csv)), encoding="utf-8")


if __name__ == "__main__":
    main()
