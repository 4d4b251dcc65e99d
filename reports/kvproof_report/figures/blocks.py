# SPDX-License-Identifier: Apache-2.0
"""What a block size costs: tokens wasted in the last block against entries of the block table."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, digits, percent, short
from kvproof_report.draw.plot import Plot, lines_of, plain_table

FIELD_BLOCK_SIZE = 16  # the block size that engines start from


def draw(results, width):
    narrow = width < 500
    panel = 190 if narrow else 230
    lines = lines_of(results, "workload", "block_size")
    names = [(d.shorten(label), look(lines, label)) for label in lines]
    keyed = max(len(name) for name, _ in names) > 13 or len(names) > 8
    room = 16 if keyed else 92  # [px] beside the lines for their names
    panel_width = width - 52 - room if narrow else (width - 2 * 52 - 2 * room) // 2
    top = 46 + (d.key_height(names, width - 52) + 8 if keyed else 0)
    figure = d.new_figure(width, top + (2 * panel + 46 + 46 + 46 if narrow else panel + 48))
    left = d.place(figure, 52, top, panel_width, panel)
    right = (d.place(figure, 52, top + panel + 46 + 46, panel_width, panel) if narrow else
             d.place(figure, 52 + panel_width + room + 52, top, panel_width, panel))
    if keyed:
        d.draw_key(figure, names, 52, 0, width - 52)
    draw_lines(left, lines, "waste_share", 100)
    draw_lines(right, lines, "table_entries_per_request", 1)
    draw_expected(left, lines)
    left.set_ylim(bottom=0)
    most = left.get_ylim()[1]
    d.ticks(left.yaxis, ticks_to(most), lambda v: f"{v:g}")
    logarithmic(right)
    d.title(left, "memory wasted", "share of the blocks' tokens (%)")
    d.title(right, "length of the block table", "entries per request, log scale")
    for axes, name, scale in ((left, "waste_share", 100),
                              (right, "table_entries_per_request", 1)):
        if not keyed:
            d.end_labels(axes, [(rows[-1]["block_size"], rows[-1].value(name) * scale,
                                 label, look(lines, label)[0]) for label, rows in lines.items()])
        d.x_title(axes, "block size (tokens)")
        mark_field_size(axes)
    return figure


def look(lines, label):
    return d.SERIES_LOOK[list(lines).index(label) % len(d.SERIES_LOOK)]


def draw_lines(axes, lines, name, scale):
    sizes = sorted({r["block_size"] for rows in lines.values() for r in rows})
    for label, rows in lines.items():
        colour, dash, marker = look(lines, label)
        axes.plot([r["block_size"] for r in rows], [r.value(name) * scale for r in rows],
                  color=colour, linestyle=dash, marker=marker, zorder=3)
    axes.set_xscale("log", base=2)
    d.ticks(axes.xaxis, sizes if len(sizes) <= 9 else d.powers(sizes[0], sizes[-1], 4), count)
    axes.set_xlim(sizes[0] / 1.15, sizes[-1] * 1.15)


def draw_expected(axes, lines):
    """The formula: on average half a block less half a token is empty."""
    for label, rows in lines.items():
        known = next((r for r in reversed(rows) if r.value("waste_share") > 0), None)
        if known is None:
            continue
        share = known.value("waste_share")
        mean_tokens = known.value("mean_waste_tokens") * (1 - share) / share
        sizes = [r["block_size"] for r in rows]
        waste = [(size - 1) / 2 for size in sizes]
        axes.plot(sizes, [100 * w / (mean_tokens + w) if w else 0 for w in waste], color=d.SOFT,
                  linewidth=0.9, zorder=2)
    d.write(axes, "thin: (block size − 1)/2 tokens", (0, 1), (8, -4), d.SOFT, on="axes", va="top",
            bbox={"facecolor": d.PAPER, "linewidth": 0, "pad": 1})


def ticks_to(most):
    step = next(s for s in (1, 2, 5, 10, 20, 25) if most / s <= 6 or s == 25)
    return [step * i for i in range(int(most / step) + 1)]


def logarithmic(axes):
    axes.set_yscale("log", base=10)
    low, high = axes.get_ylim()
    d.ticks(axes.yaxis, d.powers(low, high), short)


def mark_field_size(axes):
    axes.axvline(FIELD_BLOCK_SIZE, color=d.SOFT, linewidth=0.8, linestyle=d.DOTTED, zorder=1)


def at_field_size(results):
    return [r for r in results if r["block_size"] == FIELD_BLOCK_SIZE]


def finding(results):
    rows = at_field_size(results)
    if not rows:
        return "Waste and table length against the block size"
    low, high = (pick(rows, key=lambda r: r.value("waste_share")) for pick in (min, max))
    tokens = sum(r.value("mean_waste_tokens") for r in rows) / len(rows)
    shares = (percent(low.value("waste_share")) if low is high else
              f"{percent(low.value('waste_share'))} ({low['workload']}) to "
              f"{percent(high.value('waste_share'))} ({high['workload']})")
    return (f"Blocks of {FIELD_BLOCK_SIZE} tokens waste {digits(tokens, 2)} tokens a request, "
            f"{shares} of the memory")


PLOT = Plot(
    "waste-against-block-size", "waste_against_block_size",
    "kvproof-study waste_against_block_size", draw, finding,
    "Waste doubles and the table halves with every doubling of the block size; the dotted "
    "line marks blocks of 16 tokens.",
    "Counted, not timed: every request of the workload at its final length; waste is the "
    "empty part of its last block.", plain_table, section="Memory", place=40)
