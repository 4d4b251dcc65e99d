# SPDX-License-Identifier: Apache-2.0
"""The form of a grid of states: rows against columns, in each cell a mark, fills or a number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from kvproof_report.draw import drawing as d
from kvproof_report.draw.labels import room_of, write_label

LEAST = 8     # [px] that a column is wide, else the grid is transposed if that makes them wider
MOST = 0.42   # of the width that the names of the rows take
WIDE = 24     # [px] columns that are so wide leave the rest to the names of the rows
SMALL = 9.5   # [px] texts that stand upright


def small_width(text: str) -> float:
    return d.text_width(text) * SMALL / 11.5


@dataclass(frozen=True)
class Line:
    """A row, or a column."""
    label: str
    name: str = ""       # a short one before the label
    brief: str = ""      # the label where it has no room
    colour: str = d.INK
    sums: Sequence[str] = ()  # behind its cells


@dataclass(frozen=True)
class Cell:
    look: d.Look | None = None  # of its mark
    size: float = 8      # [px] of the mark, where a cell is so large
    joined: bool = False  # a line goes to the next cell, if that is joined, too
    fills: Sequence[tuple[float, float, str]] = ()  # (start, width: shares of the cell, colour)
    text: str = ""       # on the fills


@dataclass(frozen=True)
class Grid:
    rows: Sequence[Line]
    columns: Sequence[Line]
    cells: Mapping[tuple[int, int], Cell]  # by row and column
    sums: Sequence[str] = ()  # the names of those of the rows
    totals: Sequence[str] = ()  # and of the columns
    step: int = 16       # [px] from one row to the next
    along: tuple[int, int] = (0, 1)  # the steps in rows and columns to the next cell

    # ---- what stands where, by the widths of the texts

    def turned(self) -> Grid:
        return replace(self, rows=self.columns, columns=self.rows, sums=self.totals,
                       totals=self.sums, along=self.along[::-1],
                       cells={(column, row): cell for (row, column), cell in self.cells.items()})

    def fitted(self, width: float) -> Grid:
        """This grid, or the transposed one where its columns would be too narrow."""
        turned = self.turned()
        return turned if self.pitch(width) < min(LEAST, turned.pitch(width)) else self

    def left(self, width: float) -> tuple[Sequence[Line], float]:
        """The rows with as much of their names as there is room for, and the room."""
        rows, most = self.rows, max(MOST * width, width - WIDE * len(self.columns))
        if room_of(rows)[1] > 1.25 * most:
            rows = [replace(row, label=row.brief or row.label) for row in rows]
        return rows, 8 + max(min(room_of(rows)[1], most), *map(d.text_width, self.totals), 0)

    def ends(self) -> list[float]:
        """The widths of the sums of the rows."""
        return [10 + max(SMALL, *(d.text_width(row.sums[nth]) for row in self.rows))
                for nth in range(len(self.sums))]

    def pitch(self, width: float) -> float:
        """How wide a column is. [px]"""
        return (width - self.left(width)[1] - sum(self.ends()) - 4) / len(self.columns)

    def letters(self, width: float) -> float:
        """The size of what stands upright, one beside the other."""
        return min(SMALL, 0.95 * self.pitch(width))

    def heads(self) -> list[str]:
        return [f"{column.name} {column.label}".strip() for column in self.columns]

    def is_upright(self, width: float) -> bool:
        return max(map(d.text_width, self.heads())) > self.pitch(width) - 6

    def top(self, width: float) -> float:
        texts = [*(self.heads() if self.is_upright(width) else []), *self.sums]
        return 8 + max((small_width(text) for text in texts), default=14)

    def feet(self) -> list[float]:
        """The heights of the totals of the columns, which stand upright."""
        return [12 + max(small_width(column.sums[nth]) for column in self.columns)
                for nth in range(len(self.totals))]

    def height(self, width: float) -> float:
        grid = self.fitted(width)
        return grid.top(width) + grid.step * len(grid.rows) + sum(grid.feet()) + 10

    # ---- drawing

    def draw(self, figure: Figure, left: float, top: float, width: float) -> None:
        grid = self.fitted(width)
        rows, room = grid.left(width)
        axes = d.place(figure, left + room, top + grid.top(width),
                       grid.pitch(width) * len(grid.columns), grid.step * len(grid.rows))
        axes.set_xlim(-0.5, len(grid.columns) - 0.5)
        axes.set_ylim(len(grid.rows) - 0.5, -0.5)
        for axis in (axes.xaxis, axes.yaxis):
            d.ticks(axis, [], str)
        axes.spines[["left", "bottom"]].set_visible(False)
        grid.draw_lines(axes)
        grid.draw_columns(axes, width, room)
        grid.draw_rows(axes, rows, room)
        grid.draw_cells(axes, grid.pitch(width))

    def draw_lines(self, axes: Axes) -> None:
        """Between cells that are filled, else through the middle of the marks."""
        beside = 0.5 * any(cell.fills for cell in self.cells.values())
        for x in range(len(self.columns)):
            axes.axvline(x - beside, color=d.GRID, linewidth=0.8, zorder=0)
        for y in range(len(self.rows)):
            axes.axhline(y + beside, color=d.GRID, linewidth=0.8, zorder=0)

    def draw_columns(self, axes: Axes, width: float, room: float) -> None:
        turn: dict[str, Any] = {"rotation": 90 * self.is_upright(width), "size": SMALL,
                                "ha": "center", "annotation_clip": False}
        if self.is_upright(width):
            turn["size"] = self.letters(width)
        for x, (column, name) in enumerate(zip(self.columns, self.heads())):
            d.write(axes, name, (x, -0.5), (0, 4), column.colour, va="bottom", **turn)
        down = 6.0
        for nth, (name, size) in enumerate(zip(self.totals, self.feet())):
            d.write(axes, name, (0, 0), (-room, -down - 8), d.SOFT, on="axes")
            for x, column in enumerate(self.columns):
                d.write(axes, column.sums[nth], (x, len(self.rows) - 0.5), (0, -down), va="top",
                        **{**turn, "rotation": 90, "size": self.letters(width)})
            down += size

    def draw_rows(self, axes: Axes, rows: Sequence[Line], room: float) -> None:
        ends = self.ends()
        for y, row in enumerate(rows):
            write_label(axes, row, (-room, y), room_of(rows)[0], room - 8)
            for nth, text in enumerate(row.sums if self.sums else ()):
                d.write(axes, text, (1, y), (sum(ends[:nth + 1]), 0), on="row", ha="right")
        for nth, name in enumerate(self.sums):
            d.write(axes, name, (1, 1), (sum(ends[:nth + 1]), 4), d.SOFT, on="axes", ha="right",
                    va="bottom", rotation=90, size=SMALL)

    def draw_cells(self, axes: Axes, pitch: float) -> None:
        marks: dict[tuple[d.Look, float], list[tuple[int, int]]] = {}
        fills: dict[str, list[Path]] = {}  # in one path of each colour, as many rows make many
        for (y, x), cell in self.cells.items():
            for start, share, colour in cell.fills:
                left, right = (x - 0.46 + 0.92 * bound for bound in (start, start + share))
                fills.setdefault(colour, []).append(Path(
                    [(left, y - 0.4), (right, y - 0.4), (right, y + 0.4), (left, y + 0.4),
                     (left, y - 0.4)], closed=True))
            if cell.text:
                d.write(axes, cell.text, (x, y), (0, -0.5), d.PAPER if cell.fills else d.INK,
                        ha="center", va="center", size=min(SMALL, 0.9 * pitch))
            if cell.look:
                marks.setdefault((cell.look, cell.size), []).append((x, y))
            after = (y + self.along[0], x + self.along[1])
            if cell.joined and after in self.cells and self.cells[after].joined:
                axes.plot([x, after[1]], [y, after[0]], color=d.RED, linewidth=2, zorder=2)
        for colour, paths in fills.items():
            axes.add_patch(PathPatch(Path.make_compound_path(*paths), facecolor=colour,
                                     linewidth=0))
        for ((colour, _, marker), size), spots in marks.items():
            axes.plot(*zip(*spots), color=colour, marker=marker, linestyle="None", clip_on=False,
                      markersize=min(size, 0.75 * pitch), markeredgewidth=0, zorder=3)
