"""The modules of the package stand on one another, and in no circle; those of all packages are for the least Python."""
import ast
import graphlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

PYTHON = pathlib.Path(__file__).parents[1]
PACKAGE = PYTHON / "vkattn"
MODULES = sorted(PYTHON.glob("vkattn*/*.py"))
# Imports modules where NumPy and vkattn's library need not be: what they take of both is looked at when it is used
IMPORTS = """
import importlib, importlib.machinery, sys, unittest.mock
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "vkattn"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        made = unittest.mock.MagicMock()
        made.__path__ = []
        return made
    def exec_module(self, module):
        pass
sys.meta_path.insert(0, Finder())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def imports_of(path):
    """The modules of the package that one imports, inside its functions too."""
    modules = {each.stem for each in PACKAGE.glob("*.py")}
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module.split(".")[0]} if node.module else {name.name for name in node.names} & modules
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vkattn":
            found.add(node.module.split(".")[1] if "." in node.module else "__init__")
        elif isinstance(node, ast.Import):
            assert not any(name.name.split(".")[0] == "vkattn" for name in node.names), f"{path.name}: expected from . import"
    return found


def test_the_graph_of_imports_has_no_circle():
    graph = {path.stem: imports_of(path) for path in PACKAGE.glob("*.py")}
    order = list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError with the circle
    assert order[-1] == "__init__" and graph["_abi"] == {"_headers", "_interface", "_structures"}
    assert graph["attention"] >= {"calls", "arrays"} and graph["paged_cache"] >= {"attention", "context"}  # it sees them


def least_python():
    text = (PYTHON.parent / "pyproject.toml").read_text(encoding="utf-8")
    return tuple(map(int, re.search(r'requires-python = ">=(\d+)\.(\d+)"', text).groups()))


def annotations_of(tree):
    for node in ast.walk(tree):
        yield from (each for each in (getattr(node, "annotation", None), getattr(node, "returns", None)) if each is not None)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_module_is_written_for_the_least_python(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=least_python())
    deferred = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    unions = [each.lineno for each in annotations_of(tree) for part in ast.walk(each)
              if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr)]
    assert deferred or least_python() >= (3, 10) or not unions, f"{path.name}: X | Y is computed on import, in lines {unions}"


def test_the_least_python_imports_vkattn_lm():
    """Where there is one; else this one does."""
    version = "{}.{}".format(*least_python())
    kept = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    python = kept[-1] if kept else shutil.which(f"python{version}") or sys.executable
    names = [f"vkattn_lm.{path.stem}" for path in MODULES if path.parent.name == "vkattn_lm" and not path.stem.startswith("__")]
    made = subprocess.run([python, "-B", "-c", IMPORTS, *names], env={**os.environ, "PYTHONPATH": str(PYTHON)}, capture_output=True,
                          text=True)
    assert len(names) > 10 and made.returncode == 0, made.stderr
