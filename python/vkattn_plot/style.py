"""What all charts share: colours, units, bars, and files of figures."""
import io

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

# Okabe and Ito's, told apart by colour-blind people as well; the palest is left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
DARK = "#222222"
GREY = "#707070"
HEAD = 0.65  # inches, of title and subtitle
SETTINGS = {"font.family": "sans-serif", "font.size": 10, "text.color": DARK, "axes.labelcolor": DARK,
            "xtick.color": DARK, "ytick.color": DARK, "axes.edgecolor": "#999999", "axes.spines.top": False,
            "axes.spines.right": False, "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left",
            "axes.grid": True, "axes.axisbelow": True, "grid.color": "#e4e4e4", "legend.edgecolor": "white",
            "legend.fontsize": 9, "savefig.dpi": 150, "svg.fonttype": "none", "svg.hashsalt": "vkattn-plot",
            "text.parse_math": False}
BYTES = (("bytes", 1), ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40), ("PiB", 2**50))
COUNTS = (("", 1), ("thousand", 1e3), ("million", 1e6), ("billion", 1e9), ("trillion", 1e12))
PLAIN = (("", 1),)


def settings():
    return matplotlib.rc_context(SETTINGS)


def new_figure(title, subtitle, width, height):
    """Sizes in inches. Title and subtitle, which says what was measured where, stand above the axes."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - HEAD / height), w_pad=0.1, h_pad=0.08)
    x = 0.12 / width
    figure.text(x, 1 - 0.12 / height, shortened(title, int(width * 9)), fontsize=13, fontweight="bold", va="top")
    figure.text(x, 1 - 0.42 / height, shortened(subtitle, int(width * 14)), fontsize=9, color=GREY, va="top")
    return figure


def encoded(figure, suffix):
    """The bytes of a picture; the same figure gives the same ones."""
    target = io.BytesIO()
    metadata = {".png": {"Software": "vkattn-plot"}, ".svg": {"Date": None, "Creator": "vkattn-plot"},
                ".pdf": {"CreationDate": None, "Creator": "vkattn-plot"}}[suffix]
    figure.savefig(target, format=suffix[1:], metadata=metadata)
    return target.getvalue()


def colour(index):
    return COLOURS[index % len(COLOURS)]


def line_style(index):
    """Another one when the colours begin again."""
    return LINES[index // len(COLOURS) % len(LINES)]


def shortened(text, length):
    return text if len(text) <= length else text[:length - 1] + "…"


def digits(value):
    """Three digits, all of a whole number."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def bytes_text(value):
    name, factor = unit_of(value, BYTES)
    return f"{digits(value / factor)} {name}"


def tokens_text(value):
    value = int(value)
    for name, factor in (("M", 2**20), ("k", 2**10)):
        if value and value % factor == 0:
            return f"{value // factor}{name}"
    return f"{value:,}"


def unit_of(value, units):
    """(name, factor) of the largest unit that the value has at least one of."""
    return next((unit for unit in reversed(units) if value >= unit[1]), units[0])


def use_log(axis, text_of, base=10, at=None):
    """A logarithmic axis whose ticks read as text_of says, at the values given or at powers of the base."""
    axis.set_major_locator(FixedLocator(at) if at else LogLocator(base, numticks=9))
    axis.set_minor_locator(NullLocator() if at or base != 10 else LogLocator(10, subs=(2, 5), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text_of(value)))
    low, high = axis.get_view_interval()
    few = base == 10 and high < 1000 * low
    axis.set_minor_formatter(FuncFormatter(lambda value, _: text_of(value)) if few else NullFormatter())


def draw_bars(axes, categories, values, title, unit, units=PLAIN):
    """Bars to the right, each with its value, from the first category downwards. units: multiples of the unit."""
    name, factor = unit_of(max(values), units)
    scaled = [value / factor for value in values]
    bars = axes.barh(range(len(values)), scaled, color=COLOURS[0], height=0.62)
    axes.bar_label(bars, [digits(value) for value in scaled], padding=3, fontsize=9, color=DARK)
    axes.set_yticks(range(len(values)), [shortened(category, 28) for category in categories])
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.set_xlim(0, max(scaled) * 1.2 or 1)
    axes.set_title(title)
    axes.set_xlabel(" ".join(word for word in (name, unit) if word))
    axes.locator_params(axis="x", nbins=5)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
