"""Scalars and comparisons, by tables: each instruction on every GPU whose assembler takes it."""

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
        half = ".l" if kind == "f16" and executor.generation >= 11 else ""
        for asked, name in itertools.product(range(10), ("v_cmp_class", "v_cmpx_class")):
            rows = columns(values, 1, executor.lanes)[0]
            to = "" if "cmpx" in name and executor.generation >= 10 else mask + ", "
            answer = executor.run(f"{name}_{kind} {to}v0{half}, v1{half}", v={"0": [r[0] for r in rows], "1": [1 << asked] * executor.lanes})
            want = sum((class_of(r[0], *format) == asked) << lane for lane, r in enumerate(rows))
            assert answer["exec" if "cmpx" in name else "vcc"] == want, f"{executor.gpu}: {name}_{kind}, class {asked}"
