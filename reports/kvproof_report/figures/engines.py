# SPDX-License-Identifier: Apache-2.0
"""Engines by laws: what the check says of each law about each revision of each engine."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count
from kvproof_report.draw.plot import Plot, Table, groups
from kvproof_report.figures.kill_counts import law_order

STEP = 16  # [px] from one line to the next
SIZE = 9  # [px] of a mark, at most
# state of a cell -> its words, its look, and its size in those of the largest
LOOKS = {
    "holds": ("holds", (d.BLUE, "None", "s"), 0.8),
    "exempted": ("holds, exempted by a trait", (d.GREEN, "None", "o"), 0.85),
    "known": ("broken, as is known", (d.AMBER, "None", "^"), 0.95),
    "broken": ("broken, new", (d.RED, "None", "X"), 1),
    "not evaluated": ("not evaluated", (d.GREY, "None", "."), 0.5),
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


def draw(results, width):
    """On a phone the laws stand below each other, else the engines."""
    engines, wholes = split(results)
    laws, narrow = columns_of(engines), width < 500
    labels = [(d.shorten(" ".join(name), 36), d.RED if any(state(c) == "broken" for c in cells)
               else d.INK) for name, cells in engines.items()]
    sums = [("laws evaluated", [share_text(cells) for cells in engines.values()]),
            ("faults detected", [faults_text(wholes.get(name)) for name in engines])]
    across, down = [(text, d.INK) for text in laws.values()], labels
    left, right, foot = max(160, 6.2 * max(len(text) for text, _ in labels)), 106, 0
    if narrow:
        across, down = down, across
        left, right, foot = 150, 4, 98
    head = 10 + 5.8 * max(len(text) for text, _ in [*across, (sums[0][0], None)])
    key = [(text, look) for text, look, _ in LOOKS.values()]
    height = STEP * len(down)
    figure = d.new_figure(width, head + height + foot + 10 + d.key_height(key, width))
    axes = d.place(figure, left, head, width - left - right, height)
    axes.set_xlim(-0.5, len(across) - 0.5)
    axes.set_ylim(len(down) - 0.5, -0.5)
    step = (width - left - right) / len(across)
    letters = min(9.5, step)  # of what stands upright: one beside the other
    draw_labels(axes, across, down, left, letters)
    draw_sums(axes, sums, len(across), narrow, left, letters)
    draw_cells(axes, engines, list(laws), narrow, min(SIZE, 0.75 * step))
    d.draw_key(figure, key, 0, head + height + foot + 10, width)
    return figure


def draw_labels(axes, across, down, left, letters):
    for axis in (axes.xaxis, axes.yaxis):
        d.ticks(axis, [], str)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    for x, (text, colour) in enumerate(across):
        axes.axvline(x, color=d.GRID, linewidth=0.8, zorder=0)
        d.write(axes, text, (x, -0.5), (0, 4), colour, ha="center", va="bottom", rotation=90,
                size=letters, annotation_clip=False)
    for y, (text, colour) in enumerate(down):
        axes.axhline(y, color=d.GRID, linewidth=0.8, zorder=0)
        d.write(axes, text, (0, y), (-left, 0), colour, on="row", size=10)


def draw_sums(axes, sums, across, narrow, left, letters):
    """Draws the numbers of each engine at the end of its line."""
    for nth, (title, texts) in enumerate(sums):
        if narrow:
            d.write(axes, title, (0, 0), (-left, -24 - 46 * nth), d.SOFT, on="axes", va="center",
                    size=10)
        else:
            d.write(axes, title, (1, 1), (40 + 60 * nth, 4), d.SOFT, on="axes", va="bottom",
                    ha="right", rotation=90, size=9.5)
        for index, text in enumerate(texts):
            spot, offset, coordinates, turn = (
                ((index, 0), (0, -6 - 46 * nth), ("data", "axes fraction"), 90) if narrow else
                ((1, index), (40 + 60 * nth, 0), ("axes fraction", "data"), 0))
            axes.annotate(text, spot, xytext=offset, xycoords=coordinates, rotation=turn,
                          size=letters if narrow else 10,
                          textcoords="offset points", va="top" if narrow else "center",
                          ha="center" if narrow else "right", color=d.INK, annotation_clip=False)


def draw_cells(axes, engines, laws, narrow, size):
    for name, (_, (colour, _, marker), times) in LOOKS.items():
        spots = [(laws.index(cell["law"]), y) for y, cells in enumerate(engines.values())
                 for cell in cells if state(cell) == name]
        if narrow:
            spots = [(y, x) for x, y in spots]
        if spots:
            axes.plot(*zip(*spots), color=colour, marker=marker, linestyle="None", clip_on=False,
                      markersize=times * size, markeredgewidth=0, zorder=3)


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
