"""The C interface as Python has it, which is made of the headers: a C compiler says where each member lies."""
import ctypes
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from vkattn import _abi, _headers

PACKAGE = pathlib.Path(_abi.__file__).parent
INCLUDE = PACKAGE.parents[1] / "include"


def test_members_and_numbers_are_those_of_the_headers(tmp_path):
    interface = {}
    exec(_headers.module_text(INCLUDE / "vkattn"), {"__package__": "vkattn"}, interface)
    structures = [each for each in interface.values() if inspect.isclass(each) and issubclass(each, ctypes.Structure)]
    facts = [f"sizeof({each.__name__}) == {ctypes.sizeof(each)}" for each in structures]
    facts += [f"offsetof({each.__name__}, {name}) == {getattr(each, name).offset}" for each in structures
              for name, _ in each._fields_]
    facts += [f"VKATTN_{name} == {number}" for name, number in interface.items() if isinstance(number, int)]
    assert len(structures) > 40 and len(facts) > 600
    source = tmp_path / "layout.c"
    source.write_text("#include <stddef.h>\n#include <vkattn/estimate.h>\n#include <vkattn/jit.h>\n" +
                      "".join(f'_Static_assert({fact}, "");\n' for fact in facts))
    subprocess.run([os.environ.get("CC", "cc"), "-I", INCLUDE, "-fsyntax-only", source], check=True)


def test_enumerations_are_known_by_names():
    assert _abi.KERNELS["latent_decode"] == _abi.KERNEL_LATENT_DECODE and _abi.KERNELS["coopmat2"] == 5
    assert list(_abi.ROTATIONS.items()) == [("none", 0), ("hadamard", 1)] and "count" not in _abi.ROLES
    assert _abi.TRAIT_NAMES["max_workgroup_count"] == 32 and "count" not in _abi.TRAIT_NAMES


def test_what_headers_may_have_beside_declarations(tmp_path):
    (tmp_path / "vkattn.h").write_text("""\
#ifdef __cplusplus /* C++ */
#define VKATTN_STRUCT_SIZE(type) uint32_t struct_size = sizeof(type)
#else
#define VKATTN_STRUCT_SIZE(type) uint32_t struct_size
#endif /* C++ */
#define VKATTN_SIZED(type) \\
    .struct_size = sizeof(type)
#define VKATTN_PARTS 2u /* at most */
typedef struct vkattn_part {
    VKATTN_STRUCT_SIZE(vkattn_part);
    uint32_t kinds[VKATTN_PARTS], number; // of the part
#ifdef __cplusplus
    vkattn_part(uint32_t given = 0) : number{given} { count(); }
#else
    float value;
#endif
    const char *const *names;
} vkattn_part;
""")
    made = {}
    exec(_headers.module_text(tmp_path), {"__package__": "vkattn"}, made)
    members = [name for name, _ in made["Part"]._fields_]
    assert members == ["struct_size", "kinds", "number", "value", "names"] and ctypes.sizeof(made["Part"]) == 32
    assert made["PARTS"] == 2


def test_structures_say_their_size_themselves():
    assert "struct_size" not in dir(_abi.Tensor) and _abi.Tensor().rank == 0
    desc = _abi.TopKDesc(_abi.Tensor(rank=3))
    assert desc.struct_size == ctypes.sizeof(_abi.TopKDesc) and desc.input.rank == 3
    with pytest.raises(TypeError, match="struct_size: no member of vkattn_top_k_desc, expected one of input, values, indices"):
        _abi.TopKDesc(struct_size=8)


@pytest.mark.parametrize("text, message", [
    ("union vkattn_number { int whole; };", "vkattn.h, line 3: a declaration, which _headers.py does not know, in: union"),
    ("VKATTN_API int vkattn_count(vkattn_thing thing);", "line 3: the type vkattn_thing, which _headers.py does not know"),
    ("typedef struct vkattn_part {\n    unsigned long size;\n} vkattn_part;", "line 3: unsigned long size, which"),
    ("typedef struct vkattn_part {\n    int sizes[VKATTN_SIZES];\n} vkattn_part;", "line 3: the size VKATTN_SIZES, which"),
    ("typedef enum vkattn_part { VKATTN_PART_ONE = sizeof(int) } vkattn_part;", "line 3: the enumerator VKATTN_PART_ONE = sizeof"),
    ("VKATTN_API void vkattn_fill(float numbers[4]);", "line 3: an array as argument, which"),
    ("typedef struct vkattn_part {\n    union { int whole; };\n} vkattn_part;", "line 3: a declaration, which"),
    ("VKATTN_API int vkattn_count(void)", "line 3: a declaration, which _headers.py does not know, in: VKATTN_API")])
def test_what_a_header_has_that_is_not_known_is_named(text, message, tmp_path):
    (tmp_path / "vkattn.h").write_text(f"/* Of two\n * lines */\n{text}\n")
    with pytest.raises(ValueError) as raised:
        _headers.module_text(tmp_path)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_a_package_without_headers_has_them_written_down(tmp_path):
    """As a wheel has them."""
    made = tmp_path / "vkattn"
    shutil.copytree(PACKAGE, made, ignore=shutil.ignore_patterns("__pycache__", "_headers.py"))
    subprocess.run([sys.executable, PACKAGE / "_headers.py", INCLUDE / "vkattn", made / "_interface.py"], check=True)
    environment = {**os.environ, "VKATTN_LIBRARY": _abi.load()._name, "PYTHONPATH": str(tmp_path)}
    program = "import vkattn; from vkattn import _abi; print(vkattn.__file__, _abi.Tensor)"
    said = subprocess.run([sys.executable, "-B", "-c", program], env=environment, check=True, capture_output=True, text=True).stdout
    assert said.startswith(str(made)) and "vkattn_tensor" in said
    (made / "_interface.py").unlink()
    shutil.copy(PACKAGE / "_headers.py", made)
    failed = subprocess.run([sys.executable, "-B", "-c", program], env=environment, capture_output=True, text=True).stderr
    assert "no headers, expected those of vkattn, as a checkout has them" in failed.splitlines()[-1]


@pytest.mark.parametrize("name, message", [("", ""), ("libc.so.6", "libc.so.6 has no vkattn_last_failure, expected the vkattn of this package"),
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


def _grown(text):
    """Names of the structures that may get members, as results.h lists them beside those with a struct_size."""
    shown = re.search(r"Shown by the library one by one(.*?)Structures that never change", text, re.DOTALL)[1]
    return set(re.findall(r"vkattn_(?!list\b)\w+", shown))


def _breaks(old, new, may_grow):
    """What a program of the interface `old`, a module's text, would miss in `new`."""
    kept, lines = set(new.splitlines()), {line.partition(" = ")[0]: line for line in new.splitlines()}
    for line in old.splitlines():
        name, _, value = line.partition(" = ")
        structure = re.match(r"structure\('(\w+)', (\('struct_size')?", value)
        if line in kept or re.fullmatch(r"VERSION_\w+|[A-Z]+(_KIND)?_COUNT", name) or value[:1] == "{":
            continue  # kept, what counts, and names of numbers
        grows = structure and (structure[2] or structure[1] in may_grow)
        if not grows or not lines.get(name, "").startswith(f"{line[:-1]}, ("):
            yield line.strip()


VERSIONS = INCLUDE.parent / "tests" / "consume" / "versions"


@pytest.mark.parametrize("version", sorted(path.parent.name for path in VERSIONS.glob("*/vkattn.h")))
def test_the_interface_of_a_version_is_kept(version):
    old = _headers.module_text(VERSIONS / version)
    new = _headers.module_text(INCLUDE / "vkattn")
    assert not list(_breaks(old, new, _grown((INCLUDE / "vkattn" / "results.h").read_text(encoding="utf-8"))))
    assert old.count("structure(") > 40 and "'vkattn_run':" in old


def test_what_breaks_an_interface_is_told():
    old = ("VERSION_MINOR = 1\nA = 1\nA_COUNT = 2\nAS = {'a': 1}\n"
           "Info = structure('vkattn_info', ('struct_size', c_uint32), ('a', c_int))\n"
           "Shown = structure('vkattn_shown', ('a', c_int))\nFixed = structure('vkattn_fixed', ('a', c_int))\n"
           "FUNCTIONS = {\n    'vkattn_run': (c_int, (Info, )),\n}\n")
    assert not list(_breaks(old, old, set()))
    grown = old.replace("('a', c_int))", "('a', c_int), ('b', c_int))").replace("R = 1", "R = 2").replace("COUNT = 2", "COUNT = 3")
    assert list(_breaks(old, grown, {"vkattn_shown"})) == ["Fixed = structure('vkattn_fixed', ('a', c_int))"]
    changed = old.replace("'a', c_int", "'a', c_float").replace("A = 1", "A = 3").replace("(Info, )", "()")
    assert len(list(_breaks(old, changed, {"vkattn_shown"}))) == 5
