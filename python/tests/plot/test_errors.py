"""What vkattn-plot refuses: it names the file and the field, says what was expected, and touches nothing."""
import copy
import sys

import pytest

from conftest import SWEEP, WEIGHTS, save
from vkattn_plot.__main__ import installation, main


def changed(content, **fields):
    """A copy with other fields in its last record; None: without the field."""
    content = copy.deepcopy(content)
    record = content[-1] if isinstance(content, list) else content
    for name, value in fields.items():
        record[name] = value
        if value is None:
            del record[name]
    return content


@pytest.mark.parametrize("field, value", [("median_ms", None), ("median_ms", "fast"), ("median_ms", -1),
                                          ("median_ms", float("nan")), ("median_ms", 0), ("kernel", 3),
                                          ("kv_len", True), ("bound_ms", None), ("device", None), ("op", "matmul")])
def test_a_wrong_field_is_named(folder, refused, field, value):
    # the kind of a file and its operation show in the first record alone
    content = changed(SWEEP[::-1] if field in ("op", "device") else SWEEP, **{field: value})
    said = refused("bench", save(folder / "wrong.json", content[::-1] if field in ("op", "device") else content),
                   "-o", "x.png")
    assert "wrong.json: [" in said and f"'{field}'" in said


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[1]", "null", "[[]]", "[" * 100000, '{"variants": 1}',
                                  '{"estimates": []}', '{"panels": [1]}', '[{"kernels": {}}]', "\udcff"])
def test_another_file_is_named(folder, refused, text):
    (folder / "other.json").write_bytes(text.encode(errors="surrogateescape"))
    for command, output in (("bench", "x.png"), ("estimate", "x.svg"), ("weights", "x.pdf"), ("report", "x.html")):
        assert "other.json: " in refused(command, "other.json", "-o", output)


def test_a_file_of_another_command_is_told_apart(refused):
    said = refused("bench", "estimate.json", "-o", "x.png")
    assert "estimate.json: holds what 'vkattn estimate --json' prints" in said
    assert "variants.json: variants among 2 files" in refused("bench", "sweep.json", "variants.json", "-o", "x.png")


def test_weights_are_of_the_size_that_the_file_says(folder, refused):
    for weights in ([[1.0, 0.0, 0.0]], "none", [[1.0, 0.0], [0.5, 0.25]], [["a"] * 3] * 2):
        content = changed(WEIGHTS, panels=[{"title": "head 0", "weights": weights}])
        said = refused("weights", save(folder / "wrong.json", content), "-o", "x.png")
        assert "wrong.json: panels[0]: field 'weights', expected 2 lists of 3 numbers" in said


def test_one_length_alone_is_no_chart_of_times(refused):
    assert "plain.json: one length alone" in refused("bench", "plain.json", "-o", "x.png")
    assert "plain.json: one length alone" in refused("bench", "sweep.json", "plain.json", "-o", "x.png")


@pytest.mark.parametrize("words", [(), ("draw",), ("bench",), ("bench", "sweep.json"), ("bench", "-o", "x.png"),
                                   ("estimate", "estimate.json", "estimate.json", "-o", "x.png")])
def test_a_wrong_command_line_is_told(refused, words):
    assert "command line: " in refused(*words)


def test_names_of_outputs_are_checked(folder, refused):
    assert "unknown suffix '.jpg', expected .png or .svg or .pdf" in refused("bench", "sweep.json", "-o", "x.jpg")
    assert "unknown suffix ''" in refused("bench", "sweep.json", "-o", "x")
    assert "expected .html" in refused("report", "sweep.json", "-o", "x.png")
    assert "no such folder" in refused("bench", "sweep.json", "-o", "none/x.png")
    (folder / "folder.png").mkdir()
    assert "no regular file" in refused("bench", "sweep.json", "-o", "folder.png")


def test_inputs_and_other_files_are_kept(folder, refused):
    (folder / "input.svg").write_bytes((folder / "sweep.json").read_bytes())
    assert "is an input" in refused("bench", "input.svg", "-o", "input.svg")
    (folder / "link.svg").symlink_to("input.svg")
    assert "is an input" in refused("bench", "input.svg", "-o", "link.svg")
    for name, text in (("x.png", "notes"), ("x.svg", "<html>"), ("x.pdf", ""), ("x.html", "<!DOCTYPE html><p>mine")):
        (folder / name).write_text(text)
        command = "report" if name == "x.html" else "bench"
        assert f"{name}: holds something else" in refused(command, "sweep.json", "-o", name)


def test_an_earlier_output_is_replaced(folder):
    for command, name in (("bench", "x.png"), ("bench", "x.svg"), ("bench", "x.pdf"), ("report", "x.html")):
        assert main([command, "sweep.json", "-o", name]) == 0
        first = (folder / name).read_bytes()
        assert main([command, "sweep.json", "-o", name]) == 0
        assert (folder / name).read_bytes() == first
    assert not list(folder.glob("*.partial"))


@pytest.mark.parametrize("prefix, base, words", [
    ("/venv", "/usr", "pip install matplotlib"),
    ("/opt/python", "/opt/python", f"{sys.executable} -m pip install matplotlib"),  # of which apt knows nothing
    ("/usr", "/usr", "Debian: apt install python3-matplotlib; elsewhere pip install matplotlib")])
def test_what_is_missing_is_installed_where_the_python_looks(monkeypatch, prefix, base, words):
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "base_prefix", base)
    assert installation("matplotlib") == words
