"""What scripts/gpu-lab calls: report, check, budgets."""
import argparse
import concurrent.futures
import json
import os
import re
import sys
import time

import beside_dense
import budgets
import collect
import compare
import compare_page
import lab
import pages
import profile_shape
import removals
import search
from problems import problems

RESULTS = lab.ROOT / "bench/results/gpu-lab"
BUDGETS = lab.ROOT / "bench/budgets"


def selected(names):
    known = collect.gpus()
    for name in names:
        if name not in [gpu.name for gpu in known]:
            sys.exit(f"scripts/gpu-lab: GPU '{name}' is unknown, expected one of {', '.join(gpu.name for gpu in known)}")
    for gpu in known:
        if gpu.name in names and gpu.unavailable:
            sys.exit(f"scripts/gpu-lab: {gpu.name} is unavailable: {gpu.unavailable}")
    return known, [gpu for gpu in known if not gpu.unavailable and (not names or gpu.name in names)]


def compile_all(gpus, pattern="", sides=("ours", "theirs"), **options):
    """Rows by GPU. All problems of all GPUs side by side, the slowest compilers first."""
    wanted = [p for p in problems() if re.search(pattern, p.name)]
    slowest = sorted(gpus, key=lambda gpu: ("intel", "nvidia").index(gpu.vendor) if gpu.vendor in ("intel", "nvidia") else 2)
    rows = {gpu.name: [] for gpu in gpus}
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {(gpu.name, p.name, side): pool.submit(getattr(collect, side), gpu, p, **options)
                for gpu in slowest for p in wanted for side in sides}
        for gpu in gpus:
            for p in wanted:
                for side in sides:
                    rows[gpu.name] += jobs[gpu.name, p.name, side].result()
            print(f"{gpu.name}: {len(wanted)} problems, {time.monotonic() - start:.0f} s", file=sys.stderr)
    return rows


def driver_of(rows):
    return next((row.driver for row in rows if row.driver), "no driver")


def report(arguments):
    known, gpus = selected(arguments.gpus)
    RESULTS.mkdir(parents=True, exist_ok=True)
    sides = {"vkattn": "ours"} | ({} if arguments.ours else {"ggml": "theirs"})
    kept = {name: [row for row in rows if row["side"] not in sides or not re.search(arguments.problems, row["problem"])]
            for name, (_, rows) in tables(gpus).items()}
    rows = compile_all(gpus, arguments.problems, sides.values())
    order = [p.name for p in problems()]
    for gpu in gpus:
        both = [pages.values_of(row) for row in rows[gpu.name]] + kept.get(gpu.name, [])
        pages.write_csv(RESULTS / f"{gpu.name}.csv", sorted(both, key=lambda row: order.index(row["problem"])))
        read = pages.read_csv(RESULTS / f"{gpu.name}.csv")
        (RESULTS / f"{gpu.name}.md").write_text(pages.gpu_page(gpu, driver_of(rows[gpu.name]), problems(), read))
    (RESULTS / "README.md").write_text(pages.summary_page(known, tables(known)))


def write_pages(arguments):
    """From the CSV files, without a compilation."""
    known, gpus = selected(arguments.gpus)
    for gpu in known:
        for driver, rows in tables([gpu]).values():
            (RESULTS / f"{gpu.name}.md").write_text(pages.gpu_page(gpu, driver, problems(), rows))
    (RESULTS / "README.md").write_text(pages.summary_page(known, tables(known)))


def tables(gpus):
    """What the files of the report hold, by GPU: the driver and the rows."""
    found = {}
    for gpu in gpus:
        page, table = RESULTS / f"{gpu.name}.md", RESULTS / f"{gpu.name}.csv"
        if page.exists() and table.exists():
            found[gpu.name] = re.search(r"Driver: (.*)\.$", page.read_text(), re.MULTILINE).group(1), pages.read_csv(table)
    return found


def check(arguments):
    _, gpus = selected(arguments.gpus)
    if not gpus:
        sys.exit("scripts/gpu-lab: check: none of the GPUs can be had, expected at least one")
    rows = compile_all(gpus, arguments.problems, ["ours"], with_code=False)
    wrong = []
    for gpu in gpus:
        path = BUDGETS / f"{gpu.name}.csv"
        if not path.exists():
            wrong.append(f"{gpu.name}: no {path.relative_to(lab.ROOT)}, expected one (scripts/gpu-lab budgets)")
            continue
        driver, allowed = budgets.read(path)
        own = driver_of(rows[gpu.name])
        if own != driver:
            print(f"{gpu.name}: budgets are of {driver}, this is {own}: only what grew much is refused")
        wrong += budgets.complaints(gpu.name, own, [pages.values_of(row) for row in rows[gpu.name]], driver, allowed)
    print("\n".join(wrong) if wrong else f"{len(gpus)} GPUs: every pipeline within its budget")
    sys.exit(1 if wrong else 0)


def write_budgets(arguments):
    """Takes the report's figures, as they were committed or have just been made, for what is allowed."""
    _, gpus = selected(arguments.gpus)
    BUDGETS.mkdir(parents=True, exist_ok=True)
    slow = []
    for name, (driver, rows) in tables(gpus).items():
        budgets.write(BUDGETS / f"{name}.csv", driver, rows)
        slow += [f"{name}, {problem}: compiled in {ratio:.1f} times the time of ggml's, expected at most {budgets.MOST_COMPILE_RATIO}"
                 for problem, ratio in pages.slower_to_compile(rows, budgets.MOST_COMPILE_RATIO)]
    if slow:
        sys.exit("\n".join(slow))


def write_removals(arguments):
    """Of those named, by default one GPU with matrix units, one with those of bf16, one with waves of 64."""
    _, gpus = selected(arguments.gpus or ["amd-navi31", "amd-gfx1201", "amd-vega10"])
    (RESULTS / "removals.md").write_text(removals.page({gpu.name: removals.run(gpu.name) for gpu in gpus}))


def search_tiles(arguments):
    _, gpus = selected(arguments.gpus)
    search.search(gpus, arguments.kernel or search.SPACES, RESULTS / "tiles")


def compare_with_ggml(arguments):
    wrong = [gpu for gpu in arguments.gpus if gpu not in compare.GPUS]
    if wrong:
        sys.exit(f"scripts/gpu-lab: compare: GPU '{wrong[0]}' is not executed here, expected one of {', '.join(compare.GPUS)}")
    gpus = arguments.gpus or compare.GPUS
    if arguments.ours:
        compare.begin_anew(compare.TABLE, gpus, arguments.shapes)
    compare.fill(compare.TABLE, gpus, arguments.shapes, lambda line: print(line, flush=True))
    compare_page.write()


def write_beside(arguments):
    _, gpus = selected(arguments.gpus or list(beside_dense.GPUS))
    beside_dense.PAGE.write_text(beside_dense.page(gpus, compare_page.mesa(), lambda line: print(line, flush=True)))


def profile(arguments):
    if not arguments.shape:
        sys.exit("scripts/gpu-lab: profile: no shape, expected options of vkattn bench or the name of a problem behind the GPU")
    if arguments.top < 0:
        sys.exit(f"scripts/gpu-lab: profile: --top is {arguments.top}, expected at least 0")
    gpu = next((gpu for gpu in collect.gpus() if gpu.name == arguments.gpu), None)
    if gpu and gpu.vendor != "amd":
        sys.exit(f"scripts/gpu-lab: profile: {gpu.name} is of {gpu.vendor}, expected a GPU of AMD")
    if gpu:
        options = profile_shape.options_of(arguments.shape)
    selected([arguments.gpu])
    found = profile_shape.profile(gpu.name, options)
    if arguments.json:
        print(json.dumps(found))
    else:
        profile_shape.print_profile(found, arguments.top)


def main():
    parser = argparse.ArgumentParser(prog="scripts/gpu-lab", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, function, text in (
            ("report", report, "compile the problems on every GPU and write bench/results/gpu-lab"),
            ("pages", write_pages, "write the pages of bench/results/gpu-lab anew from its CSV files"),
            ("check", check, "compile them and compare with bench/budgets"),
            ("compare", compare_with_ggml, "execute what bench/results/gpu-lab/ggml.csv lacks, vkattn and ggml, and write its page"),
            ("beside", write_beside, "execute lists, functions and scales beside dense kernels, and write their page"),
            ("search", search_tiles, "search tiles that the GPUs, of one kind, like; writes bench/results/gpu-lab/tiles"),
            ("removals", write_removals, "take barriers and waits out in turn and write bench/results/gpu-lab/removals.md"),
            ("budgets", write_budgets, "write bench/budgets from bench/results/gpu-lab")):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("gpus", nargs="*", help="names of GPUs; none: all")
        if name == "report":
            command.add_argument("--ours", action="store_true", help="ggml's figures stay as the tables have them")
        if name == "compare":
            command.add_argument("--ours", action="store_true", help="vkattn's rows anew, beside what they were; ggml's stay")
            command.add_argument("--shapes", default="", help="only shapes whose names match this regular expression")
        if name == "search":
            command.add_argument("--kernel", action="append", choices=search.SPACES, help="what to search; none: all")
        if name in ("report", "check"):
            command.add_argument("--problems", default="", help="only problems whose names match this regular expression")
        command.set_defaults(run=function)
    text = "execute a shape on an AMD GPU, and say what its modelled time is made of"
    command = commands.add_parser("profile", help=text, description=text)
    command.add_argument("--json", action="store_true", help="everything, as a JSON object")
    command.add_argument("--top", type=int, default=12, help="how many instructions and source lines of a dispatch (12)")
    command.add_argument("gpu", help="the name of a GPU")
    command.add_argument("shape", nargs=argparse.REMAINDER, help="options of vkattn bench, or the name of a problem of the lab")
    command.set_defaults(run=profile)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
