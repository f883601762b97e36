"""The README's Python runs as it stands."""
import contextlib
import io
import pathlib
import re

README = pathlib.Path(__file__).parents[2] / "README.md"


def test_the_readme_program():
    programs = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(programs) == 1
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(programs[0], str(README), "exec"), {})
    assert "averages its keys to 63.5\n" in said.getvalue()
    assert f"{32768 * 2 * 8 * 128 * 2} bytes of cache a sequence" in said.getvalue()
