"""PanVK's text of Mali's Valhall: instructions without labels, branches by the number of instructions to skip."""
import re

from .program import Block, Instruction, Program

NAMES = ("Assembly",)
# The fused multiply-add, conversion and special units each take instructions of other warps at the same time.
VECTOR_KINDS = ("product", "vector", "transcendental", "convert", "move", "branch")

# Which unit an instruction goes to, and that the special one has a quarter of the others' rate: Mesa's
# src/panfrost/compiler (valhall/ISA.xml, the statistics of its compiler). Of a warp of 16 lanes, a cycle of the others.
SPECIAL = 4
# Shared memory lies behind the same cache as all other memory. Nothing is published of its width; taken for 64 bytes a
# cycle and core, as others' of its size have, of which the four warps that a core multiplies for have a quarter each.
BYTES = 16
LANES = 16

MULTIPLY_ADD = re.compile(r"FMA\.(f32|v2f16)")
ADD = re.compile(r"(FADD|LDEXP|FADD_IMM|FADD_LSCALE|FMA_RSCALE|IDP)\b")
TRANSCENDENTAL = re.compile(r"(FRCP|FRSQ|FLOGD|FLOG_TABLE|FEXP|FEXP_TABLE|FSIN_TABLE|FCOS_TABLE|FSINCOS_OFFSET|FRCP_APPROX|FRSQ_APPROX)\b")
SLOW = re.compile(r"(IMUL|IMULD|[LR]SHIFT_(AND|OR|XOR)|ARSHIFT_(AND|OR|XOR)|MUX|CLPER|POPCOUNT|BITREV|NOT_OLD|FPCLASS)\b")
CONVERT = re.compile(r"(\w+_TO_\w+|FROUND)\b")
MEMORY = re.compile(r"(LOAD|STORE|LD_\w+|ST_\w+|LEA_\w+|ATOM\w*)\b")
BRANCH = re.compile(r"(BRANCHZI?|JUMP|BRANCHC)\b")
WAIT = re.compile(r"(NOP|BARRIER)\b")


def parse(text, gpu, subgroup_size):
    """A program, or a line that says why not."""
    lines = [line.strip() for line in text.splitlines() if re.match(r"\s*[A-Z][\w.]*( |$)", line)]
    if not lines:
        return "the text has no instructions, expected those of Valhall"
    targets = {index: index + 1 + offset for index, offset in map(branch, range(len(lines)), lines) if offset is not None}
    starts = sorted({0, *(t for t in targets.values() if 0 <= t < len(lines)), *(i + 1 for i in targets if i + 1 < len(lines))})
    blocks = []
    for start, end in zip(starts, [*starts[1:], len(lines)]):
        block = Block(f"i{start}", [instruction(line) for line in lines[start:end]])
        if end - 1 in targets:
            block.successors.append(f"i{targets[end - 1]}")
        if end < len(lines) and not is_jump(lines[end - 1]):
            block.successors.append(f"i{end}")
        blocks.append(block)
    return Program(blocks)


def branch(index, line):
    """The index, and how many instructions the branch skips, None for what is none."""
    offset = re.search(r"offset:(-?\d+)", line)
    return index, int(offset[1]) if BRANCH.match(line) and offset else None


def is_jump(line):
    """Compares a constant: always taken."""
    return bool(re.match(r"BRANCHZ\.eq\S* 0x0,", line)) or line.startswith("JUMP") or ".end" in line.split()[0]


def instruction(line):
    def make(kind, unit, cycles=1, **more):
        return Instruction(line, kind, cycles={unit: cycles}, **more)

    if MULTIPLY_ADD.match(line):
        return make("product", "fma", multiply_adds=2 if "v2f16" in line.split()[0] else 1, product_cycles=1)
    if WAIT.match(line):
        return Instruction(line, "wait")
    if BRANCH.match(line):
        return make("branch", "convert")
    if MEMORY.match(line):
        return memory(line)
    if TRANSCENDENTAL.match(line):
        return make("transcendental", "special", SPECIAL)
    if SLOW.match(line):
        return make("vector", "special", SPECIAL)
    if ADD.match(line):
        return make("vector", "fma")
    if CONVERT.match(line):
        return make("convert", "convert")
    return make("move" if re.match(r"MOV|IADD_IMM\.i32\S* \S+ 0x0,", line) else "vector", "convert")


def memory(line):
    """Buffers are loaded by LD_PKA, and stored to at an address of LEA_PKA; in our kernels every other address is of shared
    memory or, by name, of the thread's own."""
    name = line.split()[0]
    bits = re.match(r"(?:LOAD|STORE|LD_PKA|LD_BUFFER)\.i(\d+)", name)
    bytes_ = int(bits[1]) // 8 if bits else 4
    kind = "scratch" if "thread_local_pointer" in line else "shared" if re.match(r"LOAD|STORE", name) else "memory"
    return Instruction(line, kind, bytes=bytes_, loads=name.startswith("LD_"), cycles={"memory": LANES * bytes_ / BYTES})
