"""Scalars, comparisons, memory and atomics, by tables: each instruction on every GPU whose assembler takes it."""

import itertools

import pytest
from formats import *
from test_instructions import FLOATS, HALVES, INTEGERS, columns

MASK = 0xFFFFFFFF
WIDE = [0, 1, 63, 64, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0x00000001FFFFFFFF, 0xDEADBEEF01234567, 0xFFFFFFFF00000000]


def pairs(values):
    """Each with itself, the next and one further: all pairs of scalars would be as many programs."""
    return [(a, values[(k + step) % len(values)]) for step in (0, 1, 7) for k, a in enumerate(values)]


def runs(executors, names, line, **problem):
    """(executor, answer) of every GPU that has one of the names, of which each generation has one at most."""
    found = []
    for executor in executors.values():
        for name in names:
            answer = executor.attempt(line.format(name=name), **problem)
            if answer is not None:
                found.append((executor, answer))
                break
    assert found, f"no GPU has {' or '.join(names)}"
    return found


def nonzero(result, *_):
    return int(result != 0)


# name today: (names before, function of 32-bit sources, scc of result and sources)
SCALARS = {
    "s_mov_b32": ([], lambda a, b: a, None),
    "s_not_b32": ([], lambda a, b: ~a, nonzero),
    "s_and_b32": ([], lambda a, b: a & b, nonzero),
    "s_or_b32": ([], lambda a, b: a | b, nonzero),
    "s_xor_b32": ([], lambda a, b: a ^ b, nonzero),
    "s_nand_b32": ([], lambda a, b: ~(a & b), nonzero),
    "s_nor_b32": ([], lambda a, b: ~(a | b), nonzero),
    "s_xnor_b32": ([], lambda a, b: ~(a ^ b), nonzero),
    "s_and_not1_b32": (["s_andn2_b32"], lambda a, b: a & ~b, nonzero),
    "s_or_not1_b32": (["s_orn2_b32"], lambda a, b: a | ~b, nonzero),
    "s_lshl_b32": ([], lambda a, b: a << (b & 31), nonzero),
    "s_lshr_b32": ([], lambda a, b: a >> (b & 31), nonzero),
    "s_ashr_i32": ([], lambda a, b: signed(a) >> (b & 31), nonzero),
    "s_mul_i32": ([], lambda a, b: a * b, None),
    "s_mul_hi_u32": ([], lambda a, b: a * b >> 32, None),
    "s_mul_hi_i32": ([], lambda a, b: signed(a) * signed(b) >> 32, None),
    "s_sub_u32": (["s_sub_co_u32"], lambda a, b: a - b, lambda r, a, b: int(a < b)),
    "s_add_i32": (["s_add_co_i32"], lambda a, b: a + b, lambda r, a, b: int(signed(r) != signed(a) + signed(b))),
    "s_sub_i32": (["s_sub_co_i32"], lambda a, b: a - b, lambda r, a, b: int(signed(r) != signed(a) - signed(b))),
    "s_min_u32": ([], min, lambda r, a, b: int(a < b)),
    "s_max_u32": ([], max, lambda r, a, b: int(a >= b)),
    "s_min_i32": ([], lambda a, b: min(signed(a), signed(b)), lambda r, a, b: int(signed(a) < signed(b))),
    "s_bfm_b32": ([], lambda a, b: ((1 << (a & 31)) - 1) << (b & 31), None),
    "s_brev_b32": ([], lambda a, b: int(f"{a:032b}"[::-1], 2), None),
    "s_ctz_i32_b32": (["s_ff1_i32_b32"], lambda a, b: (a & -a).bit_length() - 1, None),
    "s_clz_i32_u32": (["s_flbit_i32_b32"], lambda a, b: 32 - a.bit_length() if a else -1, None),
    "s_bcnt1_i32_b32": ([], lambda a, b: a.bit_count(), nonzero),
    "s_abs_i32": ([], lambda a, b: abs(signed(a)), nonzero),
    "s_sext_i32_i8": ([], lambda a, b: signed(a, 8), None),
    "s_sext_i32_i16": ([], lambda a, b: signed(a, 16), None),
    "s_pack_ll_b32_b16": ([], lambda a, b: a & 0xFFFF | b << 16, None),
    "s_pack_lh_b32_b16": ([], lambda a, b: a & 0xFFFF | b & 0xFFFF0000, None),
    "s_pack_hh_b32_b16": ([], lambda a, b: a >> 16 | b & 0xFFFF0000, None),
    "s_pack_hl_b32_b16": ([], lambda a, b: a >> 16 | b << 16, None),
    **{f"s_lshl{n}_add_u32": ([], lambda a, b, n=n: (a << n) + b, lambda r, a, b, n=n: int((a << n) + b >> 32 != 0)) for n in range(1, 5)},
    "s_cvt_f32_u32": ([], lambda a, b: f32(a), None),
    "s_cvt_f32_i32": ([], lambda a, b: f32(signed(a)), None),
}
ONE_SOURCE = ("s_mov", "s_not", "s_brev", "s_ctz", "s_clz", "s_bcnt1", "s_abs_", "s_sext", "s_cvt")


@pytest.mark.parametrize("name", SCALARS)
def test_scalars(executors, name):
    before, function, scc = SCALARS[name]
    sources = "s0" if name.startswith(ONE_SOURCE) else "s0, s1"
    for a, b in pairs(INTEGERS) if "s1" in sources else [(a, 7) for a in INTEGERS]:
        want = function(a, b) & MASK
        for executor, answer in runs(executors, [name, *before], f"{{name}} s4, {sources}", s={"0": a, "1": b}, scc=1, want_s=[4]):
            assert answer["s"]["4"] == want, f"{executor.gpu}: {name} of {a:#x}, {b:#x}"
            assert answer["scc"] == (1 if scc is None else scc(want, a, b)), f"{executor.gpu}: scc of {name} of {a:#x}, {b:#x}"


WIDE_MASK = (1 << 64) - 1
WIDE_SCALARS = {
    "s_mov_b64": ([], lambda a, b: a, None),
    "s_not_b64": ([], lambda a, b: ~a, nonzero),
    "s_wqm_b64": ([], lambda a, b: sum(15 << q for q in range(0, 64, 4) if a >> q & 15), nonzero),
    "s_and_b64": ([], lambda a, b: a & b, nonzero),
    "s_or_b64": ([], lambda a, b: a | b, nonzero),
    "s_xor_b64": ([], lambda a, b: a ^ b, nonzero),
    "s_nand_b64": ([], lambda a, b: ~(a & b), nonzero),
    "s_nor_b64": ([], lambda a, b: ~(a | b), nonzero),
    "s_xnor_b64": ([], lambda a, b: ~(a ^ b), nonzero),
    "s_and_not1_b64": (["s_andn2_b64"], lambda a, b: a & ~b, nonzero),
    "s_or_not1_b64": (["s_orn2_b64"], lambda a, b: a | ~b, nonzero),
    "s_mul_u64": ([], lambda a, b: a * b, None),
    "s_add_nc_u64": (["s_add_u64"], lambda a, b: a + b, None),
    "s_sub_nc_u64": (["s_sub_u64"], lambda a, b: a - b, None),
    "s_lshl_b64": ([], lambda a, b: a << (b & 63), nonzero),
    "s_lshr_b64": ([], lambda a, b: a >> (b & 63), nonzero),
    "s_ashr_i64": ([], lambda a, b: signed(a, 64) >> (b & 63), nonzero),
    "s_bfe_u64": ([], lambda a, b: a >> (b & 63) & ((1 << (b >> 16 & 127)) - 1), nonzero),
}
WORDS = {
    "s_ctz_i32_b64": (["s_ff1_i32_b64"], lambda a: (a & -a).bit_length() - 1, None),
    "s_clz_i32_u64": (["s_flbit_i32_b64"], lambda a: 64 - a.bit_length() if a else -1, None),
    "s_bcnt1_i32_b64": ([], lambda a: a.bit_count(), nonzero),
    "s_bcnt0_i32_b64": ([], lambda a: 64 - a.bit_count(), nonzero),
}


def halves(values):
    return {str(2 * k + h): value >> 32 * h & MASK for k, value in enumerate(values) for h in (0, 1)}


@pytest.mark.parametrize("name", WIDE_SCALARS)
def test_wide_scalars(executors, name):
    before, function, scc = WIDE_SCALARS[name]
    second = "s2" if name.startswith(("s_lsh", "s_ash", "s_bfe")) else "s[2:3]"
    sources = "s[0:1]" if name.startswith(("s_mov", "s_not", "s_wqm")) else f"s[0:1], {second}"
    shifts = [0, 1, 31, 32, 63, 0x00200010, 0x0040001F]
    for a, b in pairs(WIDE) if second != "s2" else [(a, shifts[(k + step) % 7]) for step in (0, 3, 5) for k, a in enumerate(WIDE)]:
        want = function(a, b) & WIDE_MASK
        for executor, answer in runs(executors, [name, *before], f"{{name}} s[4:5], {sources}", s=halves([a, b]), scc=1, want_s=[4, 5]):
            assert answer["s"]["4"] | answer["s"]["5"] << 32 == want, f"{executor.gpu}: {name} of {a:#x}, {b:#x}"
            assert answer["scc"] == (1 if scc is None else scc(want)), f"{executor.gpu}: scc of {name}"


@pytest.mark.parametrize("name", WORDS)
def test_words_of_wide_scalars(executors, name):
    before, function, scc = WORDS[name]
    for a in WIDE:
        want = function(a) & MASK
        for executor, answer in runs(executors, [name, *before], "{name} s4, s[0:1]", s=halves([a]), scc=1, want_s=[4]):
            assert (answer["s"]["4"], answer["scc"]) == (want, 1 if scc is None else scc(want)), f"{executor.gpu}: {name} of {a:#x}"


CONDITIONS = {
    "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b, "ge": lambda a, b: a >= b,
}
SCALAR_CONDITIONS = {**{name: function for name, function in CONDITIONS.items() if name != "ne"}, "lg": CONDITIONS["ne"]}
FLOAT_CONDITIONS = {
    "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "lg": lambda a, b: a < b or a > b, "ge": lambda a, b: a >= b,
    "o": lambda a, b: a == a and b == b, "u": lambda a, b: a != a or b != b,
    "nge": lambda a, b: not a >= b, "nlg": lambda a, b: not (a < b or a > b), "ngt": lambda a, b: not a > b,
    "nle": lambda a, b: not a <= b, "neq": lambda a, b: not a == b, "nlt": lambda a, b: not a < b,
}


@pytest.mark.parametrize("kind", ["u32", "i32", "u64"])
@pytest.mark.parametrize("condition", SCALAR_CONDITIONS)
def test_scalar_comparisons(executors, condition, kind):
    if kind == "u64" and condition not in ("eq", "lg"):
        return  # no GPU has them
    as_number = signed if kind == "i32" else lambda x: x
    sources = "s[0:1], s[2:3]" if kind == "u64" else "s0, s2"
    for a, b in pairs(WIDE if kind == "u64" else INTEGERS):
        for executor, answer in runs(executors, [f"s_cmp_{condition}_{kind}"], f"{{name}} {sources}", s=halves([a, b])):
            assert answer["scc"] == SCALAR_CONDITIONS[condition](as_number(a), as_number(b)), f"{executor.gpu}: {a:#x}, {b:#x}"


@pytest.mark.parametrize("kind", ["u32", "i32"])
@pytest.mark.parametrize("condition", SCALAR_CONDITIONS)
def test_scalar_comparisons_with_constants(executors, condition, kind):
    as_number = signed if kind == "i32" else lambda x: x
    for a, b in [(a, b) for k, a in enumerate(INTEGERS) for b in ((0, 1, 0x7FFF, 0x8000, 0xFFFF)[k % 5], a & 0xFFFF)]:
        constant = signed(b, 16) if kind == "i32" else b
        for executor, answer in runs(executors, [f"s_cmpk_{condition}_{kind}"], f"{{name}} s0, {constant:#x}", s={"0": a}):
            assert answer["scc"] == SCALAR_CONDITIONS[condition](as_number(a), constant), f"{executor.gpu}: {a:#x}, {constant}"


@pytest.mark.parametrize("constant", (0, 1, 0xD0, 0x7FFF, 0x8000, 0xFFFF))
def test_scalar_moves_of_constants(executors, constant):
    for a in (0, 1):
        code = f"s_cmp_eq_u32 s0, 1\n{{name}} s1, {constant:#x}"
        for executor, answer in runs(executors, ["s_cmovk_i32"], code, s={"0": a, "1": 0x12345678}, want_s=[1]):
            assert answer["s"]["1"] == (signed(constant, 16) & 0xFFFFFFFF if a == 1 else 0x12345678), executor.gpu


@pytest.mark.parametrize("condition", FLOAT_CONDITIONS)
def test_scalar_comparisons_of_floats(executors, condition):
    for a, b in pairs(FLOATS):
        for executor, answer in runs(executors, [f"s_cmp_{condition}_f32"], "{name} s0, s1", s={"0": a, "1": b}):
            assert answer["scc"] == FLOAT_CONDITIONS[condition](to_float(flushed(a)), to_float(flushed(b))), f"{a:#x}, {b:#x}"


KINDS = {
    "u32": (INTEGERS, lambda x: x, CONDITIONS), "i32": (INTEGERS, signed, CONDITIONS),
    "u16": (INTEGERS, lambda x: x & 0xFFFF, CONDITIONS), "i16": (INTEGERS, lambda x: signed(x, 16), CONDITIONS),
    "f32": (FLOATS, lambda x: to_float(flushed(x)), FLOAT_CONDITIONS), "f16": (HALVES, half_to_float, FLOAT_CONDITIONS),
    "u64": (WIDE, lambda x: x, CONDITIONS), "i64": (WIDE, lambda x: signed(x, 64), CONDITIONS),
}


@pytest.mark.parametrize("kind, condition", [(kind, condition) for kind in KINDS for condition in KINDS[kind][2]])
def test_comparisons_of_lanes(executors, kind, condition):
    values, as_number, conditions = KINDS[kind]
    tried = set()
    for executor in executors.values():
        lanes, mask = executor.lanes, "vcc" if executor.lanes == 64 else "vcc_lo"
        half = ".l" if kind.endswith("16") and executor.generation >= 11 else ""
        sources = "v[0:1], v[2:3]" if kind.endswith("64") else f"v0{half}, v2{half}"
        exec_mask = (1 << lanes) - 1 & ~0x6
        for rows in columns(values, 2, lanes):
            v = {str(2 * k + h): [row[k] >> 32 * h & MASK for row in rows] for k in range(2) for h in (0, 1)}
            want = sum(bool(conditions[condition](as_number(row[0]), as_number(row[1]))) << lane for lane, row in enumerate(rows)) & exec_mask
            for name, code in ((f"v_cmp_{condition}_{kind}", f"v_cmp_{condition}_{kind} {mask}, {sources}"),
                               (f"v_cmpx_{condition}_{kind}", f"v_cmpx_{condition}_{kind} {'' if executor.generation >= 10 else mask + ', '}{sources}")):
                answer = executor.attempt(code, v=v, exec=exec_mask)
                if answer is None:
                    continue
                tried.add(name)
                if "cmpx" not in name or executor.generation < 10:
                    assert answer["vcc"] == want, f"{executor.gpu}: {code}"
                assert answer["exec"] == (want if "cmpx" in name else exec_mask), f"{executor.gpu}: {code}"
    assert len(tried) == 2


def class_of(bits, exponent_bits, fraction_bits):
    fraction, exponent = bits & ((1 << fraction_bits) - 1), bits >> fraction_bits & ((1 << exponent_bits) - 1)
    negative = bits >> (exponent_bits + fraction_bits) & 1
    if exponent == (1 << exponent_bits) - 1 and fraction:
        return 1 if fraction >> (fraction_bits - 1) else 0
    place = 0 if exponent == (1 << exponent_bits) - 1 else 1 if exponent else 2 if fraction else 3
    return 2 + place if negative else 9 - place


@pytest.mark.parametrize("kind, values, format", [("f32", FLOATS + [0x7F800001], (8, 23)), ("f16", HALVES + [0x7C01], (5, 10))])
def test_classes_of_floats(executors, kind, values, format):
    for executor in executors.values():
        mask = "vcc" if executor.lanes == 64 else "vcc_lo"
        halves = (".l", ".h") if kind == "f16" and executor.generation >= 11 else ("",)
        for asked, name, half in itertools.product(range(10), ("v_cmp_class", "v_cmpx_class"), halves):
            shift = 16 if half == ".h" else 0
            rows = columns(values, 1, executor.lanes)[0]
            to = "" if "cmpx" in name and executor.generation >= 10 else mask + ", "
            answer = executor.run(f"{name}_{kind} {to}v0{half}, v1{half}", v={"0": [r[0] << shift for r in rows], "1": [1 << asked << shift] * executor.lanes})
            want = sum((class_of(r[0], *format) == asked) << lane for lane, r in enumerate(rows))
            assert answer["exec" if "cmpx" in name else "vcc"] == want, f"{executor.gpu}: {name}_{kind}, class {asked}"


@pytest.mark.parametrize("name", ["v_cmp", "v_cmpx"])
def test_comparisons_into_scalar_registers(executors, name):
    """In 64 bits on GCN, which LLVM does not decode for v_cmpx; compilers test a bit by the classes of a constant."""
    for executor in (e for e in executors.values() if e.generation < 10):
        numbers = list(range(executor.lanes))
        for comparison, want in (("class_f32_e64 s[80:81], -1, v0", sum((k >> 1 & 1) << k for k in numbers)),
                                 ("class_f16_e64 s[80:81], 0, v0", sum((k >> 6 & 1) << k for k in numbers)),
                                 ("gt_u32_e64 s[80:81], 9, v0", sum((9 > k) << k for k in numbers))):
            answer = executor.run(f"{name}_{comparison}\ns_mov_b64 vcc, s[80:81]", v={"0": numbers})
            assert answer["vcc"] == want, f"{executor.gpu}: {comparison}"
            assert answer["exec"] == (want if name == "v_cmpx" else (1 << executor.lanes) - 1), f"{executor.gpu}: {comparison}"


EXEC = {
    "and": (["and"], lambda a, e: a & e), "or": (["or"], lambda a, e: a | e), "xor": (["xor"], lambda a, e: a ^ e),
    "nand": (["nand"], lambda a, e: ~(a & e)), "nor": (["nor"], lambda a, e: ~(a | e)),
    "and_not1": (["and_not1", "andn2"], lambda a, e: a & ~e), "and_not0": (["and_not0", "andn1"], lambda a, e: ~a & e),
    "or_not1": (["or_not1", "orn2"], lambda a, e: a | ~e),
}


@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("kind", ["saveexec", "wrexec"])
@pytest.mark.parametrize("name", EXEC)
def test_exec_and_a_scalar(executors, name, kind, size):
    if kind == "wrexec" and name not in ("and_not1", "and_not0"):
        return  # no GPU has them
    names, function = EXEC[name]
    mask = (1 << size) - 1
    for a, exec_mask in itertools.product((0, 0xF0F0F0F0FF00FF00 & mask, mask), (1, 0x123456789ABCDEF & mask)):
        code = "{name} s4, s0" if size == 32 else "{name} s[4:5], s[0:1]"
        for executor, answer in runs(executors, [f"s_{n}_{kind}_b{size}" for n in names], code, lanes=size, exec=exec_mask, s=halves([a]), want_s=[4, 5]):
            new = function(a, exec_mask) & mask
            result = answer["s"]["4"] | (answer["s"]["5"] << 32 if size == 64 else 0)
            assert (answer["exec"], result, answer["scc"]) == (new, exec_mask if kind == "saveexec" else new, int(new != 0)), executor.gpu


SPACES = {"buffer": 0, "global": 0x10000, "flat": 0x10000}  # what is added to a byte's number
LOADS = {  # today's name: (before, bytes, value of the bytes, what a register of 0xA5A5A5A5 then holds)
    "load_b32": ("load_dword", 4, 1), "load_b64": ("load_dwordx2", 8, 2), "load_b96": ("load_dwordx3", 12, 3), "load_b128": ("load_dwordx4", 16, 4),
    "load_u8": ("load_ubyte", 1, lambda b: b), "load_i8": ("load_sbyte", 1, lambda b: signed(b, 8)),
    "load_u16": ("load_ushort", 2, lambda b: b), "load_i16": ("load_sshort", 2, lambda b: signed(b, 16)),
    "load_d16_b16": ("load_short_d16", 2, lambda b: 0xA5A50000 | b), "load_d16_hi_b16": ("load_short_d16_hi", 2, lambda b: b << 16 | 0xA5A5),
    "load_d16_u8": ("load_ubyte_d16", 1, lambda b: 0xA5A50000 | b), "load_d16_hi_u8": ("load_ubyte_d16_hi", 1, lambda b: b << 16 | 0xA5A5),
    "load_d16_i8": ("load_sbyte_d16", 1, lambda b: 0xA5A50000 | signed(b, 8) & 0xFFFF),
    "load_d16_hi_i8": ("load_sbyte_d16_hi", 1, lambda b: (signed(b, 8) & 0xFFFF) << 16 | 0xA5A5),
}
STORES = {
    "store_b32": ("store_dword", 4, 0), "store_b64": ("store_dwordx2", 8, 0), "store_b96": ("store_dwordx3", 12, 0), "store_b128": ("store_dwordx4", 16, 0),
    "store_b8": ("store_byte", 1, 0), "store_b16": ("store_short", 2, 0), "store_d16_hi_b8": ("store_byte_d16_hi", 1, 16),
    "store_d16_hi_b16": ("store_short_d16_hi", 2, 16),
}
MEMORY = [0x80017FFE + 0x01234567 * k & MASK for k in range(64)]
BYTES = b"".join(word.to_bytes(4, "little") for word in MEMORY)


def memory_line(space, executor, data, stores):
    zero = "null" if executor.generation >= 12 else "0"
    if space == "buffer":
        return f"{data}, v0, s[0:3], {zero} offen"
    off = ", off" if space == "global" else ""
    return f"v[0:1], {data}{off}" if stores else f"{data}, v[0:1]{off}"


def wait(executor):
    return "s_wait_loadcnt 0\ns_wait_storecnt 0" if executor.generation >= 12 else "s_waitcnt vmcnt(0) lgkmcnt(0)"


def memory_problem(space, executor, addresses):
    base = SPACES[space]
    return {"v": {"0": [base + a for a in addresses], "1": [0] * executor.lanes},
            "s": {"0": 0x10000, "1": 0, "2": 256, "3": 0x30000000}, "memory": MEMORY}


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("space", SPACES)
def test_loads_from_memory(executors, space, name):
    before, size, value = LOADS[name]
    words = value if isinstance(value, int) else 1
    tried = False
    for executor in executors.values():
        addresses = [k * size % 240 & -min(size, 4) for k in range(executor.lanes)]
        problem = memory_problem(space, executor, addresses)
        problem["v"]["4"] = [0xA5A5A5A5] * executor.lanes
        data = "v4" if words == 1 else f"v[4:{3 + words}]"
        for spelling in (name, before):
            answer = executor.attempt(f"{space}_{spelling} {memory_line(space, executor, data, False)}\n{wait(executor)}", want_v=[4, 5, 6, 7], **problem)
            if answer is None:
                continue
            tried = True
            for lane, address in enumerate(addresses):
                if words == 1 and not isinstance(value, int):
                    want = [value(int.from_bytes(BYTES[address : address + size], "little")) & MASK]
                else:
                    want = MEMORY[address // 4 : address // 4 + words]
                assert [answer["v"][str(4 + w)][lane] for w in range(words)] == want, f"{executor.gpu}: {space}_{spelling}, byte {address}"
            break
    assert tried


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("space", SPACES)
def test_stores_to_memory(executors, space, name):
    before, size, shift = STORES[name]
    words = max(size // 4, 1)
    tried = False
    for executor in executors.values():
        count = min(executor.lanes, 240 // size)
        addresses = [k * size for k in range(executor.lanes)]
        problem = memory_problem(space, executor, [min(a, 240) for a in addresses])
        for w in range(words):
            problem["v"][str(4 + w)] = [0x89ABCDEF ^ 0x01010101 * lane ^ w << 28 for lane in range(executor.lanes)]
        data = "v4" if words == 1 else f"v[4:{3 + words}]"
        for spelling in (name, before):
            answer = executor.attempt(f"{space}_{spelling} {memory_line(space, executor, data, True)}\n{wait(executor)}", exec=(1 << count) - 1, **problem)
            if answer is None:
                continue
            tried = True
            want = bytearray(BYTES)
            for lane in range(count):
                value = sum(problem["v"][str(4 + w)][lane] << 32 * w for w in range(words)) >> shift
                want[lane * size : (lane + 1) * size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
            assert b"".join(word.to_bytes(4, "little") for word in answer["memory"]) == bytes(want), f"{executor.gpu}: {space}_{spelling}"
            break
    assert tried


ATOMICS = {  # today's name: (before, result)
    "add_u32": ("add", lambda o, x: o + x), "sub_u32": ("sub", lambda o, x: o - x), "and_b32": ("and", lambda o, x: o & x),
    "or_b32": ("or", lambda o, x: o | x), "xor_b32": ("xor", lambda o, x: o ^ x), "swap_b32": ("swap", lambda o, x: x),
    "min_i32": ("smin", lambda o, x: min(signed(o), signed(x))), "max_i32": ("smax", lambda o, x: max(signed(o), signed(x))),
    "min_u32": ("umin", min), "max_u32": ("umax", max),
    "add_f32": ("add_f32", lambda o, x: flushed(f32(product_sum(to_float(flushed(o)), 1.0, to_float(flushed(x)))))),
}


@pytest.mark.parametrize("name", ATOMICS)
@pytest.mark.parametrize("space", SPACES)
def test_atomics_of_memory(executors, space, name):
    before, function = ATOMICS[name]
    values = FLOATS if name == "add_f32" else INTEGERS
    tried = False
    for executor in executors.values():
        problem = memory_problem(space, executor, [4 * (k % 16) for k in range(executor.lanes)])
        problem["memory"] = values[:16] + MEMORY[16:]
        problem["v"]["4"] = [values[(3 * k + 1) % 16] for k in range(executor.lanes)]
        for spelling, modifier in itertools.product((name, before), ("", " glc", " th:TH_ATOMIC_RETURN")):
            line = memory_line(space, executor, "v4", True)
            if modifier:
                line = f"v5, {line}" if space != "buffer" else line
            answer = executor.attempt(f"{space}_atomic_{spelling} {line}{modifier}\n{wait(executor)}", exec=0xFFFF, want_v=[4, 5], **problem)
            if answer is None:
                continue
            tried = True
            for k in range(16):
                got, want = answer["memory"][k], function(values[k], values[(3 * k + 1) % 16]) & MASK
                assert got == want or is_nan32(got) and is_nan32(want), f"{executor.gpu}: {space}_atomic_{spelling} of {values[k]:#x}"
                if modifier:
                    assert answer["v"]["4" if space == "buffer" else "5"][k] == values[k]
    if name == "add_f32" and not tried:
        return
    assert tried


@pytest.mark.parametrize("space", SPACES)
def test_compare_and_swap(executors, space):
    for executor in executors.values():
        problem = memory_problem(space, executor, [4 * (k % 16) for k in range(executor.lanes)])
        problem["v"]["4"] = list(range(executor.lanes))
        problem["v"]["5"] = [MEMORY[k % 64] if k % 2 else 1 for k in range(executor.lanes)]
        answers = [executor.attempt(f"{space}_atomic_{name} {memory_line(space, executor, 'v[4:5]', True)}\n{wait(executor)}", exec=0xFFFF, **problem)
                   for name in ("cmpswap_b32", "cmpswap")]
        answer = next((a for a in answers if a is not None), None)
        if answer is None:
            assert (executor.generation, space) == (8, "global"), executor.gpu  # GCN 4 has none
            continue
        assert answer["memory"][:16] == [k if k % 2 else MEMORY[k] for k in range(16)]


SHARED_LOADS = {
    "load_b32": "read_b32", "load_b64": "read_b64", "load_b96": "read_b96", "load_b128": "read_b128",
    "load_u8": "read_u8", "load_i8": "read_i8", "load_u16": "read_u16", "load_i16": "read_i16",
    "load_u8_d16": "read_u8_d16", "load_i8_d16": "read_i8_d16", "load_u16_d16": "read_u16_d16",
    "load_u8_d16_hi": "read_u8_d16_hi", "load_i8_d16_hi": "read_i8_d16_hi", "load_u16_d16_hi": "read_u16_d16_hi",
}


def shared_wait(executor):
    return "s_wait_dscnt 0" if executor.generation >= 12 else "s_waitcnt lgkmcnt(0)"


@pytest.mark.parametrize("name", SHARED_LOADS)
def test_loads_from_shared_memory(executors, name):
    kind = name.split("_")[1]
    size = int(kind[1:]) // 8
    words = max(size // 4, 1)
    tried = False
    for executor in executors.values():
        addresses = [k * size % 224 & -min(size, 4) for k in range(executor.lanes)]
        data = "v4" if words == 1 else f"v[4:{3 + words}]"
        for spelling in (name, SHARED_LOADS[name]):
            answer = executor.attempt(f"ds_{spelling} {data}, v0 offset:16\n{shared_wait(executor)}", lds=MEMORY, want_v=[4, 5, 6, 7],
                                      v={"0": addresses, "4": [0xA5A5A5A5] * executor.lanes}, s={"125": 0xFFFFFFFF})
            if answer is None:
                continue
            tried = True
            for lane, address in enumerate(addresses):
                bits = int.from_bytes(BYTES[address + 16 : address + 16 + size], "little")
                number = signed(bits, 8 * size) if kind[0] == "i" else bits
                if name.endswith("_hi"):
                    number = (number & 0xFFFF) << 16 | 0xA5A5
                elif name.endswith("_d16"):
                    number = 0xA5A50000 | number & 0xFFFF
                got = sum(answer["v"][str(4 + w)][lane] << 32 * w for w in range(words))
                assert got == number & (1 << 32 * words) - 1, f"{executor.gpu}: ds_{spelling}, byte {address}"
            break
    assert tried


SHARED_STORES = {"store_b32": ("write_b32", 0), "store_b64": ("write_b64", 0), "store_b96": ("write_b96", 0), "store_b128": ("write_b128", 0),
                 "store_b8": ("write_b8", 0), "store_b16": ("write_b16", 0), "store_b8_d16_hi": ("write_b8_d16_hi", 16),
                 "store_b16_d16_hi": ("write_b16_d16_hi", 16)}


@pytest.mark.parametrize("name", SHARED_STORES)
def test_stores_to_shared_memory(executors, name):
    before, shift = SHARED_STORES[name]
    size = int(name.split("_")[1][1:]) // 8
    words = max(size // 4, 1)
    tried = False
    for executor in executors.values():
        count = min(executor.lanes, 240 // size)
        v = {"0": [min(k * size, 240) for k in range(executor.lanes)]}
        for w in range(words):
            v[str(4 + w)] = [0x89ABCDEF ^ 0x01010101 * lane ^ w << 28 for lane in range(executor.lanes)]
        data = "v4" if words == 1 else f"v[4:{3 + words}]"
        for spelling in (name, before):
            answer = executor.attempt(f"ds_{spelling} v0, {data}\n{shared_wait(executor)}", lds=MEMORY, v=v, exec=(1 << count) - 1)
            if answer is None:
                continue
            tried = True
            want = bytearray(BYTES)
            for lane in range(count):
                value = sum(v[str(4 + w)][lane] << 32 * w for w in range(words)) >> shift
                want[lane * size : (lane + 1) * size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
            assert b"".join(word.to_bytes(4, "little") for word in answer["lds"]) == bytes(want), f"{executor.gpu}: ds_{spelling}"
            break
    assert tried


@pytest.mark.parametrize("stride", [1, 64])
@pytest.mark.parametrize("words", [1, 2])
def test_two_addresses_of_shared_memory(executors, words, stride):
    size = 4 * words
    memory = [k * 0x01010101 & MASK for k in range(4 * 64 * words)]
    suffix = "_stride64" if stride == 64 else ""
    for executor in executors.values():
        new, last = executor.generation >= 11, 3 + 2 * words
        load = f"ds_load_2addr{suffix}_b{8 * size}" if new else f"ds_read2{'st64' if stride == 64 else ''}_b{8 * size}"
        store = f"ds_store_2addr{suffix}_b{8 * size}" if new else f"ds_write2{'st64' if stride == 64 else ''}_b{8 * size}"
        base = [size * (k % 8) for k in range(executor.lanes)]
        answer = executor.run(f"{load} v[4:{last}], v0 offset0:1 offset1:2\n{shared_wait(executor)}", lds=memory, v={"0": base}, want_v=list(range(4, last + 1)))
        for lane in range(8):
            first = base[lane] // 4 + stride * words
            second = base[lane] // 4 + 2 * stride * words
            assert [answer["v"][str(k)][lane] for k in range(4, last + 1)] == memory[first : first + words] + memory[second : second + words]
        a, b = ("v4", "v6") if words == 1 else ("v[4:5]", "v[6:7]")
        v = {"0": base, **{str(k): [k << 16 | lane for lane in range(executor.lanes)] for k in range(4, 8)}}
        spread = {**v, "0": [2 * size * (k % 8) for k in range(executor.lanes)]}
        answer = executor.run(f"{store} v0, {a}, {b} offset0:0 offset1:1\n{shared_wait(executor)}", lds=memory, v=spread, exec=0x1 if stride == 64 else 0xFF)
        for lane in range(1 if stride == 64 else 8):
            for half, register in ((0, 4), (1, 6)):
                at = spread["0"][lane] // 4 + half * stride * words
                assert answer["lds"][at : at + words] == [spread[str(register + w)][lane] for w in range(words)], f"{executor.gpu}: {store}"


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("name", [n for n in ATOMICS if n not in ("swap_b32", "add_f32")])
def test_atomics_of_shared_memory(executors, name, returns):
    operation, kind = name.split("_")
    code = f"ds_{operation}_rtn_{kind} v5, v0, v4" if returns else f"ds_{name} v0, v4"
    for executor in executors.values():
        answer = executor.run(f"{code}\n{shared_wait(executor)}", lds=INTEGERS, exec=0xFFFF, want_v=[5],
                              v={"0": [4 * (k % 16) for k in range(executor.lanes)], "4": [INTEGERS[(3 * k + 1) % 16] for k in range(executor.lanes)]})
        assert answer["lds"] == [ATOMICS[name][1](INTEGERS[k], INTEGERS[(3 * k + 1) % 16]) & MASK for k in range(16)], executor.gpu
        if returns:
            assert answer["v"]["5"][:16] == INTEGERS
