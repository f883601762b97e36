"""ONNX's own node tests of Attention: each that ONNX Runtime's processor passes must pass with vkattn, and on vkattn wherever it
takes the node."""
import warnings

import numpy as np
import pytest
from conftest import cpu_session, vkattn_session

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of all operators' tests, which it makes
    from onnx.backend.test.case.node import collect_testcases

    CASES = [case for case in collect_testcases("Attention") if case.model is not None and not case.name.endswith("_expanded")]



def passes(session, case):
    for inputs, outputs in case.data_sets:
        found = session.run(None, dict(zip([each.name for each in session.get_inputs()], inputs)))
        for one, other in zip(found, outputs):
            one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
            np.testing.assert_allclose(one, other, rtol=max(case.rtol, 1e-3), atol=1e-3)


def is_left(case):
    """Whether the README says that the processor gets the node: by what it asks for."""
    node = next(each for each in case.model.graph.node if each.op_type == "Attention")
    return len(node.output) > 3 and node.output[3] != ""


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_node(case):
    model = case.model.SerializeToString()
    try:
        passes(cpu_session(model), case)
    except Exception as error:  # noqa: BLE001 - whatever the processor cannot do is no test of vkattn
        pytest.skip(f"ONNX Runtime's processor does not pass it: {str(error).splitlines()[0][:150]}")
    passes(vkattn_session(model, alone=not is_left(case)), case)


def test_most_nodes_are_tried():
    assert sum(not is_left(case) for case in CASES) >= 48
