"""Counters and the modelled time of what a command submits on an AMD GPU of the lab, executed instruction by instruction
(docs/performance.md). A modelled time is none that was measured."""
import json
import pathlib
import tempfile

import lab

UNCHECKED = {name: 0 for name in ("poison", "poison_buffers", "lds", "memory", "bounds", "waits")}  # none of it is counted
WARM_UP_RUNS = 3  # of `vkattn bench` with one timed run, after the submissions that make its inputs: the first, and two more
SUMS = ("lds_cycles", "lds_fewest_cycles", "requested_lines", "distinct_lines")


def count(gpu, *command, skip_submissions=0, environment=(), with_instructions=False, longest_seconds=None):
    """The finished command, its dispatches after the submissions that are skipped as counters.cpp writes them, and
    with_instructions each one's instructions, and "given", the file of its module ($VKATTN_EXECUTE_GIVEN, or ""). A command that
    takes longer is ended: subprocess.TimeoutExpired."""
    lab.BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=lab.BUILD) as folder:
        counters, instructions = pathlib.Path(folder) / "counters", pathlib.Path(folder) / "instructions"
        settings = {**UNCHECKED, "counters": counters, "model": 1, "skip_submissions": skip_submissions}
        if with_instructions:
            settings["instructions"] = instructions
        ran = lab.execute(gpu, *command, settings=settings, environment=environment,
                          longest_seconds=longest_seconds)
        return ran, read(counters), read(instructions)


def read(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def totals(dispatches):
    """Sums of a run's dispatches, which wait for one another: modelled_us is the sum of theirs, us_if the same under each
    other guess; bound is what bounds the one that takes longest."""
    slowest = max(dispatches, key=lambda dispatch: dispatch["modelled"]["us"])
    return {
        "dispatches": len(dispatches),
        "instructions": sum(dispatch["instructions"]["total"] for dispatch in dispatches),
        **{name: sum(dispatch[name] for dispatch in dispatches) for name in SUMS},
        "dram_bytes": sum(dispatch["modelled"]["dram_bytes"] for dispatch in dispatches),
        "modelled_us": round(sum(dispatch["modelled"]["us"] for dispatch in dispatches), 3),
        "bound": slowest["modelled"]["bound"],
        "us_if": {name: round(sum(dispatch["modelled"]["us_if"][name] for dispatch in dispatches), 3)
                  for name in slowest["modelled"]["us_if"]},
    }
