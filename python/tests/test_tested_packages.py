"""Tests leave out versions of other packages by name, and no others."""
import pytest

import tested_packages


@pytest.mark.parametrize("version, said", [
    ("1.13.0a0", "torch 1.13.0a0 is installed, expected 2.5 or later"), ("2.5.0", ""), ("2.14.1+debian", ""),
    ("3.0", "torch 3.0 is installed, expected less than 3"), ("2", "torch 2 is installed, expected 2.5 or later")])
def test_a_version_that_is_left_out_is_named(version, said):
    assert tested_packages.obstacle("torch", version, "2.5", "3") == said
