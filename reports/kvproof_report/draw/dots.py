# SPDX-License-Identifier: Apache-2.0
"""Rows of dots: each row is a case, its values are dots on the axis of all rows, and its numbers
stand at the right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kvproof_report.common.result_files import Metric
from kvproof_report.draw import drawing as d
from kvproof_report.draw.labels import room_of, write_label
from kvproof_report.draw.numbers import digits, short

HEAD, FOOT = 22, 46  # [px] above a row that opens a group, and below all rows
LEAST = 0.36  # of the width that the axes take
Text = tuple[str, str]  # with its colour


@dataclass(frozen=True)
class Dot:
    metric: Metric
    colour: str
    marker: str = "o"
    hollow: bool = False
    size: float = 6       # [px]
    broad: bool = False   # its spread is a broad pale band, else a thin line


def exact(value: float) -> Metric:
    """A number without a spread or a unit."""
    return Metric(value, "", value, value)


@dataclass(frozen=True)
class Row:
    label: str
    dots: Sequence[Dot]
    name: str = ""        # a short one before the label
    group: str = ""       # stands above the row
    texts: Sequence[Text] | None = None  # at the right; None stands for the number of the first dot
    band: tuple[float, float] | None = None  # a range in which a value means nothing
    to: float | None = None  # a thin line goes from the first dot to this value
    colour: str = d.INK   # of the label
    faint: bool = False   # there is nothing to compare in it


def grouped(groups: Mapping[str, Sequence[Row]]) -> list[Row]:
    """The rows of each group, below its name."""
    return [row if index else replace(row, group=name)
            for name, rows in groups.items() for index, row in enumerate(rows)]


@dataclass(frozen=True)
class Dots:
    rows: Sequence[Row]
    unit: str
    least: float | None = None
    most: float | None = None
    log: bool = False     # with 0 at its left end if a value is 0
    mark: float | None = None  # where a line stands
    ticks: Callable[[float], str] = short
    heads: Sequence[Text] = ()  # above the texts of the rows
    step: int = 20        # [px] from one row to the next
    cut: bool = False     # a label that has no room beside its row is cut, else it stands above
    spread: bool = False  # the numbers of the rows show their spread where there is room

    # ---- what stands where, by the widths of the texts

    def texts_of(self, row: Row, width: float) -> Sequence[Text]:
        if row.texts is not None or not row.dots:
            return row.texts or ()
        metric, said = row.dots[0].metric, digits(row.dots[0].metric.value)
        spread = f"{said} ({digits(metric.low)} to {digits(metric.high)})"
        if self.spread and metric.has_spread and d.text_width(spread) < 0.25 * width:
            said = spread
        return [(said, row.dots[0].colour)]

    def columns(self, width: float) -> list[float]:
        """The widths of the texts at the right."""
        lines = [self.heads, *(self.texts_of(row, width) for row in self.rows)]
        return [12 + max(d.text_width(line[nth][0]) for line in lines if len(line) > nth)
                for nth in range(max(map(len, lines)))]

    def left(self, width: float) -> tuple[float, bool]:
        """@return the room at the left, and whether the labels stand above their rows"""
        wanted = 18 + room_of(self.rows)[1]
        most = min(0.48 * width, (1 - LEAST) * width - sum(self.columns(width)))
        return (wanted, False) if wanted <= most else (most, False) if self.cut else (12, True)

    def places(self, width: float) -> tuple[list[float], float]:
        """@return the middle of each row below the upper edge, and the height of all. [px]"""
        step = self.step + 16 * self.left(width)[1]
        y, middles = 0.0, []
        for row in self.rows:
            y += step + HEAD * bool(row.group)
            middles.append(y - self.step / 2)
        return middles, max(y, self.step)

    def top(self) -> float:
        return 20 * bool(self.heads) + 2

    def height(self, width: float) -> float:
        return self.top() + self.places(width)[1] + FOOT

    # ---- drawing

    def draw(self, figure: Figure, left: float, top: float, width: float) -> None:
        (room, above), columns = self.left(width), self.columns(width)
        middles, height = self.places(width)
        axes = d.place(figure, left + room, top + self.top(), width - room - sum(columns) - 8,
                       height)
        axes.set_ylim(height, 0)
        self.scale(axes)
        d.row_axis(axes)
        d.x_title(axes, self.unit)
        if self.mark is not None:
            axes.axvline(self.mark, color=d.SOFT, linewidth=0.9)
        for nth, (head, colour) in enumerate(self.heads):
            d.write(axes, head, (1, 1), (12 + sum(columns[:nth]), 8), colour, on="axes",
                    va="bottom")
        for row, y in zip(self.rows, middles):
            if row.group:
                d.write(axes, row.group, (0, y - self.step / 2 - 9 - 16 * above), (6 - room, 0),
                        on="row", weight="bold")
            write_label(axes, row, (8 - room, y - (0.5 * self.step + 4) * above),
                        room_of(self.rows)[0], width if above else room - 16)
            self.draw_row(axes, row, y)
            for nth, (text, colour) in enumerate(self.texts_of(row, width)):
                d.write(axes, text, (1, y), (12 + sum(columns[:nth]), 0), colour, on="row")

    def scale(self, axes: Axes) -> None:
        values = [value for row in self.rows for dot in row.dots
                  for value in (dot.metric.low, dot.metric.value, dot.metric.high)]
        values += [value for value in (*(row.to for row in self.rows), self.mark)
                   if value is not None]
        low, high = min(values, default=0), max(values, default=0) or 1
        marks = max(2, int(d.axes_width(axes) // 45))
        if not self.log:
            axes.set_xlim(min(0, low) if self.least is None else self.least,
                          1.06 * high if self.most is None else self.most)
            bounds = axes.get_xlim()
            spots = MaxNLocator(min(marks, 8), steps=[1, 2, 5, 10]).tick_values(*bounds)
            spots = [m for m in spots if bounds[0] <= m <= bounds[1]]
            if self.mark is not None:  # named, too, in the place of ticks that are too near
                near = 28 / d.axes_width(axes) * (bounds[1] - bounds[0])
                spots = sorted([m for m in spots if abs(m - self.mark) > near] + [self.mark])
            d.ticks(axes.xaxis, spots, self.ticks)
            return
        positive = low > 0
        low, high = self.least or low / 1.4, self.most or 1.4 * high
        if positive:
            axes.set_xscale("log")
            axes.set_xlim(low, high)
            spots = d.log_marks(low, high, marks, marks)
        else:
            axes.set_xscale("symlog", linthresh=1, linscale=0.5)
            axes.set_xlim(0, max(high, 2))
            spots = [0, *d.powers(1, max(high, 2))]
        d.ticks(axes.xaxis, d.thin(spots, marks), self.ticks)

    def draw_row(self, axes: Axes, row: Row, y: float) -> None:
        low, high = axes.get_xlim()
        axes.axhline(y, color=d.GREY if row.faint else d.GRID, linewidth=0.8, zorder=0,
                     linestyle=d.DOTTED if row.faint else d.SOLID)
        if row.band:
            axes.plot(row.band, [y, y], color=d.GRID, linewidth=self.step - 6, zorder=0,
                      solid_capstyle="butt")
        if row.to is not None:
            axes.plot([row.dots[0].metric.value, row.to], [y, y], color=d.SOFT, linewidth=1,
                      marker="|", markevery=[1])
        for nth, dot in enumerate(row.dots):
            self.draw_dot(axes, dot, y + self.apart(row, nth), low, high)

    def apart(self, row: Row, nth: int) -> float:
        """Dots at the same value stand a little apart, so that none hides another. [px]"""
        same = [i for i, dot in enumerate(row.dots)
                if dot.metric.value == row.dots[nth].metric.value]
        return (same.index(nth) - (len(same) - 1) / 2) * min(5, 0.6 * self.step / len(same))

    def draw_dot(self, axes: Axes, dot: Dot, y: float, low: float, high: float) -> None:
        metric, style = dot.metric, {"color": dot.colour, "solid_capstyle": "butt"}
        if metric.has_spread:
            bounds = [min(max(bound, low), high) for bound in (metric.low, metric.high)]
            look: dict[str, Any] = {"linewidth": 6, "alpha": 0.3} if dot.broad else {
                "linewidth": 1, "alpha": 0.7}
            axes.plot(bounds, [y, y], **style, **look)
        axes.plot([min(max(metric.value, low), high)], [y], color=dot.colour, marker=dot.marker,
                  markersize=dot.size, markerfacecolor=d.PAPER if dot.hollow else dot.colour,
                  clip_on=False, zorder=3)
