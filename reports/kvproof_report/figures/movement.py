# SPDX-License-Identifier: Apache-2.0
"""Data movement: bytes over time as a share of the fastest copy, per operation."""

from statistics import median

from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row, grouped
from kvproof_report.draw.numbers import digits
from kvproof_report.draw.plot import Plot, groups, plain_table
from kvproof_report.draw.sheet import Key, drawn

COPY = "fraction_of_copy_ceiling"


def of_copies(results):
    """The copies. slot_mapping copies nothing, so only the table shows it."""
    return [r for r in results if COPY in r.metrics]


def cases(results):
    """operation -> [(label, implementations, fastest first)]"""
    found = {}
    for operation, rows in groups(of_copies(results), "operation").items():
        for (kind, layout, threads), same in groups(rows, "cache_type", "layout",
                                                    "threads").items():
            parts = [layout.upper(), f"{threads} thread{'s' if threads > 1 else ''}"]
            if kind != same[0]["type"]:
                parts.insert(0, f"to {kind.removeprefix('fp8_')}")
            same = sorted(same, key=lambda r: -r.value(COPY))
            found.setdefault(operation, []).append((", ".join(parts), same))
    return found


@drawn
def draw(results):
    rows = {operation: [Row(label, [Dot(r.metrics[COPY], d.GREY if i else d.BLUE, hollow=i > 0)
                                    for i, r in enumerate(same)]) for label, same in group]
            for operation, group in cases(results).items()}
    return [Dots(grouped(rows), "share of the copy ceiling; line: 10 to 90 %", mark=1, spread=True),
            Key([("fastest way", (d.BLUE, "", "o")), ("other ways", (d.GREY, "", "o"))],
                fill={"other ways": 0})]


def finding(results):
    best = [(same[0].value(COPY), f"{operation}, {label}")
            for operation, group in cases(results).items() for label, same in group]
    if not best:
        return "No operation of these results is a copy"
    low = min(best)
    return (f"Moving data reaches {digits(median(value for value, _ in best), 2)} of the fastest "
            f"copy, median of {len(best)} cases; the slowest is {low[1]} at {digits(low[0], 2)}")


PLOT = Plot(
    "movement", "movement", "kvproof bench --filter=movement", draw, finding,
    "A filled dot is the fastest implementation of a case, 1 the fastest copy of as many bytes.",
    "Each round runs every copy kernel and every implementation once; a share is of two times of "
    "one round, bytes read and written together, shown is the median with the 10th and 90th "
    "percentile. Results were compared bit by bit with the reference on the same buffers first.",
    plain_table, section="Kernels", place=20)
