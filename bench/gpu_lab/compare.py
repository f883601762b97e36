"""vkattn beside ggml on AMD GPUs whose machine code is executed: the same shapes, counted alike, with a modelled time."""
import csv
import dataclasses
import functools
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # bench

import ggml_attention  # noqa: E402
import lab  # noqa: E402
import modelled  # noqa: E402
from shapes import LinearShape, ServingShape, Shape, WholeShape  # noqa: E402

GPUS = ("amd-navi31", "amd-vega10", "amd-navi21", "amd-gfx1201")
TABLE = lab.ROOT / "bench/results/gpu-lab/ggml.csv"
LONGEST_SECONDS, LONGEST_SECONDS_OF_WHOLE = 900, 3600
SERVING_SIDES = {"vkattn": ["packed"], "apart": ["prompt", "decodes"]}
LIBRARY = lab.BUILD / "shared/libvkattn.so"
LLAMA = dict(width=4096, heads=32, kv_heads=8, head_dim=128, hidden=14336)
SMOLLM2 = dict(width=576, heads=9, kv_heads=3, head_dim=64, hidden=1536)
GEMMA3 = dict(width=640, heads=4, kv_heads=1, head_dim=256, hidden=2048)
LAYERS = (("Llama 3 8B", LLAMA, "q4_K"), ("SmolLM2-135M", SMOLLM2, "q4_1"), ("Gemma 3 270m", GEMMA3, "q4_K"))
MODELS = (("SmolLM2-135M", dict(SMOLLM2, weights="q4_1", layers=30, vocabulary=49152)),
          ("Gemma 3 270m", dict(GEMMA3, weights="q4_K", layers=18, vocabulary=262144, family="gemma3")))


def name_of(count):
    return f"{count // 1024}k" if count % 1024 == 0 else str(count)


def decodes(lengths):
    for length in lengths:
        for kind in ("f16", "q8_0"):
            for group in (4, 1, 8):
                yield Shape(f"decode {kind} group {group}, {name_of(length)} keys", 8 * group, 8, 1, length, 128, 128, False, kind,
                            query_type="f16")


def latents(lengths, q_len):
    for length in lengths:
        yield Shape(f"MLA {name_of(length)} keys, {q_len} {'query' if q_len == 1 else 'queries'}", 16, 1, q_len, length, 576, 512,
                    False, "f16", query_type="f16")


def prefills(length):
    """Fewer heads where there are many queries, so that a row takes about a minute to execute; D 256 has half of them."""
    kv_heads = {256: 8, 512: 8, 2048: 2}[length]
    for size in (128, 64, 256):
        heads = kv_heads // 2 if size == 256 else kv_heads
        yield Shape(f"prefill D {size}, {length} queries", 4 * heads, heads, length, length, size, size, True, "f16",
                    query_type="f16")


def linears(rows):
    yield LinearShape(f"linear {rows} {'row' if rows == 1 else 'rows'}", rows, 4096, 4096, "f16")


def shapes():
    """What is compared, the most wanted first."""
    return [*decodes([1024, 4096]), *latents([1024, 4096], 1), *prefills(512), *linears(1), *linears(16), *decodes([512]),
            *latents([16384], 1), *prefills(256), *linears(512), *latents([1024, 4096], 32), *decodes([16384]),
            *prefills(2048), *latents([16384], 32)]


def layers(tokens, past):
    """A decoder layer of each width, Llama's layer in all of them."""
    for model, sizes, quantised in LAYERS:
        for weights in (quantised, "f16"):
            name = f"layer of {model}, {weights}, {place_of(tokens, past)}"
            yield WholeShape(name, **sizes, weights=weights, tokens=tokens, past=past)


def models(tokens, past):
    for model, sizes in MODELS:
        yield WholeShape(f"{model}, {place_of(tokens, past)}", **sizes, tokens=tokens, past=past)


def place_of(tokens, past):
    return f"prompt of {tokens:,}" if tokens > 1 else f"token after {past:,}"


def wholes():
    """Decoder layers and models, the most wanted first."""
    return [*layers(1, 1024), *layers(512, 0), *models(1, 1), *models(64, 0), *models(1, 1024), *layers(1, 4096), *models(512, 0)]


def serving_steps():
    """Ours alone: ggml's attention has no packed batch."""
    for prompt, decoding in ((512, 16), (512, 64), (512, 256), (2048, 16), (2048, 64), (2048, 256)):
        yield ServingShape(f"serving step: prompt of {prompt:,} beside {decoding} decodes after 1,024", prompt, decoding, 1024)


def wholes_in_order():
    """The same as a table has them: layers by width and weights, then models."""
    found = wholes()
    models_of = [model for model, *_ in (*LAYERS, *MODELS)]
    return sorted(found, key=lambda shape: (bool(shape.vocabulary), [model in shape.name for model in models_of].index(True),
                                            shape.weights == "f16", shape.tokens == 1, shape.tokens, shape.past))


def in_order():
    """The same as a table has them: by kind, then by length."""
    kinds = ("decode f16", "decode q8_0", "MLA", "prefill", "linear")
    return sorted(shapes(), key=lambda shape: [next(k for k, kind in enumerate(kinds) if shape.name.startswith(kind)),
                                               getattr(shape, "q_len", 0), getattr(shape, "kv_len", 0),
                                               getattr(shape, "heads", 0), getattr(shape, "head_dim", 0),
                                               getattr(shape, "rows", 0)])


@dataclasses.dataclass
class Row:
    """One run of one side: vkattn, ggml, or before, which is vkattn as it was. us_dram_300 and us_dram_800: the modelled time
    if memory answers sooner or later. what: vkattn's kernel; of ggml and of wholes, whether the numbers are right. waits: the
    dispatches that a barrier, or the end of a submission, makes wait for those before; None: not counted."""
    gpu: str
    shape: str
    side: str
    what: str
    dispatches: int
    instructions: int
    lds_cycles: int
    lines: int
    us: float
    us_dram_300: float
    us_dram_800: float
    bound: str
    waits: int | None = None


def count(gpu, *command, longest_seconds=LONGEST_SECONDS, **more):
    """What the command printed and its dispatches, as the executor counted them; why not, where it took too long."""
    try:
        ran, dispatches, _ = modelled.count(gpu, *command, longest_seconds=longest_seconds, **more)
    except subprocess.TimeoutExpired:
        return f"not done after {longest_seconds} s", []
    return ran.stdout + ran.stderr, dispatches


def of_longest_submission(dispatches):
    """The submission of the operation itself: others copy what it reads and gives."""
    if not dispatches:
        return []
    longest = max(dispatches, key=lambda dispatch: dispatch["instructions"]["total"])
    return [dispatch for dispatch in dispatches if dispatch["submission"] == longest["submission"]]


def run_ours(gpu, shape):
    command = [lab.BUILD / "tools/vkattn", "bench", *shape.options(), "--repeat", 1, "--input-sets", 1]
    output, dispatches = count(gpu, *command, skip_submissions=modelled.WARM_UP_RUNS)
    last = [dispatch for dispatch in dispatches if dispatch["submission"] == dispatches[-1]["submission"]]
    kernel = re.search(r"^kernel\s+([^:\n]+)", output, re.MULTILINE)
    return kernel[1].strip() if kernel else output.strip()[-200:], last


def run_theirs(gpu, shape):
    """By default ggml sums in f16. Not with K of q8_0: it multiplies integers there, which overflow f16."""
    problem = dataclasses.asdict(shape)
    if isinstance(shape, Shape):
        precision = ggml_attention.PRECISION_F32 if shape.kv_type == "q8_0" else ggml_attention.PRECISION_DEFAULT
        problem["precision"] = precision
    output, dispatches = count(gpu, "python3", "-B", lab.ROOT / "bench/gpu_lab/ggml_graph.py", json.dumps(problem))
    verdict = re.search(r"^(right|wrong), error", output, re.MULTILINE)
    return (verdict[1], of_longest_submission(dispatches)) if verdict else (output.strip()[-200:], [])


def run_serving(gpu, shape, side):
    """Apart: the prompt and the decodes one after the other."""
    verdicts, dispatches = set(), []
    for part in SERVING_SIDES[side]:
        verdict, found = run_whole(gpu, shape, "vkattn_serving.py", part)
        if not found:
            return verdict, []
        verdicts.add(verdict)
        dispatches += found
    return max(verdicts), dispatches  # wrong, if one is


def run_whole(gpu, shape, script, *arguments):
    """Whether its numbers are right, and the dispatches that computed them; what it said, where it did not."""
    output, dispatches = count(gpu, "env", "GGML_VK_VISIBLE_DEVICES=0", "python3", "-B", lab.ROOT / "bench/gpu_lab" / script,
                               json.dumps(dataclasses.asdict(shape)), *arguments, longest_seconds=LONGEST_SECONDS_OF_WHOLE,
                               environment={"VKATTN_LIBRARY": LIBRARY, "VKATTN_VALIDATION": "0"})
    verdict = re.search(r"^(right|wrong), error", output, re.MULTILINE)
    places = re.search(r"^dispatches (\d+) to (\d+)$", output, re.MULTILINE)
    if not verdict or not places:
        return output.strip()[-200:], []
    return verdict[1], dispatches[int(places[1]):int(places[2])]


def sides_of(shape):
    """Who computes it: the name of the side, and what runs it."""
    if isinstance(shape, ServingShape):
        return [(side, functools.partial(run_serving, side=side)) for side in SERVING_SIDES]
    if isinstance(shape, WholeShape):
        return [(side, functools.partial(run_whole, script=f"{side}_decoder.py")) for side in ("vkattn", "ggml")]
    return [("vkattn", run_ours), ("ggml", run_theirs)]


def bound_of(dispatches):
    """What bounds the modelled time: of several dispatches the shares in percent, where they differ."""
    shares = {}
    for dispatch in dispatches:
        modelled = dispatch["modelled"]
        shares[modelled["bound"]] = shares.get(modelled["bound"], 0) + modelled["us"]
    total = sum(shares.values())
    if len(shares) == 1:
        return next(iter(shares))
    ordered = sorted(shares.items(), key=lambda share: -share[1])
    return ", ".join(f"{name} {100 * share / total:.0f} %" for name, share in ordered)


def row_of(gpu, shape, side, what, dispatches):
    def total(value):
        return sum(value(dispatch) for dispatch in dispatches)

    return Row(gpu, shape.name, side, what, len(dispatches), total(lambda d: d["instructions"]["total"]),
               total(lambda d: d["lds_cycles"]), total(lambda d: d["requested_lines"]),
               round(total(lambda d: d["modelled"]["us"]), 3), round(total(lambda d: d["modelled"]["us_if"]["dram_ns=300"]), 3),
               round(total(lambda d: d["modelled"]["us_if"]["dram_ns=800"]), 3), bound_of(dispatches),
               total(lambda d: d["waits_for_earlier"]))


def read(path):
    """Rows by GPU, shape and side."""
    if not path.exists():
        return {}
    types = {field.name: field.type for field in dataclasses.fields(Row)} | {"waits": lambda text: int(text) if text else None}
    with path.open(newline="") as file:
        rows = [Row(**{name: types[name](value) for name, value in line.items()}) for line in csv.DictReader(file)]
    return {(row.gpu, row.shape, row.side): row for row in rows}


def write(path, rows):
    """In the order of the shapes."""
    order = [shape.name for shape in (*in_order(), *wholes_in_order(), *serving_steps())]
    names = [field.name for field in dataclasses.fields(Row)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for row in sorted(rows.values(), key=lambda row: (GPUS.index(row.gpu), order.index(row.shape), row.side)):
            writer.writerow(dataclasses.asdict(row))


def begin_anew(path, gpus, pattern):
    """Of these GPUs and the shapes that match, vkattn's rows become those of before, which the page tells beside the new ones; ggml's
    stay, and what steps take apart, which is vkattn's, too, goes. Other rows stay as they are."""
    kept = {}
    for (gpu, shape, side), row in read(path).items():
        is_old = gpu in gpus and re.search(pattern, shape) is not None
        if not is_old or side not in ("vkattn", "apart", "before"):
            kept[gpu, shape, side] = row
        elif side == "vkattn":
            kept[gpu, shape, "before"] = dataclasses.replace(row, side="before")
    write(path, kept)


def fill(path, gpus, pattern, tell):
    """Runs what the table lacks and writes it row by row, so that it goes on where it was ended."""
    rows = read(path)
    for shape in (*shapes(), *wholes(), *serving_steps()):
        for gpu in gpus:
            if not re.search(pattern, shape.name):
                continue
            for side, run in sides_of(shape):
                key = (gpu, shape.name, side)
                if key in rows:
                    continue
                what, dispatches = run(gpu, shape)
                if not dispatches:
                    tell(f"{gpu}: {shape.name}: {side}: nothing was executed: {what}")
                    continue
                rows[key] = row_of(gpu, shape, side, what, dispatches)
                write(path, rows)
            ours, theirs = (rows.get((gpu, shape.name, side)) for side, _ in sides_of(shape))
            if ours and theirs:
                tell(f"{gpu}, {shape.name}: vkattn {ours.us:.1f} µs ({ours.bound}), {theirs.side} {theirs.us:.1f} µs ({theirs.bound}, "
                     f"{theirs.what}): {ours.us / theirs.us:.2f}")
    return rows
