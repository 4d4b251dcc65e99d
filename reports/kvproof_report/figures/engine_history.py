# SPDX-License-Identifier: Apache-2.0
"""Defects by releases: which of an engine's releases a defect was found in."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count
from kvproof_report.draw.plot import Plot, Table, groups
from kvproof_report.figures.engines import many

STEP = 22  # [px] from one line to the next
# verdict -> its words, its look
LOOKS = {
    "known": ("found", (d.RED, "None", "X")),
    "broken": ("not as it is expected: the table says how", (d.AMBER, "None", "X")),
    "holds": ("not found", (d.BLUE, "None", "s")),
    "not_evaluated": ("cannot say: no call that meets it can be made", (d.GREY, "None", ".")),
}


def draw(results, width):
    return draw_grid(results, width, "defect", "revision", LOOKS, "known", 330)


def draw_grid(results, width, row, column, looks, lives, left):
    """Draws what became of each row in each column.

    @param row, column parameters of the results; what a row is says its parameter `what`
    @param looks verdict -> its words, its look
    @param lives the verdict that a line joins from one column to the next
    @param left [px] for the words of a row
    """
    rows = groups(results, row)
    columns = list(dict.fromkeys(r[column] for r in results))
    narrow = width < 500
    left = 84 if narrow else left
    head = 48 if narrow else 26
    key = list(looks.values())
    height = STEP * len(rows)
    figure = d.new_figure(width, head + height + 14 + d.key_height(key, width))
    axes = d.place(figure, left, head, width - left - 6, height)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for axis in (axes.xaxis, axes.yaxis):
        d.ticks(axis, [], str)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    for x, name in enumerate(columns):
        d.write(axes, name, (x, -0.5), (0, 4), ha="center", va="bottom",
                rotation=90 if narrow else 0, size=9.5, annotation_clip=False)
    for y, (name, found) in enumerate(rows.items()):
        axes.axhline(y, color=d.GRID, linewidth=0.8, zorder=0)
        text = name if narrow else d.shorten(found[0]["what"], 64)
        d.write(axes, text, (0, y), (-left, 0), on="row", size=10)
        draw_life(axes, y, [columns.index(r[column]) for r in found if r["verdict"] == lives])
        for verdict, (_, (colour, _, marker)) in looks.items():
            spots = [columns.index(r[column]) for r in found if r["verdict"] == verdict]
            axes.plot(spots, [y] * len(spots), color=colour, marker=marker, linestyle="None",
                      clip_on=False, markeredgewidth=0, zorder=3,
                      markersize=5 if marker == "." else 8)
    d.draw_key(figure, key, 0, head + height + 14, width)
    return figure


def draw_life(axes, y, found):
    """A line through neighbours in which it was found."""
    for x in found:
        if x + 1 in found:
            axes.plot([x, x + 1], [y, y], color=d.RED, linewidth=2, zorder=2)


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
