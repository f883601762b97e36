"""NVK's text of Turing and later (NAK)."""
import dataclasses
import re

from .program import Block, Instruction, Program

NAMES = ("NAK assembly",)
# A partition of an SM issues one instruction a cycle, of whatever kind.
VECTOR_KINDS = ("product", "matrix", "vector", "transcendental", "convert", "move", "shared", "memory", "scratch", "scalar",
                "branch")


@dataclasses.dataclass(frozen=True)
class Rates:
    """Cycles of an SM's partition (a quarter of it) for a warp."""
    fma: float
    alu: float  # integer, logic, comparisons, selects, minimum and maximum
    half2: float  # packed f16
    matrix: dict  # multiply-adds a cycle, by the type of the sums
    memory_bytes: float  # a cycle, of global memory from the first cache
    special: float = 8
    convert: float = 2
    shared_bytes: float = 32  # a cycle: 128 an SM


# CUDA C++ Programming Guide, "Throughput of native arithmetic instructions", results a cycle and SM: compute capability 7.5
# (Turing) fma 64, integers 64, special 16, conversions 64, f16 128; 8.0 f16 256; 8.6 and 8.9 fma 128, integers 64, f16 128.
# 12.0 (Blackwell) fma and integers 128. Matrix units: white papers of TU102, GA102, AD102 and GB202, 512 multiply-adds a
# cycle and SM with sums in f16 and half as many in f32 (professional cards of Turing and Ada have the full rate in f32);
# GA100 1,024 with both. Shared memory and the first cache: 128 bytes a cycle and SM (Turing: 64 of global memory).
TURING = Rates(fma=2, alu=2, half2=1, matrix={"f16": 128, "f32": 64}, memory_bytes=16)
GA100 = Rates(fma=2, alu=2, half2=0.5, matrix={"f16": 256, "f32": 256}, memory_bytes=32)
AMPERE = Rates(fma=1, alu=2, half2=1, matrix={"f16": 128, "f32": 64}, memory_bytes=32)
BLACKWELL = dataclasses.replace(AMPERE, alu=1)
FAMILIES = ((r"\b16[0-9a-f]\b|turing|tu1", TURING), (r"\b170\b|ga100|a100", GA100), (r"\b17[0-9a-f]\b|ampere|ga10", AMPERE),
            (r"\b19[0-9a-f]\b|ada|ad10", AMPERE), (r"\b1b[0-9a-f]\b|blackwell|gb20", BLACKWELL))
PARTITION_LANES = 32

LABEL = re.compile(r"block(?:\.u)? (\d+) ")
SUCCESSORS = re.compile(r"\} -> \[(.*)\]")
SHAPE = re.compile(r"[hi]mma\.m(\d+)n(\d+)k(\d+)\.(f16|f32)?")
MEMORY = re.compile(r"(ld|st|ldsm|atom|red|suld|sust)\b")
CONTROL = re.compile(r"(bra|bssy|bsync|bclear|brk|exit|warpsync|ret|call|jmp)\b")
CONVERT = re.compile(r"(f2f|f2i|i2f|f2fp|i2i|frnd)\b")
ALU = re.compile(r"(iadd3|iadd2|lop3|lop2|shf|sel|fsel|fmnmx|imnmx|isetp|fsetp|fset|plop3|prmt|lea|sgxt|iabs|bmsk|hmnmx2|mov)\b")


def rates(gpu):
    return next((rates for pattern, rates in FAMILIES if re.search(pattern, gpu.lower())), None)


def parse(text, gpu, subgroup_size):
    """A program, or a line that says why not."""
    family = rates(gpu)
    if family is None:
        return f"no rates are known for {gpu!r}, expected the name or the number of an NVIDIA chip from Turing on"
    blocks = []
    for line in text.splitlines():
        label, successors = LABEL.match(line), SUCCESSORS.match(line)
        if label:
            blocks.append(Block(label[1]))
        elif successors and blocks:
            blocks[-1].successors = [name.strip() for name in successors[1].split(",") if name.strip()]
        elif blocks and (found := operation(line)):
            blocks[-1].instructions.append(instruction(line.strip(), *found, family))
    return Program(blocks)


def operation(line):
    """What is done, and whether it is done once a warp: the line without guard, results and scheduling."""
    line = re.sub(r"^@!?u?p\w+", "", line.split("//")[0].strip()).strip()
    if not line:
        return None
    results, _, rest = line.rpartition("= ")
    return (rest.strip() or line), bool(re.match(r"u[rp]\d", results))


def width(text):
    found = re.search(r"\.[bui](\d+)\b", text)
    return int(found[1]) // 8 if found else 4


def instruction(line, text, uniform, rates):
    name = text.split()[0]

    def make(kind, unit=None, cycles=0.0, **more):
        units = {"issue": 1} | ({unit: cycles} if unit else {})
        return Instruction(line, kind, cycles=units, **more)

    if name == "nop":
        return Instruction(line, "wait", issued=1)
    shape = SHAPE.match(name)
    if shape:
        m, n, k = (int(shape[i]) for i in (1, 2, 3))
        cycles = m * n * k / rates.matrix[shape[4] or "f16"]
        return make("matrix", "matrix", cycles, multiply_adds=1, product_cycles=cycles)
    if CONTROL.match(name):
        return make("branch")
    if MEMORY.match(name):
        return memory(name, make, rates)
    if name.startswith(("membar", "bar.", "depbar", "ccctl", "fence")):
        return Instruction(line, "wait")
    if uniform or name.startswith(("r2ur", "ldc", "s2ur")):
        return make("scalar")
    if name.startswith("ffma"):
        return make("product", "fma", rates.fma, multiply_adds=1, product_cycles=rates.fma)
    if name.startswith("hfma2"):
        return make("product", "half2", rates.half2, multiply_adds=2, product_cycles=rates.half2)
    if name.startswith(("fadd", "fmul", "imad")):
        return make("vector", "fma", 2 if name.startswith("imad") else rates.fma)
    if name.startswith("mufu"):
        return make("transcendental", "special", rates.special)
    if CONVERT.match(name):
        return make("convert", "convert", rates.convert)
    if name.startswith("shfl"):
        return make("vector", "shared", PARTITION_LANES * 4 / rates.shared_bytes)
    if ALU.match(name):
        return make("move" if name.startswith("mov") else "vector", "alu", rates.alu)
    return make("vector")


def memory(name, make, rates):
    if name.startswith("ldsm"): # each x is a matrix of 8 by 8 halves
        count = int(name.rpartition(".x")[2]) if ".x" in name else 1
        return make("shared", "shared", count * 128 / rates.shared_bytes, bytes=4 * count)
    bytes_ = width(name)
    if ".shared" in name:
        return make("shared", "shared", PARTITION_LANES * bytes_ / rates.shared_bytes, bytes=bytes_)
    cycles = PARTITION_LANES * bytes_ / rates.memory_bytes
    if ".local" in name:
        return make("scratch", "memory", cycles, bytes=bytes_)
    return make("memory", "memory", cycles, bytes=bytes_, loads=name.startswith(("ld", "suld")))
