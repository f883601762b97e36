"""The additions of docs/architecture.md, a diff each, still fit the tree, and have at most as many places as it says."""
import re
import subprocess

import pytest
from repository import ROOT

MOST_PLACES = {"mask": 6, "operator": 8, "kernel": 5, "stored_type": 6}


def fault_of(diff):
    # one line of context: what does not touch the places does not touch the diff
    found = subprocess.run(["git", "apply", "--check", "-C1", "-"], cwd=ROOT, input=diff, capture_output=True, text=True)
    return found.stderr


def places_of(diff):
    """The files of the product that it changes, without their tests."""
    return {path for path in re.findall(r"^\+\+\+ b/(\S+)", diff, re.MULTILINE) if not path.startswith(("tests/", "python/tests/"))}


@pytest.mark.parametrize("addition", MOST_PLACES)
def test_an_addition_fits(addition):
    diff = (ROOT / f"docs/additions/{addition}.diff").read_text(encoding="utf-8")
    assert not (fault := fault_of(diff)), f"docs/additions/{addition}.diff, which is to be made anew: {fault}"
    assert 3 <= len(places_of(diff)) <= MOST_PLACES[addition]


def test_a_diff_of_another_tree_does_not_fit():
    assert fault_of("--- a/LICENSE\n+++ b/LICENSE\n@@ -1,2 +1,3 @@\n not there\n+new\n nor there\n")
