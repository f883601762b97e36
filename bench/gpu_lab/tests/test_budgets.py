"""The gate: what grows beyond its budget is named with GPU, problem, pipeline and figure."""
import pytest

import budgets
import lab
import pages
from collect import Row
from figures import Figures

OWN = Figures("flash", 128, 64, registers=96, occupancy=6, spills=0, scratch_bytes=0, shared_bytes=20000, code_bytes=10000,
              spirv_bytes=40000, compile_ms=120)


def values(**changes):
    return pages.values_of(Row("prefill", "vkattn", "flash", "", Figures(**{**vars(OWN), **changes})))


def complaints(row, driver="radv 26.1", tmp="budget.csv", path=None):
    budgets.write(path / tmp, "radv 26.1", [values()])
    own, allowed = budgets.read(path / tmp)
    return list(budgets.complaints("amd-navi21", driver, [row], own, allowed))


def test_what_was_allowed_is_allowed(tmp_path):
    assert complaints(values(), path=tmp_path) == []
    assert complaints(values(code_bytes=11000, occupancy=7, spirv_bytes=44000, compile_ms=900), path=tmp_path) == []


@pytest.mark.parametrize("name, value", [("spills", 1), ("scratch_bytes", 16), ("occupancy", 5), ("code_bytes", 11001),
                                         ("spirv_bytes", 44001)])
def test_what_grew_is_named(tmp_path, name, value):
    [line] = complaints(values(**{name: value}), path=tmp_path)
    assert line.startswith(f"amd-navi21, prefill, flash: {name} {value}, expected")


def test_a_module_is_small_whatever_its_budget(tmp_path):
    row = values(spirv_bytes=65537)
    budgets.write(tmp_path / "budget.csv", "radv 26.1", [row])
    _, allowed = budgets.read(tmp_path / "budget.csv")
    [line] = budgets.complaints("amd-navi21", "radv 26.1", [row], "radv 26.1", allowed)
    assert line == "amd-navi21, prefill, flash: spirv_bytes 65537, expected at most 65536"


def test_a_budget_without_a_figure_allows_any(tmp_path):
    budgets.write(tmp_path / "budget.csv", "radv 26.1", [values()])
    _, allowed = budgets.read(tmp_path / "budget.csv")
    for row in allowed.values():
        del row["spirv_bytes"]
    assert list(budgets.complaints("amd-navi21", "radv 26.1", [values(spirv_bytes=50000)], "radv 26.1", allowed)) == []


def test_problems_that_compile_slower_than_ggmls_are_found():
    rows = [values(module=module, compile_ms=ms) for module, ms in (("decode", 60), ("merge_parts", 20))]
    rows.append(values(compile_ms=40) | {"side": "ggml"})
    assert list(pages.slower_to_compile(rows, 1)) == [("prefill", 2.0)]
    assert list(pages.slower_to_compile(rows, 2)) == []
    assert list(pages.slower_to_compile([row | {"compile_ms": ""} for row in rows], 0)) == []


def test_what_is_committed_is_within_the_bounds_that_hold_for_any_driver():
    for table in (lab.ROOT / "bench/results/gpu-lab").glob("*-*.csv"):
        rows = pages.read_csv(table)
        for row in rows:
            if row["side"] == "vkattn":
                assert list(budgets.too_large(row["problem"], row)) == [], table.name


def test_another_driver_may_grow_somewhat(tmp_path):
    row = values(code_bytes=14000, occupancy=4)
    assert complaints(row, driver="radv 26.2", path=tmp_path) == []
    for grown in ({"code_bytes": 15001}, {"occupancy": 2}, {"spills": 1}, {"scratch_bytes": 16}):
        assert len(complaints(values(**grown), driver="radv 26.2", path=tmp_path)) == 1


def test_a_pipeline_without_a_budget_and_a_problem_without_pipelines_are_named(tmp_path):
    [line] = complaints(values(module="decode"), path=tmp_path)
    assert "no budget" in line
    row = pages.values_of(Row("prefill", "vkattn", "", "", None, None, "the driver crashed"))
    [line] = complaints(row, path=tmp_path)
    assert line == "amd-navi21, prefill: the driver crashed, expected pipelines"
