"""What scripts/gpu-lab profile prints: the counters and the modelled time of a shape's dispatches, and where they come from."""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import collect
import lab
import modelled
import source_lines
from problems import problems

COMPONENTS = ("vector", "matrix", "transcendental", "lds", "address", "chain", "l2", "last_level", "dram")
HEADER = ("count", "stall", "LDS", "fewest", "lines")


def options_of(words):
    """The options of `vkattn bench` that name a shape: given as they are, or the name of one of the lab's problems."""
    if words[0].startswith("-"):
        return words
    names = {problem.name: problem for problem in problems()}
    name = " ".join(words)
    if name not in names:
        sys.exit(f"scripts/gpu-lab: profile: the shape '{name}' is unknown, expected options of vkattn bench or one of "
                 f"{', '.join(names)}")
    return [str(word) for word in names[name].options()]


def profile(gpu, options):
    """The profile as it is printed by --json. The numbers are of the code as users have it; the instructions of the same
    shaders compiled with tables of lines, which moves some of them."""
    report, reason = shaders(gpu, options)
    if reason:
        sys.exit(f"scripts/gpu-lab: profile: {reason}")
    dispatches = last_run(gpu, options, report["dispatches"])[0]
    with tempfile.TemporaryDirectory(dir=lab.BUILD) as folder, tempfile.TemporaryDirectory(dir=lab.BUILD) as modules:
        environment = {**source_lines.ENVIRONMENT, "VKATTN_EXECUTE_CACHE": folder, "VKATTN_EXECUTE_GIVEN": modules}
        with_lines, instructions = last_run(gpu, options, report["dispatches"], environment, with_instructions=True)
        source_lines.decompress(folder)
        for dispatch, counted, named in zip(dispatches, with_lines, instructions):
            executed = named["instructions"]
            dispatch["module"] = module_of(executed, report["shaders"])
            dispatch["instructions_modelled_us"] = counted["modelled"]["us"]
            dispatch["no_lines"] = source_lines.add_lines(executed, named["given"], pathlib.Path(folder))
            dispatch["executed"] = executed
    return {"gpu": gpu, "driver": report["driver"], "problem": report["problem"], "kernel": report["kernel"],
            "totals": modelled.totals(dispatches), "dispatches": dispatches}


def shaders(gpu, options):
    """What `vkattn shaders` says of the shape, with code as the run with lines has it; or None and why not."""
    ran = subprocess.run([str(word) for word in (lab.LAB, "run", gpu, "env", *variables(), collect.VKATTN, "shaders", *options,
                                                 "--json", "--assembly")], cwd=lab.ROOT, capture_output=True, text=True)
    if ran.returncode != 0:
        return None, collect.last_line(ran.stderr)
    reports = json.loads(ran.stdout)
    if len(reports) != 1:
        return None, f"the options are of {len(reports)} shapes, expected one"
    reports[0]["shaders"] = collect.numbered(reports[0]["shaders"])
    return reports[0], ""


def variables():
    return [f"{name}={value}" for name, value in source_lines.ENVIRONMENT.items()]


def last_run(gpu, options, dispatches, environment=(), with_instructions=False):
    """The dispatches of one run of the shape, and with_instructions each one's. The runs of `vkattn bench` that warm up are
    not executed."""
    command = (collect.VKATTN, "bench", *options, "--repeat", 1, "--input-sets", 1)
    ran, lines, instructions = modelled.count(gpu, *command, skip_submissions=modelled.WARM_UP_RUNS, environment=environment,
                                              with_instructions=with_instructions)
    if ran.returncode != 0:
        sys.exit(f"scripts/gpu-lab: profile: {collect.last_line(ran.stderr)}")
    if len(lines) < dispatches:
        sys.exit(f"scripts/gpu-lab: profile: {len(lines)} dispatches were executed, expected {dispatches}")
    return lines[-dispatches:], instructions[-dispatches:]


def module_of(instructions, shaders):
    """The module whose listing has the words that were executed, at their places."""
    executed = {instruction["offset"]: instruction["code"] for instruction in instructions}
    for shader in shaders:
        listed = words_by_offset(shader["texts"].get("Assembly", ""))
        if all(listed.get(offset) == code for offset, code in executed.items()):
            return shader["module"]
    return "unknown"


def words_by_offset(listing):
    """The code of each instruction of RADV's listing, as words in hexadecimal."""
    found, offset, last = {}, 0, ""
    for line in listing.splitlines():
        repeated = re.search(r"\(then repeated (\d+) times\)", line)
        code = re.search(r"; ((?:[0-9a-f]{8} ?)+)$", line)
        if code:
            last = code.group(1).strip()
        for _ in range(int(repeated.group(1)) if repeated else 1 if code else 0):
            found[offset] = last
            offset += 4 * len(last.split())
    return found


def print_profile(found, most):
    totals = found["totals"]
    print(f"{found['gpu']}, {found['driver']}: {found['problem']}")
    print(f"kernel {found['kernel']}: {totals['dispatches']} dispatches, {totals['instructions']} instructions of waves, "
          f"modelled {totals['modelled_us']:.2f} us")
    for number, dispatch in enumerate(found["dispatches"], 1):
        print_dispatch(number, dispatch)
        print_hottest(dispatch, most)
    print("\nmodelled time of all, us, where one guess is another:")
    for name, value in totals["us_if"].items():
        print(f"  {name:<20} {value:9.2f}   {value / totals['modelled_us']:5.2f} times")


def print_dispatch(number, dispatch):
    model = dispatch["modelled"]
    threads = dispatch["workgroup_size"][0] * dispatch["workgroup_size"][1] * dispatch["workgroup_size"][2]
    print(f"\n{number}. {dispatch['module']}: {' x '.join(map(str, dispatch['workgroups']))} workgroups of {threads}, waves of "
          f"{dispatch['lanes']}, {dispatch['vector_registers']} registers, {dispatch['lds_bytes']} bytes of LDS")
    print(f"   at once: {model['waves_of_simd']} waves a SIMD by registers, {model['workgroups_of_unit']} workgroups on each of "
          f"{model['units']} units, which are {model['compute_units']} compute units")
    print(f"   {dispatch['instructions']['total']} instructions; LDS {dispatch['lds_cycles']} cycles, "
          f"{dispatch['lds_fewest_cycles']} without conflicts; {dispatch['requested_lines']} lines asked for, "
          f"{dispatch['distinct_lines']} of them distinct; {model['dram_bytes']} bytes of DRAM")
    print("   us: " + ", ".join(f"{name} {model['components'][name]:.2f}" for name in COMPONENTS))
    print(f"   modelled {model['us']:.2f} us, bound by {model['bound']}; one workgroup alone takes up to "
          f"{model['longest_workgroup_us']:.2f}")


def print_hottest(dispatch, most):
    executed = dispatch["executed"]
    if dispatch["no_lines"]:
        print(f"   no source lines: {dispatch['no_lines']}")
    print(f"   hottest of its instructions (compiled with lines: modelled {dispatch['instructions_modelled_us']:.2f} us); "
          "cycles of all waves together:")
    print("   " + " ".join(f"{name:>9}" for name in HEADER) + "  instruction, source")
    by_offset = {instruction["offset"]: instruction for instruction in executed}
    for instruction in sorted(executed, key=heat, reverse=True)[:most]:
        awaited = by_offset.get(instruction.get("waits_for"))
        print(f"   {figures(instruction)}  {named(instruction)}" + (f" for {named(awaited)}" if awaited else ""))
    if dispatch["no_lines"]:
        return
    by_line = collections.defaultdict(collections.Counter)
    for instruction in executed:
        by_line[(instruction["source"] or "no line").removeprefix("after ")].update({name: instruction[name] for name in FIGURES})
    print("   hottest source lines:")
    for line, sums in sorted(by_line.items(), key=lambda item: heat(item[1]), reverse=True)[:most]:
        print(f"   {figures(sums)}  {line}  {text_of(line)}")


FIGURES = ("count", "stall_cycles", "lds_cycles", "lds_fewest_cycles", "lines")


def named(instruction):
    return f"{instruction['offset']:#x} {instruction['text']}  [{instruction.get('source') or 'no line'}]"


def figures(counts):
    return " ".join(f"{counts[name]:9}" for name in FIGURES)


def heat(counts):
    """An instruction takes an issue, its stall, and what LDS takes beyond it."""
    return counts["count"] + counts["stall_cycles"] + counts["lds_cycles"]


def text_of(line):
    """The line of GLSL itself."""
    file, _, number = line.rpartition(":")
    path = lab.ROOT / "shaders" / file
    if not number.isdigit() or not path.is_file():
        return ""
    lines = path.read_text().splitlines()
    return lines[int(number) - 1].strip() if int(number) <= len(lines) else ""
