#!/usr/bin/env python3
"""Draws the newest table of bench/results/peers-lavapipe-26.md, the picture of docs/performance.md.

    bench/peers_picture.py [-o docs/peers.svg]
"""
import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from vkattn_plot import output, style  # noqa: E402: after the path is set
from vkattn_plot.documents import PlotError  # noqa: E402

RESULTS = ROOT / "bench/results/peers-lavapipe-26.md"
SHOWN = ("prefill H12 L512 D64", "prefill H32/8 L1024 D128 causal", "prefill H24/4 Lq512 Lk4096 D256", "decode H32/8 Lk4096 D128",
         "decode H64/8 Lk7680 D64", "MLA absorbed H16 Lq1 Lk8192", "MLA absorbed H16 Lq32 Lk8192")
KV_TYPES = ("f16", "q8_0")
SERIES = ("vkattn, on the CPU driver", "PyTorch, on the CPU", "ggml's Vulkan attention, on the CPU driver")


def newest_table(text):
    """(what was measured where, rows by the heads of their columns) of the first section."""
    section = text.split("\n## ")[1]
    where = section.split("\n")[2]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.split("\n") if line.startswith("|")]
    return where, [dict(zip(table[0], row)) for row in table[2:]]


def rates(row):
    """GFLOP/s of each of SERIES; None: was not measured."""
    ours = float(row["GFLOP/s"])
    ggml = row["ggml Vulkan GFLOP/s"].rstrip("¹")
    return ours, ours / float(row["over PyTorch"]), None if ggml == "–" else float(ggml)


def figure_of(where, rows):
    shown = [row for row in rows if row["shape"] in SHOWN and row["K, V"] in KV_TYPES]
    figure = style.new_figure("Attention in GFLOP/s, measured on a CPU driver", where.removesuffix("."), 11, 1.8 + 0.62 * len(shown))
    axes = figure.subplots()
    for index, name in enumerate(SERIES):
        places = [row + (index - 1) * 0.27 for row in range(len(shown))]
        values = [rates(row)[index] for row in shown]
        bars = axes.barh(places, [value or 0 for value in values], height=0.25, color=style.COLOURS[index], label=name)
        axes.bar_label(bars, [style.digits(value) if value else "not measured" for value in values], padding=3, fontsize=8)
    labels = [f"{row['shape']}, {row['K, V']}" + (" ¹" if row["ggml Vulkan GFLOP/s"].endswith("¹") else "") for row in shown]
    axes.set_yticks(range(len(shown)), labels)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("GFLOP/s; more is better. H: heads / KV heads, L: length, D: head size, then the type of K and V.\n"
                    "PyTorch's K and V are f32. ¹ ggml: the nearest shape of its own list")
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="center right")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", default=str(ROOT / "docs/peers.svg"), help=".svg, .png or .pdf")
    try:
        target = output.checked_target(parser.parse_args().output, output.PICTURES, [])
        with style.settings():
            output.write(target, style.encoded(figure_of(*newest_table(RESULTS.read_text(encoding="utf-8"))), target.suffix))
    except PlotError as error:
        sys.exit(f"peers_picture.py: error: {error}")


if __name__ == "__main__":
    main()
