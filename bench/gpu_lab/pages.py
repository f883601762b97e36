"""Writes the report: raw figures as CSV, a page a GPU, a page over all. All figures are static: nothing is run."""
import collections
import csv
import datetime

from figures import OCCUPANCY

STATIC = ("Static figures: what the driver's compiler says and what its machine code holds. Nothing was run for them; they are "
          "no times.")
COLUMNS = ("problem", "side", "kernel", "module", "tile", "useful_rows", "workgroup", "subgroup", "registers", "occupancy", "spills",
           "scratch_bytes", "shared_bytes", "code_bytes", "instructions", "cycles", "spirv_bytes", "compile_ms", "hot_kind",
           "hot_of", "hot_multiply_adds", "hot_issued", "hot_product_share", "hot_scratch",
           "hot_busiest_unit", "hot_efficiency", "hot_arithmetic_efficiency", "reason")
USEFUL = ("of the cycles that the busiest unit needs for the loop over keys, by the published rates, those that useful products "
          "need at full rate; products of a tile's rows that the problem does not fill are not useful. 100 % says that nothing "
          "else in the loop takes longer than its products: it is no part of a GPU's peak, since waiting for memory, occupancy "
          "and what is outside the loop are not in it")
# The problems of the page over all GPUs.
COMPILED = ("prefill f16 D128", "decode f16 group 4", "decode q8_0 group 4", "MLA 576/512 f16 1 query", "linear f16 512 rows")
SUMMARY = ("prefill f16 D128", "prefill f32 D128", "decode f16 group 4", "MLA 576/512 f16 1 query", "linear f16 1 row")


def values_of(row):
    """A row as the CSV has it."""
    values = {"problem": row.problem, "side": row.side, "kernel": row.kernel, "tile": row.tile, "reason": row.reason,
              "useful_rows": "" if row.useful_rows is None else f"{row.useful_rows:g}"}
    if row.figures is not None:
        values |= vars(row.figures)
    if row.hot is not None:
        hot = row.hot.iteration or row.hot
        values |= {"hot_kind": row.hot.kind, "hot_of": "whole iteration" if row.hot.iteration else "product loops",
                   "hot_multiply_adds": f"{hot.multiply_adds:g}", "hot_issued": f"{hot.issued:.0f}",
                   "hot_product_share": f"{hot.product_share:.3f}", "hot_scratch": f"{hot.counts['scratch']:.0f}",
                   "hot_busiest_unit": hot.busiest_unit, "hot_efficiency": f"{hot.efficiency:.3f}",
                   "hot_arithmetic_efficiency": f"{hot.arithmetic_efficiency:.3f}"}
    return {name: "" if values.get(name) is None else values[name] for name in COLUMNS}


def write_csv(path, rows):
    """rows: as values_of or read_csv gives them."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path):
    """A column that is not in the file is empty, and one that tables no longer have is left out."""
    with open(path, newline="") as file:
        return [{name: row.get(name, "") for name in COLUMNS} for row in csv.DictReader(file)]


def main_row(rows, problem, side):
    """The pipeline that does the products, where a problem has several: not what joins parts of keys or sorts lists of them."""
    own = [row for row in rows if row["problem"] == problem and row["side"] == side]
    return next((row for row in own if not row["module"].startswith(("merge", "sort"))), None)


def kernel_of(row):
    return row["module"] if row["kernel"] == "auto" else row["kernel"]  # linear layers have no kernels by name


def number(text):
    return text or "–"


def percent(text):
    return f"{100 * float(text):.0f} %" if text else "–"


def useful_share(row):
    """Of the cycles of the loop's busiest unit: what the products of rows need that the problem has, not of padding."""
    return str(float(row["hot_efficiency"]) * float(row["useful_rows"] or 1)) if row["hot_efficiency"] else ""


def kilobytes(text):
    return f"{int(text) / 1024:.1f}" if text else "–"


def page_line(problem, ours, theirs):
    cells = [problem]
    for row in (ours, theirs):
        if row is None or not row["registers"]:
            cells += ["–"] * (len(HEAD) + 1)
            continue
        cells += [f"{kernel_of(row)} {row['tile']}".strip(), number(row["registers"]),
                  number(row["occupancy"]), f"{number(row['spills'])} / {number(row['scratch_bytes'])}",
                  kilobytes(row["shared_bytes"]), kilobytes(row["code_bytes"]), kilobytes(row["spirv_bytes"]), number(row["compile_ms"]),
                  percent(row["hot_product_share"]), row["hot_busiest_unit"] or "–", percent(useful_share(row))]
    return "| " + " | ".join(cells) + " |"


HEAD = ("registers", "occupancy", "spills / scratch bytes", "shared KB", "code KB", "given KB", "compiled in ms", "products of issued",
        "busiest unit", "useful share")


def reasons(rows, problems):
    """Why a cell is empty, the problems of the same reason together."""
    found = collections.defaultdict(list)
    for problem in problems:
        for side in ("vkattn", "ggml"):
            row = main_row(rows, problem.name, side)
            if row is not None and row["reason"]:
                found[side, row["reason"]].append(problem.name)
    for (side, reason), names in found.items():
        yield f"- {side}: {reason} ({', '.join(names)})"


def first_plan(rows, problem, side, column):
    """What all pipelines of the problem come to; None where one of them is not known. Of ggml's those of attention proper."""
    own = [row for row in rows if row["problem"] == problem and row["side"] == side]
    return sum(float(row[column]) for row in own) if own and all(row[column] for row in own) else None


def slower_to_compile(rows, times):
    """The problems whose pipelines take the driver more than so many times as long as ggml's, with the ratio. Both were measured
    in one run, by the wall clock."""
    for problem in dict.fromkeys(row["problem"] for row in rows):
        ours, theirs = (first_plan(rows, problem, side, "compile_ms") for side in ("vkattn", "ggml"))
        if ours and theirs and ours > times * theirs:
            yield problem, ours / theirs


def gpu_page(gpu, driver, problems, rows):
    columns = ["vkattn", *HEAD, "ggml", *HEAD]
    lines = [f"# {gpu.name}: {gpu.product}", "", f"{STATIC} Driver: {driver}.", "",
             f"Occupancy: {OCCUPANCY[gpu.vendor]}. Products of issued: the part of the vector instructions that are products. Useful "
             f"share: {USEFUL}; of a whole iteration of the loop over keys where its tile is known, else of the product loops. ggml: the same shape, K and V of the "
             "same type, by Debian's llama.cpp, with its tile (rows x keys). Given: the SPIR-V that the driver got, of ours specialised; "
             "compiled: by the wall clock of a shared machine, of ours with the time to specialise.", "",
             "| problem | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    lines += [page_line(p.name, main_row(rows, p.name, "vkattn"), main_row(rows, p.name, "ggml")) for p in problems]
    slower = [f"{problem} ({ratio:.1f} times)" for problem, ratio in slower_to_compile(rows, 1)]
    if slower:
        lines += ["", "Pipelines that took the driver longer than ggml's of the same shape: " + ", ".join(slower) + "."]
    said = list(reasons(rows, problems))
    return "\n".join(lines + (["", "What is not there:", "", *said] if said else [])) + "\n"


def summary_cell(rows, problem):
    ours, theirs = main_row(rows, problem, "vkattn"), main_row(rows, problem, "ggml")
    if ours is None or not ours["registers"]:
        return "–"
    spilt = int(ours["spills"] or 0) + int(ours["scratch_bytes"] or 0)
    cell = f"{kernel_of(ours)} {percent(useful_share(ours))}"
    if theirs is not None and theirs["hot_efficiency"]:
        cell += f" ({percent(useful_share(theirs))})"
    return cell + (" **spills**" if spilt else "")


def compile_cell(rows, problem):
    cells = {}
    for side in ("vkattn", "ggml"):
        given, ms = (first_plan(rows, problem, side, column) for column in ("spirv_bytes", "compile_ms"))
        cells[side] = " ".join(([f"{given / 1024:.0f} KB"] if given is not None else []) + ([f"{ms:.0f} ms"] if ms is not None else []))
    return (cells["vkattn"] or "–") + (f" ({cells['ggml']})" if cells["ggml"] else "")


def summary_page(gpus, tables):
    """tables: name of a GPU -> driver and rows as read."""
    lines = ["# Kernels as GPUs' compilers see them", "",
             f"{STATIC} Made by `scripts/gpu-lab report` on {datetime.date.today()}: Mesa's drivers compile for GPUs that are not "
             "there. Each cell: the kernel taken and its useful share, in brackets that of ggml's attention on the same GPU; "
             "**spills** where registers or arrays go to memory. A page and a CSV file a GPU hold the rest.", "",
             f"Useful share: {USEFUL}.", "",
             "| GPU | driver | " + " | ".join(SUMMARY) + " |", "|---|---|" + "---|" * len(SUMMARY)]
    for gpu in gpus:
        if gpu.name in tables:
            driver, rows = tables[gpu.name]
            cells = " | ".join(summary_cell(rows, problem) for problem in SUMMARY)
            lines.append(f"| [{gpu.product}]({gpu.name}.md) | {driver} | {cells} |")
        elif gpu.unavailable:
            lines.append(f"| {gpu.product} | cannot be had: {gpu.unavailable} |" + " – |" * len(SUMMARY))
    lines += ["", "## What a driver is given, and how long it takes", "",
              "KB of SPIR-V and milliseconds of compiling (by the wall clock of a shared machine; of ours with the time to specialise) of all "
              "pipelines of a plan; in brackets ggml's attention.", "",
              "| GPU | " + " | ".join(COMPILED) + " |", "|---|" + "---|" * len(COMPILED)]
    for gpu in gpus:
        if gpu.name in tables:
            cells = " | ".join(compile_cell(tables[gpu.name][1], problem) for problem in COMPILED)
            lines.append(f"| [{gpu.product}]({gpu.name}.md) | {cells} |")
    return "\n".join(lines) + "\n"
