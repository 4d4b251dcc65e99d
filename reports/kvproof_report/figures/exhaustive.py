# SPDX-License-Identifier: Apache-2.0
"""The exhaustive search: the states and edges of each small space, and whether it is closed."""

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row, exact
from kvproof_report.draw.numbers import count, digits, time_text, tiny
from kvproof_report.draw.plot import Plot, Table
from kvproof_report.draw.sheet import drawn

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


@drawn
def draw(results):
    rows = []
    for result in split(results)[0]:
        states, edges = result.value("states"), result.value("edges")
        colour = d.BLUE if is_closed(result) else d.VERMILLION
        said = (f"{'closed' if is_closed(result) else 'not closed'} at depth "
                f"{count(result.value('depth'))}, {seconds_text(result)}")
        rows.append(Row(words(result["space"]), [
            Dot(exact(states), colour, hollow=not is_closed(result), size=7)],
            texts=[(said, d.SOFT if is_closed(result) else colour)], to=max(states, edges)))
    return [Dots(rows, "states (dot) to edges, log scale; hollow: not closed",
                 log=True, step=26)]


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
