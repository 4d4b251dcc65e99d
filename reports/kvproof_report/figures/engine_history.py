# SPDX-License-Identifier: Apache-2.0
"""Defects by releases: which of an engine's releases a defect was found in."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.grid import Cell, Grid, Line
from kvproof_report.draw.numbers import count
from kvproof_report.draw.plot import Plot, Table, groups
from kvproof_report.draw.sheet import Key, drawn
from kvproof_report.figures.engines import many

# verdict -> its words, its look
LOOKS = {
    "known": ("found", (d.RED, "None", "X")),
    "broken": ("not as it is expected: the table says how", (d.AMBER, "None", "X")),
    "holds": ("not found", (d.BLUE, "None", "s")),
    "not_evaluated": ("cannot say: no call that meets it can be made", (d.GREY, "None", ".")),
}


@drawn
def draw(results):
    return parts_of(results, "defect", "revision", LOOKS, "known")


def parts_of(results, row, column, looks, lives):
    """What became of each row in each column.

    @param row, column parameters of the results; what a row is says its parameter `what`
    @param looks verdict -> its words, its look
    @param lives the verdict that a line joins from one column to the next
    """
    rows, columns = (list(groups(results, name)) for name in (row, column))
    whats = {r[row]: d.shorten(r["what"], 64) for r in results[::-1]}
    return [Grid([Line(whats[name], brief=name) for name in rows], [Line(name) for name in columns],
                 {(rows.index(r[row]), columns.index(r[column])): Cell(
                     looks[r["verdict"]][1], joined=r["verdict"] == lives) for r in results},
                 step=22), Key(list(looks.values()), left=0)]


# ---- in words -----------------------------------------------------------------------------------

def life(found):
    """from which release to which a defect was found, in words; empty if it never was"""
    having = [r["revision"] for r in found if r["verdict"] == "known"]
    return " to ".join(dict.fromkeys((having[0], having[-1]))) if having else ""


def finding(results):
    defects = groups(results, "defect")
    lives = {name: life(found) for name, found in defects.items()}
    known = [name for name in lives if lives[name]]
    gone = [name for name in known if [r["verdict"] for r in defects[name]
                                       if r["verdict"] != "not_evaluated"][-1] == "holds"]
    releases = len({r["revision"] for r in results})
    text = (f"{many(releases, 'release')} of {results[0]['engine']}: "
            f"{count(len(known))} of {many(len(defects), 'defect')} found, "
            f"{count(len(gone))} of them gone in the last release that can be asked")
    longest = max(known, default=None,
                  key=lambda name: sum(r["verdict"] == "known" for r in defects[name]))
    if longest is None:
        return text
    return f"{text}; the longest life, {lives[longest]}: {defects[longest][0]['what']}"


def table(results):
    order = list(LOOKS)
    names = ("defect", "revision", "what", "link", "reason")
    columns = [("verdict", False)] + [(name, False) for name in names] + [
        ("met", True), ("operations", True)]
    return Table(columns, [
        [(LOOKS[r["verdict"]][0].partition(":")[0], order.index(r["verdict"]))] +
        [(r.get(n) or "-",) * 2 for n in names] +
        [(count(r.value(n)), r.value(n)) for n in ("met", "operations")]
        for r in sorted(results, key=lambda r: order.index(r["verdict"]))])


PLOT = Plot(
    "engine-history", "engine_history", "kvproof engines --history --json=results/history.json",
    draw, finding,
    "A line goes from the first release in which a defect was found to the last. What a release "
    "cannot be asked says nothing of it: the table says why, and names the report where there is "
    "one.",
    "A check of each release with the calls that meet one defect, and none that meets another "
    "that the release has; found means that a law is broken then, not found that the calls were "
    "made and none was.",
    table, optional=True, section="Correctness", place=28)
