"""Instructions at their operands' edges, held to values computed here from AMD's published ISA documents."""

import itertools
import math
import random

import pytest
from formats import *

INTEGERS = [0, 1, 2, 31, 32, 33, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xDEADBEEF, 0x00FFFFFF, 0x01234567]
FLOATS = [0x00000000, 0x80000000, 0x3F800000, 0xBFC00000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00000001, 0x807FFFFF, 0x00800000,
          0x7F7FFFFF, 0x40490FDB, 0x3F7FFFFF, 0x4B800001, 0xCF000000, 0x4F800000]
HALVES = [0x0000, 0x8000, 0x3C00, 0xBE00, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x4248, 0x3BFF, 0x6401, 0xFBFF, 0x1400]


def columns(values, sources, lanes):
    """Rows of edges: every pair of the first two sources comes up, the third by turns."""
    pairs = list(itertools.product(values, values)) if sources > 1 else [(value, value) for value in values]
    rows = [(a, b, values[(k * 7 + 3) % len(values)]) for k, (a, b) in enumerate(pairs)]
    rows += rows[: -len(rows) % lanes]
    while len(rows) % lanes:
        rows.append(rows[0])
    return [rows[k : k + lanes] for k in range(0, len(rows), lanes)]


def outcomes(executor, code, rows, **problem):
    lists = {str(k): [row[k] for row in rows] for k in range(3)}
    return executor.run(code, v={**lists, "3": [0xA5A5A5A5] * executor.lanes}, want_v=[3], **problem)["v"]["3"]


def hold(executor, code, values, sources, expected, same=lambda a, b: a == b, **problem):
    for rows in columns(values, sources, executor.lanes):
        for row, got in zip(rows, outcomes(executor, code, rows, **problem)):
            want = expected(*row) & 0xFFFFFFFF
            assert same(got, want), f"{code} of {[hex(x) for x in row[:sources]]}: {got:#x}, expected {want:#x}"


BITS = {
    # name: (sources, value)
    "v_and_b32": (2, lambda a, b, c: a & b),
    "v_or_b32": (2, lambda a, b, c: a | b),
    "v_xor_b32": (2, lambda a, b, c: a ^ b),
    "v_not_b32": (1, lambda a, b, c: ~a),
    "v_bfrev_b32": (1, lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    "v_lshlrev_b32": (2, lambda a, b, c: b << (a & 31)),
    "v_lshrrev_b32": (2, lambda a, b, c: b >> (a & 31)),
    "v_ashrrev_i32": (2, lambda a, b, c: signed(b) >> (a & 31)),
    "v_min_u32": (2, lambda a, b, c: min(a, b)),
    "v_max_u32": (2, lambda a, b, c: max(a, b)),
    "v_min_i32": (2, lambda a, b, c: min(signed(a), signed(b))),
    "v_max_i32": (2, lambda a, b, c: max(signed(a), signed(b))),
    "v_mul_lo_u32": (2, lambda a, b, c: a * b),
    "v_mul_hi_u32": (2, lambda a, b, c: a * b >> 32),
    "v_mul_hi_i32": (2, lambda a, b, c: signed(a) * signed(b) >> 32),
    "v_mul_u32_u24": (2, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    "v_mul_i32_i24": (2, lambda a, b, c: signed(a, 24) * signed(b, 24)),
    "v_mad_u32_u24": (3, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "v_mad_i32_i24": (3, lambda a, b, c: signed(a, 24) * signed(b, 24) + c),
    "v_bfe_u32": (3, lambda a, b, c: a >> (b & 31) & ((1 << (c & 31)) - 1)),
    "v_bfe_i32": (3, lambda a, b, c: signed(a >> (b & 31), c & 31) if c & 31 else 0),
    "v_bfi_b32": (3, lambda a, b, c: a & b | ~a & c),
    "v_alignbit_b32": (3, lambda a, b, c: (a << 32 | b) >> (c & 31)),
    "v_alignbyte_b32": (3, lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    "v_sad_u32": (3, lambda a, b, c: abs(a - b) + c),
    "v_bfm_b32": (2, lambda a, b, c: ((1 << (a & 31)) - 1) << (b & 31)),
    "v_med3_i32": (3, lambda a, b, c: sorted(map(signed, (a, b, c)))[1]),
    "v_med3_u32": (3, lambda a, b, c: sorted((a, b, c))[1]),
    "v_min3_i32": (3, lambda a, b, c: min(map(signed, (a, b, c)))),
    "v_max3_u32": (3, lambda a, b, c: max(a, b, c)),
    "v_cvt_f32_u32": (1, lambda a, b, c: f32(a)),
    "v_cvt_f32_i32": (1, lambda a, b, c: f32(signed(a))),
    "v_cvt_f32_ubyte2": (1, lambda a, b, c: f32(a >> 16 & 255)),
}
SINCE_GCN5 = {
    "v_add3_u32": (3, lambda a, b, c: a + b + c),
    "v_lshl_add_u32": (3, lambda a, b, c: (a << (b & 31)) + c),
    "v_add_lshl_u32": (3, lambda a, b, c: (a + b) << (c & 31)),
    "v_xad_u32": (3, lambda a, b, c: (a ^ b) + c),
    "v_lshl_or_b32": (3, lambda a, b, c: a << (b & 31) | c),
    "v_and_or_b32": (3, lambda a, b, c: a & b | c),
    "v_or3_b32": (3, lambda a, b, c: a | b | c),
}


@pytest.mark.parametrize("name", [*BITS, *SINCE_GCN5])
def test_integers(executor, name):
    if name in SINCE_GCN5 and executor.generation < 9:
        return
    sources, expected = {**BITS, **SINCE_GCN5}[name]
    registers = ", ".join(["v3", "v0", "v1", "v2"][: 1 + sources])
    hold(executor, f"{name} {registers}", INTEGERS, sources, expected)


def permuted(a, b, selector):
    data = (a << 32 | b).to_bytes(8, "little")
    sign = lambda byte: 255 if byte & 0x80 else 0
    chosen = {8: sign(data[1]), 9: sign(data[3]), 10: sign(data[5]), 11: sign(data[7]), 12: 0}
    return int.from_bytes([data[s] if s < 8 else chosen.get(s, 255) for s in selector.to_bytes(4, "little")], "little")


def test_permuted_bytes(executor):
    rows = [(0x80FF0102, 0x7F8091A2, int.from_bytes([k % 16, (k + 5) % 16, (k * 3) % 16, 7 - k % 8], "little"))
            for k in range(executor.lanes)]
    assert outcomes(executor, "v_perm_b32 v3, v0, v1, v2", rows) == [permuted(*row) for row in rows]


# f32: RADV's mode flushes denormals; mode 0xf0 keeps them.
ARITHMETIC = {
    "v_add_f32": (2, lambda a, b, c: product_sum(a, 1.0, b)),
    "v_sub_f32": (2, lambda a, b, c: product_sum(b, -1.0, a)),
    "v_mul_f32": (2, lambda a, b, c: product_sum(a, b, math.copysign(0.0, -1.0 if (math.copysign(1, a) * math.copysign(1, b)) < 0 else 1.0))),
    "v_fma_f32": (3, product_sum),
    "v_floor_f32": (1, lambda a, b, c: float(math.floor(a)) if math.isfinite(a) and a else a),
    "v_trunc_f32": (1, lambda a, b, c: math.copysign(float(math.trunc(a)), a) if math.isfinite(a) else a),
    "v_rndne_f32": (1, lambda a, b, c: math.copysign(float(round(a)), a) if math.isfinite(a) else a),
}


@pytest.mark.parametrize("mode", [0xC0, 0xF0])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_f32(executor, name, mode):
    sources, function = ARITHMETIC[name]
    flush = flushed if mode == 0xC0 else lambda bits: bits
    registers = ", ".join(["v3", "v0", "v1", "v2"][: 1 + sources])

    def expected(a, b, c):
        return flush(f32(function(*(to_float(flush(x)) for x in (a, b, c)))))

    def same(got, want):  # whether a result is flushed before or after it is rounded up to the least normal is not documented
        is_at_edge = mode == 0xC0 and want & 0x7FFFFFFF == 0x00800000 and got & 0x7FFFFFFF == 0
        return is_nan32(got) and is_nan32(want) or got == want or is_at_edge

    hold(executor, f"{name} {registers}", FLOATS, sources, expected, same, mode=mode)


def test_f32_maximum_prefers_numbers_and_orders_zeros(executor):
    name = "v_max_num_f32" if executor.generation >= 12 else "v_max_f32"
    other = name.replace("max", "min")
    key = lambda bits: (to_float(bits), not bits >> 31)

    def expected(choose):
        def of(a, b, c):
            numbers = [flushed(x) for x in (a, b) if not is_nan32(x)]
            return choose(numbers, key=key) if numbers else 0x7FC00000
        return of

    same = lambda got, want: is_nan32(got) and is_nan32(want) or flushed(got) == want
    hold(executor, f"{name} v3, v0, v1", FLOATS, 2, expected(max), same)
    hold(executor, f"{other} v3, v0, v1", FLOATS, 2, expected(min), same)


def test_f32_modifiers(executor):
    def expected(a, b, c):
        value = product_sum(abs(to_float(flushed(a))), -to_float(flushed(b)), 0.0)
        doubled = value * 2
        if isinstance(doubled, float) and math.isnan(doubled):
            return 0
        return f32(Fraction(min(max(doubled, 0), 1))) if doubled == doubled else 0
    hold(executor, "v_mul_f32 v3, |v0|, -v1 clamp mul:2", [x for x in FLOATS if flushed(x) == x], 2, expected,
         lambda got, want: got == want or (got | want) & 0x7FFFFFFF == 0)


def test_conversions_to_integers_saturate(executor):
    def to(least, most):
        def of(a, b, c):
            value = to_float(flushed(a))
            if math.isnan(value):
                return 0
            return most if value > most else least if value < least else math.trunc(value)
        return of
    hold(executor, "v_cvt_u32_f32 v3, v0", FLOATS, 1, to(0, 0xFFFFFFFF))
    hold(executor, "v_cvt_i32_f32 v3, v0", FLOATS, 1, to(-0x80000000, 0x7FFFFFFF))


def test_conversions_of_halves(executor):
    hold(executor, "v_cvt_f32_f16 v3, v0" + (".l" if executor.generation >= 11 else ""), HALVES, 1,
         lambda a, b, c: f32(half_to_float(a)), lambda got, want: got == want or is_nan32(got) and is_nan32(want))
    name = "v_cvt_pk_rtz_f16_f32" if executor.generation >= 11 else "v_cvt_pkrtz_f16_f32"
    values = [x for x in FLOATS if not is_nan32(x) and flushed(x) == x] + [0x477FF000, 0x387FC001, 0x33000001]

    def expected(a, b, c):
        return f16(to_float(a), True) | f16(to_float(b), True) << 16
    hold(executor, f"{name} v3, v0, v1", values, 2, expected)


@pytest.mark.parametrize("mode, toward_zero", [("0x0", False), ("0xc", True)])
def test_the_mode_rounds_halves(executor, mode, toward_zero):
    if executor.generation < 10:
        return
    name = "v_cvt_f16_f32 v3" + (".l" if executor.generation >= 11 else "")
    values = [x for x in FLOATS if not is_nan32(x) and flushed(x) == x] + [0x477FF000, 0x387FC001, 0x3F801800, 0xBF801FFF]
    hold(executor, f"s_round_mode {mode}\n{name}, v0", values, 1, lambda a, b, c: f16(to_float(a), toward_zero),
         lambda got, want: got & 0xFFFF == want)


PACKED = {
    "v_pk_add_f16": (2, lambda a, b, c: product_sum(a, 1.0, b)),
    "v_pk_mul_f16": (2, lambda a, b, c: product_sum(a, b, math.copysign(0.0, -1.0 if (math.copysign(1, a) * math.copysign(1, b)) < 0 else 1.0))),
    "v_pk_fma_f16": (3, product_sum),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_halves(executor, name):
    if executor.generation < 9:
        return
    sources, function = PACKED[name]
    random_numbers = random.Random(1)
    values = [low | random_numbers.choice(HALVES) << 16 for low in HALVES]
    registers = ", ".join(["v3", "v0", "v1", "v2"][: 1 + sources])

    def halves(x):
        return half_to_float(x), half_to_float(x >> 16)

    def same(got, want):
        return all(g == w or is_nan16(g) and is_nan16(w) for g, w in ((got & 0xFFFF, want & 0xFFFF), (got >> 16, want >> 16)))

    def straight(a, b, c):
        low, high = (function(*(halves(x)[k] for x in (a, b, c))) for k in range(2))
        return f16(low) | f16(high) << 16

    def crossed(a, b, c):  # source 0's halves exchanged, source 1's low half twice, its high result negated
        low = function(halves(a)[1], halves(b)[0], halves(c)[0])
        high = function(halves(a)[0], -halves(b)[0], halves(c)[1])
        return f16(low) | f16(high) << 16

    hold(executor, f"{name} {registers}", values, sources, straight, same)
    selects = ("op_sel:[1,0] op_sel_hi:[0,0] neg_hi:[0,1]" if sources == 2 else "op_sel:[1,0,0] op_sel_hi:[0,0,1] neg_hi:[0,1,0]")
    hold(executor, f"{name} {registers} {selects}", values, sources, crossed, same)


def test_a_half_result_keeps_or_clears_the_other(executor):
    high = ".l" if executor.generation >= 11 else ""
    rows = [(0x3C00, 0x4000, 0)] * executor.lanes
    kept = 0xA5A50000 if executor.generation >= 10 else 0
    suffix = f"v3{high}, v0{high}, v1{high}"
    assert outcomes(executor, f"v_add_f16 {suffix}", rows)[0] == kept | 0x4200
    if executor.generation >= 9:
        fma = outcomes(executor, f"v_fma_f16 v3{high}, v0{high}, v1{high}, v1{high}", rows)[0]
        assert fma == 0xA5A50000 | 0x4400, hex(fma)


def test_carries_and_masks(executor):
    lanes = executor.lanes
    mask = "vcc" if lanes == 64 else "vcc_lo"
    name = "v_add_u32" if executor.generation == 8 else "v_add_co_u32"
    for rows in columns(INTEGERS, 2, lanes):
        answer = executor.run(f"{name} v3, {mask}, v0, v1", v={"0": [r[0] for r in rows], "1": [r[1] for r in rows]}, want_v=[3])
        assert answer["v"]["3"] == [(a + b) & 0xFFFFFFFF for a, b, _ in rows]
        assert answer["vcc"] == sum((a + b >> 32) << lane for lane, (a, b, _) in enumerate(rows))
        compared = executor.run(f"v_cmp_lt_i32 {mask}, v0, v1", v={"0": [r[0] for r in rows], "1": [r[1] for r in rows]}, exec=0x0F0F0F0F)
        assert compared["vcc"] == sum((signed(a) < signed(b)) << lane for lane, (a, b, _) in enumerate(rows)) & 0x0F0F0F0F


def test_lanes_that_are_off_are_not_written(executor):
    answer = executor.run("v_mov_b32 v3, 7", v={"3": [5] * executor.lanes}, exec=0x00FF00F1, want_v=[3])
    assert answer["v"]["3"] == [7 if 0x00FF00F1 >> lane & 1 else 5 for lane in range(executor.lanes)]


MOVES = {
    "quad_perm:[3,0,1,2]": lambda lane: lane // 4 * 4 + [3, 0, 1, 2][lane % 4],
    "row_shl:3": lambda lane: lane + 3 if lane % 16 + 3 < 16 else None,
    "row_shr:5": lambda lane: lane - 5 if lane % 16 >= 5 else None,
    "row_ror:4": lambda lane: lane // 16 * 16 + (lane % 16 - 4) % 16,
    "row_mirror": lambda lane: lane // 16 * 16 + 15 - lane % 16,
    "row_half_mirror": lambda lane: lane // 8 * 8 + 7 - lane % 8,
}
RDNA_MOVES = {
    "row_share:6": lambda lane: lane // 16 * 16 + 6,
    "row_xmask:9": lambda lane: lane ^ 9,
    "dpp8:[7,0,3,2,1,6,5,4]": lambda lane: lane // 8 * 8 + [7, 0, 3, 2, 1, 6, 5, 4][lane % 8],
}


@pytest.mark.parametrize("move", [*MOVES, *RDNA_MOVES])
def test_moves_between_lanes(executor, move):
    if move in RDNA_MOVES and executor.generation < 10:
        return
    source = {**MOVES, **RDNA_MOVES}[move]
    lanes, exec_mask = executor.lanes, 0xFFFFFFFFFFFFFFFF >> (64 - executor.lanes) & ~0x20
    masks = "" if move.startswith("dpp8") else " row_mask:0xf bank_mask:0xf"
    answer = executor.run(f"v_mov_b32_dpp v3, v0 {move}{masks}", v={"0": list(range(100, 100 + lanes)), "3": [9] * lanes},
                          exec=exec_mask, want_v=[3])

    def expected(lane):
        origin = source(lane)
        if not exec_mask >> lane & 1:
            return 9
        if move.startswith("dpp8") or (origin is not None and exec_mask >> origin & 1):
            return 0 if move.startswith("dpp8") and not exec_mask >> origin & 1 else 100 + origin
        return 9

    assert answer["v"]["3"] == [expected(lane) for lane in range(lanes)]


@pytest.mark.parametrize("destination", ["BYTE_0", "BYTE_2", "WORD_1", "DWORD"])
@pytest.mark.parametrize("unused", ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])
def test_bytes_and_words_of_registers(executor, destination, unused):
    if executor.generation > 10:
        return
    rows = [(0x8142F37E, 0x01020304, 0)] * executor.lanes
    got = outcomes(executor, f"v_or_b32_sdwa v3, v0, v1 dst_sel:{destination} dst_unused:{unused} src0_sel:BYTE_1 src1_sel:WORD_0", rows)[0]
    value = 0xF3 | 0x0304
    if destination == "DWORD":
        assert got == value
        return
    size, shift = {"BYTE_0": (8, 0), "BYTE_2": (8, 16), "WORD_1": (16, 16)}[destination]
    mask = ((1 << size) - 1) << shift
    placed = value << shift & mask
    want = {"UNUSED_PAD": placed, "UNUSED_PRESERVE": 0xA5A5A5A5 & ~mask | placed,
            "UNUSED_SEXT": signed(value, size) << shift & 0xFFFFFFFF}[unused]
    assert got == want, f"{got:#x}, expected {want:#x}"


def test_scalar_arithmetic_and_scc(executor):
    add, carry = ("s_add_co_u32", "s_add_co_ci_u32") if executor.generation >= 12 else ("s_add_u32", "s_addc_u32")
    for a, b in itertools.product(INTEGERS, INTEGERS):
        answer = executor.run(f"{add} s4, s0, s1\n{carry} s5, s0, s1", s={"0": a, "1": b}, want_s=[4, 5])
        low, high = a + b, a + b + (a + b >> 32)
        assert answer["s"] == {"4": low & 0xFFFFFFFF, "5": high & 0xFFFFFFFF} and answer["scc"] == high >> 32
    for a, b in itertools.product(INTEGERS, INTEGERS):
        difference = signed(a - b)
        greater = "s_max_i32 s5, s0, s1\ns_cselect_b32 s6, 1, 0"
        answer = executor.run(f"s_absdiff_i32 s4, s0, s1\n{greater}", s={"0": a, "1": b}, want_s=[4, 5, 6])
        most = max(signed(a), signed(b)) & 0xFFFFFFFF
        assert answer["s"] == {"4": abs(difference) & 0xFFFFFFFF, "5": most, "6": int(signed(a) >= signed(b))}
    for a, description in itertools.product(INTEGERS, (0, 0x00080004, 0x00200000, 0x001F001F, 0x0010001F)):
        answer = executor.run("s_bfe_u32 s4, s0, s1\ns_bfe_i32 s5, s0, s1", s={"0": a, "1": description}, want_s=[4, 5])
        offset, width = description & 31, description >> 16 & 127
        field = a >> offset & ((1 << width) - 1)
        seen = min(width, 32 - offset)
        assert answer["s"]["4"] == field & 0xFFFFFFFF
        assert answer["s"]["5"] == (signed(field, seen) & 0xFFFFFFFF if width else 0)


def test_shared_memory(executor):
    lanes, read, write = executor.lanes, "ds_read_b64", "ds_write_b32"
    if executor.generation >= 11:
        read, write = "ds_load_b64", "ds_store_b32"
    wait = "s_wait_dscnt 0" if executor.generation >= 12 else "s_waitcnt lgkmcnt(0)"
    answer = executor.run(f"{write} v0, v1 offset:16\n{wait}\n{read} v[3:4], v2\n{wait}",
                          v={"0": [4 * k for k in range(lanes)], "1": list(range(50, 50 + lanes)), "2": [8 * (k % 8) for k in range(lanes)]},
                          lds=[7] * (lanes + 8), want_v=[3, 4])
    memory = [7] * 4 + list(range(50, 50 + lanes)) + [7] * 4
    assert answer["lds"] == memory and answer["findings"] == 0
    assert answer["v"]["3"] == [memory[2 * (k % 8)] for k in range(lanes)]
    assert answer["v"]["4"] == [memory[2 * (k % 8) + 1] for k in range(lanes)]


def test_a_missing_wait_is_found(executor):
    read = "ds_load_b32" if executor.generation >= 11 else "ds_read_b32"
    wait = "s_wait_dscnt 0" if executor.generation >= 12 else "s_waitcnt lgkmcnt(0)"
    v = {"0": [0] * executor.lanes}
    with_wait = executor.run(f"{read} v1, v0\n{wait}\nv_mov_b32 v2, v1", v=v, lds=[3])
    without = executor.run(f"{read} v1, v0\nv_mov_b32 v2, v1", v=v, lds=[3])
    assert with_wait["findings"] == 0 and without["findings"] == 1


def test_a_missing_wait_of_a_dual_instruction_s_second_half_is_found(executor):
    if executor.generation < 11:
        return
    wait = "s_wait_dscnt 0" if executor.generation >= 12 else "s_waitcnt lgkmcnt(0)"
    dual = "v_dual_mov_b32 v2, v0 :: v_dual_add_f32 v3, v1, v0"
    v = {"0": [0] * executor.lanes}
    with_wait = executor.run(f"ds_load_b32 v1, v0\n{wait}\n{dual}", v=v, lds=[3])
    without = executor.run(f"ds_load_b32 v1, v0\n{dual}", v=v, lds=[3])
    assert with_wait["findings"] == 0 and without["findings"] == 1


def test_an_access_beyond_a_buffer_is_found(executor):
    load = "buffer_load_b32" if executor.generation >= 11 else "buffer_load_dword"
    zero = "null" if executor.generation >= 12 else "0"
    wait = "s_wait_loadcnt 0" if executor.generation >= 12 else "s_waitcnt vmcnt(0)"
    descriptor = {"0": 0x10000, "1": 0, "2": 12, "3": 0x30000000}
    answer = executor.run(f"{load} v1, v0, s[0:3], {zero} offen\n{wait}", v={"0": [4 * (k % 4) for k in range(executor.lanes)]},
                          s=descriptor, memory=[11, 12, 13, 14], want_v=[1])
    assert answer["v"]["1"] == [[11, 12, 13, 0][k % 4] for k in range(executor.lanes)]
    assert answer["findings"] == executor.lanes // 4


@pytest.mark.parametrize("lanes", [32, 64])
def test_matrix_product(executor, lanes):
    if executor.generation < 11:
        return
    numbers = random.Random(2)
    a, b = ([[numbers.randint(-8, 8) / 4 for _ in range(16)] for _ in range(16)] for _ in range(2))
    c = [[float(numbers.randint(-99, 99)) for _ in range(16)] for _ in range(16)]
    product = [[c[i][j] + sum(a[i][k] * b[k][j] for k in range(16)) for j in range(16)] for i in range(16)]
    vectors = {k: [0] * lanes for k in range(32)}
    rdna4 = executor.generation >= 12
    registers = (16 if not rdna4 else 256 // lanes) // 2
    rows = 256 // lanes

    def k_of(lane, element):  # RDNA 4: a row's 16 elements in pieces, by 16 lanes
        if not rdna4:
            return element
        return lane // 16 * 8 + element if lanes == 32 else lane // 32 * 4 + lane // 16 % 2 * 8 + element

    def row_of(lane, element):
        return k_of(lane, element) if rdna4 else element * (lanes // 16) + lane // 16

    for lane in range(lanes):
        for r in range(registers):
            low, high = (k_of(lane, 2 * r + h) for h in range(2))
            vectors[r][lane] = f16(a[lane % 16][low]) | f16(a[lane % 16][high]) << 16
            vectors[8 + r][lane] = f16(b[low][lane % 16]) | f16(b[high][lane % 16]) << 16
        for r in range(rows):
            vectors[16 + r][lane] = f32(c[row_of(lane, r)][lane % 16])
    code = (f"v_wmma_f32_16x16x16_f16 v[16:{15 + rows}], v[0:{registers - 1}], v[8:{7 + registers}], v[16:{15 + rows}]")
    answer = executor.run(code, lanes=lanes, v={str(k): v for k, v in vectors.items()}, want_v=list(range(16, 16 + rows)))
    assert answer["findings"] == 0
    for lane in range(lanes):
        for r in range(rows):
            assert to_float(answer["v"][str(16 + r)][lane]) == product[row_of(lane, r)][lane % 16]
