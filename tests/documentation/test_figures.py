"""The figures of the README and the pages are those of bench/results."""
import html
import re

import kv_perplexity
import peers_picture
import readme_figures

from conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PERFORMANCE = (ROOT / "docs/performance.md").read_text(encoding="utf-8")


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def rows_of(text, word):
    return [cells(line) for line in text.split("\n") if line.startswith("|") and word in line]


def test_static_figures_of_gpus_are_those_of_the_lab():
    lab = (ROOT / "bench/results/gpu-lab/README.md").read_text(encoding="utf-8").split("\n## ")[0]
    section = PERFORMANCE.split("\n## Static figures of GPUs\n")[1].split("\n## ")[0]
    shown = rows_of(section, "gpu-lab/")
    assert len(shown) == 6
    for name, prefill, decode, latent in shown:
        page = re.search(r"gpu-lab/(\S+\.md)\)", name).group(1)
        row, = rows_of(lab, f"]({page})")
        assert [prefill, decode, latent] == [row[2], row[4], row[5]], name


def test_measured_and_modelled_figures_of_the_readme_are_those_of_the_results(tmp_path):
    assert readme_figures.shown(README) == readme_figures.lines(tmp_path), "bench/readme_figures.py writes them anew"


def test_a_row_of_figures_is_the_least_and_the_most_of_its_shapes():
    factors = [("prefill causal", 2.9), ("prefill causal", 1.484), ("decode", 0.766), ("linear", 10.04)]
    assert readme_figures.cells(factors) == ["1.48–2.9", "–", "0.77", "–", "–", "10"]
    assert readme_figures.kind_of("decode B1 H32/8 D128 Lk4096", "q8_0") == "decode q8_0"


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
