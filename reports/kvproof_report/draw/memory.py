# SPDX-License-Identifier: Apache-2.0
"""The form of memory over time: areas of what it holds, and lines over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from matplotlib.axes import Axes

from kvproof_report.draw.lines import Axis, Lines
from kvproof_report.draw.numbers import count, digits


@dataclass
class Area:
    bounds: Sequence[tuple[float, float, float]]  # (x, low, high)
    colour: str
    opacity: float = 1.0


@dataclass
class Memory(Lines):
    areas: Sequence[Area] = ()

    def right(self, width: float) -> float:
        """Less where the last tick ends with the axis."""
        return super().right(width) if self.names() or not self.x.marks else 4

    def set_axes(self, axes: Axes, size: float) -> None:
        super().set_axes(axes, size)
        if self.x.marks and axes.get_xticklabels():  # the last of these stands at the right end
            axes.get_xticklabels()[-1].set_horizontalalignment("right")
        for area in self.areas:
            axes.fill_between(*zip(*area.bounds), color=area.colour, alpha=area.opacity,
                              linewidth=0, zorder=1)


def stacked(xs: Sequence[float], layers: Sequence[tuple[Sequence[float], str, float]]
            ) -> list[Area]:
    """Areas upon each other. @param layers: (heights, colour, opacity), from the bottom"""
    areas, below = [], [0.0] * len(xs)
    for heights, colour, opacity in layers:
        above = [low + height for low, height in zip(below, heights)]
        if any(heights):
            areas.append(Area(list(zip(xs, below, above)), colour, opacity))
        below = above
    return areas


def clock(last: float) -> tuple[int, str]:
    """@return how many seconds a unit of time has that suits this many, and its name"""
    return (60, "minutes") if last >= 600 else (1, "seconds")


def over_time(last: float, title: str = "") -> Axis:
    """The axis of a time from 0; without a title it names the end alone, in seconds."""
    return Axis(title, text=lambda value: count(value) if title or not value else
                f"{digits(value)} s", marks=() if title else (0, last), span=(0, last or 1e-9))
