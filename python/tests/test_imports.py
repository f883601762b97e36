"""The modules of the package stand on one another, and in no circle."""
import ast
import graphlib
import pathlib

PACKAGE = pathlib.Path(__file__).parents[1] / "vkattn"


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
    assert order[-1] == "__init__" and graph["_abi"] == set()
    assert graph["attention"] >= {"calls", "arrays"} and graph["paged_cache"] >= {"attention", "context"}  # it sees them
