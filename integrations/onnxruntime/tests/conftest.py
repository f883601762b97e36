"""What the tests share: sessions with and without vkattn, and how far apart their numbers may be."""
import os
import pathlib
import sys

import numpy as np
import onnxruntime
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import vkattn_onnxruntime  # noqa: E402

# Of the largest number of an output: some units in the last place, by some layers one after the other.
BOUNDS = {np.dtype(np.float32): 1e-4, np.dtype(np.float16): 8e-3}
NO_DEVICES = {"VK_DRIVER_FILES": "/nowhere.json", "VK_ICD_FILENAMES": "/nowhere.json"}  # of the Vulkan loader
VERSION = tuple(int(each) for each in onnxruntime.__version__.split(".")[:2])


def vkattn_session(model, alone=False, **arguments):
    """A session with vkattn. alone: every node must be taken, else its creation fails."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 2
    vkattn_onnxruntime.add(options, **arguments)
    if alone:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return onnxruntime.InferenceSession(model, options)


def cpu_session(model):
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def run(session, feeds):
    """The outputs by name."""
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, feeds)))


def assert_close(found, expected, bound=None, rows=...):
    assert found.shape == expected.shape and found.dtype == expected.dtype
    found, expected, bound = found[rows], expected[rows], bound or BOUNDS[found.dtype]
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound * max(np.abs(expected).max(initial=0), 1e-3))


@pytest.fixture
def rng():
    """Random numbers: of VKATTN_SEED, else others at each run, with the seed in the report."""
    seed = int(os.environ.get("VKATTN_SEED") or np.random.SeedSequence().entropy % 2**32)
    print(f"VKATTN_SEED={seed}")
    return np.random.default_rng(seed)
