#!/usr/bin/env python3
"""What a token costs after more and more tokens: softmax attention as Llama 3 8B has it, and linear attention of as many heads,
measured on a CPU driver and modelled on a GPU whose machine code is executed (scripts/gpu-lab).

    bench/linear_attention_cost.py measure VKATTN...   the command, and what runs it: writes the CSV of the results
    bench/linear_attention_cost.py model VKATTN        the same of a GPU, into the same CSV
    bench/linear_attention_cost.py show                draws the picture of docs/linear_attention.md from it
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "bench/gpu_lab"))

RESULTS, PICTURE = ROOT / "bench/results/linear-attention-cost.csv", ROOT / "docs/linear_attention.svg"
FIELDS = ("where", "layer", "tokens_before", "microseconds")
SOFTMAX, LINEAR = "softmax attention", "linear attention"
SIZES = {SOFTMAX: ["--heads", "32", "--kv-heads", "8", "--head-dim", "128", "--q-len", "1", "--dtype", "f16"],
         LINEAR: ["--op", "linear_attention", "--heads", "32", "--head-dim", "128", "--q-len", "1"]}
LENGTHS, MODELLED = [1 << power for power in range(6, 17)], [64, 256, 1024, 4096, 16384, 65536]
GPU = "amd-navi31"


def arguments(layer, length, repeat):
    return ["bench", *SIZES[layer], *(["--kv-len", str(length)] if layer == SOFTMAX else []), "--repeat", str(repeat)]


def measured(command):
    """Rows of the device that the command finds, of 15 runs the fastest. Both layers take turns at each length: linear attention has
    none, and is measured anew."""
    for length in LENGTHS:
        for layer in SIZES:
            told = subprocess.run([*command, *arguments(layer, length, 15), "--json"], check=True, capture_output=True, text=True,
                                  env={**os.environ, "VKATTN_VALIDATION": "0"}).stdout
            report = json.loads(told)
            yield report["driver"].split(" (")[0], layer, length, round(1000 * report["min_ms"], 1)


def counted(command):
    import modelled
    for layer in SIZES:
        for length in MODELLED if layer == SOFTMAX else MODELLED[:1]:
            _, dispatches, _ = modelled.count(GPU, *command, *arguments(layer, length, 1), skip_submissions=3,
                                              environment={"VKATTN_VALIDATION": "0"})
            time = round(sum(dispatch["modelled"]["us"] for dispatch in dispatches), 2)
            for shown in [length] if layer == SOFTMAX else MODELLED:
                yield f"{GPU}, executed, modelled", layer, shown, time


def read():
    if not RESULTS.exists():
        return []
    with open(RESULTS, encoding="utf-8", newline="") as file:
        return [tuple(row[name] for name in FIELDS) for row in csv.DictReader(file)]


def write(rows):
    """Rows take the place of older ones of the same devices."""
    rows = [tuple(map(str, row)) for row in rows]
    kept = [row for row in read() if row[0] not in {row[0] for row in rows}]
    with open(RESULTS, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([FIELDS, *sorted(kept + rows, key=lambda row: (row[0], row[1], int(row[2])))])


def show():
    from vkattn_plot import output, style
    rows = read()
    places = sorted({row[0] for row in rows})
    with style.settings():
        figure = style.new_figure("A token of one layer, after more and more tokens",
                                  "32 heads of 128; softmax attention over 8 KV heads in f16; linear attention with a state of 128 x 128 f32 a head",
                                  11, 4.6)
        for axes, place in zip(figure.subplots(1, len(places), squeeze=False)[0], places):
            for index, layer in enumerate(SIZES):
                points = sorted((int(row[2]), float(row[3])) for row in rows if row[:2] == (place, layer))
                axes.plot(*zip(*points), marker="o", markersize=4, color=style.COLOURS[index], label=layer)
            axes.set_xscale("log")
            axes.set_yscale("log")
            style.use_log(axes.xaxis, style.tokens_text, 2)
            style.use_log(axes.yaxis, style.digits)
            axes.set_title(place, loc="left", fontsize=9)
            axes.set_xlabel("tokens before it")
            axes.set_ylabel("microseconds")
            axes.legend()
        target = output.checked_target(str(PICTURE), output.PICTURES, [])
        output.write(target, style.encoded(figure, target.suffix))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("action", choices=("measure", "model", "show"))
    parser.add_argument("command", nargs="*", help="the command vkattn, and what runs it")
    given = parser.parse_args()
    if given.action == "show":
        show()
    elif not given.command:
        parser.error("command: missing, expected the command vkattn")
    else:
        write(list((measured if given.action == "measure" else counted)(given.command)))


if __name__ == "__main__":
    main()
