"""What `vkattn estimate --json` says: the KV cache against the context length, parameters and caches by variant."""
from . import style


def subtitle_of(estimates):
    first = estimates[0]
    parts = [f"context {style.tokens_text(first.positive('context_len'))}", f"batch {first.number('batch')}"]
    for field, words in (("num_layers", "layers: {}"), ("weight_type", "weights in {}"), ("cache_type", "cache in {}")):
        values = {str(each.content.get(field)) for each in estimates}
        parts += [words.format(values.pop())] if len(values) == 1 else []
    return ", ".join(parts)


def draw_cache(axes, estimates):
    first = estimates[0]
    context, batch = first.positive("context_len"), first.positive("batch")
    lengths = lengths_around(context)
    cached = sorted((each for each in estimates if each.number("cache_bytes_per_token") > 0),
                    key=lambda each: -each.number("cache_bytes_per_token"))
    for index, each in enumerate(cached):
        of_token = each.number("cache_bytes_per_token") * batch
        axes.plot(lengths, [of_token * length for length in lengths], color=style.colour(index),
                  linestyle=style.line_style(index), marker=style.MARKERS[index % len(style.MARKERS)], markersize=5,
                  label=style.shortened(each.text("name"), 36))
    axes.axvline(context, color=style.GREY, linestyle=":", label=f"context of {style.tokens_text(context)} tokens")
    if "memory_bytes" in first:
        memory = first.positive("memory_bytes")
        axes.axhline(memory, color=style.GREY, linestyle="--",
                     label=f"memory of {style.bytes_text(memory)}, for weights too")
    axes.set(xscale="log", yscale="log", xlabel="context length of each sequence (tokens)", ylabel="KV cache (bytes)",
             title="KV cache against context length")
    style.use_log(axes.xaxis, style.tokens_text, 2, lengths)
    style.use_log(axes.yaxis, style.bytes_text, 2)
    axes.legend(loc="upper left")


def lengths_around(context):
    """Powers of two from a 32nd of the context to four times it."""
    middle = 1 << (min(int(context), 1 << 40).bit_length() - 1)
    return [length for length in (middle >> 5 << step for step in range(8)) if length] or [middle, 2 * middle]


def figure_of(document):
    estimates = document.record.records("estimates")
    names = [each.text("name") for each in estimates]
    has_cache = any(each.number("cache_bytes_per_token") > 0 for each in estimates)
    bars_height = 1.1 + 0.4 * len(names)
    figure = style.new_figure("vkattn estimate: what variants of attention cost", subtitle_of(estimates), 10,
                              0.9 + bars_height + (4.2 if has_cache else 0))
    grid = figure.add_gridspec(2 if has_cache else 1, 2 if has_cache else 1,
                               height_ratios=[4.2, bars_height] if has_cache else None)
    if has_cache:
        draw_cache(figure.add_subplot(grid[0, :]), estimates)
    style.draw_bars(figure.add_subplot(grid[-1, 0]), names, [each.number("parameters") for each in estimates],
                    "Parameters", "parameters", style.COUNTS)
    if has_cache:
        batch = estimates[0].number("batch")
        title = f"KV cache of {'the sequence' if batch == 1 else f'all {batch} sequences'}"
        style.draw_bars(figure.add_subplot(grid[-1, 1]), names, [each.number("cache_bytes") for each in estimates],
                        title, "", style.BYTES)
    return figure
