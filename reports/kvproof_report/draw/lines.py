# SPDX-License-Identifier: Apache-2.0
"""Lines: a panel of curves over a number, named at their ends or in a key above."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.axis import Axis as Ruler
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kvproof_report.common.result_files import Metric
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import short
from kvproof_report.draw.sheet import Key

LEFT, RIGHT = 52, 20  # [px] beside a panel
LEAST = 180  # [px] of a panel that leaves room for names at the ends of its lines
PER_MARK = {"x": 45, "y": 30}  # [px] from one tick to the next
PER_POWER = {"x": 45, "y": 18}  # [px] from one power to the next


@dataclass
class Series:
    """A curve. A metric with a spread gets a bar, or together they get a band."""
    name: str  # empty: nothing names it
    look: d.Look
    points: Sequence[tuple[float, float | Metric]]
    line: float = 1.8  # its width [px]
    size: float = 5  # of its markers [px]
    hollow: bool = False  # a number of other people
    band: bool = False

    def ends(self) -> list[tuple[float, float, float]]:
        """(x, low, high) of each point"""
        return [(x, y.low, y.high) if isinstance(y, Metric) and y.has_spread else
                (x, value_of(y), value_of(y)) for x, y in self.points]


@dataclass
class Axis:
    title: str = ""
    base: int = 0  # of a log scale; 0: the scale is linear
    text: Callable[[Any], str] = short  # of a tick
    marks: Sequence[float] = ()  # the ticks; none: round numbers
    span: Sequence[float] = ()  # it reaches these at least
    pad: float = 1.3  # a log scale reaches so many times beyond the first and last value

    def limits(self, values: Sequence[float]) -> tuple[float, float]:
        known = [*[v for v in values if v > 0 or not self.base], *self.span] or [1]
        low, high = min(known), max(known)
        if self.base:
            return low / self.pad, max(high * self.pad, 2 * low)
        return low, (high if high in self.span else low + 1.08 * (high - low)) + (high == low)

    def set(self, ruler: Ruler, low: float, high: float, pixels: float) -> None:
        most, powers = (max(2, int(pixels // room[ruler.axis_name]))
                        for room in (PER_MARK, PER_POWER))
        marks = self.marks or (d.log_marks(low, high, most, powers) if self.base else [
            m for m in MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high)
            if low <= m <= high * 1.001])
        d.ticks(ruler, marks, self.text)


@dataclass
class Lines:
    """One panel; sheet.Beside sets several beside each other."""
    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    levels: Sequence[tuple[float, str, d.Look]] = ()  # (y, name, look) of horizontal lines
    note: str = ""  # in the lower right corner
    corner: Sequence[tuple[str, str]] = ()  # (text, colour) below each other in the upper left
    below: Sequence[tuple[str, str]] = ()  # (text, colour) beside each other below the x axis
    tall: float = 220  # [px] of its axes

    def names(self) -> list[tuple[float, float, str, d.Look]]:
        """(x, y, name, look) of each line's end that has a name, the uppermost first"""
        last = max((x for s in self.series for x, _ in s.points), default=1)
        ends = [(s.points[-1][0], value_of(s.points[-1][1]), s.name, s.look)
                for s in self.series if s.name and s.points] + [
            (last, y, name, look) for y, name, look in self.levels if name]
        return sorted(ends, key=lambda end: -end[1])

    def right(self, width: float) -> float:
        """The room at its right, for names if enough is left for the axes."""
        wanted = 16 + max([d.text_width(name) for *_, name, _ in self.names()], default=0)
        return max(wanted, RIGHT) if width - LEFT - wanted >= LEAST else RIGHT

    def key(self, width: float) -> Key:
        """The names that have no room at the ends of the lines stand above."""
        return Key([] if self.right(width) > RIGHT else [end[2:] for end in self.names()],
                   LEFT - 8)

    def above(self) -> int:
        return 46 if self.title and self.y.title else 30 if self.title or self.y.title else 12

    def height(self, width: float) -> float:
        beneath = (46 if self.x.title else 26) + (18 if self.below else 0)
        return self.key(width).height(width) + self.above() + self.tall + beneath

    def draw(self, figure: Figure, left: float, top: float, width: float) -> None:
        key, right = self.key(width), self.right(width)
        key.draw(figure, left, top + 2, width)
        top += key.height(width) + self.above()
        size = width - LEFT - right
        axes = d.place(figure, left + LEFT, top, size, self.tall)
        self.set_axes(axes, size)
        for y, _, (colour, dash, _) in self.levels:
            axes.axhline(y, color=colour, linestyle=dash, linewidth=1, zorder=2)
        for series in self.series:
            draw_series(axes, series)
        self.write(axes, size + right)
        if right > RIGHT:
            d.end_labels(axes, [(x, y, name, look[0]) for x, y, name, look in self.names()])

    def set_axes(self, axes: Axes, size: float) -> None:
        ends = [end for series in self.series for end in series.ends()]
        xs = [x for x, *_ in ends]
        ys = [y for _, *pair in ends for y in pair] + [y for y, *_ in self.levels]
        for name, axis, values, pixels in (("x", self.x, xs, size), ("y", self.y, ys, self.tall)):
            limits = axis.limits(values)
            if axis.base:
                getattr(axes, f"set_{name}scale")("log", base=axis.base)
            getattr(axes, f"set_{name}lim")(*limits)
            axis.set(getattr(axes, f"{name}axis"), *limits, pixels)

    def write(self, axes: Axes, room: float) -> None:
        """What is too wide for the room right of the y axis begins left of it."""
        for text, up, colour, weight in ((self.title, self.above() - 21, d.INK, "bold"),
                                         (self.y.title, 8, d.SOFT, "normal")):
            d.write(axes, text, (0, 1), (min(0, room - d.text_width(text, weight)), up), colour,
                    on="axes", va="bottom", weight=weight)
        d.x_title(axes, self.x.title)
        if self.note:
            d.write(axes, self.note, (1, 0), (-6, 8), d.SOFT, on="axes", ha="right")
        for nth, (text, colour) in enumerate(self.corner):
            d.write(axes, text, (0, 1), (10, -4 - 15 * nth), colour, on="axes", va="top")
        x = 10.0 - LEFT
        for text, colour in self.below:
            d.write(axes, text, (0, 0), (x, -50), colour, on="axes", va="center")
            x += d.text_width(text) + 10


def value_of(y: float | Metric) -> float:
    return y.value if isinstance(y, Metric) else y


def draw_series(axes: Axes, series: Series) -> None:
    colour, dash, marker = series.look
    xs, lows, highs = zip(*series.ends()) if series.points else ((), (), ())
    if series.band:
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.18, linewidth=0)
    elif lows != highs:
        axes.vlines(xs, lows, highs, color=colour, linewidth=1)
    axes.plot(xs, [value_of(y) for _, y in series.points], color=colour, linestyle=dash,
              marker=marker, linewidth=series.line, markersize=series.size, zorder=3,
              markeredgewidth=1,
              markerfacecolor=colour if not series.hollow else d.PAPER if lows != highs else "none")

