"""Honeykrisp's code of Apple's G13 and G14 (AGX). The driver hands out none, but AGX_MESA_DEBUG=shaders prints it: several
representations of a shader and of its preambles, one after the other. The one that counts is the largest with registers."""
import re

from .program import Block, Instruction, Program

NAMES = ("AGX assembly",)
# A quarter of a core issues one instruction of a SIMD group a cycle.
VECTOR_KINDS = ("product", "vector", "transcendental", "convert", "move", "shared", "memory", "scratch", "scalar", "branch")

# Philip Turner's metal-benchmarks (M1, M2: "ALU bottlenecks", throughput in cycles of a SIMD group), beside
# dougallj/applegpu: additions, multiplications, fma and selects 1; integer multiplication, shifts and conversions 4; exp2 and
# log2 4, rcp 6, rsqrt 8. Threadgroup memory: 64 bytes a cycle and core. Loads from the cache: the same.
COMPLEX = {"exp2": 4, "log2": 4, "rcp": 6, "rsqrt": 8, "srsqrt": 8, "sin_pt_1": 14, "sin_pt_2": 14, "imad": 4, "bfi": 4, "bfeil": 4,
           "extr": 4, "asr": 4, "convert": 4, "bitrev": 4, "popcount": 4, "ffs": 4}
TRANSCENDENTAL = ("exp2", "log2", "rcp", "rsqrt", "srsqrt", "sin_pt_1", "sin_pt_2")
SHARED_BYTES = MEMORY_BYTES = 16  # a cycle, of a quarter of a core
CONTROL = re.compile(r"(if|else|while|begin|end|push|pop|jmp|break|stop|logical|trap)(_|$)")


def parse(text, gpu, subgroup_size):
    """A program, or a line that says why not."""
    programs = [program for program in dumps(text) if has_registers(program)]
    if not programs:
        return "no code with registers is among what the driver printed, expected AGX_MESA_DEBUG=shaders"
    return Program(max(programs, key=lambda blocks: sum(len(block.instructions) for block in blocks)))


def has_registers(blocks):
    return any(re.match(r"\$?r\d", i.text) for block in blocks for i in block.instructions)


def dumps(text):
    """The representations that have blocks, as lists of them."""
    found, block = [], None
    for line in text.splitlines():
        begins, ends = re.match(r"block(\d+) \{", line), re.match(r"\} -> ([^f]*)", line)
        if begins:
            block = Block(f"block{begins[1]}")
            if begins[1] == "0":
                found.append([])
            found[-1].append(block)
        elif line.startswith("}"):
            if block is not None and ends:
                block.successors = re.findall(r"block\d+", ends[1])
            block = None
        elif block is not None and line.strip():
            block.instructions.append(instruction(line.strip()))
    return found


def instruction(line):
    results, _, rest = line.rpartition(" = ")
    name = rest.split()[0]

    def make(kind, **units):
        return Instruction(line, kind, cycles={"issue": 1, **units})

    if name == "wait" or name.endswith("barrier") or name.startswith(("memory_barrier", "nop", "signal")):
        return Instruction(line, "wait")
    if name in ("ffma", "hfma"):
        return Instruction(line, "product", multiply_adds=1, cycles={"issue": 1}, product_cycles=1)
    if CONTROL.match(name):
        return make("branch")
    if re.match(r"(local_load|local_store|load_local|store_local)", name):
        return memory(line, rest, results, "shared", SHARED_BYTES)
    if re.match(r"stack_(load|store)", name):
        return memory(line, rest, results, "scratch", MEMORY_BYTES)
    if re.match(r"(device_load|device_store|uniform_store|image_load|texture_load|texture_sample|image_write)", name):
        return memory(line, rest, results, "memory", MEMORY_BYTES)
    kind = "transcendental" if name in TRANSCENDENTAL else "convert" if name == "convert" else \
        "move" if re.match(r"(mov|mov1|mov_imm|get_sr|swap)", name) else "vector"
    return make(kind, **({"complex": COMPLEX[name]} if name in COMPLEX else {}))


def memory(line, rest, results, kind, bytes_per_cycle):
    """The registers that are loaded or stored: $r1...r4, or halves, r1l."""
    values = results or rest.split(None, 1)[1].split(",")[0]
    first = re.search(r"r(\d+)([lh]?)", values)
    last = re.search(r"\.\.\.\$?r(\d+)", values)
    count = int(last[1]) - int(first[1]) + 1 if first and last else 1
    bytes_ = count * (2 if first and first[2] else 4)
    return Instruction(line, kind, bytes=bytes_, loads=kind == "memory" and bool(results),
                       cycles={"issue": 1, "shared" if kind == "shared" else "memory": 32 * bytes_ / bytes_per_cycle})
