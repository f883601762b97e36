"""The table beside ggml: what is counted, and what its page says."""
import dataclasses

import compare
import compare_page
import ggml_cases


def dispatch(submission, total, us, bound):
    return {"submission": submission, "instructions": {"total": total}, "lds_cycles": 10, "requested_lines": 5,
            "modelled": {"us": us, "bound": bound, "us_if": {"dram_ns=300": us - 1, "dram_ns=800": us + 1}}}


RUN = [dispatch(1, 10, 0.5, "dram"), dispatch(2, 900, 6.0, "chain"), dispatch(2, 100, 2.0, "dram"), dispatch(3, 10, 0.5, "dram")]


def test_copies_of_other_submissions_do_not_count():
    assert compare.of_longest_submission(RUN) == RUN[1:3]
    assert compare.of_longest_submission([]) == []


def test_a_row_is_the_sum_of_its_dispatches():
    row = compare.row_of("amd-navi31", compare.shapes()[0], "ggml", "right", RUN[1:3])
    assert (row.dispatches, row.instructions, row.lds_cycles, row.lines, row.us) == (2, 1000, 20, 10, 8.0)
    assert (row.us_dram_300, row.us_dram_800) == (6.0, 10.0)
    assert row.bound == "chain 75 %, dram 25 %"
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
    compare.write(tmp_path / "table.csv", rows)
    compare.begin_anew(tmp_path / "table.csv")
    kept = compare.read(tmp_path / "table.csv")
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
