# SPDX-License-Identifier: Apache-2.0
"""The time of a request's whole life, per block, beside its hash alone, and its parts."""

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import binary, digits
from kvproof_report.draw.plot import Number, Plot, plain_table

FIRST_CASE = "xxh3_64k"  # 65,536 blocks and the fast hash; the others are shown below it
FLOOR = "hash_alone_ns_per_block"  # no life costs less than to hash its blocks
DECODED_TOKENS = 256  # of a request

CLEAR = {"facecolor": d.PAPER, "linewidth": 0, "pad": 1}  # behind words that cross a line
TOP = 14  # [px] above the first bar
BAR = 0.36  # the height of a bar as a share of the room for one case

# The phases of a request: (metric, how often, name, opacity of its part of the bar).
PHASES = (("ns_per_admission", 1, "admission", 1.0),
          ("ns_per_decode_token", DECODED_TOKENS, f"{DECODED_TOKENS} tokens decoded", 0.62),
          ("ns_per_finish", 1, "finish", 0.34))


def is_first_case(result):
    return result["case"] == FIRST_CASE


def in_order(results):
    """Puts the usual case first."""
    return sorted(results, key=lambda r: not is_first_case(r))


def size_of(result):
    return f"{result['hash']}, {binary(result['num_blocks'])} blocks"


def name_of(result):
    """What tells the result from others in a sentence: several cases are of one size."""
    return size_of(result) if is_first_case(result) else (
        f"{words(result['case'])}: {size_of(result)}")


def draw(results, width):
    narrow = width < 500
    results = in_order(results)
    step, left = (60, 12) if narrow else (48, 190)
    figure = d.new_figure(width, TOP + step * len(results) + 46 + 26)
    axes = d.place(figure, left, TOP, width - left - 24, step * len(results))
    # Room for the numbers beside the longest bar; a single bad repetition does not set the scale.
    longest = max(r.value("ns_per_block") for r in results)
    axes.set_xlim(0, longest * (2.9 if narrow else 1.65))
    axes.set_ylim(len(results) - 0.4, -0.55)
    for index, result in enumerate(results):
        draw_bar(axes, index, result, narrow)
    d.row_axis(axes)
    d.x_title(axes, "ns per block of a request; mark in a bar: its hash alone" + (
        "" if narrow else "; thin line: min to max"))
    draw_tints(figure, left, TOP + step * len(results) + 50, width - left)
    return figure


def draw_bar(axes, index, result, narrow):
    metric = result.metrics["ns_per_block"]
    start = 0
    for length, opacity in parts_of(result):
        axes.barh(index, length, left=start, height=BAR, color=d.BLUE, alpha=opacity, linewidth=0)
        start += length
    if FLOOR in result.metrics:
        axes.vlines([result.value(FLOOR)], index - BAR / 2 - 0.05, index + BAR / 2 + 0.05,
                    color=d.VERMILLION, linewidth=2, zorder=4)
    if metric.has_spread:
        draw_spread(axes, index + BAR / 2 + 0.09, metric)
    d.write(axes, words(result["case"]) + (": " if narrow else "\n") + size_of(result),
            (0, index - BAR / 2 - 0.02 if narrow else index), (0, 0) if narrow else (-10, 0),
            ha="left" if narrow else "right", va="bottom" if narrow else "center")
    numbers = d.write(axes, f"{digits(metric.value)} ns{times_text(result)}",
                      (metric.value, index), (8, 0), va="center", weight="bold", zorder=5,
                      bbox=CLEAR)
    if metric.has_spread:
        axes.annotate(f"{digits(metric.low)} to {digits(metric.high)}", (1, 0.5),
                      xycoords=numbers, xytext=(9, 0), textcoords="offset points", va="center",
                      color=d.SOFT, zorder=5, bbox=CLEAR)


def draw_spread(axes, y, metric):
    """Draws min to max below the bar, open at the right if the maximum lies beyond the axis."""
    end = axes.get_xlim()[1]
    axes.plot([metric.low, min(metric.high, end)], [y, y], color=d.INK, linewidth=1, marker="|",
              markersize=6, markevery=[0] if metric.high > end else None, clip_on=False, zorder=4)


def draw_tints(figure, left, top, width):
    axes = d.canvas(figure, left, top, width, 18)
    x = 0
    for _, _, name, opacity in PHASES:
        axes.barh(9, 11, left=x, height=11, color=d.BLUE, alpha=opacity, linewidth=0)
        axes.annotate(name, (x + 16, 9), va="center", color=d.SOFT)
        x += 36 + 7 * len(name)


def parts_of(result):
    """[(length, opacity)] of the bar; where the phases are known, it is divided as they share it.

    The phases are timed in runs of their own, because their clock costs time too.
    """
    value = result.value("ns_per_block")
    times = [result.value(name) * often if name in result.metrics else 0
             for name, often, *_ in PHASES]
    if not all(times):
        return [(value, 1.0)]
    return [(value * time / sum(times), phase[3]) for time, phase in zip(times, PHASES)]


def times_floor(result):
    """How often its hash alone a life costs, measured interleaved; None where it was not."""
    if "ratio_to_hash_alone" in result.metrics:
        return result.value("ratio_to_hash_alone")
    return result.value("ns_per_block") / result.value(FLOOR) if FLOOR in result.metrics else None


def times_text(result):
    ratio = times_floor(result)
    return f", {digits(ratio)}\u202f× its hash" if ratio else ""


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    case = in_order(results)[0]
    text = (f"{digits(case.value('ns_per_block'))} ns for each of its blocks over its whole life "
            f"({name_of(case)})")
    ratio = times_floor(case)
    return (f"A request costs {digits(ratio)} times the hash of its tokens alone: {text}" if ratio
            else f"A request costs {text}")


def number(results):
    case = in_order(results)[0]
    metric = case.metrics["ns_per_block"]
    hashing, ratio = case.metrics.get(FLOOR), times_floor(case)
    context = [f"{digits(ratio)} times it"] if ratio else []
    if metric.has_spread:
        context.append(f"{digits(metric.low)} to {digits(metric.high)} ns over the repetitions")
    if "instructions_per_block" in case.metrics:
        context.append(f"{digits(case.value('instructions_per_block'))} instructions")
    return Number(f"{digits(metric.value)}\u202fns",
                  f"per block of a request over its whole life, {name_of(case)}",
                  "; ".join(context), metric, hashing.value if hashing else None,
                  f"Floor {digits(hashing.value)}\u202fns: the hash alone." if hashing else "",
                  less=True)


PLOT = Plot(
    "life-cycle", "life_cycle", "kvproof-bench --filter=life_cycle", draw, finding,
    "The mark in a bar is the hash alone of the same tokens, below which no life can be; the tints "
    "are what the time is spent on, divided as the phases share it when they are timed apart "
    "(admission: arrive with all hashing, look up, allocate).",
    "Timed on one core, through the interface that a replay uses: arrive with all hashing, look "
    "up, allocate, 256 decoded tokens one at a time, finish; 1,024 prompt tokens, half of them "
    "cached; the pool warm and full; the divisor is 80 blocks. Instructions by callgrind.",
    lambda results: plain_table(in_order(results)), number,
    section="Allocator", place=10, summary=50)
