#!/usr/bin/env python3
"""The Python package as one page of Markdown, from its docstrings; nothing is imported.

    python_reference.py FILE    writes the page
"""
import ast
import html
import pathlib
import re
import sys
import textwrap

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
    """One line, or several of 96 columns."""
    arguments = ast.unparse(node.args)
    if skip_self:
        first, _, rest = arguments.partition(", ")
        arguments = rest if first in ("self", "cls") else arguments
    return "\n".join(textwrap.wrap(f"{name}({arguments})", 96, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False))


def is_property(node):
    return any(isinstance(each, ast.Name) and each.id in ("property", "cached_property") for each in node.decorator_list)


def item_of(line, names):
    """(names, text) of a line that begins with one of the names, or several: "past_lengths, past_len  keys before ..."."""
    match = re.fullmatch(r"(\w+(?:, \w+)*)(?: +|: )(\S.*)", line)
    return match.groups() if match and all(name in names for name in match.group(1).split(", ")) else None


def taken(lines, is_more):
    """The first lines of which this holds, taken out of the list."""
    count = next((i for i, line in enumerate(lines) if not is_more(line)), len(lines))
    found, lines[:count] = lines[:count], []
    return found


def text_of(docstring, names=()):
    """A docstring as HTML: paragraphs, indented code, and a list of what it says of the names."""
    lines, out, items = docstring.split("\n") if docstring else [], [], False
    while lines:
        item = item_of(lines[0], names)
        if bool(item) != items:
            out.append("<dl>" if item else "</dl>")
            items = bool(item)
        if item:
            lines.pop(0)
            words = " ".join([item[1], *(line.strip() for line in taken(lines, lambda line: line.startswith("    ")))])
            out.append(f"<dt>{item[0]}</dt><dd>{html.escape(words, False)}</dd>")
        elif not lines[0]:
            lines.pop(0)
        elif lines[0].startswith("    "):
            code = taken(lines, lambda line: not line or line.startswith("    "))
            out.append(f"<pre>{html.escape(textwrap.dedent(chr(10).join(code)).strip(), False)}</pre>")
        else:
            words = [lines.pop(0), *taken(lines, lambda line: line and not line.startswith("    ") and not item_of(line, names))]
            out.append(f"<p>{html.escape(' '.join(words), False)}</p>")
    return [*out, "</dl>" * items, ""]


def parameters(node):
    arguments = node.args
    return {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg) if each}


def described(node, names=()):
    return text_of(ast.get_docstring(node), {*names, *(parameters(node) if isinstance(node, ast.FunctionDef) else ())})


def function_lines(name, node):
    return [f"## {name}", "", "```python", signature(f"vkattn.{name}", node), "```", "", *described(node)]


def class_lines(name, node):
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    init = next((each for each in methods if each.name == "__init__"), None)
    call = signature(f"vkattn.{name}", init, True) if init else f"vkattn.{name}"
    lines = [f"## {name}", "", "```python", call, "```", "", *described(node, parameters(init) if init else ()),
             *(described(init) if init else [])]
    for each in methods:
        if each.name.startswith("_") and each.name != "__call__":
            continue
        shown = each.name if is_property(each) else signature(each.name, each, True)
        if each.name == "__call__":
            shown = signature(name.lower(), each, True)
        lines += [f"### {name}{'()' if each.name == '__call__' else f'.{each.name}'}", "", "```python", shown, "```", "", *described(each)]
    return lines


def page(package=PACKAGE):
    introduction = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8")))
    lines = ["# Python reference", "", "From the docstrings of the package `vkattn`, as `help(vkattn)` prints them.", "",
             *text_of(introduction, {*public_names(package), "transformers", "errors"})]
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
