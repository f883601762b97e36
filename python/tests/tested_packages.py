"""Packages of others that tests compare with: which versions they are for. An older or newer one is left out, with a reason by name."""
import importlib
import importlib.metadata
import re

import pytest

# The oldest version, and the first that is not tried yet; None: none is known.
VERSIONS = {"torch": ("1.13", "3"), "transformers": ("4.53", "6"), "gguf": ("0.17", None), "tokenizers": ("0.21.1", None),
            "jinja2": ("3.1", None), "safetensors": ("0.4", None), "ml_dtypes": ("0.4", None), "tqdm": ("4.60", None), "peft": ("0.17", None)}


def numbers(version):
    """(2, 14, 1) of "2.14.1+debian"."""
    return tuple(int(number) for number in re.match(r"\d+(\.\d+)*", version).group().split("."))


def version_of(module):
    found = getattr(module, "__version__", None)
    return found if isinstance(found, str) else importlib.metadata.version(module.__name__)


def obstacle(name, version, least, below):
    """Why a version is not for the tests; "": it is."""
    if numbers(version) < numbers(least):
        return f"{name} {version} is installed, expected {least} or later"
    return f"{name} {version} is installed, expected less than {below}" if below and numbers(version) >= numbers(below) else ""


def known(name):
    """The module; skips where it is missing, too old or too new."""
    module = pytest.importorskip(name)
    reason = obstacle(name, version_of(module), *VERSIONS[name])
    if reason:
        pytest.skip(reason, allow_module_level=True)
    return importlib.import_module(name)


def needs(name, least):
    """The mark of a test case that is for a newer version than the others of its file."""
    reason = obstacle(name, version_of(importlib.import_module(name)), least, None)
    return pytest.mark.skipif(bool(reason), reason=reason or "none")
