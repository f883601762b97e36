"""The additions of docs/architecture.md, a diff each, change places that there are, and as many as it says."""
import re

import pytest
from repository import ROOT

MOST_PLACES = {"mask": 6, "operator": 8, "kernel": 5, "stored_type": 6}


def places_of(diff):
    """(those that it changes, those that it makes): files of the product, without their tests."""
    files = re.findall(r"^--- (?:a/)?(\S+)\n\+\+\+ b/(\S+)", diff, re.MULTILINE)
    product = [(old, new) for old, new in files if not new.startswith(("tests/", "python/tests/"))]
    return {new for old, new in product if old != "/dev/null"}, {new for old, new in product if old == "/dev/null"}


@pytest.mark.parametrize("addition", MOST_PLACES)
def test_an_addition_has_few_places(addition):
    changed, made = places_of((ROOT / f"docs/additions/{addition}.diff").read_text(encoding="utf-8"))
    assert 3 <= len(changed | made) <= MOST_PLACES[addition]
    assert not (gone := [place for place in changed if not (ROOT / place).is_file()]), f"{addition}.diff: {gone}, which are no more"


def test_places_are_told_apart():
    assert places_of("--- a/runtime/a.cpp\n+++ b/runtime/a.cpp\n--- /dev/null\n+++ b/shaders/b.comp\n--- a/tests/c\n+++ b/tests/c\n") == (
        {"runtime/a.cpp"}, {"shaders/b.comp"})
