"""The fixed list of problems that the lab's report and its budgets are of."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # bench/shapes.py
from shapes import IndexShape, LinearShape, Shape  # noqa: E402

VARIANT = str(pathlib.Path(__file__).resolve().parent / "variant.glsl")


def prefills():
    for kind in ("f16", "f32"):
        for size in (64, 80, 128, 256):
            yield Shape(f"prefill {kind} D{size}", 32, 8, 2048, 2048, size, size, False, kind, query_type=kind)
    yield Shape("prefill f16 D128 causal", 32, 8, 2048, 2048, 128, 128, True, "f16", query_type="f16")
    yield Shape("prefill f16 D128 paged", 32, 8, 2048, 2048, 128, 128, False, "f16", query_type="f16", page_size=16)


def decodes():
    for kind in ("f16", "bf16", "q8_0", "q4_0"):
        for group in (1, 4, 8):
            yield Shape(f"decode {kind} group {group}", 8 * group, 8, 1, 4096, 128, 128, False, kind,
                        query_type="bf16" if kind == "bf16" else "f16")
    yield Shape("decode f16 group 4 paged", 32, 8, 1, 4096, 128, 128, False, "f16", query_type="f16", page_size=16)


def latents():
    for q_len in (1, 32):
        yield Shape(f"MLA 576/512 f16 {q_len} {'query' if q_len == 1 else 'queries'}", 128, 1, q_len, 4096, 576, 512, False, "f16",
                    query_type="f16")


def linears():
    for rows in (1, 16, 512):
        yield LinearShape(f"linear f16 {rows} {'row' if rows == 1 else 'rows'}", rows, 4096, 4096, "f16")


def lists():
    for kind in ("f16", "q8_0"):
        yield Shape(f"lists decode {kind} group 4", 32, 8, 1, 4096, 128, 128, False, kind, query_type="f16", key_list=512)
    yield Shape("lists prefill f16 D128", 32, 8, 128, 4096, 128, 128, True, "f16", query_type="f16", key_list=512)
    yield Shape("lists MLA 576/512 f16 1 query", 128, 1, 1, 4096, 576, 512, False, "f16", query_type="f16", key_list=512)
    for heads, kind in ((1, "q8_0"), (64, "q8_0"), (64, "f16")):
        yield IndexShape(f"index {kind} {heads} {'head' if heads == 1 else 'heads'}", heads, 1, 4096, 128, kind, 512)


def variants():
    """With all four functions."""
    yield Shape("variant prefill f16 D128", 32, 8, 2048, 2048, 128, 128, False, "f16", query_type="f16", variant=VARIANT)
    yield Shape("variant prefill f32 D128", 32, 8, 2048, 2048, 128, 128, False, "f32", query_type="f32", variant=VARIANT)
    yield Shape("variant decode f16 group 4", 32, 8, 1, 4096, 128, 128, False, "f16", query_type="f16", variant=VARIANT)
    yield Shape("variant MLA 576/512 f16 1 query", 128, 1, 1, 4096, 576, 512, False, "f16", query_type="f16", variant=VARIANT)


def gradients():
    for kind, size in (("f16", 64), ("f16", 128), ("f32", 64)):
        yield Shape(f"gradients {kind} D{size} causal", 32, 8, 2048, 2048, size, size, True, kind, query_type=kind, backward=True)
    yield LinearShape("linear gradients f16 512 rows", 512, 4096, 4096, "f16", backward=True)
    yield LinearShape("linear gradients q4_K 512 rows", 512, 4096, 4096, "f16", weight_type="q4_K", backward=True)


def problems():
    return [*prefills(), *decodes(), *latents(), *linears(), *lists(), *variants(), *gradients()]
