"""The product has no more lines than tests/house/line_budget allows, and not so few that the budget holds nothing."""
import re

import pytest
from repository import ROOT, tracked

HOUSE = ("runtime", "shaders", "include")
SLACK = 0.01  # of the budget: what may be freed without a lower one


def budgets_of(text):
    """(lines, reason) of each row."""
    rows = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    found = [(int(row[0]), row[1] if len(row) == 2 else "") for row in rows]
    for lines, reason in found:
        assert len(reason.split()) >= 4, f"line_budget: {lines} has the reason '{reason}', expected a sentence"
    reasons = [reason for _, reason in found]
    assert len(set(reasons)) == len(reasons), "line_budget: a reason stands twice, expected one of its own for each budget"
    return found


def fault_of(lines, budget):
    if lines > budget:
        return f"{lines} lines, expected at most {budget}: free some, or add a row with the reason to tests/house/line_budget"
    if lines < budget * (1 - SLACK):
        return f"{lines} lines, far below {budget}: lower the last row of tests/house/line_budget"
    return ""


def test_the_product_stays_within_its_budget():
    counts = {folder: sum((ROOT / path).read_bytes().count(b"\n") for path in tracked(folder)) for folder in HOUSE}
    assert all(counts.values()), counts
    budget, _ = budgets_of((ROOT / "tests/house/line_budget").read_text(encoding="utf-8"))[-1]
    assert not (fault := fault_of(sum(counts.values()), budget)), f"{counts}: {fault}"


def test_more_lines_and_far_fewer_fail():
    assert fault_of(1000, 1000) == fault_of(991, 1000) == ""
    assert re.match("1001 lines, expected at most 1000", fault_of(1001, 1000))
    assert re.match("989 lines, far below 1000", fault_of(989, 1000))


@pytest.mark.parametrize("text", ["100\n", "100 more\n", "100 a kernel that needs them\n120 a kernel that needs them\n"])
def test_a_budget_has_a_reason_of_its_own(text):
    with pytest.raises(AssertionError, match="line_budget"):
        budgets_of(text)
