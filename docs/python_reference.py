#!/usr/bin/env python3
"""The Python package as one page of Markdown, from its docstrings; nothing is imported.

    python_reference.py FILE    writes the page
"""
import ast
import pathlib
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "python/vkattn"


def public_names(package):
    """What `vkattn` gives, in the order in which its __init__ imports it, and the module that each is of."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    exported = next(ast.literal_eval(node.value) for node in tree.body
                    if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    found = {alias.asname or alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom)
             for alias in node.names}
    return {name: module for name, module in found.items() if name in exported}


def definitions(path):
    """The functions and classes of a module, by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def signature(name, node, skip_self=False):
    arguments = ast.unparse(node.args)
    if skip_self:
        first, _, rest = arguments.partition(", ")
        arguments = rest if first in ("self", "cls") else arguments
    return f"{name}({arguments})"


def is_property(node):
    return any(isinstance(each, ast.Name) and each.id in ("property", "cached_property") for each in node.decorator_list)


def text_of(node):
    docstring = ast.get_docstring(node)
    return ["```text", docstring, "```", ""] if docstring else []


def function_lines(name, node):
    return [f"## {name}", "", "```python", signature(f"vkattn.{name}", node), "```", "", *text_of(node)]


def class_lines(name, node):
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    init = next((each for each in methods if each.name == "__init__"), None)
    call = signature(f"vkattn.{name}", init, True) if init else f"vkattn.{name}"
    lines = [f"## {name}", "", "```python", call, "```", "", *text_of(node), *(text_of(init) if init else [])]
    for each in methods:
        if each.name.startswith("_") and each.name != "__call__":
            continue
        shown = each.name if is_property(each) else signature(each.name, each, True)
        if each.name == "__call__":
            shown = signature(name.lower(), each, True)
        lines += [f"### {name}{'()' if each.name == '__call__' else f'.{each.name}'}", "", "```python", shown, "```", "", *text_of(each)]
    return lines


def page(package=PACKAGE):
    introduction = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8")))
    lines = ["# Python reference", "", "From the docstrings of the package `vkattn`, as `help(vkattn)` prints them.", "", "```text",
             introduction, "```", ""]
    for name, module in public_names(package).items():
        node = definitions(package / f"{module}.py").get(name) if module else None
        if isinstance(node, ast.FunctionDef):
            lines += function_lines(name, node)
        elif isinstance(node, ast.ClassDef):
            lines += class_lines(name, node)
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("docs/python_reference.py: expected the name of the file to write")
    pathlib.Path(sys.argv[1]).write_text(page(), encoding="utf-8")
