# SPDX-License-Identifier: Apache-2.0
"""A campaign: how many of its tasks are complete, what they counted, and what they found."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.bars import Bar, Bars, Column, Row
from kvproof_report.draw.lines import Axis
from kvproof_report.draw.numbers import count, short
from kvproof_report.draw.plot import Plot, plain_table
from kvproof_report.draw.sheet import Words, drawn

MOST_FOUND = 8  # findings that are told; the table has all


def split(results):
    """(a row for each kind of task, the distinct findings)"""
    return ([r for r in results if r.experiment == "campaign"],
            [r for r in results if r.experiment == "campaign_finding"])


@drawn
def draw(results):
    kinds, found = split(results)
    rows = []
    for row in kinds:
        share = 100 * row.value("complete") / row.value("tasks")
        colour = d.VERMILLION if row.value("findings") else d.BLUE
        text = (counts_text(row), colour if row.value("findings") else d.SOFT, "normal")
        rows.append(Row(row["kind"], [Bar(
            [(share, colour, 1), (100 - share, d.SOFT, 0.2)], [text])]))
    parts = [Bars(rows, [Column(x=Axis("tasks that are complete (%)",
                                       marks=[0, 25, 50, 75, 100]))])]
    if found:
        parts.append(Words("Found, by law and shape of the shrunk trace", d.INK, "bold"))
    return parts + [Words(d.shorten(
        f"{row['law']} in {count(row.value('tasks'))} tasks: {row.get('reason', '')}", 160),
        d.VERMILLION) for row in found[:MOST_FOUND]]


def counts_text(row):
    text = f"{count(row.value('complete'))} of {count(row.value('tasks'))}"
    for name in ("operations", "states", "inputs"):
        if name in row.metrics and row.value(name):
            text += f", {short(row.value(name))} {name}"
    found = row.value("findings")
    return text + (f", {count(found)} findings" if found else "")


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
