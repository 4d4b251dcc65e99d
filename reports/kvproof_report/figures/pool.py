# SPDX-License-Identifier: Apache-2.0
"""The cost of each operation of the pool at each pool size, with the tail of single calls."""

from itertools import cycle

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.numbers import binary, count, digits, time_text
from kvproof_report.draw.plot import Plot, groups, plain_table
from kvproof_report.draw.sheet import Beside, Key, Words, drawn

CALLS = (("call_p50", "median", d.SOLID, 1.8), ("call_p99", "99 %", d.DASHED, 1.2),
         ("call_worst", "worst", d.DOTTED, 1.4))
FLOOR, BARE = "floor_ns_per_block", (d.SOFT, d.SOLID, "")


def cases(results):
    """(operation, batch) -> (results by ascending pool size, results with an easier order).

    A pool that has worked for a while has its free blocks in shuffled order; a new pool has them
    in the order of their ids, which is easier.
    """
    found = {}
    for key, rows in groups(results, "operation", "batch").items():
        orders = groups(sorted(rows, key=lambda r: r["num_blocks"]), "order")
        hard = "shuffled" if "shuffled" in orders else next(iter(orders))
        easy = [rows for order, rows in orders.items() if order != hard]
        found[key] = (orders[hard], easy[0] if easy else [])
    return found


def main_cases(results):
    """One case for each operation: the one of the middle batch size."""
    by_operation = {}
    for (operation, batch), (rows, _) in cases(results).items():
        by_operation.setdefault(operation, []).append((batch, rows))
    return {operation: sorted(choices, key=lambda c: c[0])[len(choices) // 2][1]
            for operation, choices in by_operation.items()}


def name_of(row):
    return f"{words(row['operation'])} × {count(row['batch'])}"


@drawn
def draw(results):
    lines = main_cases(results)
    looks = dict(zip(lines, cycle(d.SERIES_LOOK)))
    panels = [case for case in cases(results).values() if has_calls(case[0] + case[1])]
    return [draw_main(lines, looks)] + (draw_calls(panels, looks) if panels else [])


def has_calls(rows):
    return all(metric in r.metrics for r in rows for metric, *_ in CALLS)


def points(rows, metric):
    return [(r["num_blocks"], r.metrics[metric]) for r in rows if metric in r.metrics]


def draw_main(lines, looks):
    series = [Series(name_of(rows[0]), looks[operation], points(rows, "ns_per_block"))
              for operation, rows in lines.items()]
    for rows in lines.values():  # the cost of a bare linked list in the same case
        if bare := points(rows, FLOOR):
            series.append(Series(f"bare list × {count(rows[0]['batch'])}", BARE, bare, 0.9))
    sizes = sorted({r["num_blocks"] for rows in lines.values() for r in rows})
    return Lines("operation × blocks of one call",
                 Axis("blocks in the pool, log scale", 2, binary, sizes),
                 Axis("ns per block, log scale; bars: min to max", 10), series, tall=250)


def draw_calls(panels, looks):
    """Draws one small panel for each operation and batch, all with the same axes."""
    sizes = sorted({r["num_blocks"] for rows, _ in panels for r in rows})
    times = [r.value(metric) for rows, _ in panels for r in rows for metric, *_ in CALLS]
    x = Axis("", 2, binary, sizes[::max(1, len(sizes) // 2)], sizes)
    y = Axis("", 10, lambda value: time_text(value, 1), span=[min(times), max(times)])
    small = []
    for rows, easy in panels:
        colour = looks[rows[0]["operation"]][0]
        series = [Series("", BARE, points(easy, "call_p50"), 0.9)] + [
            Series("", (colour, dash, "." if len(rows) == 1 else ""), points(rows, metric), weight)
            for metric, _, dash, weight in CALLS]
        small.append(Lines(name_of(rows[0]), x, y, series, tall=125))
    return [Words("The time of one call, log scale", d.INK, "bold"),
            Key([(name, (d.SOFT, dash, "")) for _, name, dash, _ in CALLS], 44),
            Beside(small, 160, 0)]


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    last = [rows[-1] for rows in main_cases(results).values()]
    low, high = (pick(last, key=lambda r: r.value("ns_per_block")) for pick in (min, max))
    size = max(r["num_blocks"] for r in last)
    text = (f"In a pool of {count(size)} blocks an operation costs "
            f"{digits(low.value('ns_per_block'))} ({words(low['operation'])}) to "
            f"{digits(high.value('ns_per_block'))} ns a block ({words(high['operation'])})")
    timed = [rows[-1] for rows, _ in cases(results).values() if has_calls(rows)]
    if timed:
        longest = max(timed, key=lambda r: (r["batch"], r.value("call_p50")))
        text += f"; one call of {name_of(longest)} takes {time_text(longest.value('call_p50'))}"
        if "calls" not in longest.metrics or longest.value("calls") >= 100:
            text += f", 99 of 100 at most {time_text(longest.value('call_p99'))}"
    return text


def table(results):
    return plain_table(sorted(results, key=lambda r: (
        r["operation"], r["batch"], r["order"], r["num_blocks"])))


PLOT = Plot(
    "pool-operation", "pool_operation", "kvproof-bench --filter=pool_operation", draw, finding,
    "A flat line is an operation whose cost does not depend on the size of the pool. The small "
    "panels are single calls; a worst call of milliseconds that is the same for every operation "
    "is the operating system taking the core away.",
    "Timed on one core. Above: many calls at once, in repetitions. Below: every call timed "
    "alone, the clock's own cost taken off. Coloured: free blocks in shuffled order; thin grey in "
    "the small panels: the median with free blocks in the order of their ids. Bare list: "
    "the same blocks unlinked and linked again, without any bookkeeping.",
    table, section="Allocator", place=20)
