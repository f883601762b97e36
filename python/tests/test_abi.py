"""The ctypes structures are those of the headers: a C program says where each member lies."""
import os
import pathlib
import subprocess
import sys

import pytest

from vkattn import _abi, traits

INCLUDE = pathlib.Path(__file__).parents[2] / "include"


def test_every_member_lies_where_the_headers_say(tmp_path):
    lines = []
    for structure in _abi.STRUCTURES:
        name = structure.__name__
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));' for field, _ in structure._fields_]
    source = tmp_path / "layout.c"
    source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include <vkattn/estimate.h>\nint main(void) {\n"
                      + "\n".join(lines) + "\nreturn 0;\n}\n")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-I", INCLUDE, source, "-o", tmp_path / "layout"], check=True)
    said = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True).stdout
    expected = dict(line.split() for line in said.splitlines())
    for structure in _abi.STRUCTURES:
        assert int(expected[structure.__name__]) == _size(structure), structure.__name__
        for field, _ in structure._fields_:
            member = f"{structure.__name__}.{field}"
            assert int(expected[member]) == getattr(structure, field).offset, member


@pytest.mark.parametrize("name, message", [("", ""), ("libc.so.6", "libc.so.6 has no vkattn_last_error, expected the vkattn of this package"),
                                          ("/nowhere/libvkattn.so", "/nowhere/libvkattn.so: cannot open shared object file")])
def test_a_library_that_is_none_is_named(name, message):
    environment = {**os.environ, "VKATTN_LIBRARY": name, "PYTHONPATH": str(pathlib.Path(_abi.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", "import vkattn"], env=environment, capture_output=True, text=True)
    last = run.stderr.strip().splitlines()[-1] if run.returncode else "ImportError: "  # one that is installed
    assert last.startswith("ImportError: ") and message in last


@pytest.mark.parametrize("name", ["/nowhere/libvkattn_jit.so", "libc.so.6"])
def test_a_package_that_compiles_no_functions_says_what_to_install(name, monkeypatch):
    monkeypatch.setenv("VKATTN_JIT_LIBRARY", name)
    said = str(_abi.load_jit())
    assert name in said and "apt install glslang-dev, then pip install" in said and "\n" not in said


def _size(structure):
    import ctypes
    return ctypes.sizeof(structure)


@pytest.mark.parametrize("names, prefix", [(_abi.ROLES, "VKATTN_ROLE_"),
                                           (_abi.KERNELS, "VKATTN_KERNEL_"), (_abi.NORM_KINDS, "VKATTN_NORM_"),
                                           (_abi.ACTIVATIONS, "VKATTN_ACTIVATION_"),
                                           (traits._NUMBERS, "VKATTN_TRAIT_"),
                                           ({"count": len(traits._NUMBERS)}, "VKATTN_TRAIT_")])
def test_enumerations_have_the_headers_numbers(names, prefix, tmp_path):
    source = tmp_path / "numbers.c"
    source.write_text("#include <vkattn/vkattn.h>\n" + "\n".join(
        f"_Static_assert({prefix}{name.upper()} == {number}, \"{name}\");" for name, number in names.items()))
    subprocess.run([os.environ.get("CC", "cc"), "-I", INCLUDE, "-fsyntax-only", source], check=True)
