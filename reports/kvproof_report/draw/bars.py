# SPDX-License-Identifier: Apache-2.0
"""Bars: rows of horizontal bars in one column or several, each with its numbers behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis

THICK, SPACE, LINE = 14, 9, 16  # [px] of a bar, between two, and of a line of text above one
EDGE, GAP = 8, 14  # [px] left of the labels, and beside a bar or a column
LEAST = 104  # [px] of a column
BEHIND = 0.75  # the longest text behind a bar takes at most this share of a column


@dataclass
class Bar:
    pieces: Sequence[tuple[float, str, float]]  # (length, colour, opacity), one after another
    text: Sequence[tuple[str, str, str]] = ()  # (text, colour, weight)
    start: float = 0
    outline: tuple[str, Any] | None = None  # (colour, dash)
    mark: tuple[float, str] | None = None  # (value, colour) of a line across it
    span: tuple[float, float] | None = None  # a thin line below it

    @property
    def end(self) -> float:
        """Where its numbers begin."""
        return max(self.start + sum(length for length, *_ in self.pieces),
                   self.mark[0] if self.mark else 0)

    def text_width(self) -> float:
        return sum(d.text_width(text, weight) + EDGE for text, _, weight in self.text)


@dataclass
class Row:
    label: str
    bars: Sequence[Bar | None]  # one for each column
    colour: str = d.INK  # of the label
    brief: str = ""  # the label where it has no room


@dataclass
class Column:
    title: str = ""
    unit: str = ""
    x: Axis | None = None  # none: only the numbers tell the lengths
    log: bool = False


@dataclass
class Bars:
    rows: Sequence[Row]
    columns: Sequence[Column] = field(default_factory=lambda: [Column()])

    def labels(self, width: float) -> tuple[list[str], float]:
        """The labels, and the room at the left; 0 if they stand above their bars."""
        for labels in ([r.label for r in self.rows], [r.brief or r.label for r in self.rows]):
            room = EDGE + max(d.text_width(label) for label in labels) + GAP
            if room <= 0.42 * width:
                return labels, room
        return [d.shortened(r.label, width - 2 * EDGE) for r in self.rows], 0

    def grid(self, width: float) -> tuple[int, float]:
        """(columns beside each other, width of one)"""
        room = width - (self.labels(width)[1] or EDGE) - GAP
        most = max(1, min(len(self.columns), int((room + GAP) // (LEAST + GAP))))
        lines = math.ceil(len(self.columns) / most)
        beside = math.ceil(len(self.columns) / lines)
        return beside, (room - GAP * (beside - 1)) / beside

    def above(self, width: float) -> tuple[bool, bool]:
        """Whether labels and whether texts stand above the bars"""
        longest = max((bar.text_width() for r in self.rows for bar in r.bars if bar), default=0)
        return self.labels(width)[1] == 0, longest > BEHIND * self.grid(width)[1]

    def step(self, width: float) -> float:
        spans = any(bar and bar.span for r in self.rows for bar in r.bars)
        return THICK + SPACE + 8 * spans + LINE * sum(self.above(width))

    def head(self) -> int:
        column = self.columns[0]
        return 46 if column.title and column.unit else 30 if column.title or column.unit else 8

    def foot(self) -> int:
        return 44 if self.columns[0].x else 10

    def height(self, width: float) -> float:
        beside, _ = self.grid(width)
        return math.ceil(len(self.columns) / beside) * (
            self.head() + self.step(width) * len(self.rows) + self.foot())

    def draw(self, figure: Figure, left: float, top: float, width: float) -> None:
        labels, room = self.labels(width)
        beside, size = self.grid(width)
        tall = self.step(width) * len(self.rows)
        for index, column in enumerate(self.columns):
            x = left + (room or EDGE) + index % beside * (size + GAP)
            y = top + index // beside * (self.head() + tall + self.foot()) + self.head()
            axes = d.place(figure, x, y, size, tall)
            bars = [row.bars[index] for row in self.rows]
            set_axes(axes, column, bars, size, tall, self.above(width)[1])
            for nth, bar in enumerate(bars):
                line = self.step(width) * nth + LINE * sum(self.above(width))
                if bar:
                    draw_bar(axes, bar, line + SPACE / 2 + THICK / 2, self.above(width)[1])
                if index % beside == 0:
                    write_label(axes, labels[nth], self.rows[nth].colour, room,
                                self.step(width) * nth, line + SPACE / 2 + THICK / 2)


def write_label(axes: Axes, text: str, colour: str, room: float, top: float,
                middle: float) -> None:
    """Left of the bar, or above it, where there is no room."""
    at, side = (middle, "right") if room else (top + LINE / 2 + SPACE / 2, "left")
    d.write(axes, text, (0, at), (-GAP + 4 if room else 0, 0), colour, on="row", ha=side)


def set_axes(axes: Axes, column: Column, bars: Sequence[Bar | None], size: float, tall: float,
             apart: bool) -> None:
    """Scales the axes so that the texts behind the bars have room, unless they stand `apart`."""
    known = [bar for bar in bars if bar and bar.end > 0]
    low = min([bar.start or bar.end for bar in known] or [1]) / 1.2
    place: Callable[[float], float] = (lambda v: math.log(v / low)) if column.log else float
    scale = min([(size - (2 if apart else bar.text_width() + 2)) / place(bar.end)
                 for bar in known] or [1])
    longest = max([bar.end for bar in known], default=1)
    for bar in known:  # a spread is cut only where it would make all bars short
        if bar.span and 0 < bar.span[1] <= 2 * longest:
            scale = min(scale, (size - 4) / place(bar.span[1]))
    axes.set_ylim(tall, 0)
    if column.log:
        axes.set_xscale("log")
    axes.set_xlim(*((low, low * math.exp(size / scale)) if column.log else (0, size / scale)))
    for text, colour, up, weight in ((column.title, d.INK, 24 if column.unit else 8, "bold"),
                                     (column.unit, d.SOFT, 8, "normal")):
        d.write(axes, text, (0, 1), (0, up), colour, on="axes", va="bottom", weight=weight)
    if column.x:
        d.row_axis(axes)
        d.x_title(axes, column.x.title)
        column.x.set(axes.xaxis, *axes.get_xlim(), size)
    else:
        axes.set_axis_off()


def draw_bar(axes: Axes, bar: Bar, y: float, apart: bool) -> None:
    at = bar.start
    for length, colour, opacity in bar.pieces:
        axes.barh(y, length, left=at, height=THICK, color=colour, alpha=opacity, linewidth=0)
        at += length
    if bar.outline:
        axes.barh(y, at, height=THICK, fill=False, edgecolor=bar.outline[0], linewidth=1,
                  linestyle=bar.outline[1])
    if bar.mark:
        axes.vlines([bar.mark[0]], y - THICK / 2 - 2, y + THICK / 2 + 2, color=bar.mark[1],
                    linewidth=2, zorder=4)
    if bar.span:  # open at the right if it ends beyond the axis
        low, high, end = *bar.span, axes.get_xlim()[1]
        axes.plot([low, min(high, end)], [y + THICK / 2 + 5] * 2, color=d.INK, linewidth=1,
                  marker="|", markersize=6, markevery=[0] if high > end else None, zorder=4)
    x = 0.0 if apart else 6.0
    for text, colour, weight in bar.text:
        at_bar = (0, y - THICK / 2 - LINE / 2) if apart else (bar.end, y)
        d.write(axes, text, at_bar, (x, 0), colour, "row" if apart else "data", va="center",
                weight=weight, zorder=5, annotation_clip=False,
                bbox={"facecolor": d.PAPER, "linewidth": 0, "pad": 1})
        x += d.text_width(text, weight) + EDGE
