"""What `vkattn show --json` computes: attention weights as heat maps, a panel a head, on one scale of colours."""
import matplotlib
import numpy
from matplotlib.colors import PowerNorm

from . import style
from .documents import PlotError

COLUMNS = 4
SIDE = 2.7  # inches, of the longer side of a panel
SHORTEST = 0.9  # of the other
MOST_CELLS = 512  # of a side; more are pooled
MOST_TEXT_LABELS = 40  # of a side; more are numbered


def matrix_of(panel, queries, keys):
    try:
        matrix = numpy.array(panel.content.get("weights"), dtype=float)
    except (TypeError, ValueError):
        matrix = numpy.empty(0)
    if matrix.shape != (queries, keys) or not numpy.isfinite(matrix).all():
        raise PlotError(f"{panel.where}: field 'weights', expected {queries} lists of {keys} numbers")
    return matrix


def pooled(matrix):
    """The largest weight of those that share a cell, so that none is lost."""
    for axis in (0, 1):
        entries = matrix.shape[axis]
        cells = min(entries, MOST_CELLS)
        matrix = numpy.maximum.reduceat(matrix, numpy.arange(cells) * entries // cells, axis=axis)
    return matrix


def label_axis(axis, labels, entries, rotation):
    if 0 < len(labels) == entries <= MOST_TEXT_LABELS:
        axis.set_ticks(range(entries), [style.shortened(label, 24) for label in labels], rotation=rotation, fontsize=7)
    else:
        axis.set_major_locator(matplotlib.ticker.MaxNLocator(6, integer=True, min_n_ticks=1))


def draw_panel(axes, panel, record, matrix, norm):
    queries, keys = matrix.shape
    image = axes.imshow(pooled(matrix), cmap="Blues", norm=norm, aspect="auto", interpolation="nearest",
                        extent=(-0.5, keys - 0.5, queries - 0.5, -0.5))
    axes.set_title(panel.text("title"))
    axes.set(xlabel="key", ylabel="query")
    axes.grid(False)
    label_axis(axes.xaxis, record.texts("key_labels"), keys, 90)
    label_axis(axes.yaxis, record.texts("query_labels"), queries, 0)
    return image


def subtitle_of(record):
    sizes = ", ".join(f"{record.number(name)} {name}" for name in ("heads", "queries", "keys"))
    return (f"{sizes}; sequence {record.number('sequence')} of {record.number('batch')}; "
            f"kernel {record.text('kernel')} on {record.text('device')}; colours go by the weight's root")


def side(entries, longest, labels):
    """Inches of a panel's side, with room for its labels."""
    length = max(SIDE * entries / longest, SHORTEST)
    return max(length, 0.14 * entries) if 0 < len(labels) <= MOST_TEXT_LABELS else length


def figure_of(document):
    record = document.record
    panels = record.records("panels")
    queries, keys = record.positive("queries"), record.positive("keys")
    matrices = [matrix_of(panel, queries, keys) for panel in panels]
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    width = side(keys, max(queries, keys), record.texts("key_labels")) + 0.9
    height = side(queries, max(queries, keys), record.texts("query_labels")) + 0.9
    figure = style.new_figure(f"vkattn show: attention weights of {record.text('name')}", subtitle_of(record),
                              max(columns * width + 1.1, 6), rows * height + 0.8)
    # by the root, so that small weights can be seen
    norm = PowerNorm(0.5, 0, max(matrix.max() for matrix in matrices) or 1)
    all_axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    images = [draw_panel(axes, panel, record, matrix, norm) for axes, panel, matrix in zip(all_axes, panels, matrices)]
    for axes in all_axes[len(panels):]:
        axes.set_axis_off()
    bar = figure.colorbar(images[0], ax=figure.axes, label="weight", aspect=6 * rows * height)
    bar.ax.grid(False)
    return figure
