# SPDX-License-Identifier: Apache-2.0
"""Engines by laws: what the check says of each law about each revision of each engine."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.grid import Cell, Grid, Line
from kvproof_report.draw.numbers import count
from kvproof_report.draw.plot import Plot, Table, groups
from kvproof_report.draw.sheet import Key, drawn
from kvproof_report.figures.kill_matrix import law_order

# state of a cell -> its words, its look, and its size [px]
LOOKS = {
    "holds": ("holds", (d.BLUE, "None", "s"), 7),
    "exempted": ("holds, exempted by a trait", (d.GREEN, "None", "o"), 7.5),
    "known": ("broken, as is known", (d.AMBER, "None", "^"), 8.5),
    "broken": ("broken, new", (d.RED, "None", "X"), 9),
    "not evaluated": ("not evaluated", (d.GREY, "None", "."), 4.5),
}
UNUSUAL = ("broken", "known", "exempted", "not evaluated", "holds")  # the first rows of the table


def split(results):
    """(the cells by engine and revision, the whole checks by the same)"""
    cells = [r for r in results if r.experiment == "engine_law"]
    wholes = {(r["engine"], r["revision"]): r for r in results if r.experiment == "engines"}
    return groups(cells, "engine", "revision"), wholes


def is_law(cell):
    """A finding that is about no law, such as a crash, has a cell without numbers."""
    return "evaluated" in cell.metrics


def state(cell):
    if cell["verdict"] == "holds":
        return "exempted" if "exempted" in cell.metrics and cell.value("exempted") else "holds"
    return cell["verdict"] if cell["verdict"] in LOOKS else "not evaluated"


def columns_of(engines):
    """law -> its label: the laws in their order, then the findings that are about none"""
    cells = {cell["law"]: cell for found in engines.values() for cell in found}
    order = sorted(cells, key=lambda law: (not is_law(cells[law]), law_order(law)))
    return {law: d.shorten(f"{law} {cells[law]['name']}" if is_law(cells[law]) else law, 28)
            for law in order}


def evaluated(cells):
    """(how many laws were evaluated, of how many)"""
    laws = [cell for cell in cells if is_law(cell)]
    return sum(state(cell) != "not evaluated" for cell in laws), len(laws)


def share_text(cells):
    times, laws = evaluated(cells)
    return f"{100 * times / laws:.0f} %" if laws else "-"


def faults_text(whole):
    if whole is None or not whole.value("seeded"):
        return "-"
    return f"{count(whole.value('detected'))} of {count(whole.value('seeded'))}"


@drawn
def draw(results):
    engines, wholes = split(results)
    laws = columns_of(engines)
    rows = [Line(d.shorten(" ".join(name), 36), sums=[share_text(cells), faults_text(
        wholes.get(name))], colour=d.RED if any(state(c) == "broken" for c in cells) else d.INK)
            for name, cells in engines.items()]
    cells = {(y, list(laws).index(cell["law"])): Cell(*LOOKS[state(cell)][1:])
             for y, found in enumerate(engines.values()) for cell in found}
    return [Grid(rows, [Line(text) for text in laws.values()], cells,
                 ("laws evaluated", "faults detected")),
            Key([(text, look) for text, look, _ in LOOKS.values()], left=0)]


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    engines, wholes = split(results)
    states = {name: {state(cell) for cell in cells} for name, cells in engines.items()}
    new = [" ".join(name) for name, found in states.items() if "broken" in found]
    known = sum("known" in found and "broken" not in found for found in states.values())
    text = (f"{many(len(engines), 'revision')} of {many(len({e for e, _ in engines}), 'engine')}: "
            f"nothing is broken in {count(len(engines) - len(new) - known)}")
    if known:
        text += f", only what is known in {count(known)}"
    if new:
        names = ", ".join(new[:3]) + (", \u2026" if len(new) > 3 else "")
        text += f", something new in {count(len(new))} ({names})"
    had = sorted({evaluated(cells)[0] for cells in engines.values()})
    text += (f"; {' to '.join(count(n) for n in dict.fromkeys((had[0], had[-1])))} of "
             f"{many(max(evaluated(cells)[1] for cells in engines.values()), 'law')} evaluated")
    seeded, noticed = (sum(whole.value(name) for whole in wholes.values())
                       for name in ("seeded", "detected"))
    return text + f"; {count(noticed)} of {many(seeded, 'seeded fault')} detected" * (seeded > 0)


def many(number, thing):
    return f"{count(number)} {thing}{'' if number == 1 else 's'}"


def table(results):
    """What is broken comes first: the page shows few rows."""
    engines, _ = split(results)
    cells = sorted((cell for found in engines.values() for cell in found),
                   key=lambda cell: UNUSUAL.index(state(cell)))
    names = ("engine", "revision", "law", "name", "reason")
    columns = [("state", False)] + [(name, False) for name in names] + [
        ("evaluated", True), ("exempted", True)]
    return Table(columns, [
        [(state(cell), UNUSUAL.index(state(cell)))] + [(cell.get(n) or "-",) * 2 for n in names] +
        [(count(cell.value(n)), cell.value(n)) if n in cell.metrics else ("", "")
         for n in ("evaluated", "exempted")] for cell in cells])


PLOT = Plot(
    "engines", "engine_law", "kvproof engines --json=results/engines.json", draw, finding,
    "A law that was not evaluated proves nothing; the table says why: it was not demanded, or no "
    "run was about it. Exempted: the engine declared a difference as a trait, which replaces the "
    "law by another. Behind the laws stands what else was found, such as a crash, only "
    "where it was. Red is an engine with a finding that is not known.",
    "A check of each engine, of PyPI or of a checkout, through an adapter; where it holds, faults "
    "are seeded into copies of the engine, and the check has to detect each.",
    table, sums="engines", optional=True, section="Correctness", place=27)
