"""python3 integrations/ggml/products.py [GPU...] [--rows 1,16,512] [--weights f16,q8_0,...] [--kept FILE]: MUL_MAT of 4,096 to 4,096 features by
ggml's shaders and by vkattn's, with rows of f32 as ggml's nodes have them, on AMD GPUs whose machine code is executed: modelled times.

vkattn takes up to 64 rows of f32 as they are, or rows of f16 that ggml's own shader has made of them before: whichever is faster. FILE keeps what
was executed, a line each, so that a run that was ended goes on. Needs build-modern with the tool and the executor (scripts/gpu-lab)."""
import argparse
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/gpu_lab")]

import compare  # noqa: E402
from shapes import LinearShape  # noqa: E402

FEATURES, MOST_F32_ROWS = 4096, 64
SIDES = ("ggml", "f16", "f32")  # vkattn's by the type of its input


def measure(gpu, weights, rows, side):
    """(µs of each dispatch, what computed it or whether it is right); of no weights: of the conversion of the rows."""
    kind, weight_type = ("f32", weights) if side == "f32" else ("f16", "" if weights == "f16" else weights)
    shape = LinearShape("", rows, FEATURES, FEATURES if weights else 0, kind, weight_type=weight_type)
    what, dispatches = (compare.run_theirs if side == "ggml" else compare.run_ours)(gpu, shape)
    return [round(dispatch["modelled"]["us"], 2) for dispatch in dispatches], what


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gpus", nargs="*", default=compare.GPUS)
    parser.add_argument("--rows", default="1,16,512")
    parser.add_argument("--weights", default="f16,q8_0,q4_0,q4_K,q6_K")
    parser.add_argument("--kept", type=pathlib.Path)
    arguments = parser.parse_args()
    all_rows, found = [int(rows) for rows in arguments.rows.split(",")], {}
    if arguments.kept and arguments.kept.exists():
        found = {tuple(key): value for key, *value in map(json.loads, arguments.kept.read_text(encoding="utf-8").splitlines())}

    def time_of(*key):
        if key not in found:
            found[key] = measure(*key)
            if not found[key][0] or found[key][1] == "wrong":
                sys.exit(f"{key}: {found[key][1]}")
            if arguments.kept:
                with arguments.kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([key, *found[key]]) + "\n")
        return found[key][0]

    print("| GPU | weights | rows | ggml, µs | vkattn of f32 | of f16 | rows made f16 | ratio |\n|---|---|---:|---:|---:|---:|---:|---:|")
    for rows in all_rows:
        for gpu in arguments.gpus:
            conversion = time_of(gpu, "", rows, "ggml")[0]
            for weights in arguments.weights.split(","):
                ggml, halves, floats = (sum(time_of(gpu, weights, rows, side)) if side != "f32" or rows <= MOST_F32_ROWS else None
                                        for side in SIDES)
                ratio = min(floats or math.inf, halves + conversion) / ggml
                told = "–" if floats is None else f"{floats:.1f}"
                print(f"| {gpu} | {weights} | {rows} | {ggml:.1f} | {told} | {halves:.1f} | {conversion:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
