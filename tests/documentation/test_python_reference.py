"""The page of the Python package has what the package gives."""
import ast

import python_reference

from conftest import ROOT


def test_every_public_name_is_on_the_page():
    tree = ast.parse((ROOT / "python/vkattn/__init__.py").read_text(encoding="utf-8"))
    [names] = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    page = python_reference.page()
    assert len(names) > 20
    assert [name for name in names if name != "errors" and f"## {name}\n" not in page] == []


def test_signatures_and_docstrings_are_the_functions(tmp_path):
    (tmp_path / "__init__.py").write_text('"""A package."""\nfrom .part import Thing, act\n__all__ = ["Thing", "act"]\n')
    (tmp_path / "part.py").write_text("""
class Thing:
    '''A thing.'''
    def __init__(self, size=3): pass
    def grow(self, *, by): '''Larger.'''
    @property
    def size(self): '''In metres.'''
    def _inner(self): pass
    def __call__(self, tokens): pass

def act(thing, *, fast=False):
    '''Acts.'''
""")
    page = python_reference.page(tmp_path)
    for text in ("A package.", "vkattn.Thing(size=3)", "### Thing.grow", "grow(*, by)", "Larger.", "### Thing()", "thing(tokens)", "### Thing.size", "In metres.",
                 "vkattn.act(thing, *, fast=False)", "Acts."):
        assert text in page, page
    assert "_inner" not in page and "self" not in page
