# SPDX-License-Identifier: Apache-2.0
"""The names of rows: a short one, which is bold, and what it means; one of the two may be empty."""

from __future__ import annotations

from typing import Protocol, Sequence

from matplotlib.axes import Axes

from kvproof_report.draw import drawing as d


class Named(Protocol):
    name: str
    label: str
    colour: str


def room_of(rows: Sequence[Named]) -> tuple[float, float]:
    """The room that the short names take, with the gap behind them, and that of both. [px]"""
    short = max((6 + d.text_width(row.name, "bold") for row in rows if row.name), default=0)
    return short, short + max((d.text_width(row.label) for row in rows), default=0)


def write_label(axes: Axes, row: Named, at: tuple[float, float], short: float, room: float) -> None:
    """Writes it at the middle of a row, at[0] px from the axes, cut to the room."""
    by, y = at
    if row.name:
        d.write(axes, row.name, (0, y), (by, 0), row.colour, on="row", weight="bold")
    if row.label:
        d.write(axes, d.shortened(row.label, room - short), (0, y), (by + short, 0), row.colour,
                on="row")
