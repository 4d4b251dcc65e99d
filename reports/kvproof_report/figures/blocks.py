# SPDX-License-Identifier: Apache-2.0
"""What a block size costs: tokens wasted in the last block against entries of the block table."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.numbers import count, digits, percent
from kvproof_report.draw.plot import Plot, lines_of, plain_table
from kvproof_report.draw.sheet import Beside, Key, drawn

FIELD_BLOCK_SIZE = 16  # the block size that engines start from


@drawn
def draw(results):
    lines = lines_of(results, "workload", "block_size")
    looks = dict(zip(lines, d.SERIES_LOOK * len(lines)))
    expected = [Series("", (d.SOFT, d.SOLID, ""), points, 0.9)
                for points in map(formula, lines.values()) if points]
    return [Key([(d.shorten(name), look) for name, look in looks.items()]), Beside([
        panel("memory wasted", lines, looks, "waste_share", 100, Axis(
            "share of the blocks' tokens (%)", span=[0]), expected),
        panel("length of the block table", lines, looks, "table_entries_per_request", 1, Axis(
            "entries per request, log scale", 10), [])], 300)]


def panel(title, lines, looks, metric, scale, y, further):
    series = [Series("", looks[name], [(r["block_size"], r.value(metric) * scale) for r in rows])
              for name, rows in lines.items()]
    sizes = sorted({x for each in series for x, _ in each.points})
    values = [y for each in series for _, y in each.points]
    mark = [(FIELD_BLOCK_SIZE, bound) for bound in (min(values), max(values))]
    x = Axis("block size (tokens)", 2, count, pad=1.15,
             marks=sizes if len(sizes) <= 9 else d.powers(sizes[0], sizes[-1], 4))
    return Lines(title, x, y, [Series("", (d.SOFT, d.DOTTED, ""), mark, 0.8), *further, *series],
                 corner=[("thin: (block size − 1)/2 tokens", d.SOFT)] * bool(further))


def formula(rows):
    """On average half a block less half a token is empty; unknown where nothing is."""
    known = next((r for r in reversed(rows) if r.value("waste_share") > 0), None)
    if known is None:
        return []
    share = known.value("waste_share")
    mean_tokens = known.value("mean_waste_tokens") * (1 - share) / share
    waste = [(r["block_size"], (r["block_size"] - 1) / 2) for r in rows]
    return [(size, 100 * w / (mean_tokens + w) if w else 0) for size, w in waste]


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
