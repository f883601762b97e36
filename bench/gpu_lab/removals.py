"""Every barrier and every wait of every shader, taken out in turn under the executor: what notices."""
import collections
import dataclasses
import json
import subprocess
import sys

import lab

# What reaches every shader, in small problems: each is run once.
COMMANDS = (
    ("selftest", ["build-modern/tools/vkattn", "selftest"]),
    ("cases", ["bash", "-c", "build-modern/tools/vkattn check tests/data/*.safetensors"]),
    ("suites", ["build-modern/tests/vkattn_tests", "--test-suite=kv_append,operators"]),
)
LONGEST_SECONDS = 3600

# Why barriers that nothing notices do no harm, as their shaders' source says: by the beginning of the shader's name and the
# barrier's number among those that the program reached, by address.
ONE_TILE = "waits for the last readers of a tile: these problems have one"
REASONS = (
    ("flash", (3, 7), "show_columns' second barrier (once for each of the two loops): the columns of a row lie in one wave, which "
                      "hardware runs together. flash.comp asks for no subgroups, so the language needs it"),
    ("flash", (0,), ONE_TILE + ", or none"),
    ("flash", (1,), "no tile of keys is seen: what is left is the last sum over columns, which lie in one wave"),
    ("decode_subgroups", (1, 2, 3), "finish_scores' three barriers: a group of columns lies in one subgroup, where its scores are "
                                    "joined by shuffles. A barrier of the subgroup would do there"),
    ("decode_subgroups", (0,), "no tile of keys is seen: nothing reads the query that was staged"),
    ("decode_halves_subgroups", (0, 1, 2), "the same three barriers of finish_scores"),
    ("coopmat", (0,), ONE_TILE),
    ("coopmat", (5, 6), "main's barrier after the last tile, where several subgroups share rows: the sums of rows, which follow, "
                        "have a barrier of their own before shared memory is written; or, where V takes K's place, stage_and_sum's "
                        "first: a barrier of the softmax stands after K's last readers"),
    ("linear_coopmat", (0,), ONE_TILE),
)


@dataclasses.dataclass
class Removal:
    shader: str
    kind: str  # barrier, wait, order
    place: int  # among those of its kind that the program reached, by address
    instruction: str
    noticed: str  # by a check; "number": a result changed; "": by nothing
    why: str


def run(gpu):
    """The lines that the executor writes, of all commands."""
    lines = []
    for name, command in COMMANDS:
        file = lab.BUILD / f"removals-{gpu}-{name}.jsonl"
        ran = subprocess.run([lab.LAB, "execute", gpu, "env", f"VKATTN_EXECUTE=removals={file}", *command], cwd=lab.ROOT,
                             capture_output=True, text=True, errors="replace", timeout=LONGEST_SECONDS)
        if ran.returncode != 0:
            sys.exit(f"scripts/gpu-lab: removals: {gpu}, {name}: exit {ran.returncode}\n{ran.stderr[-2000:]}")
        lines += [{**json.loads(line), "command": name} for line in file.read_text().splitlines()]
    return lines


def kind_of(line):
    if line["is_barrier"]:
        return "barrier"
    return "order" if "depctr" in line["instruction"] or "wait_alu" in line["instruction"] else "wait"


def why_not(line, place):
    if line["is_barrier"]:
        return next((reason for shader, places, reason in REASONS if line["shader"].startswith(shader) and place in places), "not known")
    if kind_of(line) == "order" and line["stores"]:
        return "accesses of shared memory are in flight, but no other wave touches these words before a later barrier"
    if line["loads"]:
        return "a later wait comes before what the load delivers is used, on the paths that these problems take"
    if line["stores"]:
        return "only stores are in flight"
    return "nothing is in flight on the paths that these problems take"


def removals(lines):
    """A Removal for each that was tried: of several dispatches, the one that noticed, if any."""
    best = {}
    for line in lines:
        if "shader" not in line:
            continue
        key = line["command"], line["program"], kind_of(line), line["offset"]
        if key not in best or not (best[key]["noticed"] or best[key]["wrong_words"]):
            best[key] = line
    places = collections.Counter()
    result = []
    for key in sorted(best):
        line = best[key]
        place = places[key[:3]]
        places[key[:3]] += 1
        noticed = line["noticed"] or ("number" if line["wrong_words"] else "")
        result.append(Removal(line["shader"] or "(not named)", key[2], place, line["instruction"], noticed,
                              "" if noticed else why_not(line, place)))
    return result


def kernel_table(found):
    """By shader: of barriers, waits and orders how many there are, and how many are noticed."""
    counts = collections.defaultdict(collections.Counter)
    for removal in found:
        counts[removal.shader][removal.kind] += 1
        counts[removal.shader][removal.kind, "noticed"] += bool(removal.noticed)
    lines = ["| shader | barriers | noticed | waits | noticed | orders | noticed |", "|---|---|---|---|---|---|---|"]
    total = sum(counts.values(), collections.Counter())
    for shader, count in [*sorted(counts.items()), ("all", total)]:
        cells = [str(count[key]) for kind in ("barrier", "wait", "order") for key in (kind, (kind, "noticed"))]
        lines.append(f"| {shader} | {' | '.join(cells)} |")
    return lines


def as_what(found):
    counts = collections.Counter((removal.kind, removal.noticed) for removal in found if removal.noticed)
    return ["| what is missing | noticed as | times |", "|---|---|---|",
            *(f"| {kind} | {noticed.removesuffix(', byte')} | {times} |" for (kind, noticed), times in counts.most_common())]


def unnoticed(found):
    counts = collections.Counter((r.shader, r.kind, r.place if r.kind == "barrier" else r.instruction, r.why)
                                 for r in found if not r.noticed)
    lines = ["| shader | which | programs | why it does no harm |", "|---|---|---|---|"]
    for (shader, kind, which, why), times in sorted(counts.items(), key=str):
        lines.append(f"| {shader} | {f'barrier {which}' if kind == 'barrier' else which} | {times} | {why} |")
    return lines


def flush_table(lines):
    """Barriers between dispatches, by what stands around them."""
    counts = collections.Counter()
    for line in lines:
        if "flush" not in line:
            continue
        between = "two dispatches" if line["dispatches_before"] and line["dispatches_after"] else (
            "a dispatch and none after" if line["dispatches_before"] else
            "none before and a dispatch" if line["dispatches_after"] else "none before and none after")
        counts[between] += 1
        counts[between, "needed"] += line["is_needed"]
    return ["| a barrier between | times | noticed |", "|---|---|---|",
            *(f"| {key} | {counts[key]} | {counts[key, 'needed']} |" for key in counts if isinstance(key, str))]


def page(lines_by_gpu):
    text = ["# Barriers and waits, taken out in turn", "",
            "The proof that the executor sees: `scripts/gpu-lab removals` runs the self-test, the exported cases and the suites of",
            "operators and appended caches, and runs each dispatch again from the same memory without one barrier (`s_barrier`, or",
            "RDNA 4's pair) or one wait (`s_waitcnt`, `s_wait_*`) after the other. A removal is noticed where a check tells of it, or",
            "where a word of the result changed. An *order* is `vm_vsrc(0)`, by which RADV has shared memory's accesses in order before",
            "a barrier since RDNA 3. A program is a shader with its constants: shaders have several. The barriers here are those that",
            "the problems reach. Of barriers between dispatches the same is asked of the accesses that each orders alone: an",
            "unnoticed one orders no two accesses of which one is a store, or another orders them too."]
    for gpu, lines in lines_by_gpu.items():
        found = removals(lines)
        text += ["", f"## {gpu}", "", *kernel_table(found), "", *as_what(found), "", "Unnoticed:", "", *unnoticed(found), "",
                 *flush_table(lines)]
    return "\n".join(text) + "\n"
