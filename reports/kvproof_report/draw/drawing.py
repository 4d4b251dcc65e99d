# SPDX-License-Identifier: Apache-2.0
"""What every figure shares: colours, sizes in pixels, ticks, and labels at the lines they name.

Everything is drawn twice, for a desk (WIDE) and for a phone (NARROW), in the light colours; svg.py
makes them follow the page.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any, Callable, Iterable

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Annotation
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

WIDE, NARROW = 760, 350  # [CSS px]

# role: (light, dark). Every colour except the grid has a contrast of at least 4.5:1 on its paper.
COLOURS = {
    "ink": ("#1b1f24", "#e7e9ec"),
    "soft": ("#57606a", "#a0a9b4"),
    "grid": ("#e4e7eb", "#262c34"),
    "paper": ("#ffffff", "#111418"),
    "blue": ("#0069a8", "#57b0ea"),
    "vermillion": ("#c8500a", "#f58a4b"),
    "amber": ("#926d00", "#dcb134"),
    "pink": ("#b0508a", "#e394c3"),
    "green": ("#00835f", "#35c49a"),
    "grey": ("#68717d", "#98a2ae"),
    "red": ("#c4122f", "#ff6f7d"),
}
INK, SOFT, GRID, PAPER, BLUE, VERMILLION, AMBER, PINK, GREEN, GREY, RED = (
    light for light, _ in COLOURS.values())

# How every figure looks. One point is one CSS pixel: figures are drawn at 72 dpi and shown 1:1.
STYLE: dict[str, object] = {
    "figure.dpi": 72, "font.family": "DejaVu Sans", "font.size": 11.5,
    "text.color": INK, "text.parse_math": False,  # a name may hold a $
    **dict.fromkeys(("axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), SOFT),
    "axes.labelsize": 11.5, "axes.titlesize": 11.5, "xtick.labelsize": 11, "ytick.labelsize": 11,
    "axes.facecolor": "none", "axes.spines.top": False, "axes.spines.right": False,
    "axes.axisbelow": True, "axes.grid": True, "axes.unicode_minus": True, "grid.color": GRID,
    **dict.fromkeys(("axes.linewidth", "grid.linewidth", "xtick.major.width"), 0.8),
    "xtick.direction": "out", "ytick.direction": "out", "xtick.major.size": 3.5,
    **dict.fromkeys(("ytick.major.size", "xtick.minor.size", "ytick.minor.size"), 0),
    "lines.linewidth": 1.8, "lines.markersize": 5, "lines.solid_capstyle": "round",
    "path.simplify": False, "svg.fonttype": "none", "svg.hashsalt": "kvproof",
}

Look = tuple[str, Any, str]  # colour, dash, marker
Entry = tuple[str, Look]  # of a key: a name with its look
SOLID, DASHED, DOTTED, DASHDOT = "-", (0, (5, 2)), (0, (1, 1.6)), (0, (6, 2, 1, 2))

# One look per storage, the same in every figure.
STORAGE_LOOK: dict[str, Look] = {
    "contiguous_max_length": (VERMILLION, SOLID, "s"),
    "contiguous_power_of_two": (AMBER, DASHED, "^"),
    "contiguous_oracle": (GREY, DOTTED, "D"),
    "contiguous_grow_and_copy": (PINK, DASHDOT, "v"),
    "paged": (BLUE, SOLID, "o"),
    "paged_shared": (GREEN, DASHED, "P"),
}
# For series that no other table gives a look.
SERIES_LOOK: list[Look] = [(BLUE, SOLID, "o"), (VERMILLION, DASHED, "s"), (GREEN, DASHDOT, "^"),
               (PINK, SOLID, "D"), (AMBER, DASHED, "v"), (GREY, SOLID, "P"),
               (INK, DOTTED, "X"), (BLUE, DASHDOT, "*"), (VERMILLION, DOTTED, "p"),
               (GREEN, SOLID, "h")]


def use_style() -> None:
    """Sets matplotlib's own defaults and our style; the settings of the user do not count."""
    warnings.filterwarnings("ignore", "Glyph")  # a name in a script that the font lacks
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(STYLE)


def new_figure(width: float, height: float) -> Figure:
    """A figure of that many pixels."""
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    figure.patch.set_visible(False)
    return figure


def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a pixel position, measured from the top left."""
    whole_width, whole_height = figure.get_size_inches() * 72
    axes = figure.add_axes([left / whole_width, 1 - (top + height) / whole_height,
                            width / whole_width, height / whole_height])
    axes.grid(axis="x", visible=False)
    return axes


COORDINATES: dict[str, Any] = {"data": "data", "axes": "axes fraction",
                               "row": ("axes fraction", "data")}


def write(axes: Axes, text: str, at: tuple[float, float], by: tuple[float, float],
          colour: str = INK, on: str = "data", **style: Any) -> Annotation:
    """Writes a text so many pixels beside a place. On "axes" the place is a share of the axes; on a
    "row" its x is, and the text stands at the middle of its y."""
    if on == "row":
        style.setdefault("va", "center")
    return axes.annotate(text, at, xytext=by, xycoords=COORDINATES[on], color=colour,
                         textcoords="offset points", **style)


def row_axis(axes: Axes) -> None:
    """Rows have names of their own, and are compared along x."""
    ticks(axes.yaxis, [], str)
    axes.grid(axis="x", visible=True)
    axes.spines["left"].set_visible(False)


def canvas(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes without any mark; a position on them is in pixels from their top left."""
    axes = place(figure, left, top, width, height)
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    return axes


def x_title(axes: Axes, text: str) -> None:
    """Below the middle of the axes, or as near to it as the figure has room for the text."""
    axes.set_xlabel(text, labelpad=5)
    place, whole = axes.get_position(), axes.figure.get_size_inches()[0] * 72
    half = text_width(text) / 2 + 2 if text else 0
    middle = max(half, min(whole - half, (place.x0 + place.x1) / 2 * whole))
    axes.xaxis.label.set_x((middle / whole - place.x0) / place.width)


def ticks(axis: Axis, values: Iterable[float], text: Callable[[Any], str]) -> None:
    """Exactly these ticks, written by `text`."""
    # As doubles: an array of larger integers has no logarithm.
    axis.set_major_locator(FixedLocator([float(value) for value in values]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(
        lambda value, _: text(value).replace("-", "\u2212") if value < 0 else text(value)))


def end_labels(axes: Axes, ends: Iterable[tuple[float, float, str, str]], gap: float = 14) -> None:
    """Names lines at their right end, `gap` px apart; `ends` holds (x, y, text, colour)."""
    box = axes.bbox
    placed = sorted(((*(axes.transData.transform((x, y)) - box.min), text, colour)
                     for x, y, text, colour in ends), key=lambda end: end[1])
    spots = spread([y for _, y, *_ in placed], gap, 0, box.height)
    for spot, (x, y, text, colour) in zip(spots, placed):
        write(axes, text, (1, spot / box.height), (12, 0), colour, on="axes", va="center")
        if abs(spot - y) > 2 or x < 0.995 * box.width:
            axes.annotate("", (x, y), xytext=(box.width + 9, spot), xycoords="axes points",
                          textcoords="axes points", annotation_clip=False,
                          arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.7,
                                      "shrinkA": 0, "shrinkB": 3})


def axes_width(axes: Axes) -> float:
    return axes.get_position().width * axes.figure.get_size_inches()[0] * 72


def spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Ascending positions in [low, high], `gap` apart, each as near to `wanted` as that allows."""
    spots = list(wanted)
    for _ in range(200):
        moved = False
        for i in range(len(spots) - 1):
            lack = gap - (spots[i + 1] - spots[i])
            if lack > 0.01:
                spots[i] -= lack / 2
                spots[i + 1] += lack / 2
                moved = True
        if not moved:
            break
    if spots and gap * (len(spots) - 1) <= high - low:
        shift = max(0, low - spots[0]) or min(0, high - spots[-1])
        spots = [spot + shift for spot in spots]
    return spots


@functools.lru_cache(maxsize=10_000)
def text_width(text: str, weight: str = "normal") -> float:
    """How wide its longest line is in the size of labels. [px]"""
    font = FontProperties(family=["DejaVu Sans"], size=11.5, weight=weight)
    return max(text_to_path.get_text_width_height_descent(line, font, False)[0]
               for line in text.split("\n"))


def shortened(text: str, room: float, weight: str = "normal") -> str:
    """As much of it as `room` pixels hold, with an ellipsis where it is cut."""
    while len(text) > 2 and text_width(text, weight) > room:
        text = text.rstrip("\u2026")[:-1] + "\u2026"
    return text


def shorten(name: str, most: int = 40) -> str:
    return name if len(name) <= most else name[:most - 1] + "\u2026"


def powers(low: float, high: float, base: int = 10) -> list[float]:
    """The powers of `base` in [low, high]."""
    first = math.ceil(math.log(low, base) - 1e-9)
    last = math.floor(math.log(high, base) + 1e-9)
    return [base ** exponent for exponent in range(first, last + 1)]


def log_marks(low: float, high: float, most: int, most_powers: int) -> list[float]:
    """The ticks of a log axis: 1, 2, 5, 10 ... if they are few enough, else the powers of ten."""
    marks = [m for p in powers(low / 10, high) for m in (p, 2 * p, 5 * p) if low <= m <= high]
    return marks if len(marks) <= most else thin(powers(low, high), most_powers)


def thin(marks: list[float], most: int) -> list[float]:
    """At most so many of them, equally far apart."""
    return marks[::max(1, math.ceil(len(marks) / most))]
