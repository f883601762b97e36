"""The page of bench/results/gpu-lab/ggml.csv."""
import datetime
import re
import subprocess

import compare
import lab

PAGE = compare.TABLE.with_suffix(".md")
TEXT = """# vkattn beside ggml: AMD's machine code, executed and counted

{date}, {packages}. Written by `scripts/gpu-lab compare`, from [ggml.csv](ggml.csv). No GPU has run
any of this.

Both libraries run the same shapes under `scripts/gpu-lab execute`: RADV compiles their shaders for the GPU, every instruction of every
wave is executed, and counted alike. A cell has vkattn's count divided by ggml's, so that less than 1 is for vkattn. **instructions**:
of waves. **LDS**: cycles of shared memory, bank conflicts with them. **lines**: lines of 128 bytes that the waves' loads and stores
ask for. **µs**: a **modelled** time, not a measured one ([how it is modelled](../../../docs/performance.md#a-modelled-time-on-amds-gpus)); it ranks, and nothing in it
was fitted to a GPU. **DRAM 300 / 800**: the ratio of the modelled times if memory answers after 300 ns or after 800 ns, where the
model says 500: a row whose ratios stand on both sides of 1 is undecided. **bound**: what takes that time, of several dispatches with
their shares: the chain of one workgroup's instructions and waits, vector or matrix units, LDS, addresses, L2, dram.

How they are made alike, and where they are not:

- All dispatches of the operation are counted: the kernel, and what joins its parts; of ggml also what it starts before (rows of f32
  made f16). Times of dispatches are added; what lies between two of them is in neither.
- Both see the GPU's true number of compute units, and a cold cache: of a loop over layers, the first.
- vkattn's Q and output are f16, ggml's are f32: it takes no other. Causal is a rule in vkattn, which reads no mask; ggml is given the
  causal mask as the f16 tensor that it takes, reads a tile of it for each tile of K, and leaves out tiles that it hides whole.
- ggml sums in f16, as it does by default, where its keys are f16; with keys of q8_0 it multiplies integers, whose sums overflow f16,
  and is asked for f32. (llama.cpp asks for f32 always.) vkattn sums in f32. Vega 64 multiplies pairs of f16 with sums of f16 alone: of
  rows that arithmetic bounds there, ggml's need half as many multiplications.
- Decode: one query, 8 KV heads of 128, groups of 1, 4, 8 query heads each. MLA: 16 heads of 576 over one KV head whose first 512
  elements are V. Prefill: causal; {prefills}.
  Linear: 4,096 features in and out, f16 weights. Fewer heads than a model's where a row would take long to execute; the same for both.
- Wholes: {wholes}
- Some rows of ggml's answer are compared with float64 (`bench/gpu_lab/ggml_graph.py`): what is wrong is said in the row.
"""

WHOLES = """the graph that llama.cpp builds for a layer, or for a model with its embedding and its logits, through ggml's scheduler,
  which lets the Vulkan backend fuse and reorder it (`bench/gpu_lab/ggml_decoder.py`), beside what vkattn-lm's decoder computes: a layer as
  a recorded program, a model as vkattn-lm runs it, with the choice of the likeliest token after a token (`bench/gpu_lab/vkattn_decoder.py`). The same
  random weights, hidden states in f32, K and V in f16; each side's numbers are compared with float64. A layer is norm, q, k and v, RoPE, append,
  attention, product and residual, norm, gate, up and down, residual. q4_K is q5_0 where a row is no multiple of 256 numbers, and a model's
  embedding is q8_0. Of its cache llama.cpp reads multiples of 256 cells, so does this graph; vkattn's cache has room for a power of two of
  tokens from 4,096. **waits** are dispatches before which a barrier, or a submission's end, stands."""
WHOLES_HEADING = "\n| shape | dispatches | waits | instructions | lines | µs, vkattn / ggml | ratio | DRAM 300 / 800 | bound | ggml's bound |\n" + \
    "|" + 10 * "---|" + "\n"
SERVING = """
A serving step, attention of 8 heads over 2 of 128, pages of 16 tokens: all rows in one packed batch of vkattn's, beside the same prompt and the same
decodes apart, one after the other. ggml's attention takes one mask for all rows and no pages: llama.cpp would let every row read every
sequence's cells, under a mask, or compute sequences of equal length side by side.

| step | dispatches, packed / apart | waits | µs, packed / apart | ratio | bound | apart |
|---|---|---|---|---|---|---|
"""


def versions_of(*packages):
    """Of packages of the modern root."""
    told = subprocess.run([lab.ROOT / "scripts/modern-root", "run", "dpkg-query", "-W", "-f", "${Package} ${Version}\n", *packages],
                          check=True, capture_output=True, text=True).stdout.splitlines()
    version = {package: re.sub(r"^\d+:|\+dfsg.*|-\d+$", "", text) for package, text in (line.split() for line in told)}
    return [version[package] for package in packages]


def mesa():
    return f"Mesa {versions_of('mesa-vulkan-drivers')[0]} (Debian testing)"


def versions():
    mesa, llama, ggml = versions_of("mesa-vulkan-drivers", "llama.cpp-tests", "libggml0-backend-vulkan")
    return f"Mesa {mesa}, llama.cpp {llama} with ggml {ggml} (Debian testing)"


def prefill_heads():
    found = {}
    for shape in compare.shapes():
        if shape.name.startswith("prefill") and shape.head_dim != 256:
            found[shape.q_len] = f"{shape.heads} heads over {shape.kv_heads} at {shape.q_len:,}"
    return ", ".join(found[length] for length in sorted(found)) + " queries, half of them at D 256"


def ratio(ours, theirs):
    return f"{ours / theirs:.2f}" if theirs else ("1.00" if not ours else "–")


def line_of(gpu, shape, rows):
    before, ours, theirs = (rows.get((gpu, shape, side)) for side in ("before", "vkattn", "ggml"))
    if not ours or not theirs:
        return None
    counts = [ratio(getattr(ours, name), getattr(theirs, name)) for name in ("instructions", "lds_cycles", "lines")]
    time = f"{before.us:.1f} → {ours.us:.1f}" if before else f"{ours.us:.1f}"
    factor = ratio(ours.us, theirs.us)
    factor = f"{ratio(before.us, theirs.us)} → **{factor}**" if before else f"**{factor}**"
    sensitive = " / ".join(ratio(getattr(ours, name), getattr(theirs, name)) for name in ("us_dram_300", "us_dram_800"))
    verdict = "" if theirs.what == "right" else " (wrong)"
    return "| " + " | ".join([shape, *counts, f"{time} / {theirs.us:.1f}{verdict}", factor, sensitive, f"{ours.what}: {ours.bound}",
                              theirs.bound]) + " |"


def whole_line(gpu, shape, rows, other="ggml"):
    """Of a whole; of a serving step beside the side "apart"."""
    before, ours, theirs = (rows.get((gpu, shape, side)) for side in ("before", "vkattn", other))
    if not ours or not theirs:
        return None

    def verdict(row):
        return "" if row.what == "right" else " (wrong)"

    def pair(name):
        return f"{getattr(ours, name)} / {getattr(theirs, name)}"

    was = f"{before.us:.1f} → " if before else ""
    was_ratio = f"{ratio(before.us, theirs.us)} → " if before else ""
    counts = [pair("dispatches"), pair("waits")]
    more, sensitive = [], []
    if other == "ggml":
        more = [ratio(getattr(ours, name), getattr(theirs, name)) for name in ("instructions", "lines")]
        sensitive = [" / ".join(ratio(getattr(ours, name), getattr(theirs, name)) for name in ("us_dram_300", "us_dram_800"))]
    return "| " + " | ".join([shape, *counts, *more, f"{was}{ours.us:.1f}{verdict(ours)} / {theirs.us:.1f}{verdict(theirs)}",
                              f"{was_ratio}**{ratio(ours.us, theirs.us)}**", *sensitive, ours.bound, theirs.bound]) + " |"


def wholes_of(gpu, rows):
    lines = list(filter(None, (whole_line(gpu, shape.name, rows) for shape in compare.wholes_in_order())))
    text = WHOLES_HEADING + "\n".join(lines) + "\n" if lines else ""
    lines = list(filter(None, (whole_line(gpu, shape.name, rows, "apart") for shape in compare.serving_steps())))
    return text + (SERVING + "\n".join(lines) + "\n" if lines else "")


def summary(rows):
    """How many rows of each GPU are behind ggml."""
    lines = []
    for gpu in compare.GPUS:
        pairs = [(row, rows[gpu, shape, "ggml"]) for (of, shape, side), row in rows.items()
                 if of == gpu and side == "vkattn" and (gpu, shape, "ggml") in rows]
        if pairs:
            behind = [ours.shape for ours, theirs in pairs if ours.us > theirs.us]
            lines.append(f"- {gpu.removeprefix('amd-')}: {len(pairs)} of {len(compare.shapes()) + len(compare.wholes())} shapes compared, behind ggml in "
                         f"{len(behind)}" + (": " + "; ".join(behind) if behind else "") + ".")
    return "\n".join(lines)


def write():
    rows = compare.read(compare.TABLE)
    text = TEXT.format(date=datetime.date.today(), packages=versions(), prefills=prefill_heads(), wholes=WHOLES)
    text += "\n" + summary(rows) + "\n"
    for gpu in compare.GPUS:
        lines = [line_of(gpu, shape.name, rows) for shape in compare.in_order()]
        wholes = wholes_of(gpu, rows)
        if any(lines) or wholes:
            text += (f"\n## {product(gpu)}\n\n| shape | instructions | LDS | lines | µs, vkattn / ggml | ratio | DRAM 300 / 800 | bound | "
                     "ggml's bound |\n|---|---|---|---|---|---|---|---|---|\n" + "\n".join(filter(None, lines)) + "\n" + (f"\nWholes.\n{wholes}" if wholes else ""))
    PAGE.write_text(text)


def product(gpu):
    return next(line.split("\t")[1] for line in (lab.ROOT / "bench/gpu_lab/gpus.tsv").read_text().splitlines()
                if line.startswith(gpu + "\t"))
