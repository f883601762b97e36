"""The modelled time of small programs, against cycles that are counted by hand from the facts in gpu_facts.cpp:
navi31 2.3 GHz, DRAM 500 ns = 1150 cycles, L2 150 ns = 345, the workgroup's own lines 50 ns = 115; LDS 50 cycles. An instruction
issues a cycle after the one before (GCN: 4), a result is there 4 cycles later, hints take no time."""
import json
import os
import shlex
import subprocess

import pytest

MEGABYTE = 1 << 20


class Model:
    """Dispatches of one GPU in turn, and their counters."""

    def __init__(self, gpu, folder):
        self.file = folder / f"{gpu}.counters"
        settings = f"counters={self.file},model=1,lds=0,instructions={folder / 'instructions'}"
        self.instructions = folder / "instructions"
        self.lanes = 64 if gpu in ("vega10", "polaris10") else 32
        self.process = subprocess.Popen(shlex.split(os.environ["VKATTN_EXECUTE_INSTRUCTIONS"]) + [gpu], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "VKATTN_EXECUTE": settings})

    def run(self, code, workgroups=(1, 1, 1), threads=None, cold=True, memory=1, **dispatch):
        problem = {"code": code, "lanes": self.lanes, "cold": cold, "memory": [0] * memory,
                   "dispatch": {"workgroups": workgroups, "threads": threads or self.lanes, **dispatch}}
        self.process.stdin.write(json.dumps(problem) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return json.loads(self.file.read_text().splitlines()[-1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture
def model(tmp_path):
    if "VKATTN_EXECUTE_INSTRUCTIONS" not in os.environ:
        pytest.skip("VKATTN_EXECUTE_INSTRUCTIONS is not set, expected the command that runs execute_instructions")
    running = []

    def start(gpu):
        running.append(Model(gpu, tmp_path))
        return running[-1]

    yield start
    for each in running:
        each.close()


def cycles(counted):
    return counted["modelled"]["longest_workgroup_cycles"]


@pytest.mark.parametrize("gpu, dependent, independent", [("navi31", 6, 2), ("vega10", 8, 8)])
def test_a_result_is_waited_for(model, gpu, dependent, independent):
    gpu = model(gpu)
    assert cycles(gpu.run("v_mov_b32 v2, 1.0\nv_mul_f32 v3, v2, v2")) == dependent
    assert cycles(gpu.run("v_mov_b32 v2, 1.0\nv_mov_b32 v3, 1.0")) == independent


def test_wave64_takes_two_passes_of_rdna(model):
    gpu = model("navi21")
    gpu.lanes = 64
    assert cycles(gpu.run("v_mov_b32 v2, 1.0\nv_mov_b32 v3, 1.0")) == 4


def test_the_transcendental_unit_takes_one_instruction_in_four_cycles(model):
    counted = model("navi31").run("v_exp_f32 v2, v0\nv_exp_f32 v3, v0")
    assert cycles(counted) == 5  # the second issues in cycle 4
    assert counted["modelled"]["components"]["transcendental"] == pytest.approx(8 / 2300, abs=1e-4)


@pytest.mark.parametrize("gpu, expected", [("navi31", 32), ("gfx1201", 16)])
def test_matrices_hold_the_vector_unit(model, gpu, expected):
    registers = "v[8:15]" if gpu == "navi31" else "v[8:11]"
    counted = model(gpu).run(f"v_wmma_f32_16x16x16_f16 v[16:23], {registers}, {registers}, 0\n" * 2, registers=96)
    assert cycles(counted) == 2 * expected
    assert counted["modelled"]["bound"] == "matrix"
    assert counted["modelled"]["components"]["matrix"] == counted["modelled"]["components"]["vector"]


LOAD = "v_mov_b32 v2, 0\nglobal_load_b32 v3, v2, s[0:1]\ns_waitcnt vmcnt(0)"


def test_a_load_comes_from_dram_then_from_l2_then_from_the_workgroup(model):
    gpu = model("navi31")
    # v2 is there in cycle 5, the address unit has its line in 6, then the latency, then the wait issues
    assert cycles(gpu.run(LOAD)) == 6 + 1150 + 1
    assert cycles(gpu.run(LOAD, cold=False)) == 6 + 345 + 1
    assert cycles(gpu.run(LOAD + "\n" + LOAD)) == 1157 + 6 + 115 + 1
    assert cycles(gpu.run(LOAD)) == 1157  # a submission begins with empty caches


def test_guesses_are_modelled_side_by_side(model):
    counted = model("navi31").run(LOAD)
    times = counted["modelled"]["us_if"]
    assert counted["modelled"]["us"] == pytest.approx(1157 / 2300, abs=1e-4)
    assert times["dram_ns=300"] == pytest.approx((7 + 690) / 2300, abs=1e-4)
    assert times["dram_ns=800"] == pytest.approx((7 + 1840) / 2300, abs=1e-4)
    assert times["l2_ns=300"] == times["lds_cycles=100"] == counted["modelled"]["us"]


def test_waits_let_younger_loads_go_on(model):
    two = "v_mov_b32 v2, 0\nglobal_load_b32 v3, v2, s[0:1]\nglobal_load_b32 v4, v2, s[0:1] offset:128\n"
    gpu = model("navi31")
    assert cycles(gpu.run(two + "s_waitcnt vmcnt(1)")) == 6 + 1150 + 1
    assert cycles(gpu.run(two + "s_waitcnt vmcnt(0)")) == 7 + 1150 + 1


def test_conflicts_of_banks_take_cycles_of_lds(model):
    stride = "v_and_b32 v1, 31, v0\nv_lshlrev_b32 v1, {shift}, v1\nds_load_b32 v2, v1\ns_waitcnt lgkmcnt(0)"
    gpu = model("navi31")
    conflicts = gpu.run(stride.format(shift=7), lds_bytes=4096)
    assert (conflicts["lds_cycles"], conflicts["lds_fewest_cycles"]) == (32, 1)
    assert cycles(conflicts) == 10 + 32 + 50 + 1
    assert conflicts["modelled"]["components"]["lds"] == pytest.approx(32 / 2300, abs=1e-4)
    assert cycles(gpu.run(stride.format(shift=2), lds_bytes=4096)) == 10 + 1 + 50 + 1


def test_waves_meet_at_barriers(model):
    # wave 1 alone has 100 instructions more before the barrier
    code = ("v_readfirstlane_b32 s5, v0\ns_cmp_lt_u32 s5, 32\ns_cbranch_scc1 skip\n" + "v_mov_b32 v2, 1.0\n" * 100 +
            "skip:\ns_barrier\nv_mov_b32 v2, 1.0")
    # issues: 1, 1, 4 of the branch, 100, 1 of the barrier; 8 to meet; 1
    assert cycles(model("navi31").run(code, threads=64)) == 1 + 1 + 4 + 100 + 1 + 8 + 1


def test_workgroups_fill_the_units_and_their_slots(model):
    gpu = model("navi31")
    code = "v_mov_b32 v2, 1.0\n" * 1000
    one, all_at_once, one_more = (gpu.run(code, workgroups=(n, 1, 1), registers=24) for n in (1, 96 * 32, 96 * 32 + 1))
    assert one["modelled"]["workgroups_of_unit"] == 32 and one["modelled"]["units"] == 96
    for counted, times in ((one, 1), (all_at_once, 1), (one_more, 2)):
        assert counted["modelled"]["components"]["chain"] == pytest.approx(times * 1000 / 2300, abs=1e-4)
    # 16 waves on each of two SIMDs
    assert all_at_once["modelled"]["components"]["vector"] == pytest.approx(16 * 1000 / 2300, abs=1e-3)
    assert (one["modelled"]["bound"], all_at_once["modelled"]["bound"]) == ("vector", "vector")


@pytest.mark.parametrize("registers, waves", [(24, 16), (96, 16), (104, 12), (256, 5)])
def test_registers_limit_the_waves(model, registers, waves):
    assert model("navi31").run("v_mov_b32 v2, 1.0", registers=registers)["modelled"]["waves_of_simd"] == waves


def test_lds_limits_the_workgroups(model):
    assert model("navi31").run("v_mov_b32 v2, 1.0", lds_bytes=20480)["modelled"]["workgroups_of_unit"] == 3


# A line of 128 bytes a lane, 4096 bytes a workgroup
ADDRESSES = "s_lshl_b32 s5, s2, 12\nv_and_b32 v1, 31, v0\nv_lshlrev_b32 v1, 7, v1\nv_add_nc_u32 v1, s5, v1\n"
STORE, LOAD_BACK = ADDRESSES + "global_store_b32 v1, v0, s[0:1]", ADDRESSES + "global_load_b32 v2, v1, s[0:1]\ns_waitcnt vmcnt(0)"


def test_dram_is_read_once_a_dispatch(model):
    counted = model("navi31").run(LOAD_BACK, workgroups=(4, 1, 1), memory=4096)["modelled"]
    assert (counted["l2_bytes"], counted["last_level_bytes"], counted["dram_bytes"]) == (16384, 0, 16384)
    assert counted["components"]["dram"] == pytest.approx(16384 / 960e3, abs=1e-4)


def test_the_last_level_cache_keeps_what_l2_gives_away(model):
    gpu = model("navi31")  # L2 6 MiB, last level 96
    written = gpu.run(STORE, workgroups=(7 * 256, 1, 1))["modelled"]
    assert (written["l2_bytes"], written["last_level_bytes"], written["dram_bytes"]) == (7 * MEGABYTE, MEGABYTE, 0)
    # the first MiB comes from the last level, and what is read pushes the written 6 out of L2
    read = gpu.run(LOAD_BACK, workgroups=(7 * 256, 1, 1), cold=False)["modelled"]
    assert (read["l2_bytes"], read["last_level_bytes"], read["dram_bytes"]) == (7 * MEGABYTE, 7 * MEGABYTE, 0)
    assert read["us_if"]["last_level_bytes=0"] == pytest.approx(7 * MEGABYTE / 960e3, rel=1e-3)


def test_a_wait_names_the_access(model):
    gpu = model("navi31")
    gpu.run(LOAD)
    instructions = json.loads(gpu.instructions.read_text().splitlines()[-1])["instructions"]
    load, wait = (next(each for each in instructions if each["text"].startswith(name)) for name in ("global_load", "s_waitcnt"))
    assert wait["waits_for"] == load["offset"] and wait["stall_cycles"] == 1150 - 1 + 1
    assert load["lines"] == 1 and load["count"] == 1 and load["code"].split()[0].startswith("dc")
