"""The Python of the README and of docs runs as it stands."""
import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = [(page.name, program) for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
            for program in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)]


@pytest.mark.parametrize("page, program", PROGRAMS, ids=[page for page, _ in PROGRAMS])
def test_a_program_of_the_pages(page, program):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(program, page, "exec"), {})
    assert "averages its keys to 63.5\n" in said.getvalue()
    if page == "README.md":
        assert f"{32768 * 2 * 8 * 128 * 2} bytes of cache a sequence" in said.getvalue()


def test_the_readme_has_a_program():
    assert [page for page, _ in PROGRAMS].count("README.md") == 1
