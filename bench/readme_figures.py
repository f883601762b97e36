#!/usr/bin/env python3
"""The README's table of figures, made of bench/results: how many times as fast vkattn is, from the least to the most of the shapes.

    bench/readme_figures.py    writes it into README.md, between its two comments
"""
import csv
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
README, RESULTS = ROOT / "README.md", ROOT / "bench/results"
BEGIN, END = "<!-- figures: bench/readme_figures.py -->", "<!-- end of figures -->"
HEAD = ("device", "how", "times as fast as", "prefill, causal", "prefill, without mask", "decode, f16", "decode, q8_0", "MLA", "linear, f16")
# How the names of shapes begin, or which type K and V are of, in each column.
KINDS = ("prefill causal", "prefill", "decode", "decode q8_0", "MLA", "linear")
MODELLED = ("amd-navi31", "amd-gfx1201", "amd-navi21", "amd-vega10")


def tables(path):
    """The rows of a page's tables, by the heads of their columns."""
    rows, head = [], None
    for line in path.read_text(encoding="utf-8").split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            head = None
        elif head is None:
            head = cells
        elif not set(line) <= set("|-"):
            rows.append(dict(zip(head, cells)))
    return rows


def kind_of(shape, kv_type):
    kind = shape.split()[0]
    if kind == "prefill" and "causal" in shape:
        return "prefill causal"
    return "decode q8_0" if kind == "decode" and kv_type == "q8_0" else kind


def span(factors):
    """"1.48–2.90": the least and the most."""
    digits = [f"{factor:.2f}" if factor < 1 else f"{factor:.3g}" for factor in (min(factors), max(factors))] if factors else ["–"]
    return "–".join(dict.fromkeys(digits))


def cells(factors):
    """factors: (kind, times as fast) of each shape."""
    return [span([factor for other, factor in factors if other == kind]) for kind in KINDS]


def measured(path, name_of_type, column, types=("f16", "bf16", "q8_0")):
    number = re.compile(r"[0-9.]+")
    return cells([(kind_of(row["shape"], row[name_of_type]), float(number.match(row[column]).group()))
                  for row in tables(path) if row.get(name_of_type) in types and number.match(row.get(column, ""))])


def h100(column):
    path = RESULTS / "gpu-h100.md"
    prefill, other = (measured(path, name, column) for name in ("K and V", "K, V or weight"))
    return [a if a != "–" else b for a, b in zip(prefill, other)]


def newest_of_peers(folder):
    """The first section of the page alone, as a page of its own."""
    page = folder / "peers.md"
    page.write_text(RESULTS.joinpath("peers-lavapipe-26.md").read_text(encoding="utf-8").split("\n## ")[1], encoding="utf-8")
    return page


def modelled():
    """(GPU's name, its cells), of times that are modelled."""
    products = dict(line.split("\t")[:2] for line in (ROOT / "bench/gpu_lab/gpus.tsv").read_text(encoding="utf-8").splitlines())
    with (RESULTS / "gpu-lab/ggml.csv").open(newline="", encoding="utf-8") as file:
        times = {(row["gpu"], row["shape"], row["side"]): float(row["us"]) for row in csv.DictReader(file)}
    for gpu in MODELLED:
        factors = []
        for (of, shape, side), time in times.items():
            if of == gpu and side == "vkattn" and (gpu, shape, "ggml") in times:
                name = shape.replace("prefill", "prefill causal")
                factors.append((kind_of(name, "q8_0" if "q8_0" in shape else "f16"), times[gpu, shape, "ggml"] / time))
        yield products[gpu], cells(factors)


def lines(folder):
    """The table. folder: where to leave a file meanwhile."""
    peers, types = newest_of_peers(folder), ("f16", "q8_0")
    rows = [["[NVIDIA H100](bench/results/gpu-h100.md)", "**measured**", "ggml's Vulkan backend", *h100("over ggml")],
            ["", "**measured**", "PyTorch (cuDNN)", *h100("over PyTorch")],
            ["[CPU driver llvmpipe 26](bench/results/peers-lavapipe-26.md)", "**measured**", "ggml's Vulkan backend on it",
             *measured(peers, "K, V", "over ggml", types)],
            ["", "**measured**", "PyTorch on the CPU, K and V in f32", *measured(peers, "K, V", "over PyTorch", types)]]
    rows += [[name, "modelled", "ggml's Vulkan backend", *found] for name, found in modelled()]
    return ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD), *("| " + " | ".join(row) + " |" for row in rows)]


def shown(text):
    """The lines of the README's table."""
    return text[text.index(BEGIN) + len(BEGIN):text.index(END)].strip().split("\n")


def main():
    import tempfile
    text = README.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        sys.exit(f"{README}: lacks '{BEGIN}' or '{END}', expected both around the table")
    with tempfile.TemporaryDirectory() as folder:
        table = "\n".join(lines(pathlib.Path(folder)))
    README.write_text(text[:text.index(BEGIN) + len(BEGIN)] + "\n" + table + "\n" + text[text.index(END):], encoding="utf-8")


if __name__ == "__main__":
    main()
