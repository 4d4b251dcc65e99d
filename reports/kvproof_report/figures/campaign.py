# SPDX-License-Identifier: Apache-2.0
"""A campaign: how many of its tasks are complete, what they counted, and what they found."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, short
from kvproof_report.draw.plot import Plot, plain_table

STEP, HEAD = 30, 14  # [px] of a kind of tasks, and above the first
MOST_FOUND = 8  # findings that are told; the table has all


def split(results):
    """(a row for each kind of task, the distinct findings)"""
    return ([r for r in results if r.experiment == "campaign"],
            [r for r in results if r.experiment == "campaign_finding"])


def draw(results, width):
    narrow = width < 500
    kinds, found = split(results)
    told = found[:MOST_FOUND]
    left, right = (110, 16) if narrow else (130, 300)
    step = STEP + 18 if narrow else STEP
    below = 24 + 18 * len(told) if told else 0
    figure = d.new_figure(width, HEAD + step * len(kinds) + 50 + below)
    axes = d.place(figure, left, HEAD, width - left - right, step * len(kinds))
    axes.set_xlim(0, 100)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    for index, row in enumerate(kinds):
        draw_kind(axes, index, row, narrow)
    d.ticks(axes.xaxis, [0, 25, 50, 75, 100], lambda value: f"{value:g}")
    d.row_axis(axes)
    d.x_title(axes, "tasks that are complete (%)")
    if told:
        list_findings(d.canvas(figure, 0, HEAD + step * len(kinds) + 50, width, below), told, width)
    return figure


def draw_kind(axes, index, row, narrow):
    share = 100 * row.value("complete") / row.value("tasks")
    colour = d.VERMILLION if row.value("findings") else d.BLUE
    axes.barh([index], [100], height=0.36, color=d.SOFT, alpha=0.2)
    axes.barh([index], [share], height=0.36, color=colour)
    d.write(axes, row["kind"], (0, index), (-10, 0), on="row", ha="right")
    place, offset = ((0, index + 0.36), (2, 0)) if narrow else ((1, index), (12, 0))
    d.write(axes, counts_text(row), place, offset, colour if row.value("findings") else d.SOFT,
            on="row", ha="left")


def counts_text(row):
    text = f"{count(row.value('complete'))} of {count(row.value('tasks'))}"
    for name in ("operations", "states", "inputs"):
        if name in row.metrics and row.value(name):
            text += f", {short(row.value(name))} {name}"
    found = row.value("findings")
    return text + (f", {count(found)} findings" if found else "")


def list_findings(canvas, told, width):
    d.write(canvas, "Found, by law and shape of the shrunk trace", (8, 12), (0, 0), weight="bold")
    for line, row in enumerate(told):
        text = f"{row['law']} in {count(row.value('tasks'))} tasks: {row.get('reason', '')}"
        d.write(canvas, d.shorten(text, int(width / 7)), (8, 34 + 18 * line), (0, 0), d.VERMILLION)


def finding(results):
    kinds, found = split(results)
    tasks, complete = (sum(row.value(name) for row in kinds) for name in ("tasks", "complete"))
    return (f"{count(complete)} of {count(tasks)} tasks are complete, and they found "
            f"{count(len(found)) if found else 'nothing'}")


def table(results):
    """The findings, each with what shows it again; where there is none, the kinds."""
    kinds, found = split(results)
    shown = [name for name in ("law", "reason", "shape", "repeat", "lens")
             if any(name in row.parameters for row in found)]
    return plain_table(found, shown, ["tasks"]) if found else plain_table(kinds, ["kind"])


PLOT = Plot(
    "campaign-tasks", "campaign", "kvproof campaign merge DIR --json=merged.json", draw, finding,
    "A bar that is not full has tasks without a result; a red one found something, which is told "
    "below it with the number of tasks that came upon it.",
    "Merged from the results of shards, which write the same bytes on any machine; a task that two "
    "shards did counts once.", table, sums="campaign_finding", optional=True, section="Campaign",
    place=10)
