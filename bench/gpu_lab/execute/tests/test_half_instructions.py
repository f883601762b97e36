"""Instructions of halves and of what else llama.cpp's kernels execute, held to values computed here from AMD's published ISA
documents."""

import itertools
import math
import random

import pytest
from formats import *

HALVES = [0x0000, 0x8000, 0x3C00, 0xBE00, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x4248, 0x3BFF, 0x6401, 0xFBFF, 0x1400]
NUMBERS = [x for x in HALVES if x & 0x7C00 != 0x7C00]


def low(register, executor):
    return f"{register}.l" if executor.generation >= 11 else register


def pairs(values, lanes):
    rows = list(itertools.product(values, values))
    rows += [rows[0]] * (-len(rows) % lanes)
    return [rows[k : k + lanes] for k in range(0, len(rows), lanes)]


def run(executor, code, columns, want=3, **problem):
    """The registers that are wanted, of sources in v0, v1, v2 and a destination v3 that holds a pattern."""
    vectors = {str(k): list(column) for k, column in enumerate(columns)}
    vectors.setdefault("3", [0xA5A55A5A] * executor.lanes)
    wanted = [want] if isinstance(want, int) else want
    answer = executor.run(code, v=vectors, want_v=wanted, **problem)
    return answer["v"][str(want)] if isinstance(want, int) else [answer["v"][str(k)] for k in wanted]


def same16(got, want):
    return got == want or (is_nan16(got) and is_nan16(want))


def same32(got, want):
    return got == want or (is_nan32(got) and is_nan32(want))


def kept(executor, sources):
    """The upper half of v3 after a result of 16 bits: GCN clears it, GCN 5 not where there are three sources."""
    keeps = executor.generation >= 10 or (executor.generation == 9 and sources == 3)
    return 0xA5A50000 if keeps else 0


def product(a, b):
    return product_sum(a, b, math.copysign(0.0, math.copysign(1, a) * math.copysign(1, b)))


ARITHMETIC = {
    "v_add_f16": (2, lambda a, b, c: product_sum(a, 1.0, b)),
    "v_sub_f16": (2, lambda a, b, c: product_sum(b, -1.0, a)),
    "v_subrev_f16": (2, lambda a, b, c: product_sum(a, -1.0, b)),
    "v_mul_f16": (2, lambda a, b, c: product(a, b)),
    "v_fma_f16": (3, product_sum),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(executor, name):
    sources, function = ARITHMETIC[name]
    registers = ", ".join(low(f"v{k}", executor) for k in (3, 0, 1, 2)[: 1 + sources])
    for rows in pairs(HALVES, executor.lanes):
        columns = [[a | 0x1234 << 16 for a, _ in rows], [b | 0x4321 << 16 for _, b in rows], [a ^ 0x8000 for a, _ in rows]]
        for (a, b), got in zip(rows, run(executor, f"{name} {registers}", columns)):
            want = f16(function(*map(half_to_float, (a, b, a ^ 0x8000))))
            assert same16(got & 0xFFFF, want), f"{name} of {a:#x}, {b:#x}: {got:#x}, expected {want:#x}"
            assert got & 0xFFFF0000 == kept(executor, sources)


def test_a_product_is_rounded_before_v_mac_adds(executor):
    if executor.generation > 9:
        return
    a, b, c = 0x3C01, 0x3C01, 0xBC02  # (1 + 2^-10)^2 - 1 - 2^-9: 2^-20 if fused, 0 if not
    got = run(executor, "v_mov_b32 v3, v2\nv_mac_f16 v3, v0, v1", [[x] * executor.lanes for x in (a, b, c)])[0]
    assert got & 0xFFFF == 0, hex(got)


def test_fused_accumulation(executor):
    if executor.generation < 10:
        return
    a, b, c = 0x3C01, 0x3C01, 0xBC02
    code = f"v_mov_b32 v3, v2\nv_fmac_f16 {low('v3', executor)}, {low('v0', executor)}, {low('v1', executor)}"
    got = run(executor, code, [[x] * executor.lanes for x in (a, b, c)])[0]
    assert got & 0xFFFF == f16(Fraction(1, 1 << 20)), hex(got)


@pytest.mark.parametrize("name", ["max", "min"])
def test_maxima_prefer_numbers(executor, name):
    full = f"v_{name}_num_f16" if executor.generation >= 12 else f"v_{name}_f16"
    choose = max if name == "max" else min
    key = lambda bits: (half_to_float(bits), not bits >> 15)
    registers = ", ".join(low(f"v{k}", executor) for k in (3, 0, 1))
    for rows in pairs(HALVES, executor.lanes):
        for (a, b), got in zip(rows, run(executor, f"{full} {registers}", [[a for a, _ in rows], [b for _, b in rows]])):
            numbers = [x for x in (a, b) if not is_nan16(x)]
            want = choose(numbers, key=key) if numbers else 0x7E00
            assert same16(got & 0xFFFF, want), f"{full} of {a:#x}, {b:#x}: {got:#x}, expected {want:#x}"


TRANSCENDENTAL = {
    "v_exp_f16": lambda x: 2.0**x if x < 100 else math.inf,
    "v_log_f16": lambda x: math.log2(x) if x > 0 else -math.inf if x == 0 else math.nan,
    "v_rcp_f16": lambda x: 1 / x if x else math.copysign(math.inf, x),
    "v_rsq_f16": lambda x: 1 / math.sqrt(x) if x > 0 else math.copysign(math.inf, x) if x == 0 else math.nan,
    "v_sqrt_f16": lambda x: math.sqrt(x) if x >= 0 else math.nan,
}


@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_transcendentals(executor, name):
    """Within one unit in the last place, which is what the documents allow; denormals are kept."""
    values = [x for x in HALVES if not is_nan16(x)] + [0x0002, 0x0155, 0x4B00, 0xCB00, 0x3555]
    column = (values * executor.lanes)[: executor.lanes]
    registers = f"{low('v3', executor)}, {low('v0', executor)}"
    for x, got in zip(column, run(executor, f"{name} {registers}", [column])):
        exact = TRANSCENDENTAL[name](half_to_float(x))
        want = f16(exact if not math.isfinite(exact) or exact == 0 else Fraction(exact))
        close = abs(signed(got, 16) - signed(want, 16)) <= 1 and (got ^ want) & 0x8000 == 0
        assert same16(got & 0xFFFF, want) or close, f"{name} of {x:#x}: {got:#x}, expected {want:#x}"


def test_both_words_of_a_register_by_sdwa(executor):
    """What gfx9 and gfx10 do with halves: a word in, a word out, the other word kept."""
    if executor.generation not in (9, 10):
        return
    low_word, high_word = 0x3C00, 0x4200  # 1, 3
    registers = [[high_word << 16 | low_word] * executor.lanes, [0xC0000000 | 0x3800] * executor.lanes]  # and -2, 0.5
    code = "v_add_f16_sdwa v3, v0, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_0"
    assert run(executor, code, registers)[0] == f16(3.5) << 16 | 0x5A5A
    code = "v_mul_f16_sdwa v3, -v0, |v1| dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0 src1_sel:WORD_1"
    assert run(executor, code, registers)[0] == 0xA5A50000 | f16(-2.0)
    code = "v_add_f16_sdwa v3, 1.0, v0 dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0 src1_sel:WORD_1"
    assert run(executor, code, registers)[0] == 0xA5A50000 | f16(4.0)
    code = "v_cvt_f32_f16_sdwa v3, v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1"
    assert run(executor, code, registers)[0] == f32(3.0)
    code = "v_cvt_f16_f32_sdwa v3, v0 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD"
    assert run(executor, code, [[f32(-1.5)] * executor.lanes])[0] == f16(-1.5) << 16 | 0x5A5A


def test_comparisons_of_words_write_exec(executor):
    if executor.generation != 10:
        return
    rows = [(k % 7 | 0xFFFF0000, 3) for k in range(executor.lanes)]
    want = sum((k % 7 > 3) << k for k in range(executor.lanes))
    for code in ("v_cmpx_gt_u32_sdwa v0, v1 src0_sel:WORD_0 src1_sel:DWORD", "s_mov_b32 s7, 3\nv_cmpx_gt_u32_sdwa v0, s7 src0_sel:WORD_0 src1_sel:WORD_0"):
        answer = executor.run(code, v={"0": [a for a, _ in rows], "1": [b for _, b in rows]})
        assert answer["exec"] == want, f"{code}: {answer['exec']:#x}, expected {want:#x}"


def test_mixed_products_take_either_half_or_a_single(executor):
    if executor.generation < 10:
        return
    generator = random.Random(3)
    columns = [[generator.choice(NUMBERS) | generator.choice(NUMBERS) << 16 for _ in range(executor.lanes)] for _ in range(2)]
    columns.append([f32(Fraction(generator.randint(-999, 999), 8)) for _ in range(executor.lanes)])
    sources = "v3, v0, -v1, v2 op_sel:[1,0,0] op_sel_hi:[1,1,0]"

    def single(a, b, c):
        return f32(product_sum(half_to_float(a >> 16), -half_to_float(b), to_float(c)))

    def half(*row):  # of the single
        value = to_float(single(*row))
        return f16(Fraction(value) if value else value)

    for name, expected in (("f32", single), ("lo_f16", lambda *row: 0xA5A50000 | half(*row)),
                           ("hi_f16", lambda *row: half(*row) << 16 | 0x5A5A)):
        code = f"v_fma_mix{name if name != 'f32' else '_f32'} {sources}"
        for row, got in zip(zip(*columns), run(executor, code, columns)):
            assert got == expected(*row), f"{code} of {[hex(x) for x in row]}: {got:#x}, expected {expected(*row):#x}"


def mixed_code(first, second, third, op_sel_hi, negative=0):
    """v_fma_mix_f32 v3 of sources by their numbers, 256 for v0, 255 for a literal, which LLVM's assembler refuses."""
    return f".long 0xcc200003\n.long {first | second << 9 | third << 18 | op_sel_hi << 27 | negative << 29:#x}"


@pytest.mark.parametrize("literal", [-8.0, 0.1, -3.0])
def test_mixed_products_have_literals_of_singles(executor, literal):
    """-8.0 is 0xc1000000: its lower half, which is all that LLVM prints, is 0."""
    if executor.generation < 10:
        return
    bits = f32(Fraction(literal))
    halves = (NUMBERS * executor.lanes)[: executor.lanes]
    got = run(executor, f"{mixed_code(256, 255, 242, 1)}\n.long {bits:#x}", [halves])  # and 1.0
    assert got == [f32(product_sum(half_to_float(x), to_float(bits), 1.0)) for x in halves]
    got = run(executor, f"{mixed_code(255, 256, 128, 2, negative=4)}\n.long {bits:#x}", [halves])  # and -0
    assert got == [f32(product(half_to_float(x), to_float(bits))) for x in halves]


@pytest.mark.parametrize("form", ["v_dot2_f32_f16 v3, v0, v1, v2", "v_dot2_f32_f16 v3, v0, v1, v2 neg_lo:[1,0,0] neg_hi:[0,1,0]",
                                  "v_dot2_f32_f16 v3, v0, v1, 0 op_sel:[1,0,0] op_sel_hi:[0,1,1]", "v_mov_b32 v3, v2\nv_dot2c_f32_f16 v3, v0, v1"])
def test_dot_products_of_two_halves(executor, form):
    if executor.generation < 10 or ("dot2c" in form and executor.generation != 10):
        return
    generator = random.Random(5)
    numbers = [f16(Fraction(generator.randint(-64, 64), 16)) for _ in range(32)]  # so that sums are exact in every order
    columns = [[generator.choice(numbers) | generator.choice(numbers) << 16 for _ in range(executor.lanes)] for _ in range(2)]
    columns.append([f32(Fraction(generator.randint(-999, 999), 8)) for _ in range(executor.lanes)])

    def expected(a, b, c):
        halves = lambda x: (Fraction(half_to_float(x)), Fraction(half_to_float(x >> 16)))
        (a0, a1), (b0, b1), total = halves(a), halves(b), Fraction(to_float(c))
        if "neg_lo" in form:
            return -a0 * b0 - a1 * b1 + total
        return a1 * b0 + a0 * b1 if "op_sel" in form else a0 * b0 + a1 * b1 + total

    for row, got in zip(zip(*columns), run(executor, form, columns)):
        assert got == f32(expected(*row)), f"{form} of {[hex(x) for x in row]}: {got:#x}"


@pytest.mark.parametrize("form, signed", [("v_dot4_i32_i8 v3, v0, v1, v2", (True, True)), ("v_dot4_u32_u8 v3, v0, v1, v2", (False, False)),
                                          ("v_mov_b32 v3, v2\nv_dot4c_i32_i8 v3, v0, v1", (True, True)),
                                          ("v_dot4_i32_iu8 v3, v0, v1, v2 neg_lo:[1,1,0]", (True, True)),
                                          ("v_dot4_i32_iu8 v3, v0, v1, v2 neg_lo:[0,1,0]", (False, True))])
def test_dot_products_of_four_bytes(executor, form, signed):
    if executor.generation < (11 if "iu8" in form else 10) or (executor.generation > 10 and "_i8" in form):
        return
    generator = random.Random(6)
    columns = [[generator.getrandbits(32) for _ in range(executor.lanes)] for _ in range(3)]

    def numbers(word, is_signed):
        return [byte - 256 if is_signed and byte > 127 else byte for byte in word.to_bytes(4, "little")]

    for (a, b, c), got in zip(zip(*columns), run(executor, form, columns)):
        products = (x * y for x, y in zip(numbers(a, signed[0]), numbers(b, signed[1])))
        assert got == (sum(products) + c) % 2**32, f"{form} of {[hex(x) for x in (a, b, c)]}: {got:#x}"


@pytest.mark.parametrize("name", ["v_dot2c_f32_f16_dpp", "v_dot2_f32_f16_e64_dpp", "v_fma_mix_f32_e64_dpp"])
def test_packed_sources_of_other_lanes(executor, name):
    if executor.generation != 10 if "dot2c" in name else executor.generation < 11:
        return
    lanes = executor.lanes
    sources = {"v_dot2c_f32_f16_dpp": "v3, v0, v1", "v_dot2_f32_f16_e64_dpp": "v3, v0, v1, v2",
               "v_fma_mix_f32_e64_dpp": "v3, v0, v1, v2 op_sel:[1,0,0] op_sel_hi:[1,1,0]"}[name]
    halves = [(lane, 2 * lane + 1) for lane in range(lanes)]
    columns = [[f16(Fraction(low)) | f16(Fraction(high)) << 16 for low, high in halves], [f16(Fraction(2)) | f16(Fraction(3)) << 16] * lanes,
               [f32(Fraction(5))] * lanes]
    code = f"v_mov_b32 v3, v2\n{name} {sources} quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf"
    for lane, got in enumerate(run(executor, code, columns)):
        low, high = halves[lane ^ 1]
        assert to_float(got) == (2 * high + 5 if "mix" in name else 2 * low + 3 * high + 5)


@pytest.mark.parametrize("half", ["low", "high"])
def test_loads_of_16_bits_keep_the_other_half(executor, half):
    if executor.generation < 9:
        return
    lanes, rdna3, rdna4 = executor.lanes, executor.generation >= 11, executor.generation >= 12
    high = "_hi" if half == "high" else ""
    load = f"ds_load_u16_d16{high}" if rdna3 else f"ds_read_u16_d16{high}"
    wait = "s_wait_dscnt 0" if rdna4 else "s_waitcnt lgkmcnt(0)"
    words = [0x10000 * (2 * k + 1) + 2 * k for k in range(lanes)]
    addresses = [2 * k for k in range(lanes)]
    want = [(k << 16 | 0x5A5A) if high else (0xA5A50000 | k) for k in range(lanes)]
    got = executor.run(f"{load} v3, v0\n{wait}", v={"0": addresses, "3": [0xA5A55A5A] * lanes}, lds=words, want_v=[3])
    assert got["v"]["3"] == want
    load = f"buffer_load_d16{high}_b16" if rdna3 else f"buffer_load_short_d16{high}"
    wait, zero = ("s_wait_loadcnt 0", "null") if rdna4 else ("s_waitcnt vmcnt(0)", "0")
    descriptor = {"0": 0x10000, "1": 0, "2": 4 * lanes, "3": 0x30000000 if executor.generation >= 10 else 0}
    got = executor.run(f"{load} v3, v0, s[0:3], {zero} offen\n{wait}", v={"0": addresses, "3": [0xA5A55A5A] * lanes},
                       s=descriptor, memory=words, want_v=[3])
    assert got["v"]["3"] == want


@pytest.mark.parametrize("half", ["low", "high"])
def test_stores_of_16_bits_take_either_half(executor, half):
    if executor.generation < 9:
        return
    lanes, high = executor.lanes, "_d16_hi" if half == "high" else ""
    store = f"ds_store_b16{high}" if executor.generation >= 11 else f"ds_write_b16{high}"
    answer = executor.run(f"{store} v0, v1 offset:2", v={"0": [4 * k for k in range(lanes)], "1": [k << 16 | k + 100 for k in range(lanes)]},
                          lds=[0x11112222] * lanes)
    assert answer["lds"] == [(k if high else k + 100) << 16 | 0x2222 for k in range(lanes)]


@pytest.mark.parametrize("lanes", [32, 64])
def test_matrix_product_into_halves(executor, lanes):
    """RDNA 3 writes the half of each register that op_sel names, RDNA 4 two elements a register."""
    if executor.generation < 11:
        return
    numbers = random.Random(7)
    a, b, c = ([[numbers.randint(-8, 8) / 4 for _ in range(16)] for _ in range(16)] for _ in range(3))
    want = [[c[i][j] + sum(a[i][k] * b[k][j] for k in range(16)) for j in range(16)] for i in range(16)]
    rdna4, rows = executor.generation >= 12, 256 // lanes
    registers = (rows if rdna4 else 16) // 2

    def k_of(lane, element):
        if not rdna4:
            return element
        return lane // 16 * 8 + element if lanes == 32 else lane // 32 * 4 + lane // 16 % 2 * 8 + element

    def place(lane, element):  # register, half, row
        if rdna4:
            return element // 2, element % 2, k_of(lane, element)
        return element, 0, element * (lanes // 16) + lane // 16

    results = rows // 2 if rdna4 else rows
    vectors = {k: [0] * lanes for k in range(16)} | {16 + k: [0 if rdna4 else 0x77770000] * lanes for k in range(results)}
    for lane in range(lanes):
        for r in range(registers):
            first, second = k_of(lane, 2 * r), k_of(lane, 2 * r + 1)
            vectors[r][lane] = f16(a[lane % 16][first]) | f16(a[lane % 16][second]) << 16
            vectors[8 + r][lane] = f16(b[first][lane % 16]) | f16(b[second][lane % 16]) << 16
        for element in range(rows):
            register, half, row = place(lane, element)
            vectors[16 + register][lane] |= f16(c[row][lane % 16]) << 16 * half
    last = lambda first, count: f"v[{first}:{first + count - 1}]"
    code = (f"v_wmma_f16_16x16x16_f16 {last(16, results)}, {last(0, registers)}, {last(8, registers)}, {last(16, results)}")
    answer = executor.run(code, lanes=lanes, v={str(k): v for k, v in vectors.items()}, want_v=list(range(16, 16 + results)))
    assert answer["findings"] == 0
    for lane in range(lanes):
        for element in range(rows):
            register, half, row = place(lane, element)
            got = answer["v"][str(16 + register)][lane]
            assert half_to_float(got >> 16 * half) == want[row][lane % 16]
            assert rdna4 or got >> 16 == 0x7777


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("signs", [(0, 0), (1, 1), (0, 1)])
def test_matrix_product_of_bytes(executor, lanes, signs):
    if executor.generation < 11:
        return
    numbers = random.Random(11)
    a, b = ([[numbers.randint(0, 255) for _ in range(16)] for _ in range(16)] for _ in range(2))
    c = [[numbers.randint(-(1 << 31), (1 << 31) - 1) for _ in range(16)] for _ in range(16)]
    value = lambda byte, has_sign: signed(byte, 8) if has_sign else byte
    want = [[c[i][j] + sum(value(a[i][k], signs[0]) * value(b[k][j], signs[1]) for k in range(16)) for j in range(16)] for i in range(16)]
    rdna4, rows = executor.generation >= 12, 256 // lanes
    elements = rows if rdna4 else 16  # bytes of a lane

    def k_of(lane, element):
        if not rdna4:
            return element
        return lane // 16 * 8 + element if lanes == 32 else lane // 32 * 4 + lane // 16 % 2 * 8 + element

    row_of = lambda lane, element: k_of(lane, element) if rdna4 else element * (lanes // 16) + lane // 16
    vectors = {k: [0] * lanes for k in range(32)}
    for lane in range(lanes):
        for element in range(elements):
            k = k_of(lane, element)
            vectors[element // 4][lane] |= a[lane % 16][k] << 8 * (element % 4)
            vectors[8 + element // 4][lane] |= b[k][lane % 16] << 8 * (element % 4)
        for element in range(rows):
            vectors[16 + element][lane] = c[row_of(lane, element)][lane % 16] & 0xFFFFFFFF
    span = lambda first, count: f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}"
    code = (f"v_wmma_i32_16x16x16_iu8 {span(16, rows)}, {span(0, elements // 4)}, {span(8, elements // 4)}, {span(16, rows)} "
            f"neg_lo:[{signs[0]},{signs[1]},0]")
    for clamp in ("", " clamp"):
        answer = executor.run(code + clamp, lanes=lanes, v={str(k): v for k, v in vectors.items()}, want_v=list(range(16, 16 + rows)))
        assert answer["findings"] == 0
        for lane in range(lanes):
            for element in range(rows):
                exact = want[row_of(lane, element)][lane % 16]
                exact = min(max(exact, -(1 << 31)), (1 << 31) - 1) if clamp else exact
                assert answer["v"][str(16 + element)][lane] == exact & 0xFFFFFFFF


def test_halves_of_a_wave_exchange_through_shared_registers(executor):
    """RDNA 1 and 2 have no other way in waves of 64: a lane and the one 32 further have these registers together."""
    if executor.generation != 10:
        return
    move = "quad_perm:[0,1,2,3]"
    code = (f"v_mov_b32_dpp v8, v0 {move} row_mask:0x3 bank_mask:0xf\nv_mov_b32_dpp v9, v0 {move} row_mask:0xc bank_mask:0xf\n"
            f"v_mov_b32_dpp v3, v8 {move} row_mask:0xc bank_mask:0xf\nv_mov_b32_dpp v3, v9 {move} row_mask:0x3 bank_mask:0xf\n"
            "v_mov_b32 v8, v0\nv_mov_b32 v4, v8")
    answer = executor.run(code, lanes=64, shared=8, v={"0": list(range(64))}, want_v=[3, 4])
    assert answer["v"]["3"] == [lane ^ 32 for lane in range(64)]
    assert answer["v"]["4"] == [lane | 32 for lane in range(64)]  # the upper half is executed last


def test_gcn_scratch_is_swizzled(executor):
    """Words of one place of the lanes of a wave lie side by side."""
    if executor.generation != 8:
        return
    lanes = executor.lanes
    descriptor = {"0": 0x10000, "1": 1 << 31, "2": 0xFFFFFFFF, "3": 1 << 23 | 3 << 21 | 1 << 19, "4": 256}
    answer = executor.run("buffer_store_dword v0, off, s[0:3], s4 offset:8\nbuffer_load_dword v1, off, s[0:3], s4 offset:8\ns_waitcnt vmcnt(0)",
                          s=descriptor, v={"0": list(range(100, 100 + lanes))}, memory=[0] * (5 * lanes), want_v=[1])
    assert answer["memory"] == [0] * (3 * lanes) + list(range(100, 100 + lanes)) + [0] * lanes
    assert answer["v"]["1"] == list(range(100, 100 + lanes))
