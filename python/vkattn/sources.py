"""The syntax tree of a function's own text."""
import ast
import functools
import linecache
import types

_APART = 1 << 20  # lines between functions that stand on one line


def definition_of(function):
    """The ast.FunctionDef or ast.Lambda that a function was compiled from. Raises ValueError, without the function's name,
    where there is no text, or another one than the function was compiled from."""
    file = function.__code__.co_filename
    linecache.checkcache(file)
    linecache.lazycache(file, function.__globals__)
    return _definition(function.__code__, file)


def _codes(code):
    """The code objects inside a module's."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def _first_line(node):
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])


@functools.lru_cache(maxsize=256)  # by what was compiled: the text is looked at once
def _definition(code, file):
    text = "".join(linecache.getlines(file))
    if not text:
        raise ValueError("has no source text, expected a function of a file, or GLSL")
    changed = ValueError("the file has another text than the function was made from, expected the same: import it again")
    try:
        tree = ast.parse(text)
        compiled = compile(tree, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        raise changed from None
    # pytest moves what stands in an assert to another line, and lines may have come before: what is computed decides
    lines = {each.co_firstlineno for each in _codes(compiled) if _instructions(each) == _instructions(code)}
    if not lines:
        raise changed
    line = min(lines, key=lambda each: abs(each - code.co_firstlineno))
    kind = ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
    nodes = [node for node in ast.walk(tree) if isinstance(node, kind) and _first_line(node) == line
             and getattr(node, "name", "<lambda>") == code.co_name]
    return nodes[0] if len(nodes) == 1 else _one_of(nodes, tree, code, file, changed)


def _one_of(nodes, tree, code, file, changed):
    """The one of several functions on a line: each gets a line of its own, by which its code is known."""
    kept = [(node.lineno, node.end_lineno) for node in nodes]
    for number, node in enumerate(nodes, 1):
        node.lineno = node.end_lineno = number * _APART
    compiled = compile(tree, file, "exec", dont_inherit=True)
    for node, (first, last) in zip(nodes, kept):
        node.lineno, node.end_lineno = first, last
    same = {each.co_firstlineno // _APART for each in _codes(compiled) if each.co_firstlineno >= _APART
            and _instructions(each) == _instructions(code)}
    if not same:  # an async function
        raise changed
    return nodes[min(same) - 1]


def _instructions(code):
    """What code computes, without its places."""
    constants = [(type(each), each) for each in code.co_consts if not isinstance(each, types.CodeType)]
    return (code.co_name, code.co_argcount, code.co_code, repr(constants), code.co_names, code.co_varnames, code.co_freevars,
            code.co_cellvars)
