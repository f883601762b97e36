"""The table of instructions: each is in a test, but for those named here."""

import pytest
from conftest import Executor

# Without a test of their own: checked by what vkattn's kernels compute.
UNTESTED = set()


def test_every_instruction_is_in_a_test(request, executors):
    files = {item.fspath.basename for item in request.session.items}
    if request.config.option.keyword or not {"test_instructions.py", "test_every_instruction.py"} <= files:
        pytest.skip("only some tests run, expected all of the folder")
    names = set(executors["navi31"].ask(names=True)["names"])
    assert sorted(names - Executor.executed - UNTESTED) == []
    assert sorted(UNTESTED & Executor.executed) == [], "these are in a test now"
