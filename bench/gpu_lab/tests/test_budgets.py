"""The gate: what grows beyond its budget is named with GPU, problem, pipeline and figure."""
import pytest

import budgets
import pages
from collect import Row
from figures import Figures

OWN = Figures("flash", 128, 64, registers=96, occupancy=6, spills=0, scratch_bytes=0, shared_bytes=20000, code_bytes=10000,
              compile_seconds=0.5)


def values(**changes):
    return pages.values_of(Row("prefill", "vkattn", "flash", "", Figures(**{**vars(OWN), **changes})))


def complaints(row, driver="radv 26.1", tmp="budget.csv", path=None):
    budgets.write(path / tmp, "radv 26.1", [values()])
    own, allowed = budgets.read(path / tmp)
    return list(budgets.complaints("amd-navi21", driver, [row], own, allowed))


def test_what_was_allowed_is_allowed(tmp_path):
    assert complaints(values(), path=tmp_path) == []
    assert complaints(values(code_bytes=11000, occupancy=7, compile_seconds=2.0), path=tmp_path) == []


@pytest.mark.parametrize("name, value", [("spills", 1), ("scratch_bytes", 16), ("occupancy", 5), ("code_bytes", 11001),
                                         ("compile_seconds", 4.0)])
def test_what_grew_is_named(tmp_path, name, value):
    [line] = complaints(values(**{name: value}), path=tmp_path)
    assert line.startswith(f"amd-navi21, prefill, flash: {name} {value}, expected")


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
