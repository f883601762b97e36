"""The losses of a training run, as `vkattn-lm finetune` keeps them."""
import math

from . import style

_SMOOTHED = 20  # of as many steps' mean the line is at least, where there are so many


def points_of(record, name, steps="step"):
    """(steps, losses) of a list of the record."""
    records = record.records(name)
    return [each.number(steps) for each in records], [each.number("loss") for each in records]


def means(values, width):
    """The mean of each value and up to width - 1 before it."""
    return [sum(values[max(i + 1 - width, 0):i + 1]) / min(i + 1, width) for i in range(len(values))]


def figure_of(document):
    record = document.record
    steps, losses = points_of(record, "losses")
    held_out = points_of(record, "held_out") if record.content.get("held_out") else None
    subtitle = f"{record.text('model')}, {record.text('device')}, {style.digits(record.positive('tokens_of_step'))} tokens a step"
    figure = style.new_figure("vkattn-lm finetune: loss", subtitle, 8, 5)
    axes = figure.add_subplot()
    width = min(_SMOOTHED, math.ceil(len(losses) / 10))
    axes.plot(steps, losses, color=style.colour(0), linewidth=0.8, alpha=0.4 if width > 1 else 1,
              marker="o" if len(steps) == 1 else None, label="of each step")
    if width > 1:
        axes.plot(steps, means(losses, width), color=style.colour(0), linewidth=2, label=f"mean of {width} steps")
    if held_out:
        axes.plot(*held_out, color=style.colour(1), linewidth=2, marker=style.MARKERS[1], markersize=5, label="held out")
    axes.set(xlabel="step", ylabel="mean loss of a token (nats)")
    axes.legend(loc="upper right")
    return figure
