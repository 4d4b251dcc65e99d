# SPDX-License-Identifier: Apache-2.0
"""A figure as a stack of parts, each as wide as the figure: forms, keys and words.

A part decides by the width of its texts what stands beside it and what above or below it, so that
one layout serves every width.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Callable, Mapping, Protocol, Sequence

from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from kvproof_report.draw import drawing as d


KEY_GAP = 20  # [px] between two names of a key


class Part(Protocol):
    def height(self, width: float) -> float:
        """What it needs at this width, with its titles. [px]"""

    def draw(self, figure: Figure, left: float, top: float, width: float) -> None:
        """Draws it into the figure, so many pixels from its left and its upper edge."""


def sheet(width: float, parts: Sequence[Part]) -> Figure:
    heights = [part.height(width) for part in parts]
    figure = d.new_figure(width, max(1, sum(heights)))
    top = 0.0
    for part, height in zip(parts, heights):
        part.draw(figure, 0, top, width)
        top += height
    return figure


def drawn(parts: Callable[[list[Any]], Sequence[Part]]) -> Callable[[list[Any], int], Figure]:
    """Makes what draws a figure out of what names its parts."""
    @wraps(parts)
    def draw(results: list[Any], width: int) -> Figure:
        return sheet(width, parts(results))
    return draw


@dataclass
class Beside:
    """Parts beside each other, in as many equal columns as the width has room for."""
    parts: Sequence[Part]
    least: float = 200  # [px] of a column
    gap: float = 16  # [px] between two

    def rows(self, width: float) -> tuple[list[Sequence[Part]], float]:
        """The parts of each row, and the width of a column."""
        columns = max(1, min(len(self.parts), int((width + self.gap) // (self.least + self.gap))))
        columns = math.ceil(len(self.parts) / math.ceil(len(self.parts) / columns))  # equal rows
        rows = [self.parts[i:i + columns] for i in range(0, len(self.parts), columns)]
        return rows, (width - self.gap * (columns - 1)) / columns

    def height(self, width: float) -> float:
        rows, size = self.rows(width)
        return sum(max(part.height(size) for part in row) for row in rows)

    def draw(self, figure: Figure, left: float, top: float, width: float) -> None:
        rows, size = self.rows(width)
        for row in rows:
            for column, part in enumerate(row):
                part.draw(figure, left + column * (size + self.gap), top, size)
            top += max(part.height(size) for part in row)


@dataclass
class Key:
    """What the looks of lines and marks mean, for names too long to stand beside them."""
    entries: list[d.Entry]
    left: float = 20  # [px], less where that makes it lower
    fill: Mapping[str, float] = field(default_factory=dict)  # opacities of marks; 0: hollow

    def rows(self, left: float, width: float) -> int:
        """How many rows the longest name leads to."""
        longest = max(d.text_width(text) for text, _ in self.entries)
        columns = int((width - left + KEY_GAP) // (35 + longest + KEY_GAP))
        return math.ceil(len(self.entries) / max(1, min(len(self.entries), columns)))

    def layout(self, width: float) -> tuple[float, int, float]:
        """@return the room at the left, the rows, and the width of one of equal columns"""
        least = min(self.left, 4)
        left = least if self.rows(least, width) < self.rows(self.left, width) else self.left
        rows = self.rows(left, width)
        columns = math.ceil(len(self.entries) / rows)
        return left, rows, (width - left + KEY_GAP) / columns

    def height(self, width: float) -> float:
        return 19 * self.layout(width)[1] + 6 if self.entries else 0

    def draw(self, figure: Figure, left: float, top: float, width: float) -> None:
        if not self.entries:
            return
        indent, rows, size = self.layout(width)
        columns = math.ceil(len(self.entries) / rows)
        axes = d.canvas(figure, left + indent, top, width - indent, self.height(width))
        for nth, (text, (colour, dash, marker)) in enumerate(self.entries):
            x, y = nth % columns * size, nth // columns * 19 + 9
            fill = self.fill.get(text, 1)
            tall = 12 if marker == "|" else 9 if text in self.fill and marker in "sD" else 5
            axes.plot([x, x + 13, x + 26], [y] * 3, color=colour, linestyle=dash, marker=marker,
                      markevery=[1], markersize=tall, markeredgewidth=1 + (marker == "|"),
                      markerfacecolor=to_rgba(colour, fill) if fill else "none",
                      markeredgecolor=to_rgba(colour, fill or 1),
                      linewidth=0.9 if colour in (d.INK, d.SOFT) else 1.7)
            d.write(axes, d.shortened(text, size - KEY_GAP - 35), (x + 33, y), (0, 0), colour,
                    va="center")


@dataclass
class Words:
    """A paragraph, or a heading."""
    text: str
    colour: str = d.SOFT
    weight: str = "normal"
    left: float = 6  # [px]

    def lines(self, width: float) -> list[str]:
        room = width - self.left - 2
        whole = max(d.text_width(self.text, self.weight), 1)
        return textwrap.wrap(self.text, max(8, int(len(self.text) * room / whole)))

    def height(self, width: float) -> float:
        return 16 * len(self.lines(width)) + 6

    def draw(self, figure: Figure, left: float, top: float, width: float) -> None:
        axes = d.canvas(figure, left, top, width, self.height(width))
        for y, line in enumerate(self.lines(width)):
            d.write(axes, line, (self.left, 16 * y + 9), (0, 0), self.colour, va="center",
                    weight=self.weight)
