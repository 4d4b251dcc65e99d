# SPDX-License-Identifier: Apache-2.0
"""Draws a published claim: our value with its range, the published one hollow."""

from functools import partial

from kvproof_report.common.experiments import STORAGES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import NARROW_SPACE, count, digits, percent, short
from kvproof_report.draw.plot import groups

LOG_SPAN = 20  # from this ratio of the largest to the smallest value the axis is logarithmic


# ---- one row ------------------------------------------------------------------------------------

def text_of(value, unit):
    if unit == "ratio":
        return percent(value)
    if unit in ("ms", "s"):
        return f"{digits(value)}{NARROW_SPACE}{unit}"
    return count(value) if value >= 1000 or float(value).is_integer() else digits(value)


def range_text(metric):
    """Both bounds with the unit once: '10 to 15 %'."""
    low, high = (text_of(bound, metric.unit) for bound in (metric.low, metric.high))
    if not metric.has_spread:
        return high
    return f"{low.partition(NARROW_SPACE)[0].removesuffix('.0')} to {high.replace('.0', '')}"


def bounds(metrics):
    return [bound for m in metrics for bound in (m.low, m.high)]


def metrics_of(rows):
    return [r.metrics[name] for r in rows for name in ("here", "published") if name in r.metrics]


# The title of the axis, for claims whose rows are cases of one quantity.
QUANTITIES = {"watermark": "preemptions", "first_token": "time to the first token",
              "block_size": "unused tokens of a last block"}


# ---- drawing ------------------------------------------------------------------------------------

def panels(results):
    """unit -> rows; each unit has an axis of its own"""
    found = {}
    for row in results:
        found.setdefault(row.metrics["here"].unit, []).append(row)
    return found


def common_of(rows):
    """The beginning that all cases share, up to a comma; the whole case if there is only one."""
    cases = list(groups(rows, "at"))
    if len(cases) == 1:
        return cases[0]
    first = cases[0].partition(", ")[0]
    return first if all(case.startswith(first + ", ") for case in cases) else ""


def label_of(row, rows):
    """The label that tells a row from the others: its series, its case, or both."""
    series = STORAGES.get(row["series"], row["series"])
    case = row["at"].removeprefix(common_of(rows)).removeprefix(", ")
    if not case:
        return series
    return f"{series}: {case}" if len(groups(rows, "series")) > 1 else case


def draw(results, width):
    step = 42 if width < 500 else 28
    units = panels(results)
    heights = [30 + step * len(rows) + 50 for rows in units.values()]
    key = 26
    figure = d.new_figure(width, key + sum(heights))
    draw_keys(figure, width)
    top = key
    for (unit, rows), height in zip(units.items(), heights):
        draw_panel(figure, rows, unit, top + 30, step, width)
        top += height
    return figure


def draw_panel(figure, rows, unit, top, step, width):
    narrow = width < 500
    left, right = (16, 146) if narrow else (240, 176)
    axes = d.place(figure, left, top, width - left - right, step * len(rows))
    values = [v for v in bounds(metrics_of(rows)) if v > 0]
    low, high = (min(values), max(values)) if values else (0, 1)
    is_log = bool(values) and len(values) == len(bounds(metrics_of(rows))) and high > LOG_SPAN * low
    if is_log:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.4, high * 1.4)
        marks = d.log_marks(low / 1.4, high * 1.4, 4 if narrow else 8)
        d.ticks(axes.xaxis, marks, partial(tick_text, unit))
    else:
        axes.set_xlim(0, high * 1.06)
        axes.xaxis.get_major_locator().set_params(nbins=4 if narrow else 6)
        axes.xaxis.set_major_formatter(lambda value, _: tick_text(unit, value))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    d.row_axis(axes)
    d.x_title(axes, axis_text(rows, unit) + (", log scale" if is_log else ""))
    for y, row in enumerate(rows):
        draw_row(axes, y, row, label_of(row, rows), narrow)
    for x, text, colour in ((12, "here", d.INK), (64 if narrow else 84, "published", d.SOFT)):
        d.write(axes, text, (1, 1), (x, 8), colour, on="axes", va="bottom")


def tick_text(unit, value):
    return f"{100 * value:.3g} %" if unit == "ratio" else short(value)


def axis_text(rows, unit):
    text = QUANTITIES.get(rows[0]["claim"]) or common_of(rows)
    if unit in ("ratio", "count") or unit in text:
        return text
    return f"{text} ({unit})" if text else unit


def draw_row(axes, y, row, label, narrow):
    here, there = row.metrics["here"], row.metrics.get("published")
    colour, _, marker = d.STORAGE_LOOK.get(row["series"], d.SERIES_LOOK[0])
    at = y + (0.16 if narrow else 0)
    if here.has_spread:
        axes.plot([here.low, here.high], [at, at], color=colour, linewidth=6, alpha=0.3,
                  solid_capstyle="butt")
    axes.plot([here.value], [at], color=colour, marker=marker, markersize=7, zorder=3)
    columns = [(12, text_of(here.value, here.unit), colour)]
    if there:
        if there.has_spread:
            axes.plot([there.low, there.high], [at, at], color=d.INK, linewidth=1,
                      linestyle=d.DASHED, zorder=4)
        axes.plot([there.value], [at], color=d.INK, marker="D", markersize=9,
                  markerfacecolor="none", markeredgewidth=1.1, zorder=5)
        columns.append((64 if narrow else 84, range_text(there), d.SOFT))
    for x, text, ink in columns:
        d.write(axes, text, (1, at), (x, 0), ink, on="row")
    place, align = ((-4, "left"), "bottom") if narrow else ((-12, "right"), "center")
    d.write(axes, label, (0, y - 0.13 if narrow else y), (place[0], 0), on="row", ha=place[1],
            va=align)


def draw_keys(figure, width):
    axes = d.canvas(figure, 0, 0, width, 22)
    axes.plot([8, 34], [11, 11], color=d.GREY, linewidth=6, alpha=0.3, solid_capstyle="butt")
    axes.plot([21], [11], color=d.GREY, marker="o", markersize=7)
    axes.annotate("here, and over what is unknown", (42, 11), va="center", color=d.INK)
    axes.plot([252, 278], [11, 11], color=d.INK, linewidth=1, linestyle=d.DASHED)
    axes.plot([265], [11], color=d.INK, marker="D", markersize=9, markerfacecolor="none",
              markeredgewidth=1.1)
    axes.annotate("published", (286, 11), va="center", color=d.INK)
