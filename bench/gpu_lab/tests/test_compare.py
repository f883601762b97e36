"""The table beside ggml: what is counted, and what its page says."""
import dataclasses

import compare
import compare_page
import decoder_weights
import ggml_cases
import numpy


def dispatch(submission, total, us, bound):
    return {"submission": submission, "instructions": {"total": total}, "lds_cycles": 10, "requested_lines": 5,
            "waits_for_earlier": True,
            "modelled": {"us": us, "bound": bound, "us_if": {"dram_ns=300": us - 1, "dram_ns=800": us + 1}}}


RUN = [dispatch(1, 10, 0.5, "dram"), dispatch(2, 900, 6.0, "chain"), dispatch(2, 100, 2.0, "dram"), dispatch(3, 10, 0.5, "dram")]


def test_copies_of_other_submissions_do_not_count():
    assert compare.of_longest_submission(RUN) == RUN[1:3]
    assert compare.of_longest_submission([]) == []


def test_a_row_is_the_sum_of_its_dispatches():
    row = compare.row_of("amd-navi31", compare.shapes()[0], "ggml", "right", RUN[1:3])
    assert (row.dispatches, row.instructions, row.lds_cycles, row.lines, row.us) == (2, 1000, 20, 10, 8.0)
    assert (row.us_dram_300, row.us_dram_800) == (6.0, 10.0)
    assert row.bound == "chain 75 %, dram 25 %" and row.waits == 2
    assert compare.bound_of(RUN[1:2]) == "chain"


def rows_of_a_table():
    shape = compare.shapes()[0]
    ours = compare.row_of("amd-navi31", shape, "vkattn", "decode", RUN[1:2])
    theirs = dataclasses.replace(ours, side="ggml", what="right", us=12.0, instructions=450)
    return shape.name, {("amd-navi31", shape.name, row.side): row for row in (ours, theirs)}


def test_a_table_is_read_as_it_was_written(tmp_path):
    _, rows = rows_of_a_table()
    compare.write(tmp_path / "table.csv", rows)
    assert compare.read(tmp_path / "table.csv") == rows
    assert compare.read(tmp_path / "none.csv") == {}


def test_what_was_stands_beside_what_is(tmp_path):
    shape, rows = rows_of_a_table()
    parts = dataclasses.replace(rows["amd-navi31", shape, "vkattn"], shape=next(compare.serving_steps()).name, side="apart")
    rows["amd-navi31", parts.shape, "apart"] = parts
    compare.write(tmp_path / "table.csv", rows)
    for gpus, pattern in ((["amd-vega10"], ""), (["amd-navi31"], "^no such shape")):
        compare.begin_anew(tmp_path / "table.csv", gpus, pattern)
        assert compare.read(tmp_path / "table.csv") == rows
    compare.begin_anew(tmp_path / "table.csv", ["amd-navi31"], "")
    kept = compare.read(tmp_path / "table.csv")
    assert not any(row.side == "apart" for row in kept.values())
    assert sorted(side for _, _, side in kept) == ["before", "ggml"]
    kept["amd-navi31", shape, "vkattn"] = dataclasses.replace(rows["amd-navi31", shape, "vkattn"], us=3.0)
    line = compare_page.line_of("amd-navi31", shape, kept)
    assert "| 2.00 | 1.00 | 1.00 | 6.0 → 3.0 / 12.0 | 0.50 → **0.25** |" in line
    assert "behind ggml in 0." in compare_page.summary(kept)


def test_shapes_have_names_of_their_own_and_an_order():
    names = [shape.name for shape in compare.shapes()]
    assert len(set(names)) == len(names) == 42
    assert sorted(names) == sorted(shape.name for shape in compare.in_order())


def test_cases_are_drawn_by_their_work():
    small = "MUL_MAT(type_a=f16,type_b=f32,m=16,n=1,k=256,bs=[2,1],nr=[1,1],per=[0,1,2,3],k_v=0)"
    large = small.replace("n=1", "n=999")
    attention = "FLASH_ATTN_EXT(hsk=64,hsv=64,nh=4,nr23=[2,1],kv=100,nb=1,mask=1)"
    assert ggml_cases.work_of(small) == 16 * 256 * 2
    assert ggml_cases.work_of(attention) == 128 * 4 * 2 * 100 * 16
    assert ggml_cases.draw([small, large], 5, 1e5, 1) == [small]
    assert ggml_cases.CASE.match(f"  {attention}: \x1b[1;32mOK\x1b[0m")[2] == "OK"


def test_wholes_have_names_of_their_own_and_an_order():
    names = [shape.name for shape in (*compare.shapes(), *compare.wholes(), *compare.serving_steps())]
    assert len(set(names)) == len(names)
    assert sorted(shape.name for shape in compare.wholes()) == sorted(shape.name for shape in compare.wholes_in_order())


def test_wholes_stand_beside_the_peer_and_steps_beside_their_parts():
    ours = compare.row_of("amd-navi31", compare.wholes()[0], "vkattn", "right", RUN[1:3])
    theirs = dataclasses.replace(ours, side="ggml", what="wrong", us=16.0, waits=5)
    rows = {("amd-navi31", ours.shape, row.side): row for row in (ours, theirs)}
    line = compare_page.whole_line("amd-navi31", ours.shape, rows)
    assert "| 2 / 2 | 2 / 5 | 1.00 | 1.00 | 8.0 / 16.0 (wrong) | **0.50** |" in line
    assert "behind ggml in 0." in compare_page.summary(rows)
    apart = {("amd-navi31", ours.shape, "vkattn"): ours, ("amd-navi31", ours.shape, "apart"): theirs}
    assert "| 2 / 2 | 2 / 5 | 8.0 / 16.0 (wrong) | **0.50** |" in compare_page.whole_line("amd-navi31", ours.shape, apart, "apart")


def problem(**members):
    sizes = {"width": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "hidden": 96, "weights": "f16", "tokens": 5, "past": 3,
             "layers": 2, "vocabulary": 0, "family": "llama"}
    return decoder_weights.Problem({**sizes, **members})


def test_what_a_token_gets_does_not_depend_on_how_a_prompt_is_cut():
    for family in ("llama", "gemma3"):
        whole = problem(tokens=6, past=0, vocabulary=40, family=family)
        shorter = problem(tokens=4, past=0, vocabulary=40, family=family)
        shorter.token_ids = whole.token_ids[:4]
        whole.samples = lambda: [3]
        assert numpy.allclose(whole.wanted(), shorter.wanted())


def test_windows_hide_what_lies_before_them():
    of_gemma = problem(family="gemma3", layers=6)
    assert of_gemma.windows() == [512] * 5 + [0]
    seen = of_gemma.visible(0, numpy.array([600]), numpy.arange(700))
    assert seen.sum() == 512 and seen[0, 600] and not seen[0, 601] and not seen[0, 88]
    assert of_gemma.visible(5, numpy.array([4]), numpy.arange(9)).sum() == 5


def test_numbers_in_blocks_are_of_the_kind_that_divides_a_row():
    blocks = problem(weights="q4_K", width=640, hidden=2048)
    kinds = {name: blocks.kind(f"blk.0.{name}.weight") for name in ("attn_q", "ffn_down", "ffn_norm")}
    assert kinds == {"attn_q": "q5_0", "ffn_down": "q4_K", "ffn_norm": "f32"}
    assert problem(weights="q4_1", width=64, hidden=96).stored("blk.1.ffn_down.weight").shape == (64, 60)
