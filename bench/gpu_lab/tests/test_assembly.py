"""What is counted in excerpts of the drivers' output for attention kernels, beside what a person counts in them."""
import pathlib

import assembly
import pytest
from assembly import arm, hot_loop
from assembly.program import Block, Instruction, Program

FILES = pathlib.Path(__file__).parent / "assembly"


def analyse(vendor, name, file, gpu, subgroup_size, **more):
    hot, why = assembly.analyse(vendor, {}, {name: (FILES / file).read_text()}, subgroup_size, gpu, **more)
    assert why == ""
    return hot


def counted(figures):
    return {kind: count for kind, count in figures.counts.items() if count}


def test_a_product_loop_in_a_key_loop_of_rdna2_leaves_out_the_masked_path():
    hot = analyse("amd", "Assembly", "rdna2.txt", "amd-navi21", 32)
    assert [loop.name for loop in hot.loops] == ["BB19"]
    assert counted(hot) == {"product": 16, "vector": 6, "shared": 4, "scalar": 3, "branch": 1, "wait": 2}
    assert (hot.issued, hot.multiply_adds, hot.busiest_unit) == (30, 32, "vector")
    assert hot.loops[0].cycles == {"vector": 22, "shared": 16, "scalar": 4}
    assert hot.efficiency == pytest.approx(16 / 22)
    assert hot.product_share == pytest.approx(16 / 22)
    assert hot.outside.name == "BB11"
    assert counted(hot.outside) == {"product": 1, "transcendental": 1, "convert": 1, "move": 1, "shared": 1, "memory": 1,
                                    "scalar": 4, "branch": 3, "wait": 2}


def test_a_whole_trip_has_the_product_loop_as_often_as_the_tile_needs():
    hot = analyse("amd", "Assembly", "rdna2.txt", "amd-navi21", 32, tile_multiply_adds=8 * 32)
    assert hot.iteration.cycles["vector"] == 8 * 22 + 4
    assert hot.iteration.multiply_adds == 8 * 32
    assert hot.iteration.efficiency == pytest.approx(8 * 16 / (8 * 22 + 4))


def test_dual_issue_of_rdna3_has_two_products_in_a_slot():
    hot = analyse("amd", "Assembly", "rdna3_dual.txt", "amd-navi31", 32)
    assert counted(hot) == {"product": 12, "vector": 6, "shared": 4, "scalar": 3, "branch": 1, "wait": 7}
    assert hot.multiply_adds == 4 * 2 + 8 * 4
    assert hot.loops[0].product_cycles == 4 / 2 + 8
    assert hot.efficiency == pytest.approx(10 / 18)


@pytest.mark.parametrize("gpu, matrix", [("amd-navi31", 32), ("amd-gfx1201", 16)])
def test_matrices_of_rdna3_and_rdna4_occupy_the_vector_unit(gpu, matrix):
    hot = analyse("amd", "Assembly", "rdna3_matrix.txt", gpu, 32)
    assert (hot.kind, hot.multiply_adds) == ("matrix", 4)
    assert (hot.counts["product"], hot.counts["move"], hot.counts["shared"]) == (2, 7, 10)
    assert hot.loops[0].cycles["vector"] == 4 * matrix + 22
    assert hot.loops[0].cycles["shared"] == 84 * 32 / 64
    assert hot.efficiency == pytest.approx(4 * matrix / (4 * matrix + 22))


def test_nvidia_issues_one_instruction_a_cycle():
    hot = analyse("nvidia", "NAK assembly", "nvidia.txt", "nvidia-ampere", 32)
    assert counted(hot) == {"product": 16, "vector": 4, "move": 2, "shared": 4, "scalar": 3, "branch": 1}
    assert hot.product_share == pytest.approx(16 / 30)
    assert (hot.busiest_unit, hot.loops[0].cycles["shared"]) == ("shared", 4 * 16)
    assert hot.efficiency == pytest.approx(16 / 64)
    assert hot.arithmetic_efficiency == pytest.approx(16 / 30)


def test_adreno_repeats_and_waits_in_slots():
    hot = analyse("qualcomm", "IR3 Assembly", "adreno.txt", "adreno-740", 64)
    assert counted(hot) == {"product": 16, "vector": 19, "shared": 4, "branch": 2, "wait": 19}
    assert hot.multiply_adds == 14 + 2
    assert hot.efficiency == hot.product_share == pytest.approx(16 / 60)


def test_mali_has_a_unit_each_for_products_conversions_shifts_and_memory():
    hot = analyse("arm", "Assembly", "mali.txt", "mali-g610", 16)
    assert counted(hot) == {"product": 32, "vector": 15, "convert": 32, "move": 8, "shared": 4, "branch": 2}
    assert hot.loops[0].cycles == {"fma": 32, "convert": 32 + 8 + 11 + 2, "special": 4 * 4, "memory": 4 * 16}
    assert (hot.busiest_unit, hot.efficiency) == ("memory", pytest.approx(32 / 64))
    assert hot.arithmetic_efficiency == pytest.approx(32 / 53)


def test_memory_of_mali_is_told_apart_by_the_instruction_and_by_the_pointer():
    text = """LD_PKA.i128.unsigned.slot0.wait0 @r0:r1:r2:r3, r4^, u20
LOAD.i64.unsigned.slot0 @r0:r1, r2^, offset:0
STORE.i32.slot1 @r0, thread_local_pointer.w0, offset:4
BARRIER.slot7.wait
NOP.end"""
    program = arm.parse(text, "mali-g610", 16)
    assert [(i.kind, i.bytes, i.loads) for block in program.blocks.values() for i in block.instructions] == [
        ("memory", 16, True), ("shared", 8, False), ("scratch", 4, False), ("wait", 0, False), ("wait", 0, False)]


def test_a_branch_of_mali_skips_instructions_and_a_jump_falls_nowhere():
    text = """   BRANCHZ.eq.reconverge r0^.h0, offset:1

   BRANCHZ.eq.reconverge 0x0, offset:-2

   NOP.end"""
    assert {b.name: b.successors for b in arm.parse(text, "mali-g610", 16).blocks.values()} == {
        "i0": ["i2", "i1"], "i1": ["i0"], "i2": []}


def test_apple_counts_the_last_representation_that_has_registers():
    hot = analyse("apple", "AGX assembly", "apple.txt", "apple-m1", 32)
    assert counted(hot) == {"product": 16, "vector": 15, "move": 1, "shared": 2, "branch": 3}
    assert hot.product_share == pytest.approx(16 / 37)
    assert hot.loops[0].cycles == {"issue": 37, "complex": 8, "shared": 2 * 32}
    assert hot.arithmetic_efficiency == pytest.approx(16 / 37)


def test_intel_takes_passes_of_its_lanes():
    hot = analyse("intel", "GEN Assembly", "dg2.txt", "intel-dg2", 8)
    assert counted(hot) == {"product": 16, "vector": 15, "shared": 2, "branch": 1, "wait": 3}
    assert hot.loops[0].cycles == {"issue": 34, "integer": 15, "shared": 2 * 16, "float": 16}
    assert hot.efficiency == pytest.approx(16 / 34)


@pytest.mark.parametrize("vendor, texts, gpu, reason", [
    ("amd", {"Assembly": "BB0:\n\ts_endpgm\n"}, "amd-navi21", "no loop"),
    ("amd", {"Assembly": "BB0:\n\ts_branch BB0\n"}, "amd-navi21", "no loop has products"),
    ("amd", {}, "amd-navi21", "gives no machine code"),
    ("amd", {"Assembly": "BB0:\n\ts_endpgm\n"}, "voodoo2", "no rates are known for 'voodoo2'"),
    ("apple", {"AGX assembly": "shader: MESA_SHADER_COMPUTE\n"}, "apple-m1", "no code with registers"),
    ("arm", {"Assembly": "\n"}, "mali-g610", "no instructions"),
    ("powervr", {}, "powervr-bxs", "no reader"),
])
def test_what_cannot_be_said_has_a_reason(vendor, texts, gpu, reason):
    hot, why = assembly.analyse(vendor, {}, texts, 32, gpu)
    assert hot is None
    assert reason in why


def block(name, successors, products=0, vector=0, loaded=0):
    instructions = [Instruction("fma", "product", multiply_adds=1, cycles={"vector": 1}, product_cycles=1)] * products
    instructions += [Instruction("add", "vector", cycles={"vector": 1})] * vector
    instructions += [Instruction("load", "memory", bytes=16, loads=True)] * loaded
    return Block(name, instructions, successors.split())


def find(*blocks):
    return hot_loop.find(Program(list(blocks)), ("product", "vector"))


def test_staging_behind_a_limit_is_on_the_fast_path_and_a_long_side_path_is_not():
    hot, _ = find(block("entry", "head"), block("head", "stage multiply", vector=1),
                  block("stage", "multiply", vector=20, loaded=1), block("multiply", "mask tail", products=32),
                  block("mask", "tail", products=3, vector=50), block("tail", "head end", vector=2), block("end", ""))
    assert (hot.counts["product"], hot.counts["vector"], hot.counts["memory"]) == (32, 23, 1)


def test_two_product_loops_of_unknown_length_count_as_equal_work():
    hot, _ = find(block("entry", "head"), block("head", "score", vector=9), block("score", "score middle", products=16),
                  block("middle", "output", products=4), block("output", "output tail", products=32, vector=32),
                  block("tail", "head end"), block("end", ""))
    assert [(loop.name, loop.efficiency) for loop in hot.loops] == [("score", 1), ("output", 0.5)]
    assert hot.efficiency == pytest.approx(2 / (1 / 1 + 1 / 0.5))
    assert (hot.outside.counts["product"], hot.outside.counts["vector"]) == (4, 9)


def test_a_loop_with_products_beside_those_of_a_loop_in_it_is_a_product_loop_itself():
    hot, _ = find(block("entry", "head"), block("head", "score", products=64, vector=64),
                  block("score", "score tail", products=64), block("tail", "head end"), block("end", ""))
    assert [loop.name for loop in hot.loops] == ["score", "head"]
    assert hot.outside is None


def test_a_loop_without_products_on_the_way_is_counted_once():
    hot, _ = find(block("entry", "head"), block("head", "reduce", products=16), block("reduce", "reduce tail", vector=5),
                  block("tail", "head end"), block("end", ""))
    assert (hot.counts["vector"], hot.loops[0].counted_once) == (5, 1)


def test_products_in_small_blocks_of_their_own_are_on_the_way():
    guarded = [each for i in range(8) for each in
               (block(f"ask{i}", f"take{i} ask{i + 1}", vector=3), block(f"take{i}", f"ask{i + 1}", products=4))]
    hot, _ = find(block("entry", "score"), block("score", "score ask0", products=64), *guarded, block("ask8", "ask0 end"),
                  block("end", ""))
    assert [(loop.name, loop.counts["product"]) for loop in hot.loops] == [("score", 64)]
    hot, _ = find(block("entry", "ask0"), *guarded, block("ask8", "ask0 end"), block("end", ""))
    assert [(loop.name, loop.counts["product"]) for loop in hot.loops] == [("ask0", 32)]
