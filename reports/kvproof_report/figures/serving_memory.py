# SPDX-License-Identifier: Apache-2.0
"""What the memory of a serving engine holds over time, by cause, a panel for each storage."""

from kvproof_report.common.experiments import STORAGES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, digits, percent
from kvproof_report.draw.plot import Plot, Table, label_cell
from kvproof_report.figures.live import panels

# (metric, its name, colour and opacity), from the bottom; None stands for the colour of the
# storage. The memory above them is free, and was enough for all requests that came.
PARTS = [
    ("tokens_in_memory", "tokens", None, 1.0),
    ("partial_tail", "partial tail", d.INK, 1.0),
    ("reserved", "reserved, not used", None, 0.3),
    ("stranded", "free, but too little or in pieces", d.RED, 0.45),
]
STRETCHES = 96  # a panel averages over so many stretches of time: single steps vary too much


def share(row, name):
    """The share of the whole memory that a part takes; free memory includes stranded memory."""
    whole = sum(row.value(n) for n in ("tokens_in_memory", "partial_tail", "reserved", "free"))
    return row.value(name) / whole if whole else 0


def stretches(rows):
    """(middle of a stretch of time, results in it), without the stretches that have no result."""
    last = max(rows[-1]["seconds"], 1e-9)
    found = {}
    for row in rows:
        found.setdefault(min(STRETCHES - 1, int(row["seconds"] / last * STRETCHES)), []).append(row)
    return [((index + 0.5) / STRETCHES * last, found[index]) for index in sorted(found)]


def mean_share(rows, name):
    """The mean over time: every stretch counts alike, however many samples it has."""
    means = [sum(share(r, name) for r in inside) / len(inside) for _, inside in stretches(rows)]
    return sum(means) / len(means)


# ---- drawing ------------------------------------------------------------------------------------

def draw(results, width):
    narrow = width < 500
    across = 2 if narrow else 3
    left, right, gap = 44, 10, 18 if narrow else 26
    panel, step = (96, 158) if narrow else (112, 174)
    sources = panels(results)
    storages = [s for s in STORAGES if any(s in lines for lines in sources.values())]
    rows_of_keys = key_rows(width)
    height = 24 + step * -(-len(storages) // across)
    figure = d.new_figure(width, 20 * len(rows_of_keys) + 8 + height * len(sources))
    draw_keys(figure, rows_of_keys, width)
    top = 20 * len(rows_of_keys) + 8
    size = (width - left - right - gap * (across - 1)) / across
    for source, lines in sources.items():
        name = d.canvas(figure, 0, top, width, 20)
        name.annotate(d.shorten(source, 44), (6, 10), va="center", color=d.INK, weight="bold")
        for index, storage in enumerate(storages):
            axes = d.place(figure, left + index % across * (size + gap),
                           top + 24 + 22 + index // across * step, size, panel)
            write_name(axes, storage, narrow)
            if storage in lines:
                labelled = index % across == 0 or storages[index - 1] not in lines
                draw_panel(axes, storage, lines[storage], labelled)
            else:
                axes.set_axis_off()
                d.write(axes, "serves nothing", (0, 1), (0, -18), d.SOFT, on="axes")
        top += height
    return figure


def draw_panel(axes, storage, rows, first):
    colour = d.STORAGE_LOOK[storage][0]
    middles, inside = zip(*stretches(rows))
    last = rows[-1]["seconds"]
    if len(middles) == 1:  # a single stretch is drawn as an area, too
        middles, inside = (0, max(last, 1e-9)), inside * 2
    below = [0.0] * len(middles)
    for name, _, fixed, opacity in PARTS:
        parts = [sum(share(r, name) for r in some) / len(some) for some in inside]
        above = [low + part for low, part in zip(below, parts)]
        if max(parts) > 0:
            axes.fill_between(middles, below, above, color=fixed or colour, alpha=opacity,
                              linewidth=0, zorder=2)
        below = above
    axes.set_ylim(0, 1)
    axes.set_xlim(0, max(last, 1e-9))
    axes.axhline(1, color=d.SOFT, linewidth=0.8, clip_on=False)
    axes.grid(axis="y", visible=False)
    d.ticks(axes.yaxis, [0, 0.5, 1], (lambda v: f"{100 * v:.0f} %") if first else (lambda v: ""))
    d.ticks(axes.xaxis, [0, last], lambda v: f"{digits(v)} s" if v else "0")
    labels = axes.get_xticklabels()
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")


def write_name(axes, storage, narrow):
    text = STORAGES[storage].removeprefix("contiguous, ") if narrow else STORAGES[storage]
    d.write(axes, text, (0, 1), (0, 5), d.STORAGE_LOOK[storage][0], on="axes", va="bottom")


def key_rows(width):
    """The entries (x, name, colour, opacity) in rows that are no wider than the figure."""
    rows, x = [[]], width
    for _, name, colour, opacity in [*PARTS, ("", "free", None, 0.0)]:
        needs = 42 + 6 * len(name)
        if x + needs > width - 6:
            rows, x = rows + [[]], 6
        rows[-1].append((x, name, colour or d.GREY, opacity))
        x += needs
    return rows[1:]


def draw_keys(figure, rows, width):
    axes = d.canvas(figure, 0, 0, width, 20 * len(rows))
    for y, row in enumerate(rows):
        for x, name, colour, opacity in row:
            axes.barh(20 * y + 10, 16, left=x, height=11, color=colour, alpha=opacity, linewidth=0)
            axes.barh(20 * y + 10, 16, left=x, height=11, fill=False, edgecolor=d.SOFT,
                      linewidth=0.8)
            axes.annotate(name, (x + 23, 20 * y + 10), va="center", color=d.INK)


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    for source, lines in panels(results).items():
        if not {"contiguous_max_length", "paged"} <= set(lines):
            continue
        longest, paged = lines["contiguous_max_length"], lines["paged"]
        held, with_pages = (percent(mean_share(rows, "tokens_in_memory"), 0)
                            for rows in (longest, paged))
        return (f"Tokens fill {with_pages} of the memory with pages, whose partial tails take "
                f"{percent(mean_share(paged, 'partial_tail'))}, and {held} with max-length "
                f"buffers, where {percent(mean_share(longest, 'reserved'), 0)} is reserved and "
                f"not used ({source}, mean over time)")
    return "What memory holds while requests are served, by cause"


def table(results):
    """Means over time as shares of the memory."""
    columns = [("source", False), ("storage", False), ("samples", True)]
    columns += [(f"{name} (%)", True) for _, name, *_ in PARTS] + [("free (%)", True)]
    out = []
    for source, lines in panels(results).items():
        for storage, rows in lines.items():
            means = [mean_share(rows, name) for name, *_ in PARTS]
            means.append(mean_share(rows, "free") - mean_share(rows, "stranded"))
            out.append([label_cell(source), label_cell(storage), (count(len(rows)), len(rows)),
                        *((f"{100 * m:.1f}", m) for m in means)])
    return Table(columns, out)


PLOT = Plot(
    "serving-memory", "serving_over_time", "kvproof-study serving", draw, finding,
    "A panel in its full colour holds tokens and nothing else. Pale is taken by a request that "
    "does not use it yet, or never will; red is free while somebody waits whom it cannot hold, "
    "because it is too little or not in one piece.",
    "Simulated with the runs above: the memory after single steps, as a mean over stretches of "
    "time, each panel on its own time. A token in a shared block counts once.",
    table, section="Serving", place=20)
