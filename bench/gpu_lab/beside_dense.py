"""Lists of keys, functions of the user's own, stored types and the norm of an input beside the kernel they are variants of: AMD's
machine code, executed and counted."""
import dataclasses
import datetime

import compare
import lab
from problems import VARIANT
from shapes import LinearShape, Shape

GPUS = ("amd-navi31", "amd-gfx1201", "amd-navi21", "amd-vega10")
PAGE = lab.ROOT / "bench/results/gpu-lab/beside-dense.md"
TEXT = """# Lists, functions, scales and norms beside the plain kernel: AMD's machine code, executed and counted

{date}, {driver}. Written by `scripts/gpu-lab beside`. No GPU has run any of this.

Under each shape what is asked of it: nothing more, 512 listed keys (their sorting counts, too), all four functions of
[variant.glsl](../../gpu_lab/variant.glsl), scales of floats of 8 bits, or RMSNorm of the input: of one row by the product itself, of
many in a dispatch before it. All dispatches of a call are counted; what the columns are,
[the table beside ggml](ggml.md) says. **µs** is a **modelled** time, not a measured one
([how it is modelled](../../../docs/performance.md#a-modelled-time-on-amds-gpus)). In brackets: as a multiple of the row that begins the
shape's.
"""
COLUMNS = "| shape | kernel | instructions | LDS | lines | µs | bound |\n|---|---|---|---|---|---|---|\n"


def groups():
    """Shapes that belong together, each list's first one plain."""
    decode = Shape("decode, 32 heads over 8, 4k keys, f16", 32, 8, 1, 4096, 128, 128, False, "f16", query_type="f16")
    latent = Shape("MLA, 16 heads, 4k keys, f16", 16, 1, 1, 4096, 576, 512, False, "f16", query_type="f16")
    prefill = Shape("prefill, 8 heads over 2, 512 queries, f16", 8, 2, 512, 512, 128, 128, True, "f16", query_type="f16")
    for dense in (decode, latent, prefill):
        shapes = [dense, dataclasses.replace(dense, name="all four functions", variant=VARIANT)]
        if dense.kv_len > 512:
            shapes.insert(1, dataclasses.replace(dense, name="512 listed keys", key_list=512))
            shapes.insert(2, dataclasses.replace(dense, name="512 keys in all, none listed", kv_len=512))
        yield shapes
    bytes8 = dataclasses.replace(decode, name="decode, 32 heads over 8, 4k keys, f8_e4m3", kv_type="f8_e4m3")
    yield [bytes8, *(dataclasses.replace(bytes8, name=f"a scale of {each}", kv_scales=word)
                     for each, word in (("the tensor", "tensor"), ("each head", "head"), ("each row", "row"))),
           dataclasses.replace(bytes8, name="q8_0", kv_type="q8_0")]
    for rows in (1, 512):
        plain = LinearShape(f"linear, {rows} {'row' if rows == 1 else 'rows'}, 1,024 to 1,024, f16", rows, 1024, 1024, "f16")
        yield [plain, dataclasses.replace(plain, name="RMSNorm of the input", input_norm=True)]


def line_of(name, row, first):
    def cell(value, of_first, digits=0):
        text = f"{value:,.{digits}f}"
        return text if row is first or not of_first else f"{text} ({value / of_first:.2f})"
    return (f"| {name if row is first else '– ' + name} | {row.what} | {cell(row.instructions, first.instructions)} | "
            f"{cell(row.lds_cycles, first.lds_cycles)} | {cell(row.lines, first.lines)} | {cell(row.us, first.us, 1)} | {row.bound} |")


def lines_of(gpu, shapes, tell):
    first = None
    for shape in shapes:
        what, dispatches = compare.run_ours(gpu, shape)
        if not dispatches:
            yield f"| – {shape.name} | {what} | | | | | |"
            continue
        row = compare.row_of(gpu, shape, "vkattn", what, dispatches)
        first = first or row
        yield line_of(shape.name, row, first)
        tell(f"{gpu}: {shape.name}: {row.us:.1f} us modelled")


def page(gpus, driver, tell):
    parts = [TEXT.format(date=datetime.date.today(), driver=driver)]
    for gpu in gpus:
        lines = [line for shapes in groups() for line in lines_of(gpu.name, shapes, tell)]
        parts.append(f"\n## {gpu.product}\n\n{COLUMNS}" + "\n".join(lines) + "\n")
    return "".join(parts)
