"""RADV's text of GCN and RDNA 1 to 4 (ACO, as LLVM's disassembler spells it)."""
import dataclasses
import re

from .program import Block, Instruction, Program

NAMES = ("Assembly",)
VECTOR_KINDS = ("product", "matrix", "vector", "transcendental", "convert", "move")


@dataclasses.dataclass(frozen=True)
class Rates:
    """Cycles of a SIMD for one subgroup. A CU's shared memory and cache serve its SIMDs in turn, so that each has its part."""
    vector: float  # of 32 lanes (RDNA) or 64 (GCN)
    transcendental: float  # of the vector unit
    transcendental_unit: float  # of a unit of its own, 0 where there is none
    quarter: float  # 32-bit integer multiplication
    convert: float
    fma: float  # v_fma_f32; mad and mac have the rate of `vector`
    scalar: float
    shared_bytes: float  # a cycle for one SIMD: 128 a CU
    memory_bytes: float
    lanes: int
    dual: bool = False  # VOPD, and instructions of 64 lanes in one pass
    matrix: float = 0  # 16x16x16 of f16 or bf16


# Vector, scalar, transcendental, conversions: Mesa's src/amd/compiler/aco_statistics.cpp (get_perf_info,
# is_dual_issue_capable). Matrix: 512 and 1,024 f16 operations a cycle and CU (RDNA 3: AMD's "How to accelerate AI
# applications on RDNA 3 using WMMA", 2023; RDNA 4: AMD's figures of the RX 9070 XT, 195 TFLOPS at 2.97 GHz and 64 CUs); they
# occupy the vector unit. LDS: 128 bytes a cycle and CU (GCN: 4 SIMDs; RDNA white paper, 2019: 2 SIMDs). Cache: 64 bytes a
# cycle and CU (GCN), 128 (RDNA white paper).
GCN8 = Rates(vector=4, transcendental=16, transcendental_unit=0, quarter=16, convert=16, fma=16, scalar=4, shared_bytes=32,
             memory_bytes=16, lanes=64)
GCN9 = dataclasses.replace(GCN8, fma=4)
RDNA = Rates(vector=1, transcendental=1, transcendental_unit=4, quarter=4, convert=1, fma=1, scalar=1, shared_bytes=64,
             memory_bytes=64, lanes=32)
RDNA3 = dataclasses.replace(RDNA, dual=True, matrix=32)
RDNA4 = dataclasses.replace(RDNA3, matrix=16)
FAMILIES = ((r"polaris|gfx8", GCN8), (r"vega|raven|renoir|gfx90", GCN9), (r"navi1|navi2|rembrandt|vangogh|gfx10", RDNA),
            (r"navi3|phoenix|strix|hawk|gfx11", RDNA3), (r"navi4|gfx12", RDNA4))

# is_dual_issue_capable, of what kernels of attention use.
DUAL = re.compile(r"v_(fma|fmac|fmaak|fmamk|mul|add|sub|subrev|max|min)_f(16|32)|v_mov_b(16|32)|v_cndmask_b(16|32)|"
                  r"v_dot2c?_f32_(b?f16)|v_dot2acc_f32_(b?f16)|v_(not|and|or|xor)_b16")
PRODUCT = re.compile(r"v_(?:dual_)?(fma|fmac|fmaak|fmamk|mad|mac|madak|madmk)(_mix)?(lo|hi)?(_legacy)?_f(16|32)")
TWO_PRODUCTS = re.compile(r"v_(?:dual_)?dot2(c|acc)?_f(16|32)_b?f16|v_pk_fma_f(16|32)")
TRANSCENDENTAL = re.compile(r"v_(s_)?(exp|log|rcp|rsq|sqrt|sin|cos)_")
QUARTER = re.compile(r"v_mul_(lo|hi)_[iu]32|v_mad_[iu]64_[iu]32|v_mad_co_[iu]64_[iu]32")
WAITS = re.compile(r"s_(waitcnt|wait_|nop|clause|delay_alu|sleep|barrier|setprio|code_end|inst_prefetch|set_inst_prefetch)")
WIDTHS = {"b128": 16, "dwordx4": 16, "b96": 12, "dwordx3": 12, "b64": 8, "dwordx2": 8, "b32": 4, "dword": 4, "b16": 2,
          "u16": 2, "i16": 2, "ushort": 2, "sshort": 2, "short": 2, "b8": 1, "u8": 1, "i8": 1, "ubyte": 1, "sbyte": 1, "byte": 1,
          "u32": 4, "f32": 4}


def rates(gpu):
    return next((rates for pattern, rates in FAMILIES if re.search(pattern, gpu.lower())), None)


def parse(text, gpu, subgroup_size):
    """A program, or a line that says why not."""
    family = rates(gpu)
    if family is None:
        return f"no rates are known for {gpu!r}, expected the name of a GPU of GCN 4 to RDNA 4"
    blocks, falls = [Block("entry")], True
    for line in text.splitlines():
        label = re.match(r"(BB\d+):", line)
        if label:
            if falls:
                blocks[-1].successors.append(label[1])
            blocks.append(Block(label[1]))
            falls = True
            continue
        if not line[:1].isspace():
            continue
        line = line.split(";")[0].strip()
        if not re.match(r"[a-z]\w+", line):
            continue
        blocks[-1].instructions.append(instruction(line, family, subgroup_size))
        branch = re.match(r"s_(c?)branch\w* (BB\d+)", line)
        if branch:
            blocks[-1].successors.append(branch[2])
        if line.startswith("s_endpgm") or branch and not branch[1]:
            falls = False
    return Program(blocks)


def width(operation):
    found = re.search(r"_(b128|dwordx[234]|b96|b64|[bu]32|dword|[bui]16|[su]?short|[bui]8|[su]?byte|f32)(_|$)", operation)
    bytes_ = WIDTHS[found[1]] if found else 4
    return bytes_ * (2 if re.search(r"2addr|read2|write2|load_2|store_2", operation) else 1)


def instruction(line, rates, subgroup_size):
    operation = line.split()[0]
    passes = subgroup_size / rates.lanes
    if operation.startswith("v_"):
        return vector(line, operation, rates, passes)
    if operation.startswith("ds_"):
        if re.match(r"ds_(b?permute|swizzle|bvh)", operation):  # through the crossbar, without memory
            return Instruction(line, "vector", cycles={"shared": subgroup_size * 4 / rates.shared_bytes})
        bytes_ = width(operation)
        return Instruction(line, "shared", bytes=bytes_, cycles={"shared": subgroup_size * bytes_ / rates.shared_bytes})
    if operation.startswith(("global_", "buffer_", "flat_", "scratch_", "tbuffer_", "image_")):
        if re.match(r"(buffer|global)_(gl\d|inv|wb)", operation):
            return Instruction(line, "wait")
        bytes_ = width(operation)
        return Instruction(line, "scratch" if operation.startswith("scratch_") else "memory", bytes=bytes_,
                           loads="_load" in operation and not operation.startswith("scratch_"),
                           cycles={"memory": subgroup_size * bytes_ / rates.memory_bytes})
    if WAITS.match(operation):
        return Instruction(line, "wait")
    kind = "branch" if re.match(r"s_(c?branch|endpgm|setpc|swappc)", operation) else "scalar"
    return Instruction(line, kind, cycles={"scalar": rates.scalar})


def vector(line, operation, rates, passes):
    if re.match(r"v_wmma|v_swmmac|v_mfma", operation):
        return Instruction(line, "matrix", multiply_adds=1, cycles={"vector": rates.matrix}, product_cycles=rates.matrix)
    if operation.startswith("v_nop"):
        return Instruction(line, "wait")
    halves = [half.split()[0] for half in line.split("::")]
    multiply_adds = sum(2 if TWO_PRODUCTS.match(half) else 1 if PRODUCT.match(half) else 0 for half in halves)
    if len(halves) == 2:
        kind = "product" if multiply_adds else "move" if all(half.startswith("v_dual_mov") for half in halves) else "vector"
        products = sum(bool(TWO_PRODUCTS.match(half) or PRODUCT.match(half)) for half in halves)
        return Instruction(line, kind, multiply_adds=multiply_adds, cycles={"vector": 1}, product_cycles=products / 2)
    dual = rates.dual and DUAL.match(operation)
    cost = rates.vector * (max(1, passes / 2) if dual else passes)
    if multiply_adds:
        cost *= rates.fma / rates.vector if re.match(r"v_fma_f32", operation) else 1
        full = rates.vector * passes * (0.5 if dual else 1)
        return Instruction(line, "product", multiply_adds=multiply_adds, cycles={"vector": cost}, product_cycles=full)
    if TRANSCENDENTAL.match(operation):
        cycles = {"vector": rates.transcendental * passes, "transcendental": rates.transcendental_unit * passes}
        return Instruction(line, "transcendental", cycles={unit: c for unit, c in cycles.items() if c})
    if operation.startswith("v_cvt"):
        return Instruction(line, "convert", cycles={"vector": rates.convert * passes})
    if QUARTER.match(operation):
        return Instruction(line, "vector", cycles={"vector": rates.quarter * passes})
    kind = "move" if re.match(r"v_(mov|swap|accvgpr)", operation) else "vector"
    return Instruction(line, kind, cycles={"vector": cost})
