# SPDX-License-Identifier: Apache-2.0
"""Rows of dots with whiskers: each row is one case, its number at the right."""

from __future__ import annotations

from typing import Optional

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvproof_report.common.result_files import Metric
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import digits

Dot = tuple[Metric, tuple[str, bool]]  # with its colour, and whether it is hollow
Row = tuple[Optional[str], str, list[Dot]]  # a group, whose name stands above it, or None; a label

STEP = 20  # [px] from one row to the next
HEAD = 22  # [px] additional room above a row that opens a group
WITH_SPREAD = 150  # [px] of room for a number and its spread


def height_of(rows: list[Row]) -> int:
    return max(STEP, sum(STEP + (HEAD if group else 0) for group, *_ in rows))


def draw_rows(figure: Figure, rows: list[Row], top: float, width: int, least: float, most: float,
              unit: str, mark: float = 1.0, right: int | None = None) -> Axes:
    """@param right: room for the numbers [px], which show their spread if there is enough of it"""
    left, usual = (128, 42) if width < 500 else (250, 60)
    right = right or usual
    height = height_of(rows)
    axes = d.place(figure, left, top, width - left - right, height)
    axes.set_xlim(least, most)
    axes.set_ylim(height, 0)
    y = 0
    for group, label, dots in rows:
        if group:
            y += HEAD
            d.write(axes, group, (0, y - 5), (8 - left, 0), on="row", weight="bold")
        draw_row(axes, y + STEP / 2, label, dots, left, right)
        y += STEP
    if least <= mark <= most:
        axes.axvline(mark, color=d.SOFT, linewidth=0.9)
    d.row_axis(axes)
    d.x_title(axes, unit)
    return axes


def draw_row(axes: Axes, y: float, label: str, dots: list[Dot], left: int, right: int) -> None:
    low, high = axes.get_xlim()
    d.write(axes, label, (0, y), (16 - left, 0), d.SOFT, on="row")
    for metric, (colour, hollow) in dots:
        if metric.has_spread:
            axes.plot([max(metric.low, low), min(metric.high, high)], [y, y], color=colour,
                      linewidth=1, alpha=0.7)
        axes.plot([min(max(metric.value, low), high)], [y], marker="o", color=colour, zorder=3,
                  markersize=6, markerfacecolor=d.PAPER if hollow else colour, clip_on=False)
    metric = dots[0][0]
    said = digits(metric.value)
    if metric.has_spread and right > WITH_SPREAD:
        said += f" ({digits(metric.low)} to {digits(metric.high)})"
    d.write(axes, said, (1, y), (10, 0), dots[0][1][0], on="row")
