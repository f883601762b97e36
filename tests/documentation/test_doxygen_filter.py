"""Comments of the headers come out as text, and each line at what it is about."""
import subprocess
import sys

import pytest

from conftest import ROOT

HEADER = """/* What this is. */
#ifndef NAME
#define NAME

/* ------------------------------------------------ things */

typedef enum kind {
    KIND_NONE = 0, /* the thing is absent */
    /* the first < second */
    KIND_SOME = 1,
} kind;

/* One thing:
 *
 *     a = b + c
 *
 * size, count   its extent,
 *               in bytes
 * scale  0 means 1;  offset 0 means none
 * A thing of kind NONE is ignored. */
typedef struct thing {
    uint64_t size;
    uint32_t count;
    float scale;
    float offset;
    kind of;
} thing;

/* Makes a thing.
 * count: in, the room; out, how many there
 * are. Fails without room. */
#define MOST_THINGS 8
VKATTN_API int make(uint32_t *count, thing *made);

/* Calls make once more. */
VKATTN_API int make_again(void);

#endif
"""


def filtered(path):
    return subprocess.run([sys.executable, "-B", ROOT / "cmake/doxygen_filter.py", path], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def shown(tmp_path):
    (tmp_path / "name.h").write_text(HEADER)
    return filtered(tmp_path / "name.h")


@pytest.mark.parametrize("words", [
    "/** @file\n * What this is.\n */",
    "KIND_NONE = 0, /**< the thing is absent */",
    "    /** the first \\< second\n     */\n    KIND_SOME",
    " * @verbatim\n *     a = b + c\n * @endverbatim",
    "    /** its extent, in bytes */\n    uint64_t size;\n    /** its extent, in bytes */\n    uint32_t count;",
    "    /** 0 means 1 */\n    float scale;\n    /** 0 means none */\n    float offset;\n    kind of;",
    " * A thing of kind NONE is ignored.\n */\ntypedef struct thing {",
    " * @param count in, the room; out, how many there are. Fails without room.\n */\nVKATTN_API int make(",
    "#define MOST_THINGS 8\n/** Makes a thing."])
def test_a_comment_of_a_header(shown, words):
    assert words in shown


def test_what_is_declared_stays(shown):
    assert "----" not in shown
    for line in HEADER.split("\n"):
        assert line.split(" /*")[0] in shown or line.startswith(("/*", " *"))


@pytest.mark.parametrize("header", sorted(path.name for path in (ROOT / "include/vkattn").glob("*.h")))
def test_no_member_of_a_header_is_lost(header):
    text, shown = (ROOT / "include/vkattn" / header).read_text(encoding="utf-8"), filtered(ROOT / "include/vkattn" / header)
    declared = [line.split("/*")[0].strip() for line in text.split("\n") if line.startswith("    ") and ";" in line and "*" != line.strip()[0]]
    assert [line for line in declared if line not in shown] == []
