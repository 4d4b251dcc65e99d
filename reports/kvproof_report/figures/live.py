# SPDX-License-Identifier: Apache-2.0
"""Memory over time while a trace is served: each reservation policy against paged blocks."""

from kvproof_report.common.experiments import AMOUNT, SHARE, SIZE, STORAGE, TEXT, Experiment
from kvproof_report.figures.live_drawing import draw, panels
from kvproof_report.draw.numbers import count, digits, percent, times
from kvproof_report.draw.plot import Number, Plot, Table, label_cell, number_cell
from kvproof_report.common.result_files import Metric


def peak(rows, name):
    return max(r.value(name) for r in rows)


def mean_ratio(rows):
    """Reserved tokens over live tokens, both summed over time."""
    alive = sum(r.value("live_tokens") for r in rows)
    return sum(r.value("reserved_tokens") for r in rows) / alive if alive else float("nan")


def ratios(results):
    """(source, paged, max length) for each source that has both."""
    return [(source, mean_ratio(lines["paged"]), mean_ratio(lines["contiguous_max_length"]))
            for source, lines in panels(results).items()
            if {"paged", "contiguous_max_length"} <= set(lines)]


def finding(results):
    rows = ratios(results)
    if not rows:
        return "Memory over time, by reservation policy"
    source, paged, longest = max(rows, key=lambda row: row[2])
    return (f"Over {source}, max-length buffers hold {digits(longest)} times the tokens that are "
            f"alive, and paged blocks {paged:.3f} times")


def number(results):
    rows = ratios(results)
    if not rows:
        return None
    source, paged, longest = max(rows, key=lambda row: row[2])
    return Number(f"{paged:.3f}\u202f×", f"the memory of the live tokens is what paging holds, "
                  f"mean over {source}",
                  f"max-length buffers hold {times(longest)}; counted",
                  Metric(paged, "ratio", paged, paged), 1.0,
                  "Floor 1\u202f×: the tokens that are alive.", less=True)


def table(results):
    columns = [("source", False), ("storage", False), ("peak reserved (tokens)", True),
               ("reserved over alive, mean", True), ("external fragmentation, worst", True),
               ("moved (tokens)", True)]
    rows = []
    for source, lines in panels(results).items():
        for storage, points in lines.items():
            row = [label_cell(source), label_cell(storage),
                   number_cell(peak(points, "reserved_tokens")),
                   (f"{mean_ratio(points):.3f}", mean_ratio(points))]
            for name, text in (("external_fragmentation", percent), ("moved_tokens", count)):
                known = [r.value(name) for r in points if name in r.metrics]
                row.append((text(max(known)), max(known)) if known else ("", ""))
            rows.append(row)
    return Table(columns, rows)


EXPERIMENTS = {
    "live_memory": Experiment(
        {"source": TEXT, "storage": STORAGE, "seconds": AMOUNT, "max_length": SIZE},
        {"live_tokens": AMOUNT, "reserved_tokens": AMOUNT},
        {"external_fragmentation": SHARE, "moved_tokens": AMOUNT}),
    # The totals of a run of live_memory: the table below its figure.
    "live_memory_run": Experiment({"source": TEXT, "storage": STORAGE}, {}, {}),
}

PLOT = Plot(
    "live-memory", "live_memory", "kvproof-study live_memory", draw, finding,
    "The grey area is what is alive; the distance of a line above it is memory that no "
    "request can use. Lower strip: how much of the free memory lies outside its largest run.",
    "Counted, not timed: requests arrive as in their source and grow token by token; every "
    "storage serves the same requests. A shared token counts as alive for each request that has "
    "it; a contiguous arena is the smallest in which first fit serves them.",
    table, number, "live_memory_run", section="Memory", place=50, summary=70)
