"""Rows of a tile that a problem does not fill are no useful work, of either side."""
import pytest

import pages
from collect import Row, useful
from figures import Figures
from problems import problems

BY_NAME = {problem.name: problem for problem in problems()}


@pytest.mark.parametrize("name, is_ggml, tile_rows, share", [
    ("decode f16 group 4", True, 16, 0.25), ("decode f16 group 4", True, 4, 1), ("decode f16 group 8", False, 16, 0.5),
    ("decode f16 group 8", False, None, 1), ("decode f16 group 1", True, 1, 1), ("prefill f16 D128", True, 64, 1),
    ("MLA 576/512 f16 32 queries", True, 64, 0.5), ("MLA 576/512 f16 32 queries", False, 128, 1)])
def test_the_part_of_the_rows_that_is_of_the_problem(name, is_ggml, tile_rows, share):
    assert useful(BY_NAME[name], is_ggml, tile_rows) == share


def test_linear_layers_have_no_rows_of_queries():
    assert useful(BY_NAME["linear f16 1 row"], False, None) is None


def test_the_cells_show_the_useful_part():
    def row(side, share, efficiency):
        own = Row("decode", side, "coopmat", "", Figures("coopmat", 128, 32, registers=96), useful_rows=share)
        values = pages.values_of(own) | {"hot_efficiency": efficiency}
        return {name: str(value) for name, value in values.items()}  # as read_csv gives them
    rows = [row("vkattn", 0.5, "1.000"), row("ggml", 0.25, "0.768")]
    assert pages.summary_cell(rows, "decode") == "coopmat 50 % (19 %)"
    assert "| 50 % |" in pages.page_line("decode", *rows) and pages.page_line("decode", *rows).endswith("| 19 % |")
