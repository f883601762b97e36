"""From machine code of RADV to lines of GLSL. Made with RADV_DEBUG=nirdebuginfo, the driver's shader cache has a table behind each
shader: from which byte of the SPIR-V module the code comes. The modules of a build with VKATTN_SHADER_LINES have OpLine there."""
import bisect
import pathlib
import struct
import subprocess

import lab

ENVIRONMENT = {"RADV_DEBUG": "nirdebuginfo"}
RECORD = struct.Struct("<IxxxxQIIIxxxxIxxxx")  # ac_shader_debug_info: type, file, line, column, offset in SPIR-V, in code
MOST_COLUMNS = 1 << 16
OP_STRING, OP_LINE, OP_NO_LINE, OP_FUNCTION_END = 7, 8, 317, 56

# In the modern root, whose Python knows the compression: replaces each file by what is compressed in it.
DECOMPRESS = """
import pathlib, sys
from compression import zstd
for file in pathlib.Path(sys.argv[1]).glob("*/*/*"):
    data = file.read_bytes()
    start = data.find(bytes.fromhex("28b52ffd"))
    if start >= 0:
        file.write_bytes(zstd.ZstdDecompressor().decompress(data[start:]))
"""


def decompress(folder):
    """The driver's cache, in place."""
    subprocess.run([lab.ROOT / "scripts/modern-root", "run", "python3", "-c", DECOMPRESS, folder], cwd=lab.ROOT, check=True,
                   capture_output=True)


def code_bytes(instructions):
    """Those executed from the program's beginning on, without a gap."""
    result = b""
    for instruction in instructions:
        if instruction["offset"] != len(result):
            break
        result += b"".join(struct.pack("<I", int(word, 16)) for word in instruction["code"].split())
    return result


def table_of(shader):
    """(offset in the code, offset in SPIR-V or None) of a decompressed shader of the cache, by rising offset in the code. The
    table is the file's end, in the order of the source; where it begins is told by what cannot be of it."""
    found, end = [], len(shader)
    while end >= RECORD.size:
        kind, _, _, column, spirv, code = RECORD.unpack(shader[end - RECORD.size:end])
        if kind != 0 or spirv % 4 or code % 4 or code > len(shader) or column > MOST_COLUMNS:
            break
        found.append((code, spirv or None))
        end -= RECORD.size
    return sorted(reversed(found), key=lambda pair: pair[0])


def lines_of_module(words):
    """(byte offset, file and line or None) where a module's line changes, by rising offset."""
    names, changes, at = {}, [], 5
    while at < len(words):
        length, operation = words[at] >> 16, words[at] & 0xffff
        if operation == OP_STRING:
            text = struct.pack(f"<{length - 2}I", *words[at + 2:at + length])
            names[words[at + 1]] = text.split(b"\0")[0].decode(errors="replace")
        elif operation == OP_LINE:
            changes.append((4 * at, (names.get(words[at + 1], "?"), words[at + 2])))
        elif operation in (OP_NO_LINE, OP_FUNCTION_END):
            changes.append((4 * at, None))
        at += max(length, 1)
    return changes


def last_before(table, offset):
    """The second of the last pair whose first is not beyond the offset."""
    place = bisect.bisect_right(table, offset, key=lambda pair: pair[0])
    return table[place - 1][1] if place else None


def add_lines(instructions, given, folder):
    """Gives each instruction of a dispatch "source": "file:line", or "after file:line" of what the compiler made without a line
    of its own, most loads and stores of memory among it, by the last line before it in the code. given: the file of the module
    that the driver got. folder: a decompressed cache. Returns why there are no lines, or ""."""
    code = code_bytes(instructions)
    shader = next((data for data in (file.read_bytes() for file in folder.glob("*/*/*")) if code and code in data), None)
    if shader is None:
        return "the driver's cache does not hold the program"
    table = table_of(shader)
    if not table:
        return "the driver wrote no table of lines"
    data = pathlib.Path(given).read_bytes()
    changes = lines_of_module(struct.unpack(f"<{len(data) // 4}I", data))
    last = ""
    for instruction in instructions:
        spirv = last_before(table, instruction["offset"])
        line = last_before(changes, spirv) if spirv is not None else None
        last = f"{shorten(line[0])}:{line[1]}" if line else last
        instruction["source"] = last if line else last and f"after {last}"
    return "" if any(instruction["source"] for instruction in instructions) else "the module has no lines"


def shorten(path):
    return path.split("/shaders/", 1)[-1]
