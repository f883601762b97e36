#!/usr/bin/env python3
"""Keeps the C headers of this tree as those of a version, in one file without comments, before it is released.

    keep.py VERSION    for instance 0.1
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "python/vkattn"))

import _headers  # noqa: E402

if len(sys.argv) != 2 or not re.fullmatch(r"\d+\.\d+", sys.argv[1]):
    sys.exit(__doc__.strip())
texts = [path.read_text(encoding="utf-8") for path in _headers._ordered(ROOT / "include/vkattn")]
text = re.sub(r"/\*.*?\*/|//[^\n]*|^#include <vkattn/\w+\.h>$", "", "".join(texts), flags=re.DOTALL | re.MULTILINE)
lines = [line.rstrip() for line in text.splitlines()]
kept = HERE / sys.argv[1] / "vkattn.h"
kept.parent.mkdir(exist_ok=True)
kept.write_text(f"/* The declarations of version {sys.argv[1]}: keep.py wrote this. */\n" + "\n".join(filter(None, lines)) + "\n",
                encoding="utf-8")
subprocess.run(["clang-format", "-i", kept], check=True)  # as scripts/format would
