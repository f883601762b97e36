"""The pictures and the page: their formats, the texts and the points in them."""
import copy
import html.parser
import io
import sys
import xml.etree.ElementTree

import numpy
import pytest
from matplotlib.colors import PowerNorm

from conftest import LOSSES, SWEEP, WEIGHTS, point, save
from vkattn_plot import bench, documents, estimate, losses, style, weights
from vkattn_plot.__main__ import main

SVG = "{http://www.w3.org/2000/svg}"
ALL = (("bench", "sweep.json"), ("bench", "variants.json"), ("bench", "one.json"), ("estimate", "estimate.json"),
       ("weights", "weights.json"), ("losses", "losses.json"))


def texts_of(name):
    root = xml.etree.ElementTree.parse(name).getroot()
    assert root.tag == SVG + "svg"
    return ["".join(element.itertext()) for element in root.iter(SVG + "text")]


@pytest.mark.parametrize("command, file", ALL)
def test_each_kind_is_drawn_in_each_format(folder, command, file):
    for suffix, mark in ((".png", b"\x89PNG\r\n\x1a\n"), (".svg", b"<?xml"), (".pdf", b"%PDF-")):
        assert main([command, file, "-o", "x" + suffix]) == 0
        assert (folder / ("x" + suffix)).read_bytes().startswith(mark)


def test_a_sweep_shows_its_device_units_and_kernels(folder):
    assert main(["bench", "sweep.json", "-o", "x.svg"]) == 0
    texts = texts_of("x.svg")
    for text in ("vkattn bench: attention", "Device <X> & Co, driver 1; 8 heads", "key length (tokens)", "1k", "8k",
                 "median time by the device's clock (ms)", "kernel decode", "kernel flash", "at best, by the roofline",
                 "rate (GFLOP/s)", "f32 multiply-adds 1,000 GFLOP/s, memory 100 GB/s",
                 "matrix units 4,000 GFLOP/s, memory 100 GB/s"):
        assert text in texts, text


def test_a_sweep_has_the_points_and_the_bound_where_it_was_measured(folder):
    document = documents.read("sweep.json", "bench")
    times, roofline = bench.sweep_figure([document]).axes
    lines = {line.get_label(): line for line in times.lines}
    assert list(lines["measured"].get_xdata()) == [1024, 2048, 4096, 8192]
    assert list(lines["measured"].get_ydata()) == [record["median_ms"] for record in SWEEP]
    assert list(lines["at best, by the roofline"].get_ydata()) == [record["bound_ms"] for record in SWEEP]
    assert list(lines["kernel flash"].get_xdata()) == [4096, 8192]
    roof = next(line for line in roofline.lines if line.get_label().startswith("f32"))
    assert list(roof.get_xdata())[1] == 10 and list(roof.get_ydata())[1:] == [1000, 1000]
    plain = documents.read(save(folder / "p.json", [point(1, peaks=False), point(2, peaks=False)]), "bench")
    assert [len(axes.lines) for axes in bench.sweep_figure([plain]).axes] == [2]


def test_losses_have_every_step_their_mean_and_what_is_held_out(folder):
    assert main(["losses", "losses.json", "-o", "x.svg"]) == 0
    for text in ("vkattn-lm finetune: loss", "a<b.gguf, Device <X> & Co, 1,024 tokens a step", "mean of 4 steps", "held out", "step"):
        assert text in texts_of("x.svg"), text
    lines = {line.get_label(): line for line in losses.figure_of(documents.read("losses.json", "losses")).axes[0].lines}
    assert list(lines["of each step"].get_ydata()) == [row["loss"] for row in LOSSES["losses"]]
    assert lines["mean of 4 steps"].get_ydata()[0] == 3.98 and abs(lines["mean of 4 steps"].get_ydata()[-1] - (4 - 38.5 / 50)) < 1e-12
    assert list(lines["held out"].get_xdata()) == [0, 40] and list(lines["held out"].get_ydata()) == [4.5, 3.5]
    alone = documents.read(save(folder / "alone.json", {**LOSSES, "losses": LOSSES["losses"][:1], "held_out": []}), "losses")
    assert [line.get_label() for line in losses.figure_of(alone).axes[0].lines] == ["of each step"]


def test_several_sweeps_share_a_chart(folder):
    save(folder / "other.json", [point(1024 << step, q_len=2) for step in range(3)])
    assert main(["bench", "sweep.json", "other.json", "-o", "x.svg"]) == 0
    texts = texts_of("x.svg")
    assert "sweep" in texts and "other" in texts and "kernel decode" not in texts


def test_the_length_that_is_swept_is_the_axis(folder):
    linear = [point(1, op="linear", in_features=64, out_features=64, rows=rows) for rows in (1, 16, 512)]
    for name, content, words in (("q", [point(64, q_len=length) for length in (1, 2, 4)], "query length (tokens)"),
                                 ("both", [point(length, q_len=length) for length in (1, 2)], "key length (tokens)"),
                                 ("index", [point(length, op="index") for length in (1, 2)], "key length (tokens)"),
                                 ("linear", linear, "rows of the input")):
        assert main(["bench", save(folder / f"{name}.json", content), "-o", f"{name}.svg"]) == 0
        assert words in texts_of(f"{name}.svg")


def test_an_estimate_names_every_variant_and_escapes_what_xml_would_read(folder):
    assert main(["estimate", "estimate.json", "-o", "x.svg"]) == 0
    texts = texts_of("x.svg")
    assert texts.count("mla") == 3 and texts.count("a<b&\"c\"") == 3  # the line and two bars
    assert texts.count("encoder") == 2  # keeps no cache
    assert "billion parameters" in texts and "MiB" in texts and "memory of 2 GiB, for weights too" in texts


def test_what_keeps_no_cache_has_no_chart_of_caches(folder):
    content = {"estimates": [{"name": "encoder", "context_len": 1, "batch": 1, "parameters": 1,
                              "cache_bytes_per_token": 0, "cache_bytes": 0}]}
    document = documents.read(save(folder / "encoder.json", content), "estimate")
    assert len(estimate.figure_of(document).axes) == 1


def test_weights_show_each_head_on_one_scale(folder):
    with style.settings():
        figure = weights.figure_of(documents.read("weights.json", "weights"))
    panels = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title(loc="left") for axes in panels] == ["head 0", "head 1"]
    assert {axes.images[0].norm for axes in panels} == {panels[0].images[0].norm}
    assert isinstance(panels[0].images[0].norm, PowerNorm)
    assert [label.get_text() for label in panels[0].get_xticklabels()] == ["In", "the", "end"]
    assert panels[0].images[0].get_array().tolist() == WEIGHTS["panels"][0]["weights"]


def test_weights_of_many_keys_are_pooled_and_numbered(folder):
    content = copy.deepcopy(WEIGHTS) | {"queries": 1, "keys": 5000, "key_labels": [], "query_labels": []}
    row = [0.0] * 5000
    row[4321] = 0.5
    content["panels"] = [{"title": "head 0", "weights": [row]}, {"title": "nothing", "weights": [[0.0] * 5000]}]
    assert main(["weights", save(folder / "long.json", content), "-o", "x.png"]) == 0
    pooled = weights.pooled(numpy.array([row]))
    assert pooled.shape == (1, 512) and pooled.max() == 0.5 and numpy.count_nonzero(pooled) == 1


def test_standard_input_is_read(folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO((folder / "sweep.json").read_text()))
    assert main(["bench", "-", "-o", "x.png"]) == 0


class Page(html.parser.HTMLParser):
    """What a browser would fetch, and the headings."""

    def __init__(self, text):
        super().__init__()
        self.links, self.headings, self.tag, self.pictures = [], [], "", 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tag = tag
        self.pictures += tag == "svg"
        self.links += [value for name, value in attributes if name in ("src", "href", "xlink:href")]

    def handle_data(self, data):
        if self.tag in ("h1", "h2"):
            self.headings.append(data)
        self.tag = ""


def test_a_page_holds_all_its_pictures_and_needs_no_other_file(folder):
    files = ["weights.json", "sweep.json", "one.json", "variants.json", "estimate.json", "devices.json", "plain.json"]
    assert main(["report", *files, "-o", "x.html"]) == 0
    text = (folder / "x.html").read_text()
    page = Page(text)
    assert page.pictures == 6  # one alone of the file without a roofline has none
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert page.headings[:3] == ["vkattn on Device <X> & Co", "Devices and their kernels", "Roofline"]
    for cell in ("<td>decode</td>", "<td>mqa</td>", "<td>no: no matrix units</td>", "<p>a&lt;b fits.</p>"):
        assert cell in text
    assert "<X>" not in text and "NaN" not in text


def test_numbers_read_as_people_write_them():
    assert [style.digits(value) for value in (0, 0.1234, 12.34, 123.4, 5, 12345)] == ["0", "0.123", "12.3", "123", "5",
                                                                                      "12,345"]
    assert [style.tokens_text(value) for value in (1, 1024, 1536, 3 << 20)] == ["1", "1k", "1,536", "3M"]
    assert [style.bytes_text(value) for value in (0, 512, 1536, 2**31)] == ["0 bytes", "512 bytes", "1.5 KiB", "2 GiB"]
