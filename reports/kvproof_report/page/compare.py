# SPDX-License-Identifier: Apache-2.0
"""The page that compares machines. Only what was measured alike stands side by side."""

from __future__ import annotations

import os
from html import escape
from string import Template
from urllib.parse import quote

from matplotlib.figure import Figure

from kvproof_report.common.experiments import words
from kvproof_report.common.result_files import Result, Results, load, paths_in, plain_name
from kvproof_support.files import InputError
from kvproof_report.draw import drawing as d
from kvproof_report.draw.bars import Bar, Bars, Column, Row
from kvproof_report.draw.lines import Axis
from kvproof_report.draw.plot import Number, Plot, Table, rows_of, spread_cell
from kvproof_report.draw.sheet import Key, sheet
from kvproof_report.page.page import (LABELS, colours, common, drawings_of, html_table, read,
                                       value_text)
from kvproof_report.page.sections import SUMMARY

Machines = dict[str, tuple[str, Results]]  # name -> path, results
Beside = list[tuple[str, Number]]  # of (machine, number with a metric), one or more of one unit
Group = tuple[Plot, str, Beside]  # numbers of several machines that mean the same case
PERCENT = 100


def machines_of(paths: list[str]) -> Machines:
    """Throws InputError."""
    found: Machines = {}
    for path in paths:
        is_folder = os.path.isdir(path)
        name = plain_name(os.path.abspath(path))
        name = name if is_folder else name.removesuffix(".json")
        files = paths_in(path) if is_folder else [path]
        if not files:
            raise InputError(f"{path}: expected a folder with result files in it")
        if name in found:
            raise InputError(f"{path}: expected machines of different names; {found[name][0]} is "
                             f"called {name}, too")
        found[name] = (path, load(files))
    return found


def alike(machines: Machines) -> list[Group]:
    found: dict[tuple[str, str], Group] = {}
    for plot in SUMMARY:
        rows_by_name = {name: rows_of(plot, results) for name, (_, results) in machines.items()}
        for name, rows in shared(rows_by_name).items():
            number = plot.number(rows) if rows and plot.number else None
            if number:
                found.setdefault((plot.key, number.what), (plot, number.what, []))[2].append(
                    (name, number))
    return list(found.values())


def shared(rows_by_name: dict[str, list[Result]]) -> dict[str, list[Result]]:
    """Only the sources that occur on every machine that has results."""
    sources = [{row.get("source") for row in rows} for rows in rows_by_name.values() if rows]
    both = set.intersection(*sources) if sources else set()
    return {name: [row for row in rows if row.get("source") in both] if both else rows
            for name, rows in rows_by_name.items()}


def finding(what: str, numbers: Beside) -> str:
    """The title: the range from the least to the most, in the words of the number."""
    ordered = [number.text for _, number in sorted(numbers, key=lambda n: n[1].metric.value)]
    if ordered[0] == ordered[-1]:
        return f"{ordered[0]} {what}, on each of {len(numbers)} machines"
    return f"{ordered[0]} to {ordered[-1]} {what}"


def article(key: str, plot: Plot, what: str, numbers: Beside) -> str:
    title = finding(what, numbers)
    drawings = drawings_of(lambda width: draw(numbers, width), key, title)
    ceilings = list(dict.fromkeys(n.ceiling_text for _, n in numbers if n.ceiling_text))
    return (f'<article id="{key}">\n<h3>{escape(title)}</h3>\n<div class="body">\n'
            f'<figure>{drawings}</figure>\n<div class="notes">\n'
            f"<p>{escape(' '.join(ceilings))}</p>\n"
            f'<p class="how">{escape(plot.measured)}</p>\n'
            f'<dl class="made"><dt>command</dt><dd><code>{escape(plot.command)}</code></dd></dl>\n'
            "</div>\n</div>\n</article>")


# ---- a bar with its spread, and the best value possible there ------------------------------------

def draw(numbers: Beside, width: int) -> Figure:
    scale = PERCENT if is_share(numbers) else 1
    rows = []
    for machine, number in numbers:
        metric = number.metric
        rows.append(Row(machine, [Bar(
            [(metric.value * scale, d.BLUE, 1)], [(number.text, d.INK, "bold")],
            mark=(number.ceiling * scale, d.VERMILLION) if number.ceiling else None,
            span=(metric.low * scale, metric.high * scale) if metric.has_spread else None)]))
    return sheet(width, [Bars(rows, [Column(x=Axis(axis_text(numbers)))]), Key(key_of(numbers))])


def key_of(numbers: Beside) -> list[d.Entry]:
    spread = "; line: its spread" * any(number.metric.has_spread for _, number in numbers)
    entries: list[d.Entry] = [("measured" + spread, (d.BLUE, "", "s"))]
    if any(number.ceiling for _, number in numbers):
        kind = "floor, less is better" if numbers[0][1].less else "ceiling, more is better"
        entries.append((kind, (d.VERMILLION, "", "|")))
    return entries


def is_share(numbers: Beside) -> bool:
    """Whether the numbers are shares, which are shown in percent and cannot exceed 100."""
    return all(n.metric.unit in ("ratio", "share") and not n.less for _, n in numbers)


def axis_text(numbers: Beside) -> str:
    if is_share(numbers):
        return "%"
    unit = numbers[0][1].metric.unit
    return "times (×)" if unit == "ratio" else unit


# ---- the page -----------------------------------------------------------------------------------

def number_table(groups: list[Group]) -> Table:
    rows = []
    for _, what, numbers in groups:
        for name, number in numbers:
            metric = number.metric
            spread, key = spread_cell(metric)
            if spread and metric.unit not in ("ratio", "share"):
                spread += f" {metric.unit}"
            rows.append([(what, what), (name, name), (number.text, metric.value), (spread, key),
                         (number.ceiling_text, number.ceiling or ""),
                         (number.context, number.context)])
    return Table([("what", False), ("machine", False), ("value", True), ("spread", True),
                  ("ceiling or floor", False), ("beside it", False)], rows)


def machine_table(machines: Machines, folder: str) -> str:
    """One row for each machine; its name is a link where its own page lies beside its files."""
    names = [n for n in ("cpu", "gpu", "cores", "memory_bytes", "compiler", "commit", "date")
             if any(common(results, n) for _, results in machines.values())]
    head = "".join(f'<th scope="col" class="text">{escape(text)}</th>' for text in
                   ["machine"] + [LABELS.get(n, words(n.removesuffix("_bytes"))) for n in names])
    rows = []
    for name, (path, results) in machines.items():
        cells = [linked(name, path, folder)]
        for field in names:
            values = [value_text(field, value) for value in common(results, field)]
            cut = {"commit": 12, "date": 10}.get(field)
            cells.append(escape("; ".join(dict.fromkeys(v[:cut] for v in values))))
        rows.append("<tr>" + "".join(f'<td class="text">{cell}</td>' for cell in cells) + "</tr>")
    return ('<div class="scroll"><table class="sortable">\n<thead><tr>' + head +
            "</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>")


def linked(name: str, path: str, folder: str) -> str:
    page = os.path.join(path, "report.html")
    if not os.path.isfile(page):
        return escape(name)
    address = quote(os.path.relpath(page, folder).replace(os.sep, "/"))
    return f'<a href="{address}">{escape(name)}</a>'


def render(machines: Machines, folder: str) -> str:
    groups = alike(machines)
    if not groups:
        raise InputError("none of these files has a number of the summary; expected results of "
                         "kvproof report")
    articles = [article(f"n{index}", *group) for index, group in enumerate(groups)
                if len(group[2]) > 1]
    return Template(read("page.compare.html")).substitute(
        style=read("page.css") + colours(), script=read("page.js"),
        headline=f"{len(machines)} machines; of {len(groups)} numbers, {len(articles)} were "
                 "measured alike on two or more of them and have a figure",
        machines=machine_table(machines, folder), articles="\n".join(articles),
        table=html_table(number_table(groups)))
