"""Turnip's text of Adreno 6xx and 7xx (ir3)."""
import re

from .program import Block, Instruction, Program

NAMES = ("IR3 Assembly",)
# A shader processor issues one instruction of a wave a slot; a repeated one takes a slot for every repetition, and so do the
# nops that the compiler puts where a result is not there yet.
VECTOR_KINDS = ("product", "vector", "transcendental", "convert", "move", "shared", "memory", "scratch", "scalar", "branch", "wait")

# No rates are published. From Mesa's src/freedreno/ir3 (ir3.h, ir3_delay.c): categories 1 to 3 have a slot each, category 4
# (transcendental) a unit of its own, at a quarter of the rate (Qualcomm's Adreno guide: "elementary functions, quarter rate").
SPECIAL = 4

FLAGS = re.compile(r"\(([a-z]+)(\d*)\)")
BRANCHES = ("br", "brao", "braa", "brac", "bany", "ball", "jump", "getone", "getlast", "shps", "predt", "predf", "prede", "end", "shpe")


def parse(text, gpu, subgroup_size):
    """A program, or a line that says why not."""
    lines = text.splitlines()
    blocks, falls = [Block("entry")], True
    for line in lines:
        label = re.match(r"(l\d+):", line)
        if label:
            if falls:
                blocks[-1].successors.append(label[1])
            blocks.append(Block(label[1]))
            falls = True
            continue
        flags, text = take_flags(line)
        if not re.match(r"[a-z][\w.]*( |$)", text) or line.startswith("Native"):
            continue
        if not falls: # code behind a jump that no label names
            blocks.append(Block(f"{blocks[-1].name}+"))
            falls = True
        blocks[-1].instructions += instructions(line.strip(), text, flags)
        name = text.split()[0]
        target = re.search(r"#(l\d+)", text)
        if target:
            blocks[-1].successors.append(target[1])
            if name == "jump":
                falls = False
            else: # what follows is a block of its own
                blocks.append(Block(f"{blocks[-1].name}+"))
                blocks[-2].successors.append(blocks[-1].name)
        if name == "end":
            falls = False
    return Program(blocks)


def take_flags(line):
    """(ss)(rpt1)mad.f32 r0.x, ... -> {"ss": 0, "rpt": 1}, the rest without marks of operands."""
    head, flags = line.strip(), {}
    while found := FLAGS.match(head):
        flags[found[1]] = int(found[2] or 0)
        head = head[found.end():].strip()
    return flags, head


def instructions(line, text, flags):
    times, name = 1 + flags.get("rpt", 0), text.split()[0]
    found = [Instruction(line, "wait", issued=flags["nop"], cycles={"issue": flags["nop"]})] if flags.get("nop") else []
    return found + [instruction(line, name, times, text)]


def instruction(line, name, times, text):
    def make(kind, **more):
        return Instruction(line, kind, issued=times, **({"cycles": {"issue": times}} | more))

    if name == "nop":
        return make("wait")
    if re.match(r"mad\.f(16|32)", name):
        return make("product", multiply_adds=times, product_cycles=times)
    if name.startswith(("fence", "bar")):
        return make("wait")
    if name in BRANCHES or name.startswith(("brcst", "getlast")):
        return make("branch")
    if re.match(r"(exp2|log2|rcp|rsq|sqrt|sin|cos|hrsq|hlog2|hexp2)$", name):
        return make("transcendental", cycles={"issue": times, "special": SPECIAL * times})
    if name.startswith("cov"):
        return make("convert")
    if name.startswith("mov"):
        return make("move")
    if name.startswith(("ldl", "stl")):
        return make("shared", bytes=width(name, text))
    if name.startswith(("ldp", "stp")):
        return make("scratch", bytes=width(name, text))
    if name.startswith(("ldg", "stg", "ldib", "stib", "isam", "ldc", "stc")):
        constant = name.startswith(("ldc", "stc"))
        return make("scalar" if constant else "memory", bytes=0 if constant else width(name, text),
                    loads=name.startswith(("ldg", "ldib", "isam")))
    return make("vector")


def width(name, text):
    if name.startswith("isam"): # four components, or those that the mask says
        size = 2 if ".f16" in text or ".u16" in text or "(u16)" in text else 4
        return 4 * size
    size = 2 if "16" in name else 4
    count = re.search(r"\.(\d)\.(imm|k)", name)
    if count:
        return size * int(count[1])
    last = re.search(r", (\d+)$", text) # ldl, ldg: the number of components
    return size * (int(last[1]) if last else 1)
