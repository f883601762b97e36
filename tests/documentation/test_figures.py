"""The README's figures are those of bench/results."""
import html
import re

import kv_perplexity
import peers_picture

from conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def rows_of(text, word):
    return [cells(line) for line in text.split("\n") if line.startswith("|") and word in line]


def test_figures_of_gpus_are_those_of_the_lab():
    lab = (ROOT / "bench/results/gpu-lab/README.md").read_text(encoding="utf-8")
    shown = rows_of(README, "| **static** |")
    assert len(shown) == 6
    for name, _, prefill, decode, latent in shown:
        page = re.search(r"gpu-lab/(\S+\.md)\)", name).group(1)
        row, = rows_of(lab, f"]({page})")
        assert [prefill, decode, latent] == [row[2], row[4], row[5]], name


def test_figures_of_the_cpu_driver_are_those_measured():
    row, = rows_of(README, "**measured**")
    _, measured = peers_picture.newest_table(peers_picture.RESULTS.read_text(encoding="utf-8"))
    shapes = ("prefill H32/8 L1024 D128 causal", "decode H32/8 Lk4096 D128", "MLA absorbed H16 Lq1 Lk8192")
    for shape, cell in zip(shapes, row[2:]):
        there, = (each for each in measured if each["shape"] == shape and each["K, V"] == "f16")
        assert cell.removesuffix(" ²") == f"{there['over PyTorch']}, {there['over ggml']}", shape


def test_the_picture_is_of_the_figures_that_there_are():
    picture = html.unescape((ROOT / "docs/peers.svg").read_text(encoding="utf-8"))
    where, rows = peers_picture.newest_table(peers_picture.RESULTS.read_text(encoding="utf-8"))
    figure = peers_picture.figure_of(where, rows)
    drawn = [text.get_text() for axes in figure.axes for text in axes.texts + axes.get_yticklabels()]
    assert len(drawn) > 20
    assert [text for text in drawn if text not in picture] == [], "bench/peers_picture.py draws it anew"


def test_perplexities_are_those_of_the_parts():
    where, found = kv_perplexity.read(kv_perplexity.RESULTS)
    assert kv_perplexity.PAGE.read_text(encoding="utf-8") == kv_perplexity.page(where, found), "bench/kv_perplexity.py show"
    picture = html.unescape(kv_perplexity.PICTURE.read_text(encoding="utf-8"))
    figure = kv_perplexity.figure_of(where, found)
    drawn = [text.get_text() for axes in figure.axes for text in axes.texts + axes.get_yticklabels()]
    assert len(drawn) > 20
    assert [text for text in drawn if text not in picture] == [], "bench/kv_perplexity.py show draws it anew"


def test_estimates_advise_by_the_perplexities_of_the_parts():
    made = kv_perplexity.costs(*kv_perplexity.read(kv_perplexity.RESULTS))
    assert kv_perplexity.COSTS.read_text(encoding="utf-8") == made, "bench/kv_perplexity.py show"
