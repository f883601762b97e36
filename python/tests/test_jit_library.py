"""Which vkattn_jit the package takes: that of the vkattn which is loaded."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

PROGRAM = """
from vkattn import _abi
jit = _abi.load_jit()
print(jit if isinstance(jit, ImportError) else "taken")
"""


def libraries():
    """The paths of vkattn and of vkattn_jit."""
    from vkattn import _abi
    library, jit = _abi.load()._name, _abi.load_jit()
    if isinstance(jit, ImportError):
        pytest.skip("no vkattn_jit")
    return pathlib.Path(library), pathlib.Path(jit._name)


def load(library, **more):
    environment = {name: value for name, value in os.environ.items() if name != "VKATTN_JIT_LIBRARY"}
    environment.update(VKATTN_LIBRARY=str(library), **more)
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="the names of libraries are Linux's")
def test_jit_of_another_vkattn_is_refused(tmp_path):
    library, jit = libraries()
    contents = library.resolve().read_bytes()
    if b"libvkattn.so.0\0" not in contents:
        pytest.skip("a wheel's library, whose name has no number")
    other = tmp_path / "libvkattn.so"
    other.write_bytes(contents.replace(b"libvkattn.so.0\0", b"libvkattn.so.9\0"))
    assert load(library, VKATTN_JIT_LIBRARY=str(jit)) == "taken"
    assert "brings another vkattn than" in load(other, VKATTN_JIT_LIBRARY=str(jit))
    # what lies elsewhere is not looked for
    assert "cannot be loaded (none found), expected it beside vkattn" in load(other, LD_LIBRARY_PATH=str(jit.parent))
    shutil.copy(jit.resolve(), tmp_path / "libvkattn_jit.so")
    assert "brings another vkattn than" in load(other)
