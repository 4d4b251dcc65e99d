# SPDX-License-Identifier: Apache-2.0
"""The cost of the serving simulation itself: time for each block that it touches."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.numbers import digits, short, time_text
from kvproof_report.draw.plot import Plot, plain_table
from kvproof_report.draw.sheet import drawn


def by_blocks(results):
    return sorted(results, key=lambda r: r["blocks"])


@drawn
def draw(results):
    points = [(r["blocks"], r.metrics["ns_per_block"]) for r in by_blocks(results)]
    return [Lines("", Axis("blocks touched, log scale", 10, pad=1.05),
                  Axis("ns per block, shaded: min to max", span=[0]),
                  [Series("", (d.BLUE, d.SOLID, "o"), points, band=True)], tall=190)]


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
