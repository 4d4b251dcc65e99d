# SPDX-License-Identifier: Apache-2.0
"""The exhaustive search: the states and edges of each small space, and whether it is closed."""

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, digits, short, time_text, tiny
from kvproof_report.draw.plot import Plot, Table

STEP = 26  # [px] from one space to the next


def split(results):
    """(the spaces, largest first; their sum or None)"""
    spaces = [r for r in results if r.experiment == "exhaustive"]
    totals = [r for r in results if r.experiment != "exhaustive"]
    return sorted(spaces, key=lambda r: -r.value("states")), (totals or [None])[0]


def is_closed(result):
    return result.value("closed") == 1


def seconds_text(result):
    """The results of a campaign tell no clock."""
    timed = "seconds" in result.metrics
    return time_text(1e9 * result.value("seconds"), 2) if timed else "not timed"


def draw(results, width):
    narrow = width < 500
    spaces, _ = split(results)
    left, right, step = (96, 16, STEP + 16) if narrow else (130, 250, STEP)
    figure = d.new_figure(width, 32 + step * len(spaces) + 48)
    axes = d.place(figure, left, 32, width - left - right, step * len(spaces))
    axes.set_xscale("log")
    most = max(max(r.value("states"), r.value("edges")) for r in spaces)
    least = min(r.value("states") for r in spaces)
    axes.set_xlim(least / 2, most * 2)
    axes.set_ylim(len(spaces) - 0.4, -0.6)
    for index, result in enumerate(spaces):
        draw_space(axes, index, result, narrow)
    d.ticks(axes.xaxis, d.log_marks(least / 2, most * 2, 2), short)
    d.row_axis(axes)
    axes.annotate("states visited", (spaces[0].value("states"), -0.42), ha="center", va="bottom",
                  color=d.BLUE, annotation_clip=False)
    if spaces[0].value("edges") > 4 * spaces[0].value("states"):
        axes.annotate("edges", (spaces[0].value("edges"), -0.42), ha="center", va="bottom",
                      color=d.SOFT, annotation_clip=False)
    d.x_title(axes, "log scale; hollow: cut off, not closed")
    return figure


def draw_space(axes, index, result, narrow):
    states, edges = result.value("states"), result.value("edges")
    colour = d.BLUE if is_closed(result) else d.VERMILLION
    axes.plot([states, max(edges, states)], [index, index], color=d.SOFT, linewidth=1)
    axes.plot([max(edges, states)], [index], color=d.SOFT, marker="|", markersize=8)
    axes.plot([states], [index], marker="o", markersize=7, color=colour, zorder=3,
              markerfacecolor=colour if is_closed(result) else d.PAPER, markeredgewidth=1.6)
    d.write(axes, d.shorten(words(result["space"]), 15), (0, index), (-10, 0), on="row", ha="right")
    text = (f"{'closed' if is_closed(result) else 'not closed'} at depth "
            f"{count(result.value('depth'))}, {seconds_text(result)}")
    place, offset, side = ((0, index + 0.33), (2, 0), "left") if narrow else (
        (1, index), (12, 0), "left")
    d.write(axes, text, place, offset, d.SOFT if is_closed(result) else colour, on="row", ha=side)


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    spaces, total = split(results)
    closed = sum(is_closed(r) for r in spaces)
    states, edges = (sum(r.value(name) for r in spaces) for name in ("states", "edges"))
    which = ("the one space" if len(spaces) == 1 else f"all {len(spaces)} spaces"
             ) if closed == len(spaces) else f"{closed} of {len(spaces)} spaces"
    text = (f"Every operation in every reachable state: {which} closed, {count(states)} states and "
            f"{count(edges)} edges")
    if total and "collision_probability" in total.metrics:
        text += ("; two of them were taken for one with a probability of "
                 f"{tiny(total.value('collision_probability'))}")
    return text


def table(results):
    """One row for each space in the order of the file, and the sum last."""
    numbers = [name for name in next(r for r in results).metrics]
    columns = [("space", False)] + [
        (words(name) + {"seconds": " (s)", "bytes_per_state": ""}.get(name, ""), True)
        for name in numbers]
    return Table(columns, [
        [(result.get("space", "all"), result.get("space", "all"))] +
        [cell(name, result) for name in numbers] for result in results])


def cell(name, result):
    if name not in result.metrics:
        return ("", "")
    value = result.value(name)
    text = {"collision_probability": tiny, "closed": lambda v: "yes" if v == 1 else "no",
            "seconds": digits, "bytes_per_state": digits}.get(name, count)
    return (text(value), value)


PLOT = Plot(
    "exhaustive-search", "exhaustive", "kvproof check --exhaustive --json=exhaustive.json", draw,
    finding,
    "A filled dot is a space that has no further state: within its bounds nothing was left out. "
    "The line ends at the edges, the operations that were tried.",
    "Breadth first from the empty manager, states counted up to the names of blocks and requests; "
    "all laws in every state and the model compared on every edge. Visited states are "
    "fingerprints of 128 bits, or of 64, so the probability of a collision is stated.",
    table, sums="exhaustive_total", optional=True, section="Correctness", place=30)
