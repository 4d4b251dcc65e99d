# SPDX-License-Identifier: Apache-2.0
"""What the page knows of a figure: the results that it needs, how it draws them, its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterable

from matplotlib.figure import Figure

from kvproof_report.common.experiments import STORAGES, is_number, is_whole, words
from kvproof_report.common.result_files import Metric, Result, Results
from kvproof_report.draw.numbers import count, metric_text


Cell = tuple[str, Any]  # the text of a cell, and what it is sorted by


@dataclass(frozen=True)
class Plot:
    key: str            # its anchor on the page and its file name as a PNG
    experiment: str     # it draws the results of this experiment
    command: str        # it makes these results
    draw: Callable[[list[Result], int], Figure]  # the width in pixels
    finding: Callable[[list[Result]], str]  # the title: what was found, with the numbers
    see: str            # one sentence: what to look at
    measured: str       # one sentence: how the numbers came to be
    table: Callable[[list[Result]], Table]
    number: Callable[[list[Result]], Number | None] | None = None  # for the summary
    totals: str | None = None  # an experiment whose rows the table shows instead, if it has any
    also: tuple[str, ...] = ()  # it draws the results of these, too
    sums: str | None = None  # a further experiment: the functions get its rows behind their own
    case: tuple[str, Any] | None = None  # (parameter, value): it draws only the results with it
    family: str | None = None  # a sentence about this figure and others, said once above them
    optional: bool = False  # not every report makes its results: a page is whole without it
    section: str = "Further figures"
    place: int = 100    # within its section, the lowest first
    summary: int | None = None  # the place of its number among those of the summary

    @property
    def experiments(self) -> tuple[str, ...]:
        return (self.experiment, *self.also)


@dataclass(frozen=True)
class Number:
    """One of the numbers at the top of the page."""
    text: str     # the number with its unit
    what: str     # the words that follow the number
    context: str  # the numbers to compare it with
    metric: Metric  # the same as a number with its spread
    # The best value possible: with less, the lowest, else the highest.
    ceiling: float | None = None
    ceiling_text: str = ""   # the ceiling in words
    less: bool = False       # whether less is better

    def share(self) -> float | None:
        """The number as a share of its ceiling, 0 to 1; None without a ceiling."""
        if not self.ceiling or self.metric.value <= 0:
            return None
        share = self.metric.value / self.ceiling
        return min(1.0, 1 / share if self.less else share)


@dataclass(frozen=True)
class Table:
    columns: list[tuple[str, bool]]  # of (header, is_number)
    rows: list[list[Cell]]


def rows_of(plot: Plot, results: Results) -> list[Result]:
    """The results that its functions get; empty where its experiment has none."""
    rows = [row for name in plot.experiments for row in results.of(name)]
    if plot.case:
        name, value = plot.case
        rows = [row for row in rows if row.get(name) == value]
    return rows + results.of(plot.sums) if rows and plot.sums else rows


def label_cell(value: Any) -> Cell:
    text = STORAGES.get(value, str(value))
    return (count(value) if is_whole(value) else text, value if is_whole(value) else text)


def number_cell(value: float, unit: str = "") -> Cell:
    return (metric_text(value, unit), value)


def header(name: str, unit: str) -> str:
    plain = unit in ("", "1", "count", "bytes", "B", "share", "ratio", "fraction")
    named = unit and unit in words(name).split()
    return words(name) if plain or named else f"{words(name)} ({unit})"


def plain_table(results: list[Result], parameters: list[str] | None = None,
                metrics: list[str] | None = None) -> Table:
    """A row for each result: its parameters, then its metrics, with the spread if it has one."""
    parameters = parameters or list(dict.fromkeys(p for r in results for p in r.parameters))
    metrics = metrics or list(dict.fromkeys(m for r in results for m in r.metrics))
    metrics = [name for name in metrics if any(name in r.metrics for r in results)]
    columns = [(words(name), any(is_number(r.get(name)) for r in results)) for name in parameters]
    spread = {name for name in metrics if has_spread(results, name)}
    for name in metrics:
        unit = next(r.metrics[name].unit for r in results if name in r.metrics)
        columns.append((header(name, unit), True))
        if name in spread:
            columns.append(("min to max", True))
    rows = []
    for result in results:
        row = [label_cell(result.get(name, "")) for name in parameters]
        for name in metrics:
            metric = result.metrics.get(name)
            row.append(number_cell(metric.value, metric.unit) if metric else ("", ""))
            if name in spread:
                row.append(spread_cell(metric))
        rows.append(row)
    return Table(columns, rows)


def has_spread(results: list[Result], name: str) -> bool:
    return any(name in r.metrics and r.metrics[name].has_spread for r in results)


def spread_cell(metric: Metric | None) -> Cell:
    if metric is None or not metric.has_spread:
        return ("", "")
    return (f"{metric_text(metric.low, metric.unit)} to {metric_text(metric.high, metric.unit)}",
            metric.low)


def lines_of(results: Iterable[Result], name: str, along: str) -> dict[Any, list[Result]]:
    """Results by the value of one parameter, each group by ascending values of another."""
    return {value: sorted(rows, key=lambda r: r[along])
            for value, rows in groups(results, name).items()}


def groups(results: Iterable[Result], *names: str) -> dict[Any, list[Result]]:
    """Results by the values of these parameters, in order of first appearance."""
    found: dict[Any, list[Result]] = {}
    for result in results:
        key = tuple(result.get(name) for name in names)
        found.setdefault(key[0] if len(names) == 1 else key, []).append(result)
    return found
