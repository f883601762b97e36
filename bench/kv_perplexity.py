#!/usr/bin/env python3
"""How well a language model foretells a text with its keys and values held in each type: both, both rotated by a Hadamard
matrix, keys alone, values alone; keys in q8_0 beside values of fewer bits; and f8 with a scale for each token and head.

    bench/kv_perplexity.py measure MODEL TEXT [--parts N] [--csv FILE]   goes on where the CSV ends
    bench/kv_perplexity.py show [--csv FILE]      writes the page of the results, its picture, and what vkattn estimate knows of them

bench/kv-perplexity fetches a model and a text for it. The text is taken in parts of 512 tokens, each begun anew, of each the
second half, as llama-perplexity does. Parts are measured in all types one after the other: whenever it is stopped, all are of
the same text.
"""
import argparse
import csv
import datetime
import hashlib
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

RESULTS, PICTURE = ROOT / "bench/results/kv-perplexity.csv", ROOT / "docs/kv_perplexity.svg"
PAGE = ROOT / "bench/results/kv-perplexity.md"
COSTS = ROOT / "tools/estimate/measured_costs.hpp"
CONTEXT = 512
SCALED = " scaled"  # a float32 for the 64 numbers of a token and head
BITS = {"f16": 16, "q8_0": 8.5, "f8_e4m3" + SCALED: 8.5, "f8_e4m3": 8, "f8_e5m2": 8, "q5_1": 6, "q5_0": 5.5, "q4_1": 5, "q4_0": 4.5, "iq4_nl": 4.5}
TYPES = tuple(name for name in BITS if name != "f16")
PLAIN = ("f16", "f16")
BOTH, ROTATED, KEYS, VALUES = "K and V", "K and V rotated", "K alone, V in f16", "V alone, K in f16"
SUFFIX = " rotated"
MIXED = (("q8_0", "q5_1"), ("q8_0", "iq4_nl"))
SERIES = {BOTH: lambda name: (name, name), ROTATED: lambda name: (name + SUFFIX, name + SUFFIX), KEYS: lambda name: (name, "f16"), VALUES: lambda name: ("f16", name)}
FIELDS = ("key_type", "value_type", "part", "tokens", "negative_log_likelihood")


def rounds():
    """Pairs of types that take turns at each part: first those that are of most use."""
    yield [PLAIN, *(SERIES[BOTH](name) for name in TYPES if SCALED not in name)]
    scaled = [name for name in TYPES if SCALED in name]
    yield [SERIES[BOTH](name) for name in scaled]
    yield MIXED
    first = ("q8_0", "q5_1", "q4_0", "iq4_nl", "f8_e4m3", *scaled)
    for names in (first, [name for name in TYPES if name not in first]):
        yield [SERIES[ROTATED](name) for name in names]
        yield [SERIES[series](name) for name in names for series in (KEYS, VALUES)]


def read(path):
    """(what was measured where, {(key_type, value_type): {part: (tokens, -log likelihood)}}) of a CSV."""
    if not path.exists():
        return "", {}
    with open(path, encoding="utf-8", newline="") as file:
        where, found = file.readline().removeprefix("# ").strip(), {}
        for row in csv.DictReader(file):
            parts = found.setdefault((row["key_type"], row["value_type"]), {})
            parts[int(row["part"])] = int(row["tokens"]), float(row["negative_log_likelihood"])
    return where, found


def measure(model, text, parts, path):
    import vkattn
    from vkattn_lm.chat import losses
    from vkattn_lm.files import open_model
    from vkattn_lm.model import Decoder

    class Silent:
        def update(self, count):
            pass
    source = open_model(model)
    tokenizer = source.tokenizer()
    tokens = tokenizer.encode(text.read_text(encoding="utf-8"))[:parts * CONTEXT]
    if len(tokens) < parts * CONTEXT:
        raise SystemExit(f"kv_perplexity.py: {text}: {len(tokens)} tokens, expected {parts} parts of {CONTEXT}")
    decoder = Decoder(source, source.config(), vkattn.default_context(), capacity=CONTEXT, kv_type="f16", progress=Silent())
    facts, numbers = decoder.context.facts, hashlib.sha256(repr(tokens[:CONTEXT]).encode()).hexdigest()[:12]
    what = f"{pathlib.Path(model).name}, {text.name} ({numbers}), {facts['name']}, {facts['driver_info'] or facts['driver_name']}"
    where, found = read(path)
    if not where:
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        path.write_text(f"# {what}; {datetime.date.today()}, {commit or 'no commit'}\n{','.join(FIELDS)}\n", encoding="utf-8")
    elif not where.startswith(what + ";"):
        raise SystemExit(f"kv_perplexity.py: {path}: is of {where}, expected {what}: give another --csv")
    with open(path, "a", encoding="utf-8") as file:
        for part, (key_type, value_type) in ((part, pair) for pairs in rounds() for part in range(parts) for pair in pairs):
            if part in found.get((key_type, value_type), {}):
                continue
            decoder.empty_caches(key_type.split()[0], value_type.split()[0],
                                 tuple("hadamard" if name.endswith(SUFFIX) else "none" for name in (key_type, value_type)),
                                 "row" if SCALED in key_type + value_type else None)
            lost = losses(decoder, tokenizer.begin, tokens[part * CONTEXT:(part + 1) * CONTEXT])
            file.write(f"{key_type},{value_type},{part},{len(lost)},{lost.sum():.6f}\n")
            file.flush()


def compared(found, pair):
    """(perplexity, how much more than f16's of the same parts in %, its standard error in %, tokens), or None.

    The error is of the difference of the two, part by part: that of the text is in both.
    """
    parts = sorted(found.get(pair, {}).keys() & found.get(PLAIN, {}).keys())
    if len(parts) < 2:
        return None
    tokens = sum(found[pair][part][0] for part in parts)
    mine, plain = ([found[each][part][1] / found[each][part][0] for part in parts] for each in (pair, PLAIN))
    differences = [a - b for a, b in zip(mine, plain)]
    mean = sum(differences) / len(parts)
    error = math.sqrt(sum((each - mean) ** 2 for each in differences) / (len(parts) - 1) / len(parts))
    more = math.expm1(mean) * 100
    return math.exp(sum(mine) / len(parts)), more, error * (100 + more), tokens


def rows(found):
    """Rows of Markdown: a type, bits a number, the perplexity with K and V in it, and of each series how much more than f16's."""
    yield f"| type | bits | perplexity, K and V | more than f16, {' | '.join(SERIES)} |"
    yield "|---|---|---|" + "---|" * len(SERIES)
    for name, bits in BITS.items():
        results = [compared(found, pair_of(name)) for pair_of in SERIES.values()]
        more = ["–" if result is None or name == "f16" else f"{result[1]:+.2f} ± {result[2]:.2f} %" for result in results]
        yield f"| {name} | {bits:g} | {results[0][0]:.3f} | {' | '.join(more)} |"


def mixed_rows(found):
    """The same of keys in one type beside values in another."""
    results = [(pair, compared(found, pair)) for pair in MIXED]
    if all(result is None for _, result in results):
        return
    yield ""
    yield "| K | V | bits, their mean | more than f16 | tokens |"
    yield "|---|---|---|---|---|"
    for (key, value), result in results:
        if result is not None:
            yield f"| {key} | {value} | {(BITS[key] + BITS[value]) / 2:g} | {result[1]:+.2f} ± {result[2]:.2f} % | {result[3]:,} |"


def costs(where, found):
    """The C++ header of what each pair of types costs, without scales."""
    plain = sorted([SERIES[BOTH](name) for name in BITS] + list(MIXED), key=lambda pair: -sum(map(BITS.get, pair)))
    pairs = [(pair, False) for pair in plain] + [(SERIES[ROTATED](name), True) for name in TYPES]
    pairs = [(pair, rotated) for pair, rotated in pairs if SCALED not in pair[0]]
    lines = []
    for pair, rotated in pairs:
        result = (0, 0, 0) if pair == PLAIN else compared(found, pair)
        if result is not None:
            types = ", ".join(f"VKATTN_TYPE_{name.removesuffix(SUFFIX).upper()}" for name in pair)
            lines.append(f"    MeasuredCost{{{types}, {str(rotated).lower()}, {result[1]:.2f}, {result[2]:.2f}}},\n")
    model, text, rest = where.split(", ", 2)
    day = rest.rsplit("; ", 1)[1].split(",")[0]
    return f"""// Made by `bench/kv_perplexity.py show` from {RESULTS.relative_to(ROOT)}.
#pragma once

#include "tools/estimate/cache_choice.hpp"

#include <array>

namespace vkattn::tools {{

inline constexpr const char *kMeasuredOn = "{model}, {day}";

inline constexpr std::array<MeasuredCost, {len(lines)}> kMeasuredCosts{{
{"".join(lines)}}};

}} // namespace vkattn::tools
"""


def parts_in_words(found):
    """How many parts the results are of: of all as many, but where it was stopped."""
    def count(name, *several):
        return min(len(found.get(SERIES[series](name), ())) for series in several)

    def words(parts, what):
        return f"{parts} parts, {parts * CONTEXT:,} tokens, with {what}"

    said = []
    for what, series in (("K and V in", (BOTH,)), ("both rotated in", (ROTATED,)), ("one of the two in", (KEYS, VALUES))):
        counts = {name: count(name, *series) for name in TYPES}
        for parts in sorted(set(counts.values()) - {0}, reverse=True):
            names = [name for name in TYPES if counts[name] == parts]
            said.append(words(parts, f"{what} {'each type' if len(names) == len(TYPES) else ', '.join(names)}"))
    return ";\nof the first ".join(said)


def page(where, found):
    return f"""# Perplexity by the type of K and V

{where}.

`bench/kv-perplexity` measured it: SmolLM2-135M-Instruct, whose weights are in Q4_1, foretells Debian's policy from its first chapter
on, in parts of {CONTEXT} tokens, each begun anew. What is counted is the second half of each part, as llama-perplexity does: of
{parts_in_words(found)}.
Scaled: with a scale for each token and head, which 64 numbers share. Each token attends what the cache holds, its own key and
value too. How much more than with f16 is on the same tokens, with the standard error of that difference, part by part.

{chr(10).join([*rows(found), *mixed_rows(found)])}

![Perplexity, more than with K and V in f16](../../{PICTURE.relative_to(ROOT)})

The numbers of each part are in [{RESULTS.name}]({RESULTS.name}).
"""


def figure_of(where, found):
    from vkattn_plot import style
    figure = style.new_figure("Perplexity, more than with K and V in f16", f"{where}; SmolLM2-135M in Q4_1", 10, 5.8)
    axes = figure.subplots()
    for index, (series, pair_of) in enumerate(SERIES.items()):
        results = [compared(found, pair_of(name)) for name in TYPES]
        shown = [(i, result) for i, result in enumerate(results) if result is not None]
        places = [i + (index - 1.5) * 0.21 for i, _ in shown]
        bars = axes.barh(places, [max(result[1], 0) for _, result in shown], height=0.2, color=style.COLOURS[index], label=series,
                         xerr=[result[2] for _, result in shown], error_kw={"elinewidth": 0.8, "ecolor": style.GREY})
        axes.bar_label(bars, [f"{result[1]:+.2f} %" for _, result in shown], padding=4, fontsize=8)
    axes.set_yticks(range(len(TYPES)), [f"{name}, {BITS[name]:g} bits" for name in TYPES])
    axes.set_ylim(len(TYPES) - 0.4, -0.6)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks([0, 0.5, 1, 2, 5, 10, 20, 50], ["0", "0.5", "1", "2", "5", "10", "20", "50"])
    axes.set_xticks([], minor=True)
    axes.set_xlim(0, 50)
    axes.set_xlabel("% more than f16, linear up to 1 %, logarithmic from there; less is better. Lines: standard error")
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="upper right")
    return figure


def show(path):
    from vkattn_plot import output, style
    where, found = read(path)
    with style.settings():
        output.write(PICTURE, style.encoded(figure_of(where.split(", ", 2)[2], found), PICTURE.suffix))
    PAGE.write_text(page(where, found), encoding="utf-8")
    COSTS.write_text(costs(where, found), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = commands.add_parser("measure", help="goes on where the CSV ends")
    made.add_argument("model", metavar="MODEL")
    made.add_argument("text", metavar="TEXT", type=pathlib.Path)
    made.add_argument("--parts", type=int, default=40, help=f"of {CONTEXT} tokens each (default: 40)")
    made.add_argument("--csv", type=pathlib.Path, default=RESULTS)
    made = commands.add_parser("show", help=f"writes {', '.join(str(path.relative_to(ROOT)) for path in (PAGE, PICTURE, COSTS))}")
    made.add_argument("--csv", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.command == "measure":
        measure(arguments.model, arguments.text, arguments.parts, arguments.csv)
    else:
        show(arguments.csv)


if __name__ == "__main__":
    main()
