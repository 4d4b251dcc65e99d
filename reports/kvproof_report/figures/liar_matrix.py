# SPDX-License-Identifier: Apache-2.0
"""The liar matrix: which lies of a sound allocator are detected, by operation and by promise."""

from matplotlib.patches import Rectangle

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, time_text
from kvproof_report.draw.plot import Plot, Table, groups, header

STEP = 15  # [px] from one lie to the next
LEVELS = ("safety", "hits", "policy", "profile", "counts_only")  # from left to right in a cell
FREQUENCIES = ("seldom", "often", "always")
LOOKS = {"detected": d.BLUE, "excused": d.AMBER, "missed": d.RED}


def fate(cell):
    if cell.value("noticed") == 1:
        return "detected"
    return "excused" if cell["excuse"] != "-" else "missed"


def cells_of(results):
    return [r for r in results if r.experiment == "liar"]


def fates_of(cells):
    """fate -> the number of cells"""
    fates = [fate(cell) for cell in cells]
    return {name: fates.count(name) for name in LOOKS}


def draw(results, width):
    cells = cells_of(results)
    lies = groups(cells, "lie")
    narrow = width < 500
    left, head = 176, 8 if narrow else 86
    key = [(name, (colour, "None", "s")) for name, colour in LOOKS.items()]
    height = STEP * len(lies)
    figure = d.new_figure(width, head + height + 40 + d.key_height(key, width))
    axes = d.place(figure, left, head, width - left - 8, height)
    axes.set_ylim(len(lies) - 0.5, -0.5)
    d.ticks(axes.yaxis, [], str)
    axes.spines["left"].set_visible(False)
    for y, (lie, told) in enumerate(lies.items()):
        d.write(axes, words(lie), (0, y), (-left, 0), d.RED if fates_of(told)["missed"] else d.INK,
                on="row", size=10.5)
    (draw_bars if narrow else draw_cells)(axes, cells, lies)
    d.draw_key(figure, key, 0, head + height + 36, width)
    return figure


def draw_bars(axes, _, lies):
    most = max(len(told) for told in lies.values())
    axes.set_xlim(0, most)
    for y, told in enumerate(lies.values()):
        start = 0
        for name, size in fates_of(told).items():
            axes.barh(y, size, 0.7, start, color=LOOKS[name], linewidth=0)
            start += size
    d.ticks(axes.xaxis, [0, most], count)
    d.x_title(axes, "number of cells")


def draw_cells(axes, cells, lies):
    operations = list(groups(cells, "operation"))
    axes.set_xlim(0, len(operations))
    d.ticks(axes.xaxis, [], str)
    axes.spines["bottom"].set_visible(False)
    for x, operation in enumerate(operations):
        d.write(axes, words(operation), (x + 0.5, -0.5), (0, 4), ha="center", va="bottom",
                rotation=90, size=10, annotation_clip=False)
        axes.axvline(x, color=d.GRID, linewidth=0.8, zorder=0)
    wide = 0.88 / len(LEVELS)
    for y, told in enumerate(lies.values()):
        axes.axhline(y + 0.5, color=d.GRID, linewidth=0.8, zorder=0)
        for cell in told:
            x = operations.index(cell["operation"]) + 0.06 + wide * LEVELS.index(cell["level"])
            axes.add_patch(Rectangle((x, y - 0.36), 0.86 * wide, 0.72, linewidth=0,
                                     facecolor=LOOKS[fate(cell)]))
    d.x_title(axes, "in each cell from left to right: safety, policy, profile, numbers only")


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    cells = cells_of(results)
    fates = fates_of(cells)
    text = (f"{count(fates['detected'])} of {count(len(cells))} lies of a sound allocator are "
            "detected")
    if fates["excused"]:
        text += f", {count(fates['excused'])} are excused because no caller can observe them"
    text += f", {count(fates['missed'])} pass" if fates["missed"] else ", and none passes"
    for total in (r for r in results if r.experiment == "liars"):
        text += f" (all in {time_text(1e9 * total.value('seconds'))})"
    return text


def table(results):
    """What was missed comes first, then what is excused: the page shows few rows."""
    unusual = list(LOOKS)[::-1]
    cells = sorted(cells_of(results), key=lambda cell: unusual.index(fate(cell)))
    names = ("operation", "lie", "level", "excuse")
    columns = [("fate", False)] + [(name, False) for name in names]
    for frequency in FREQUENCIES:
        columns += [(header(frequency + "_by", ""), False), ("after operations", True)]
    rows = []
    for cell in cells:
        row = [(fate(cell), unusual.index(fate(cell)))] + [(cell[n], cell[n]) for n in names]
        for frequency in FREQUENCIES:
            operations = cell.value(frequency + "_operations")
            row += [(cell[frequency + "_by"],) * 2, (count(operations), operations)]
        rows.append(row)
    return Table(columns, rows)


PLOT = Plot(
    "liar-matrix", "liar", "kvproof selftest --liars --json=liars.json", draw, finding,
    "A cell is detected if the check objects at each frequency at which the lie is told: in 1 call "
    "of 50, in 1 of 8, and always. Where nothing is drawn, the lie changes nothing that is shown.",
    "The naive manager answers truly but for one lie about one operation, on four levels of "
    "promise; each run is a whole check, with the oracles that this promise allows.",
    table, sums="liars", optional=True, section="Correctness", place=25)
