# SPDX-License-Identifier: Apache-2.0
"""The time of a request's whole life, per block, beside its hash alone, and its parts."""

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.bars import Bar, Bars, Column, Row
from kvproof_report.draw.lines import Axis
from kvproof_report.draw.numbers import binary, digits
from kvproof_report.draw.plot import Number, Plot, plain_table
from kvproof_report.draw.sheet import Key, drawn

FIRST_CASE = "xxh3_64k"  # 65,536 blocks and the fast hash; the others are shown below it
FLOOR = "hash_alone_ns_per_block"  # no life costs less than to hash its blocks
DECODED_TOKENS = 256  # of a request

# The phases of a request: (metric, how often, name, colour of its part of the bar).
PHASES = (("ns_per_admission", 1, "admission", d.BLUE),
          ("ns_per_decode_token", DECODED_TOKENS, f"{DECODED_TOKENS} tokens decoded", d.GREEN),
          ("ns_per_finish", 1, "finish", d.AMBER))


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


@drawn
def draw(results):
    rows = []
    for result in in_order(results):
        metric = result.metrics["ns_per_block"]
        text = [(f"{digits(metric.value)} ns{times_text(result)}", d.INK, "bold")]
        if metric.has_spread:
            text.append((f"{digits(metric.low)} to {digits(metric.high)}", d.SOFT, "normal"))
        rows.append(Row(f"{words(result['case'])}: {size_of(result)}", [Bar(
            parts_of(result), text, span=(metric.low, metric.high) if metric.has_spread else None,
            mark=(result.value(FLOOR), d.VERMILLION) if FLOOR in result.metrics else None)]))
    return [Bars(rows, [Column(x=Axis("ns per block of a request; mark: its hash alone"))]),
            Key([(name, (colour, "", "s")) for _, _, name, colour in PHASES],
                fill={name: 1 for *_, name, _ in PHASES})]


def parts_of(result):
    """[(length, colour, opacity)] of the bar; where the phases are known, they share it.

    The phases are timed in runs of their own, because their clock costs time too.
    """
    value = result.value("ns_per_block")
    times = [result.value(name) * often if name in result.metrics else 0
             for name, often, *_ in PHASES]
    if not all(times):
        return [(value, d.BLUE, 1)]
    return [(value * time / sum(times), phase[3], 1) for time, phase in zip(times, PHASES)]


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
    "The mark in a bar is the hash alone of the same tokens, below which no life can be; the thin "
    "line under it runs from the shortest to the longest time. The colours are what the time is "
    "spent on, divided as the phases share it when they are timed apart (admission: arrive with "
    "all hashing, look up, allocate).",
    "Timed on one core, through the interface that a replay uses: arrive with all hashing, look "
    "up, allocate, 256 decoded tokens one at a time, finish; 1,024 prompt tokens, half of them "
    "cached; the pool warm and full; the divisor is 80 blocks. Instructions by callgrind.",
    lambda results: plain_table(in_order(results)), number,
    section="Allocator", place=10, summary=50)
