#!/usr/bin/env python3
"""Doxygen's view of a header: plain comments become its own. The first paragraph stays text, tables and lists keep their lines.

    doxygen_filter.py FILE
"""
import re
import sys


def block(match):
    indent, body = match.group(1), match.group(2)
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in body.strip().split("\n")]
    first = next((i for i, line in enumerate(lines) if not line), len(lines))
    if first == len(lines) and len(lines) > 1 and any("  " in line for line in lines[1:]):
        first = 0  # a list alone
    text, rest = lines[:first], lines[first:]
    out = [f"{indent}/**" + (" @file" if match.start() == 0 else "")] + [f"{indent} * {line}" for line in text]
    if any(rest):
        out += [f"{indent} * @verbatim"] + [f"{indent} * {line}" for line in rest if line or len(rest) > 1] + [f"{indent} * @endverbatim"]
    return "\n".join(out) + f"\n{indent} */\n"


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    if sys.argv[1].endswith(".hpp"):
        text = re.sub(r"(?m)^(\s*)// ", r"\1/// ", text)
        text = re.sub(r"(?m)([;,]) // ", r"\1 ///< ", text)
    else:
        text = re.sub(r"(?ms)^( *)/\*(?!\*)((?:(?!\*/).)*)\*/\n", block, text)
        text = re.sub(r"([;,0-9]) +/\* ", r"\1 /**< ", text)
    sys.stdout.write(text)


main()
