# SPDX-License-Identifier: Apache-2.0
"""The liar matrix: which lies of a sound allocator are detected, by operation and by promise."""

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.grid import Cell, Grid, Line
from kvproof_report.draw.numbers import count, time_text
from kvproof_report.draw.plot import Plot, Table, groups, header
from kvproof_report.draw.sheet import Key, Words, drawn

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


@drawn
def draw(results):
    cells = cells_of(results)
    lies, operations = groups(cells, "lie"), list(groups(cells, "operation"))
    rows = [Line(words(lie), colour=d.RED if fates_of(told)["missed"] else d.INK)
            for lie, told in lies.items()]
    filled = {(y, operations.index(operation)): Cell(fills=[
        (LEVELS.index(cell["level"]) / len(LEVELS), 0.86 / len(LEVELS), LOOKS[fate(cell)])
        for cell in same]) for y, told in enumerate(lies.values())
        for operation, same in groups(told, "operation").items()}
    return [Grid(rows, [Line(words(operation)) for operation in operations], filled, step=15),
            Words("In each cell from left to right: safety, policy, profile, numbers only."),
            Key([(name, (colour, "None", "s")) for name, colour in LOOKS.items()], left=0)]


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
