"""ANV's text of Xe-LP, Xe-HPG and Xe2 (brw's disassembler)."""
import dataclasses
import re

from .program import Block, Instruction, Program

NAMES = ("GEN Assembly",)
# A vector engine issues an instruction a cycle, of whatever kind, but each takes as many as it has lanes for.
VECTOR_KINDS = ("product", "matrix", "vector", "transcendental", "convert", "move", "shared", "memory", "scratch", "scalar",
                "branch")


@dataclasses.dataclass(frozen=True)
class Rates:
    """Of a vector engine (EU)."""
    lanes: int  # of f32, in a cycle; of f16 twice as many
    register: int  # bytes
    shared_bytes: float  # a cycle: 128 of a Xe core, which its engines share
    memory_bytes: float
    co_issue: bool  # integers have a unit of their own
    matrix: float  # cycles of a dpas of repeat count 8
    math: int = 4  # times a vector instruction


# Intel's oneAPI GPU Optimization Guide, "Intel Xe GPU architecture": Xe-LP 8 lanes and 16 EUs a dual subslice; Xe-HPG 8 lanes,
# 16 engines, 128 f16 operations a cycle and matrix engine (8x8x16: 16 cycles); Xe2 16 lanes, 8 engines, 256 operations (8x16x16: 16).
# The extended math unit has a quarter of the lanes.
XE_LP = Rates(8, 32, 8, 4, False, 0)
XE_HPG = Rates(8, 32, 8, 8, True, 16)
XE2 = Rates(16, 64, 16, 16, True, 16)
FAMILIES = ((r"tgl|rkl|adl|rpl|xe_?lp\b", XE_LP), (r"dg2|acm|arc.* a\d|mtl|arl", XE_HPG), (r"bmg|lnl|ptl|xe2", XE2))

LINE = re.compile(r"(?:\([^)]*\)\s*)?([a-z]\w*(?: \w+)?(?:\.\S+?)?)\((\d+)\)\s*(.*)")
CONTROL = ("if", "else", "endif", "while", "break", "cont", "halt", "do", "jmpi", "brd", "goto", "join", "call", "ret")


def rates(gpu):
    return next((rates for pattern, rates in FAMILIES if re.search(pattern, gpu.lower())), None)


def parse(text, gpu, subgroup_size):
    """A program, or a line that says why not."""
    family = rates(gpu)
    if family is None:
        return f"no rates are known for {gpu!r}, expected the name of an Intel GPU from Tiger Lake to Battlemage"
    blocks = [Block("entry")]
    for line in joined(text):
        label = re.match(r"(LABEL\d+|L\d+):", line)
        if label:
            blocks.append(Block(label[1]))
            continue
        found = LINE.match(line)
        if not found:
            continue
        name = found[1].split(".")[0]
        blocks[-1].instructions.append(instruction(line, name, int(found[2]), found[3], family, subgroup_size))
        if name in CONTROL and name not in ("endif", "do", "join"):
            blocks.append(Block(f"{blocks[-1].name}+"))
    connect(blocks)
    return Program(blocks)


def joined(text):
    """Lines, those of messages with what continues them."""
    lines = []
    for line in text.splitlines():
        if line[:8].isspace() and lines:
            lines[-1] += " " + line.strip()
        elif line.strip():
            lines.append(line.strip())
    return lines


def connect(blocks):
    position = {block.name: i for i, block in enumerate(blocks)}
    for i, block in enumerate(blocks):
        following = [blocks[i + 1].name] if i + 1 < len(blocks) else []
        last = block.instructions[-1].text if block.instructions else ""
        name = re.sub(r"^\([^)]*\)\s*", "", last).split("(")[0]
        targets = {key: label for key, label in re.findall(r"(JIP|UIP):\s*(\w+)", last)}
        if name == "else":
            block.successors = [targets["JIP"]]
        elif name in ("if", "while"):
            block.successors = [targets["JIP"], *following]
        elif name in ("break", "cont", "halt"):
            block.successors = [leave(targets["UIP"], blocks, position) if name == "break" else targets["UIP"], *following]
        else:
            block.successors = following


def leave(target, blocks, position):
    """Behind the end of the loop: a break names the while, which no lane is left for."""
    at = position.get(target)
    ends = at is not None and blocks[at].instructions and blocks[at].instructions[0].text.startswith(("while", "(")) and \
        "while" in blocks[at].instructions[0].text
    return blocks[at + 1].name if ends and at + 1 < len(blocks) else target


def instruction(line, name, lanes, operands, rates, subgroup_size):
    if name.startswith("sync") or name == "nop":
        return Instruction(line, "wait")
    if name in CONTROL:
        return Instruction(line, "branch", cycles={"issue": 1})
    if name.startswith("send"):
        return message(line, operands, rates, subgroup_size)
    if name.startswith("dpas"):
        return Instruction(line, "matrix", multiply_adds=1, cycles={"issue": 1, "matrix": rates.matrix}, product_cycles=rates.matrix)
    types = re.findall(r"(?<![\w])(?:[^\s,]*?)(DF|HF|BF|F|UQ|Q|UD|D|UW|W|UB|B|UV|V|VF)(?=\s|$|,)", operands.split("{")[0])
    destination = types[0] if types else ""
    half = all(kind == "HF" for kind in types) and types
    passes = max(1, lanes / (rates.lanes * (2 if half else 1)))
    unit = "float" if destination in ("F", "HF", "BF") or not rates.co_issue else "integer"
    cycles = {"issue": 1, unit: passes}
    part = lanes / subgroup_size if subgroup_size else 1
    if name in ("mad", "mac") and destination in ("F", "HF"):
        return Instruction(line, "product", multiply_adds=part, cycles=cycles,
                           product_cycles=lanes / (rates.lanes * (2 if half else 1)))
    if name.startswith("math"):
        return Instruction(line, "transcendental", cycles={"issue": 1, "math": rates.math * max(1, lanes / rates.lanes)})
    if name == "mov":
        floats = {kind in ("F", "HF", "BF") for kind in types}
        kind = "convert" if len(set(types)) > 1 and True in floats else "move"
        return Instruction(line, kind, cycles=cycles)
    return Instruction(line, "scalar" if lanes == 1 else "vector", cycles=cycles)


def message(line, operands, rates, subgroup_size):
    def count(pattern):
        found = re.search(pattern, operands)
        return int(found[1]) if found else 0

    loaded = count(r"dst_len = (\d+)") or count(r"\brlen (\d+)")
    stored = count(r"src1_len = (\d+)") or count(r"ex_mlen (\d+)")
    is_load = loaded > 0
    bytes_ = (loaded or stored or count(r"src0_len = (\d+)") or 1) * rates.register
    if re.search(r"gateway|\bts\b|fence", operands):
        return Instruction(line, "wait")
    lane_bytes = bytes_ // subgroup_size if subgroup_size else bytes_
    if re.search(r"\bslm\b|(Surface =|bti) 254\b", operands): # 254: shared memory, before Xe-HPG
        return Instruction(line, "shared", bytes=lane_bytes, cycles={"issue": 1, "shared": bytes_ / rates.shared_bytes})
    scratch = re.search(r"scratch| ss \)|bti 25[35]\b", operands) # 253, 255: the thread's own memory
    return Instruction(line, "scratch" if scratch else "memory", bytes=lane_bytes, loads=is_load and not scratch,
                       cycles={"issue": 1, "memory": bytes_ / rates.memory_bytes})
