# SPDX-License-Identifier: Apache-2.0
"""Draws the kill matrix: families against laws, or on a phone families with their laws."""

from matplotlib.patches import Rectangle

from kvproof_report.common.experiments import FATES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, short
from kvproof_report.figures.kill_counts import (BEYOND_LAWS, columns_of, matrix_rows, mutants_of,
                                                natural, survivors)

LONGEST_TRACE = 25  # [operations] the target: no shrunk trace is longer
STEP = 17  # [px] from row to row
LEFT, PANEL, TRACES, GAP = 176, 76, 62, 14  # [px] names with sizes; the panels; between them
HEAD = 88  # [px] above the rows: bars and the names of columns
SMALL = 9.5
APART = 0.5  # [columns] between the laws and the other oracles
KEY = [("expected law first", (d.BLUE, "None", "s")),
       ("another law first", (d.AMBER, "None", "s")),
       ("broken as well", (d.SOFT, "None", ".")),
       ("survived", (d.RED, "None", "s"))]


def draw(results, width):
    mutants = mutants_of(results)
    rows = matrix_rows(mutants)
    return draw_narrow(mutants, rows, width) if width < 500 else draw_wide(mutants, rows, width)


def outcomes(mutants):
    """One column for each fate that occurs and is not a law."""
    return [fate for fate in BEYOND_LAWS if any(m["fate"] == fate for m in mutants)]


def spots_of(rows):
    """(y of each row, number of lines); an empty line stands before the patched sources."""
    parted = any(not row.patched for row in rows)
    return [index + (row.patched and parted) for index, row in enumerate(rows)]


# ---- at a desk: the whole matrix ----------------------------------------------------------------

def draw_wide(mutants, rows, width):
    spots = spots_of(rows)
    height = STEP * (spots[-1] + 1)
    key = d.key_height(KEY, width)
    lines = survivor_lines(mutants, width)
    figure = d.new_figure(width, HEAD + height + 44 + key + 16 * len(lines))
    matrix = width - LEFT - PANEL - TRACES - 3 * GAP - 3
    axes = [d.place(figure, left, HEAD, size, height) for left, size in (
        (0, width), (LEFT, matrix), (LEFT + matrix + GAP, PANEL),
        (LEFT + matrix + 2 * GAP + PANEL, TRACES))]
    for each in axes:
        each.set_ylim(spots[-1] + 0.5, -0.5)
        d.ticks(each.yaxis, [], str)
        each.spines["left"].set_visible(False)
    draw_names(axes[0], rows, spots, width)
    draw_cells(axes[1], mutants, rows, spots, matrix)
    draw_operations(axes[2], rows, spots)
    draw_traces(axes[3], rows, spots)
    d.draw_key(figure, KEY, 0, HEAD + height + 40, width)
    draw_survivors(figure, lines, HEAD + height + 44 + key)
    return figure


def draw_names(axes, rows, spots, width):
    """Draws the names, and a faint line under each row through all panels."""
    axes.set_xlim(0, width)
    axes.set_axis_off()
    for row, y in zip(rows, spots):
        colour = d.RED if row.of_fate("survived") else d.INK
        axes.plot([0, width], [y + 0.5, y + 0.5], color=d.GRID, linewidth=0.8, zorder=0)
        axes.annotate(row.id, (0, y), va="center", color=colour, size=10.5, weight="bold")
        axes.annotate(d.shorten(row.name, 22 if row.id else 28), (28 if row.id else 0, y),
                      va="center", color=colour, size=10.5)
        axes.annotate(count(len(row.mutants)), (LEFT - 8, y), va="center", ha="right",
                      color=d.SOFT, size=10.5)
    for row, y in zip(rows, spots):
        if row.patched:
            if y > 0:
                axes.annotate("patches to the shipped sources", (0, y - 0.95), va="center",
                              color=d.SOFT, size=10.5)
            break


def draw_cells(axes, mutants, rows, spots, width):
    laws, further = columns_of(mutants), outcomes(mutants)
    alone = {oracle: f"{oracle} alone" for oracle in ("model", "content")}
    names = laws + list(alone.values()) + [FATES[fate] for fate in further]
    # The other oracles stand apart, with room for larger numbers than a law has.
    at = {name: index + APART * (index >= len(laws)) + APART * (index > len(laws)) +
          APART * (index >= len(laws) + len(alone)) for index, name in enumerate(names)}
    most = at[names[-1]] + 1 + APART * (not further)
    axes.set_xlim(0, most)
    axes.set_axis_off()
    size = min(SMALL, 0.86 * width / most)
    draw_columns(axes, at, spots, size)
    for row, y in zip(rows, spots):
        beside = [at[law] + 0.5 for law in row.beside()]
        axes.scatter(beside, [y] * len(beside), s=5, color=d.SOFT, linewidth=0, zorder=1)
        for law in laws:
            expected, other = row.by_law("expected")[law], row.by_law("other_law")[law]
            draw_cell(axes, at[law], y, expected, other, size)
        for oracle, name in alone.items():
            axes.add_patch(Rectangle((at[name], y - 0.5), 1 + APART, 1, color=d.GREY, linewidth=0,
                                     alpha=0.4 * row.alone(oracle) / len(row.mutants)))
            axes.annotate(count(row.alone(oracle)), (at[name] + (1 + APART) / 2, y), va="center",
                          ha="center", size=size, color=d.INK)
        for fate in further:
            if row.of_fate(fate):
                fill(axes, at[FATES[fate]], y, d.RED if fate == "survived" else d.AMBER,
                     row.of_fate(fate), size)
    draw_credits(axes, at, rows, laws)


def draw_columns(axes, at, spots, size):
    for name, x in at.items():
        wide = 1 + APART * name.endswith(" alone")
        axes.add_patch(Rectangle((x, -0.5), wide, spots[-1] + 1, facecolor="none",
                                 edgecolor=d.GRID, linewidth=0.8, zorder=0))
        d.write(axes, name, (x + wide / 2, -0.5), (0, 4),
                d.RED if name == FATES["survived"] else d.INK, rotation=90, ha="center",
                va="bottom", size=size)


def draw_cell(axes, x, y, expected, other, size):
    """Draws a cell in one colour, or in two: the second is a strip below."""
    if expected + other:
        fill(axes, x, y, d.BLUE if expected else d.AMBER, expected + other, size)
    if expected and other:
        axes.add_patch(Rectangle((x + 0.04, y + 0.26), 0.92, 0.18, facecolor=d.AMBER, linewidth=0,
                                 zorder=2))


def fill(axes, x, y, colour, number, size):
    axes.add_patch(Rectangle((x + 0.04, y - 0.44), 0.92, 0.88, facecolor=colour, linewidth=0,
                             zorder=2))
    axes.annotate(count(number), (x + 0.5, y), va="center", ha="center", size=size, color=d.PAPER,
                  zorder=3)


def draw_credits(axes, at, rows, laws):
    """Draws above each column how many mutants its law is credited with."""
    sums = {law: [sum(row.by_law(fate)[law] for row in rows) for fate in ("expected", "other_law")]
            for law in laws}
    most = max(1, max(sum(pair) for pair in sums.values()))
    base, room = -0.5 - 30 / STEP, 44 / STEP
    for law, (expected, other) in sums.items():
        low = base
        for number, colour in ((expected, d.BLUE), (other, d.AMBER)):
            tall = room * number / most
            axes.add_patch(Rectangle((at[law] + 0.12, low - tall), 0.76, tall, facecolor=colour,
                                     linewidth=0, clip_on=False))
            low -= tall
        if expected + other == most:
            d.write(axes, count(most), (at[law] + 0.5, low), (0, 2), ha="center", va="bottom",
                    size=SMALL, annotation_clip=False)


def draw_operations(axes, rows, spots):
    values = [value for row in rows for value in row.values("operations_to_kill")]
    most = max([10, *values])
    axes.set_xscale("log")
    axes.set_xlim(0.7, most * 1.5)
    draw_dots(axes, rows, spots, "operations_to_kill")
    marks = d.powers(1, most)
    d.ticks(axes.xaxis, d.thin(marks, 3), short)
    panel_title(axes, "operations to", "first kill, log")


def draw_traces(axes, rows, spots):
    most = max([LONGEST_TRACE, *(v for row in rows for v in row.values("trace_operations"))])
    axes.set_xlim(0, most * 1.08)
    axes.axvline(LONGEST_TRACE, color=d.VERMILLION, linewidth=1.2, linestyle=d.DASHED)
    draw_dots(axes, rows, spots, "trace_operations")
    d.ticks(axes.xaxis, [0, LONGEST_TRACE] if most < 2 * LONGEST_TRACE else [0, most], short)
    panel_title(axes, "operations", "after shrinking")


def draw_dots(axes, rows, spots, metric):
    """Draws a dot for each mutant; equal mutants share a dot with the sum of their areas."""
    for row, y in zip(rows, spots):
        values = row.values(metric)
        axes.scatter(list(values), [y] * len(values), s=[min(121, 16 * n) for n in values.values()],
                     color=d.BLUE, alpha=0.65, linewidth=0, zorder=3, clip_on=False)
    axes.grid(axis="x", visible=True)


def panel_title(axes, *lines):
    for nth, text in enumerate(reversed(lines)):
        d.write(axes, text, (0, 1), (0, 6 + 14 * nth), d.SOFT, on="axes", va="bottom", size=10.5)


# ---- on a phone: each row with the laws that occur in it ----------------------------------------

def draw_narrow(mutants, rows, width):
    rows = joined(rows)
    blocks = [(row, chips_of(row)) for row in rows]
    placed = [wrap(chips, width - 8) for _, chips in blocks]
    heights = [26 + 19 * (chips[-1][1] + 1) + 6 if chips else 26 for chips in placed]
    panels, key = 18 * len(rows), d.key_height(KEY[:2] + KEY[3:], width)
    lines = survivor_lines(mutants, width)
    top = key + sum(heights) + 16 * len(lines) + 52
    figure = d.new_figure(width, top + panels + 34)
    d.draw_key(figure, KEY[:2] + KEY[3:], 0, 0, width)
    axes = d.canvas(figure, 0, key, width, sum(heights))
    y = 0
    for (row, _), chips, height in zip(blocks, placed, heights):
        draw_block(axes, row, chips, y, width)
        y += height
    draw_survivors(figure, lines, key + sum(heights))
    half = (width - 34 - GAP - 14) / 2
    for left, draw_panel in ((34, draw_operations), (34 + half + GAP, draw_traces)):
        panel = d.place(figure, left, top, half, panels)
        panel.set_ylim(len(rows) - 0.5, -0.5)
        d.ticks(panel.yaxis, range(len(rows)) if left == 34 else [],
                lambda index: rows[int(index)].id or "src")
        panel.spines["left"].set_visible(False)
        draw_panel(panel, rows, list(range(len(rows))))
    return figure


def joined(rows):
    """Joins all patched sources into one row."""
    patched = [row for row in rows if row.patched]
    if not patched:
        return rows
    mutants = [m for row in patched for m in row.mutants]
    one = type(patched[0])("", "patches to the shipped sources (src)", True, mutants)
    return [row for row in rows if not row.patched] + [one]


def chips_of(row):
    """(text, colour or None for plain words)"""
    chips = []
    for fate, colour in (("expected", d.BLUE), ("other_law", d.AMBER)):
        by_law = row.by_law(fate)
        chips += [(law + (f" ×{n}" if n > 1 else ""), colour)
                  for law, n in sorted(by_law.items(), key=lambda item: (-item[1], item[0]))
                  if law]
    chips += [(f"{FATES[fate]} {count(row.of_fate(fate))}",
               d.RED if fate == "survived" else d.AMBER)
              for fate in BEYOND_LAWS if row.of_fate(fate)]
    return chips + [(f"alone: model {row.alone('model')}, content {row.alone('content')}", None)]


def wrap(chips, width):
    """[(x, line, chip width, text, colour)]"""
    placed, x, line = [], 0, 0
    for text, colour in chips:
        size = 6.2 * len(text) + 8
        if x and x + size > width:
            x, line = 0, line + 1
        placed.append((x, line, size, text, colour))
        x += size + 4
    return placed


def draw_block(axes, row, chips, top, width):
    colour = d.RED if row.of_fate("survived") else d.INK
    axes.plot([0, width], [top + 1, top + 1], color=d.GRID, linewidth=0.8)
    axes.annotate(row.id, (0, top + 14), va="center", color=colour, weight="bold")
    axes.annotate(d.shorten(row.name, 40), (32 if row.id else 0, top + 14), va="center",
                  color=colour, weight="normal" if row.id else "bold")
    axes.annotate(count(len(row.mutants)), (width - 2, top + 14), va="center", ha="right",
                  color=d.SOFT)
    for x, line, size, text, shade in chips:
        y = top + 26 + 19 * line
        if shade:
            axes.add_patch(Rectangle((x, y), size, 16, facecolor=shade, linewidth=0))
        axes.annotate(text, (x + (size / 2 if shade else 2), y + 8), va="center", size=10.5,
                      ha="center" if shade else "left", color=d.PAPER if shade else d.SOFT)


# ---- the mutants that no oracle noticed ---------------------------------------------------------

def survivor_lines(mutants, width):
    """The ids of the survivors, broken into lines that fit."""
    names = sorted((m["id"] for m in survivors(mutants)), key=natural)
    if not names:
        return []
    lines = [f"Survived ({count(len(names))}):"]
    for name in names[:60]:
        if 6.8 * len(lines[-1] + name) > width - 20:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + name
    return lines + (["and more, see the table"] if len(names) > 60 else [])


def draw_survivors(figure, lines, top):
    if lines:
        axes = d.canvas(figure, 0, top, 100, 16 * len(lines))
        for nth, line in enumerate(lines):
            axes.annotate(line, (0, 16 * nth + 8), va="center", color=d.RED, weight="bold")
