# SPDX-License-Identifier: Apache-2.0
"""The cost of each operation of the pool at each pool size, with the tail of single calls."""

import math

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import binary, count, digits, short, time_text
from kvproof_report.draw.plot import Plot, groups, plain_table

CALLS = (("call_p50", "median", d.SOLID, 1.8), ("call_p99", "99 %", d.DASHED, 1.2),
         ("call_worst", "worst", d.DOTTED, 1.4))


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


def draw(results, width):
    narrow = width < 500
    lines = main_cases(results)
    looks = {operation: d.SERIES_LOOK[i % len(d.SERIES_LOOK)] for i, operation in enumerate(lines)}
    panels = [case for case in cases(results).values() if has_calls(case[0] + case[1])]
    columns, main, panel = (2, 240, 118) if narrow else (4, 250, 132)
    right = 16 if narrow else 190
    key = d.key_height(key_entries(lines, looks), width - 20) if narrow else 0
    grid = 40 + math.ceil(len(panels) / columns) * (panel + 52) - 22 if panels else 0
    figure = d.new_figure(width, 46 + main + 48 + key + grid)
    axes = d.place(figure, 52, 46, width - 52 - right, main)
    draw_main(axes, lines, looks, narrow)
    if narrow:
        d.draw_key(figure, key_entries(lines, looks), 20, 46 + main + 48, width - 20)
    if panels:
        draw_calls(figure, panels, looks, columns, 46 + main + 48 + key + 40, panel, width)
    return figure


def has_calls(rows):
    return all(metric in r.metrics for r in rows for metric, *_ in CALLS)


def draw_main(axes, lines, looks, narrow):
    ends = []
    for operation, rows in lines.items():
        colour, dash, marker = looks[operation]
        xs = [r["num_blocks"] for r in rows]
        metrics = [r.metrics["ns_per_block"] for r in rows]
        axes.plot(xs, [m.value for m in metrics], color=colour, linestyle=dash, marker=marker,
                  zorder=3)
        axes.vlines(xs, [m.low for m in metrics], [m.high for m in metrics], color=colour,
                    linewidth=1)
        ends.append((xs[-1], metrics[-1].value, name_of(rows[0]), colour))
    ends += draw_bare_list(axes, lines)
    rows = [r for rows in lines.values() for r in rows]
    log_log(axes, [r["num_blocks"] for r in rows],
            [bound for r in rows for bound in (r.metrics["ns_per_block"].low,
                                               r.metrics["ns_per_block"].high)] +
            [end[1] for end in ends])
    d.title(axes, "operation × blocks of one call", "ns per block, log scale; bars: min to max")
    d.x_title(axes, "blocks in the pool, log scale")
    if not narrow:
        d.end_labels(axes, ends)


def draw_bare_list(axes, lines):
    """Draws a thin line if the results state the cost of a bare linked list in the same case."""
    ends = []
    for rows in lines.values():
        rows = [r for r in rows if "floor_ns_per_block" in r.metrics]
        if rows:
            axes.plot([r["num_blocks"] for r in rows],
                      [r.value("floor_ns_per_block") for r in rows], color=d.SOFT, linewidth=0.9)
            ends.append((rows[-1]["num_blocks"], rows[-1].value("floor_ns_per_block"),
                         f"bare list × {count(rows[0]['batch'])}", d.SOFT))
    return ends


def log_log(axes, xs, ys):
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    low, high = min(y for y in ys if y > 0) / 1.4, max(ys) * 1.4
    axes.set_xlim(min(xs) / 1.25, max(xs) * 1.25)
    axes.set_ylim(low, high)
    d.ticks(axes.xaxis, sorted(set(xs)), binary)
    d.ticks(axes.yaxis, d.log_marks(low, high), short)


def key_entries(lines, looks):
    """On a phone there is no room beside the lines: their names stand below."""
    entries = [(name_of(rows[0]), looks[operation]) for operation, rows in lines.items()]
    if any("floor_ns_per_block" in r.metrics for rows in lines.values() for r in rows):
        entries.append(("thin: a bare list", (d.SOFT, d.SOLID, "")))
    return entries


def draw_calls(figure, panels, looks, columns, top, panel, width):
    """Draws one small panel for each operation and batch, all with the same axes."""
    values = [r.value(metric) for rows, _ in panels for r in rows for metric, *_ in CALLS]
    values += [r.value("call_p50") for _, easy in panels for r in easy]
    xs = sorted({r["num_blocks"] for rows, _ in panels for r in rows})
    left, gap, right = 52, 16, 50
    size = (width - left - right - gap * (columns - 1)) / columns
    for index, (rows, easy) in enumerate(panels):
        column, row = index % columns, index // columns
        axes = d.place(figure, left + column * (size + gap), top + row * (panel + 52), size, panel)
        colour = looks[rows[0]["operation"]][0]
        draw_calls_of(axes, rows, easy, colour)
        log_log(axes, xs, values)
        low, high = axes.get_ylim()
        d.ticks(axes.yaxis, d.powers(low, high),
                (lambda v: time_text(v, 1)) if column == 0 else (lambda v: ""))
        last = index + columns >= len(panels)
        d.ticks(axes.xaxis, [xs[0], xs[len(xs) // 2]], binary if last else lambda v: "")
        d.title(axes, name_of(rows[0]), "time of one call, log" if index == 0 else None)
        if column == columns - 1 or index == len(panels) - 1:
            d.end_labels(axes, [(rows[-1]["num_blocks"], rows[-1].value(metric), text, colour)
                                for metric, text, *_ in CALLS], gap=12, offset=2)


def draw_calls_of(axes, rows, easy, colour):
    axes.plot([r["num_blocks"] for r in easy], [r.value("call_p50") for r in easy], color=d.SOFT,
              linewidth=0.9)
    for metric, _, dash, weight in CALLS:
        axes.plot([r["num_blocks"] for r in rows], [r.value(metric) for r in rows], color=colour,
                  linestyle=dash, linewidth=weight, marker="." if len(rows) == 1 else "")


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
