# SPDX-License-Identifier: Apache-2.0
"""The cost of the serving simulation itself: time for each block that it touches."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import digits, short, time_text
from kvproof_report.draw.plot import Plot, plain_table


def by_blocks(results):
    return sorted(results, key=lambda r: r["blocks"])


def draw(results, width):
    rows = by_blocks(results)
    panel = 190
    figure = d.new_figure(width, 32 + panel + 48)
    axes = d.place(figure, 52, 32, width - 52 - 24, panel)
    blocks = [r["blocks"] for r in rows]
    metrics = [r.metrics["ns_per_block"] for r in rows]
    axes.fill_between(blocks, [m.low if m.has_spread else m.value for m in metrics],
                      [m.high if m.has_spread else m.value for m in metrics],
                      color=d.BLUE, alpha=0.18, linewidth=0)
    axes.plot(blocks, [m.value for m in metrics], color=d.BLUE, marker="o")
    axes.set_xscale("log")
    d.ticks(axes.xaxis, d.powers(blocks[0] / 1.1, blocks[-1] * 1.1), short)
    axes.set_ylim(bottom=0)
    d.ticks(axes.yaxis, axes.get_yticks()[:-1], lambda value: f"{value:g}")
    d.y_title(axes, "ns per block, shaded: min to max")
    d.x_title(axes, "blocks touched, log scale")
    return figure


def settled(results):
    """Leaves out the smallest run, which spends most of its time on the start."""
    rows = by_blocks(results)
    return rows[1:] or rows


def finding(results):
    rows = settled(results)
    values = [r.value("ns_per_block") for r in rows]
    last = rows[-1]
    return (f"{digits(min(values))} to {digits(max(values))} ns a block from "
            f"{short(rows[0]['blocks'])} to {short(last['blocks'])} blocks: "
            f"{time_text(last.value('seconds') * 1e9)} for the largest run")


PLOT = Plot(
    "serving-cost", "serving_cost", "kvproof bench --filter=serving_cost", draw, finding,
    "A flat line is a cost that grows with the blocks touched and with nothing else; the smallest "
    "run is dearer because it builds the pool.",
    "Timed, processor time of one core: requests of 2,048 to 8,192 tokens, half of each prompt one "
    "of 64 prefixes, on a pool of 65,536 blocks of 16; up to five runs each.",
    plain_table, section="Serving", place=40)
