"""What `vkattn bench --json` measured: times against a length, the roofline, and layers side by side."""
import pathlib

from . import style
from .documents import PlotError

# Sizes that a sweep may change, the last one that does is its axis.
SIZES = {"attention": (("batch", "batch"), ("q_len", "query length (tokens)"), ("kv_len", "key length (tokens)")),
         "index": (("batch", "batch"), ("q_len", "query length (tokens)"), ("kv_len", "key length (tokens)")),
         "linear": (("in_features", "input features"), ("out_features", "output features"),
                    ("rows", "rows of the input"))}
ROOFS = (("peak_gflops", "f32 multiply-adds", "-"), ("peak_matrix_gflops", "matrix units", "--"))


def swept_size(document):
    """(field, words) of the size that differs between the points; None: there is one point alone."""
    first, last = document.records[0], document.records[-1]
    operation = first.text("op")
    if operation not in SIZES:
        raise PlotError(f"{first.where}: field 'op' is '{operation}', expected {' or '.join(SIZES)}")
    differing = [size for size in SIZES[operation] if first.number(size[0]) != last.number(size[0])]
    return differing[-1] if differing else None


def has_peaks(document):
    return "peak_gflops" in document.record


def label_of(document, documents):
    """What tells several files apart: their names."""
    return pathlib.Path(document.path).stem if len(documents) > 1 else "measured"


def subtitle_of(documents):
    devices = dict.fromkeys(f"{each.record.text('device')}, {each.record.text('driver')}" for each in documents)
    problems = dict.fromkeys(each.record.text("problem") for each in documents)
    return "; ".join((*devices, *problems))


def by_kernel(document):
    """The points of each kernel, in the order of the sweep."""
    points = {}
    for record in document.records:
        points.setdefault(record.text("kernel"), []).append(record)
    return points


def draw_times(axes, documents):
    """Median time against the length that is swept, and what no kernel can beat where that was measured."""
    field, words = common_size(documents)
    for index, document in enumerate(documents):
        lengths = [record.positive(field) for record in document.records]
        medians = [record.positive("median_ms") for record in document.records]
        label = label_of(document, documents)
        axes.plot(lengths, medians, color=style.colour(index), linestyle=style.line_style(index), linewidth=2,
                  marker=style.MARKERS[index % len(style.MARKERS)] if len(documents) > 1 else None, label=label)
        if len(documents) == 1:
            draw_kernels(axes, document, field, "median_ms")
        if has_peaks(document):
            bounds = [record.positive("bound_ms") for record in document.records]
            words_of_bound = "at best, by the roofline" if len(documents) == 1 else f"{label}, at best by the roofline"
            axes.plot(lengths, bounds, color=style.colour(index), linestyle=":", label=words_of_bound)
    axes.set(xscale="log", yscale="log", xlabel=words, title="Time of one run")
    axes.set_ylabel(f"median time by the {clock_text(documents)} clock (ms)")
    style.use_log(axes.xaxis, style.tokens_text, 2, ticks_of(documents, field))
    style.use_log(axes.yaxis, style.digits)
    axes.legend()


def draw_kernels(axes, document, x_field, y_field):
    for index, (kernel, records) in enumerate(by_kernel(document).items()):
        axes.plot([record.positive(x_field) for record in records], [record.positive(y_field) for record in records],
                  linestyle="", marker=style.MARKERS[index % len(style.MARKERS)], markersize=7, color=style.COLOURS[0],
                  markeredgecolor="white", label=f"kernel {kernel}")


def clock_text(documents):
    clocks = dict.fromkeys(each.record.text("clock") for each in documents)
    return " or ".join({"gpu": "device's", "wall": "wall"}.get(clock, clock) for clock in clocks)


def ticks_of(documents, field):
    """The lengths themselves, as long as they have room."""
    lengths = sorted({record.positive(field) for document in documents for record in document.records})
    return lengths[::max(1, -(-len(lengths) // 10))]


def common_size(documents):
    sizes = dict.fromkeys(swept_size(document) for document in documents)
    if None in sizes:
        single = next(each for each in documents if swept_size(each) is None)
        raise PlotError(f"{single.path}: one length alone, expected several, such as of --kv-len 1k..128k "
                        "(or --roofline, for its place below the roofline)")
    if len(sizes) > 1:
        raise PlotError(f"{documents[-1].path}: changes another length than {documents[0].path}, expected the same")
    return next(iter(sizes))


def draw_roofline(axes, documents):
    """What is reached (operations a second) against operations per byte, below what the device allows."""
    named = [(label_of(document, documents), document) for document in documents]
    intensities = []
    for index, (label, document) in enumerate(named):
        points = sorted((record.positive("flops") / record.positive("bytes"), record.positive("gflops"))
                        for record in document.records)
        intensities += [x for x, _ in points]
        axes.plot(*zip(*points), color=style.colour(index), marker=style.MARKERS[index % len(style.MARKERS)],
                  markersize=7, markeredgecolor="white", linewidth=1, label=label, zorder=3)
    draw_roofs(axes, documents, intensities)
    axes.set(xscale="log", yscale="log", xlabel="operations per byte (FLOP/byte)", ylabel="rate (GFLOP/s)",
             title="Roofline")
    style.use_log(axes.xaxis, style.digits)
    style.use_log(axes.yaxis, style.digits)
    axes.legend()


def draw_roofs(axes, documents, intensities):
    """One roof a device: of its memory and its multiply-adds, and of its matrix units where it has any."""
    devices = {each.record.text("device"): each.record for each in documents if has_peaks(each)}
    for device, record in devices.items():
        memory = record.positive("peak_gbytes_per_s")
        for field, words, line in ROOFS:
            peak = record.number(field)
            if peak == 0:
                continue
            ridge = peak / memory
            xs = sorted((min(*intensities, ridge) / 2, ridge, max(*intensities, ridge) * 2))
            label = f"{words} {style.digits(peak)} GFLOP/s, memory {style.digits(memory)} GB/s"
            axes.plot(xs, [min(peak, x * memory) for x in xs], color=style.GREY, linestyle=line, linewidth=1.2,
                      label=label if len(devices) == 1 else f"{style.shortened(device, 24)}: {label}")


def sweep_figure(documents):
    """Times and, where it was measured, the roofline beside them."""
    with_peaks = [document for document in documents if has_peaks(document)]
    only_roofline = len(with_peaks) == len(documents) and any(swept_size(document) is None for document in documents)
    parts = [] if only_roofline else [(draw_times, documents)]
    parts += [(draw_roofline, with_peaks)] if with_peaks else []
    operation = documents[0].record.text("op")
    figure = style.new_figure(f"vkattn bench: {operation}", subtitle_of(documents), 6.6 * len(parts), 5.2)
    for axes, (draw, shown) in zip(figure.subplots(1, len(parts), squeeze=False)[0], parts):
        draw(axes, shown)
    return figure


def roofline_figure(documents):
    """Of several sweeps, each measured with its device's peaks."""
    figure = style.new_figure("vkattn bench: roofline", subtitle_of(documents), 8, 5.2)
    draw_roofline(figure.subplots(), documents)
    return figure


def variants_figure(document):
    record = document.record
    variants = record.records("variants")
    names = [each.text("variant") for each in variants]
    subtitle = (f"{record.text('device')}, {record.text('driver')}; width {record.number('d_model')}, "
                f"{record.number('heads')} heads, {record.number('len')} tokens, batch {record.number('batch')}, "
                f"{record.text('dtype')}; medians by the {clock_text_of(variants)} clock")
    figure = style.new_figure("vkattn bench: variants of attention", subtitle, 11, 1.9 + 0.42 * len(names))
    panels = (("Prefill of a prompt", "prefill_median_ms", "ms", style.PLAIN),
              ("One decode step", "decode_median_ms", "ms", style.PLAIN),
              ("KV cache of a token", "cache_bytes_per_token", "", style.BYTES))
    for axes, (title, field, unit, units) in zip(figure.subplots(1, len(panels), sharey=True), panels):
        style.draw_bars(axes, names, [each.number(field) for each in variants], title, unit, units)
    return figure


def clock_text_of(variants):
    return "device's" if variants[0].text("clock") == "gpu" else "wall"
