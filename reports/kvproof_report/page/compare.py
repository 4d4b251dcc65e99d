# SPDX-License-Identifier: Apache-2.0
"""The page that compares machines. Only what was measured alike stands side by side."""

import os
from html import escape
from string import Template
from urllib.parse import quote

from kvproof_report.common.experiments import words
from kvproof_report.common.result_files import InputError, load, paths_in, plain_name
from kvproof_report.draw.plot import Table, rows_of, spread_cell
from kvproof_report.page import machines as bars
from kvproof_report.page.page import (LABELS, colours, common, drawings_of, html_table, read,
                                       value_text)
from kvproof_report.page.sections import EXPERIMENTS, SUMMARY


def machines_of(paths):
    """name -> (path, results). Throws InputError."""
    found = {}
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
        found[name] = (path, load(files, EXPERIMENTS))
    return found


def alike(machines):
    """[(plot, what, [(machine, Number)])]: numbers of several machines that mean the same case."""
    found = {}
    for plot in SUMMARY:
        rows_by_name = {name: rows_of(plot, results) for name, (_, results) in machines.items()}
        for name, rows in shared(rows_by_name).items():
            number = plot.number(rows) if rows else None
            if number and number.metric:
                found.setdefault((plot.key, number.what), (plot, number.what, []))[2].append(
                    (name, number))
    return list(found.values())


def shared(rows_by_name):
    """Only the sources that occur on every machine that has results."""
    sources = [{row.get("source") for row in rows} for rows in rows_by_name.values() if rows]
    both = set.intersection(*sources) if sources else set()
    return {name: [row for row in rows if row.get("source") in both] if both else rows
            for name, rows in rows_by_name.items()}


def finding(what, numbers):
    """The title: the range from the least to the most, in the words of the number."""
    ordered = [number.text for _, number in sorted(numbers, key=lambda n: n[1].metric.value)]
    if ordered[0] == ordered[-1]:
        return f"{ordered[0]} {what}, on each of {len(numbers)} machines"
    return f"{ordered[0]} to {ordered[-1]} {what}"


def article(key, plot, what, numbers):
    title = finding(what, numbers)
    drawings = drawings_of(lambda width: bars.draw(numbers, width), key, title)
    ceilings = list(dict.fromkeys(n.ceiling_text for _, n in numbers if n.ceiling_text))
    return (f'<article id="{key}">\n<h3>{escape(title)}</h3>\n<div class="body">\n'
            f'<figure>{drawings}</figure>\n<div class="notes">\n'
            f"<p>{escape(' '.join(ceilings))}</p>\n"
            f'<p class="how">{escape(plot.measured)}</p>\n'
            f'<dl class="made"><dt>command</dt><dd><code>{escape(plot.command)}</code></dd></dl>\n'
            "</div>\n</div>\n</article>")


def number_table(groups):
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


def machine_table(machines, folder):
    """One row for each machine; its name is a link where its own page lies beside its files."""
    names = ("cpu", "gpu", "cores", "memory_bytes", "compiler", "commit", "date")
    names = [n for n in names if any(common(results, n) for _, results in machines.values())]
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


def linked(name, path, folder):
    page = os.path.join(path, "report.html")
    if not os.path.isfile(page):
        return escape(name)
    address = quote(os.path.relpath(page, folder).replace(os.sep, "/"))
    return f'<a href="{address}">{escape(name)}</a>'


def render(machines, folder):
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
