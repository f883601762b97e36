"""scripts/gpu-lab profile: what it refuses, how it reads lines, and, where VKATTN_PROFILE_GPU names a GPU of AMD whose lab stands,
what it prints."""
import json
import os
import struct
import subprocess
import sys

import pytest

import lab
import modelled
import profile_shape
import source_lines

SHAPE = ["--heads", "4", "--kv-heads", "1", "--q-len", "1", "--kv-len", "256", "--head-dim", "64", "--dtype", "f16"]


def profile(*arguments):
    return subprocess.run([sys.executable, str(lab.ROOT / "bench/gpu_lab"), "profile", *arguments], cwd=lab.ROOT,
                          capture_output=True, text=True)


@pytest.mark.parametrize("arguments, expected", [
    (["amd-navi31"], "profile: no shape, expected options of vkattn bench or the name of a problem behind the GPU"),
    (["amd-navi99", *SHAPE], "GPU 'amd-navi99' is unknown, expected one of amd-polaris10"),
    (["nvidia-ampere", *SHAPE], "profile: nvidia-ampere is of nvidia, expected a GPU of AMD"),
    (["amd-navi31", "prefil"], "profile: the shape 'prefil' is unknown, expected options of vkattn bench or one of prefill f16 D64"),
    (["--top", "-1", "amd-navi31", *SHAPE], "profile: --top is -1, expected at least 0"),
])
def test_wrong_arguments_get_a_line(arguments, expected):
    ran = profile(*arguments)
    assert ran.returncode == 1 and expected in ran.stderr and ran.stderr.count("\n") == 1


def test_a_problem_of_the_lab_is_a_shape():
    options = profile_shape.options_of(["decode", "f16", "group", "4"])
    assert options[options.index("--kv-len") + 1] == "4096" and options[options.index("--heads") + 1] == "32"
    assert profile_shape.options_of(SHAPE) == SHAPE


def text_of(name):
    data = name.encode() + b"\0"
    return struct.unpack(f"<{(len(data) + 3) // 4}I", data.ljust((len(data) + 3) // 4 * 4, b"\0"))


def instruction(operation, *operands):
    return [(len(operands) + 1) << 16 | operation, *operands]


def test_lines_of_a_module():
    nop = instruction(0)
    words = [0x07230203, 0x10000, 0, 100, 0, *instruction(source_lines.OP_STRING, 7, *text_of("a/shaders/kernels/one.comp"))]
    first = 4 * len(words)
    words += instruction(source_lines.OP_LINE, 7, 12, 0) + nop
    none = 4 * len(words)
    words += instruction(source_lines.OP_NO_LINE) + nop
    assert source_lines.lines_of_module(words) == [(first, ("a/shaders/kernels/one.comp", 12)), (none, None)]
    assert source_lines.last_before(source_lines.lines_of_module(words), none - 4) == ("a/shaders/kernels/one.comp", 12)
    assert source_lines.last_before([(8, "a")], 4) is None


def test_the_table_ends_the_shader():
    records = [(0, 0x55aa, 12, 1, 400, 0), (0, 0, 0, 0, 0, 16), (0, 0x55aa, 13, 1, 480, 8)]
    table = b"".join(struct.pack("<IIQIIIIII", kind, 0, file, line, column, spirv, 0, code, 0)
                     for kind, file, line, column, spirv, code in records)
    code = bytes(range(1, 65)) * 2
    assert source_lines.table_of(code + table) == [(0, 400), (8, 480), (16, None)]


def test_code_is_followed_up_to_the_first_gap():
    executed = [{"offset": 0, "code": "bf89fc07"}, {"offset": 4, "code": "f4080301 f8000040"}, {"offset": 16, "code": "bf800000"}]
    assert source_lines.code_bytes(executed) == bytes.fromhex("07fc89bf" "010308f4" "400000f8")


def test_a_listing_names_its_module():
    listing = "BB0:\n\ts_nop 0  ; bf800000\n\t(then repeated 2 times)\n\ts_load_b128 s[12:15], s[2:3], 0x40 ; f4080301 f8000040\n"
    assert profile_shape.words_by_offset(listing) == {0: "bf800000", 4: "bf800000", 8: "bf800000", 12: "f4080301 f8000040"}
    shaders = [{"module": "other", "texts": {"Assembly": "\ts_nop 1 ; bf800001\n"}}, {"module": "this", "texts": {"Assembly": listing}}]
    assert profile_shape.module_of([{"offset": 8, "code": "bf800000"}, {"offset": 12, "code": "f4080301 f8000040"}], shaders) == "this"
    assert profile_shape.module_of([{"offset": 0, "code": "bf810000"}], shaders) == "unknown"


def test_totals_are_sums_and_the_slowest_bound():
    def dispatch(us, bound):
        return {"instructions": {"total": 10}, "lds_cycles": 3, "lds_fewest_cycles": 2, "requested_lines": 5, "distinct_lines": 4,
                "modelled": {"us": us, "bound": bound, "dram_bytes": 128, "us_if": {"dram_ns=300": us / 2}}}
    assert modelled.totals([dispatch(4.0, "chain"), dispatch(6.0, "dram")]) == {
        "dispatches": 2, "instructions": 20, "lds_cycles": 6, "lds_fewest_cycles": 4, "requested_lines": 10, "distinct_lines": 8,
        "dram_bytes": 256, "modelled_us": 10.0, "bound": "dram", "us_if": {"dram_ns=300": 5.0}}


@pytest.mark.skipif("VKATTN_PROFILE_GPU" not in os.environ, reason="VKATTN_PROFILE_GPU is not set, expected a GPU of AMD of the lab")
def test_the_profile_has_components_lines_and_guesses(capsys):
    ran = subprocess.run([lab.LAB, "profile", "--json", os.environ["VKATTN_PROFILE_GPU"], *SHAPE], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["kernel"] == "decode" and found["totals"]["dispatches"] == len(found["dispatches"])
    for dispatch in found["dispatches"]:
        model = dispatch["modelled"]
        assert model["us"] == max(model["components"].values()) and model["components"]["chain"] > 0
        assert model["us_if"]["dram_ns=800"] >= model["us"] >= model["us_if"]["dram_ns=300"]
        assert dispatch["module"] != "unknown" and dispatch["no_lines"] == ""
    sources = [each["source"] for each in found["dispatches"][0]["executed"]]
    assert sum("kernels/decode.comp:" in source for source in sources) > len(sources) / 4

    profile_shape.print_profile(found, 5)
    text = capsys.readouterr().out
    for expected in ("kernel decode", "bound by", "hottest source lines", "kernels/decode.comp:", "dram_ns=300", "dram_ns=800"):
        assert expected in text
