"""Searches the tiles of flash and decode for a kind of GPU by static figures: what runtime/kernels/*_tile.cpp should like. One number
after the other is varied, and the best kept, until nothing gains; beside it stands what the table has."""
import csv
import dataclasses
import json
import math
import subprocess

import collect
import lab
import tiles
from problems import problems

TOOL = lab.BUILD / "bench/gpu_lab/tile_shaders"
TOOL_ARM64 = lab.BUILD_ARM64 / "bench/gpu_lab/tile_shaders"
FEWEST_COLUMNS, MOST_COLUMNS = 8, 32
MOST_ROUNDS = 3

# Occupancy that hides half of what a subgroup waits for arithmetic and shared memory: a model, and no measurement. In the units
# of figures.OCCUPANCY. WAITS: so many times as much where each step waits for memory.
HALF_HIDDEN = {"amd": 1.5, "nvidia": 6, "apple": 192, "qualcomm": 1.5, "intel": 4, "arm": 0.3}
WAITS = {"flash": 1, "decode": 4}


PROBLEMS = {problem.name: problem for problem in problems()}


def request(shape, tile):
    """A line for tile_shaders."""
    return {"heads": shape.heads, "kv_heads": shape.kv_heads, "q_len": shape.q_len, "kv_len": shape.kv_len,
            "head_dim": shape.head_dim, "v_head_dim": shape.v_head_dim, "dtype": shape.query_type.upper(),
            "kv_dtype": shape.kv_type.upper(), "value_in_key": shape.v_head_dim < shape.head_dim, "tile": tile}


def power_of_two_above(number):
    return 1 << max(number - 1, 0).bit_length()


def flash_tile(problem, candidate):
    """Knobs of flash, as flash.cpp makes them of what a class likes."""
    blocks = math.ceil(problem.v_head_dim / 4 / candidate["blocks"])
    columns = min(max(power_of_two_above(blocks), FEWEST_COLUMNS), MOST_COLUMNS)
    return {"kernel": "flash", "staging": candidate["staging"], "columns": columns, "rows": candidate["rows"],
            "keys": candidate["keys"] * columns, "shared_bytes": candidate["shared_bytes"]}


def decode_tile(_, candidate):
    return {"kernel": "decode", **candidate}


@dataclasses.dataclass(frozen=True)
class Space:
    """What is varied, for which problems."""
    problems: tuple  # by name
    members: dict
    tile: object  # makes members of AttentionTile of a candidate
    start: dict


FLASH_MEMBERS = {"staging": (1, 2, 3), "blocks": (1, 2, 3, 4), "rows": (1, 2, 4), "keys": (1, 2, 4),
                 "shared_bytes": (16 << 10, 21 << 10, 24 << 10, 32 << 10, 40 << 10)}
DECODE_MEMBERS = {"rows": (1, 2, 4), "keys": (1, 2, 4, 8), "columns": (4, 8, 16, 32)}
SPACES = {
    "flash": Space(("prefill f16 D64", "prefill f16 D128"), FLASH_MEMBERS, flash_tile,
                   {"staging": 1, "blocks": 2, "rows": 4, "keys": 2, "shared_bytes": 24 << 10}),
    "flash-large": Space(("prefill f16 D256", "MLA 576/512 f16 32 queries"), FLASH_MEMBERS, flash_tile,
                         {"staging": 1, "blocks": 4, "rows": 2, "keys": 2, "shared_bytes": 24 << 10}),
    "flash-f32": Space(("prefill f32 D64", "prefill f32 D128"), FLASH_MEMBERS | {"staging": (1,)}, flash_tile,
                       {"staging": 1, "blocks": 2, "rows": 4, "keys": 2, "shared_bytes": 24 << 10}),
    "flash-f32-large": Space(("prefill f32 D256",), FLASH_MEMBERS | {"staging": (1,)}, flash_tile,
                             {"staging": 1, "blocks": 4, "rows": 2, "keys": 2, "shared_bytes": 24 << 10}),
    "decode": Space(("decode f16 group 4",), DECODE_MEMBERS, decode_tile, {"rows": 4, "keys": 2, "columns": 16}),
    "decode-quantised": Space(("decode q8_0 group 4",), DECODE_MEMBERS, decode_tile, {"rows": 4, "keys": 2, "columns": 16}),
}
RULE = {}  # a candidate: what the table has


def answers(gpu, requests):
    """One line of tile_shaders for each request, and the records of a driver that prints its code."""
    text = "".join(json.dumps(request) + "\n" for request in requests)
    records = []
    try:
        if gpu.vendor == "apple":
            ran, records = lab.run_under_layer(gpu.name, TOOL, input=text)
        else:
            ran = lab.run(gpu.name, TOOL_ARM64 if gpu.is_emulated else TOOL, input=text, problems=len(requests))
    except subprocess.TimeoutExpired:
        return [{"error": collect.TOO_LONG}] * len(requests), records
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    return lines + [{"error": "the driver ended"}] * (len(requests) - len(lines)), records


def row_of(gpu, problem, candidate, plain, coded, records):
    """A row of evidence; merit 0 where the tile cannot be had, or spills."""
    row = {"gpu": gpu.name, "problem": problem.name, **candidate, "merit": 0.0}
    if "error" in plain or not plain["shaders"]:
        return row | {"reason": plain.get("error", "no shader")}
    shader = plain["shaders"][0]
    shader["texts"] = (coded.get("shaders") or [{}])[0].get("texts", {})
    if records:
        shader["texts"] = collect.printed_code(shader, records)
    found = collect.row_of(gpu, problem, "vkattn", plain["kernel"], plain["tile"], shader,
                           tile_multiply_adds=tiles.multiply_adds(shader["module"], shader["constants"]))
    figures, hot = found.figures, found.hot
    row |= {"tile": plain["tile"], "module": shader["module"], "registers": figures.registers, "occupancy": figures.occupancy,
            "spills": figures.spills, "scratch_bytes": figures.scratch_bytes, "shared_bytes_taken": figures.shared_bytes,
            "code_bytes": figures.code_bytes, "reason": found.reason}
    if figures.spills or figures.scratch_bytes or hot is None:
        return row
    efficiency = (hot.iteration or hot).efficiency
    half = HALF_HIDDEN[gpu.vendor] * WAITS[plain["kernel"]]
    hidden = (figures.occupancy or 1) / ((figures.occupancy or 1) + half)
    return row | {"efficiency": round(efficiency, 3), "merit": round(efficiency * hidden, 4)}


class Search:
    def __init__(self, gpus, space):
        self.gpus, self.space = gpus, space
        self.rows = {}  # by candidate

    def measure(self, candidates):
        new = [c for c in candidates if tuple(c.values()) not in self.rows]
        for gpu in self.gpus:
            pairs = [(c, p) for c in new for p in map(PROBLEMS.get, self.space.problems)]
            requests = [request(p, self.tile(p, c)) for c, p in pairs]
            with_code = [r | {"assembly": True} for r in requests]
            plain, records = answers(gpu, with_code if gpu.is_emulated else requests)
            # once more with the code, since to keep it takes some drivers far longer; Apple's has printed it, and of an
            # emulated driver times mean nothing
            coded = plain if gpu.vendor == "apple" or gpu.is_emulated else answers(gpu, with_code)[0]
            for (candidate, problem), *found in zip(pairs, plain, coded):
                self.rows.setdefault(tuple(candidate.values()), []).append(row_of(gpu, problem, candidate, *found, records))

    def tile(self, problem, candidate):
        tile = self.space.tile(problem, candidate or self.space.start)
        return tile if candidate else {"kernel": tile["kernel"]}

    def merit(self, candidate):
        """The geometric mean over GPUs and problems."""
        merits = [row["merit"] for row in self.rows[tuple(candidate.values())]]
        return math.prod(merits) ** (1 / len(merits))

    def run(self):
        best = self.space.start
        self.measure([RULE, best])
        for _ in range(MOST_ROUNDS):
            before = best
            for name, values in self.space.members.items():
                varied = [best | {name: value} for value in values]
                self.measure(varied)
                best = max(varied, key=lambda candidate: (self.merit(candidate), candidate == best))
            if best == before:
                break
        return best


def write(path, rows):
    columns = list(dict.fromkeys(name for row in rows for name in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def search(gpus, names, folder):
    """Prints what each of the spaces comes to for the GPUs together, and writes the evidence, best first."""
    for name in names:
        found = Search(gpus, SPACES[name])
        best = found.run()
        order = sorted(found.rows.values(), key=lambda rows: -math.prod(row["merit"] for row in rows))
        write(folder / f"{'+'.join(gpu.name for gpu in gpus)} {name}.csv".replace(" ", "-"), [row for rows in order for row in rows])
        print(f"{name}: the table's merit {found.merit(RULE):.3f}; {found.merit(best):.3f} by {best}; {len(found.rows)} tried",
              flush=True)
