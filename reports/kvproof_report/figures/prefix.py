# SPDX-License-Identifier: Apache-2.0
"""Prefix hit rate against the size of the cache, with the infinite cache as the ceiling."""

import math

from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.numbers import count, percent
from kvproof_report.draw.plot import Number, Plot, groups, plain_table
from kvproof_report.draw.sheet import Beside, drawn

# Share of the distinct blocks -> token hit rate of Mooncake's conversation trace at 512 tokens per
# block, from a simulator that shares no code with this project (leaf-first LRU, prompts only).
# A cache with as many blocks as there are distinct ids never evicts a block that is asked for
# again, so the last rate is also that of the infinite cache.
KNOWN_SHARES = {0.01: 0.0535, 0.05: 0.1996, 0.10: 0.2844, 0.25: 0.3604, 0.50: 0.3703, 1.0: 0.3736}
KNOWN_BLOCK_SIZE = 512


def is_known(source):
    return "mooncake" in source.lower() and "conversation" in source.lower()


INFINITE = "infinite"


def is_infinite(result):
    return result["capacity_share"] == INFINITE


def panels(results):
    """source -> block size -> (finite results by capacity, infinite result or None)."""
    found = {}
    for source, rows in groups(results, "source").items():
        found[source] = {}
        for size, cases in sorted(groups(rows, "block_size").items(), reverse=True):
            finite = sorted((r for r in cases if not is_infinite(r)),
                            key=lambda r: r["capacity_blocks"])
            found[source][size] = (finite, next((r for r in cases if is_infinite(r)), None))
    return found


def cache_tokens(result):
    return float(result["capacity_blocks"] * result["block_size"])


def known_or_first(sources):
    """The source whose answers are known, else the first."""
    return next((source for source in sources if is_known(source)), next(iter(sources)))


@drawn
def draw(results):
    return [Beside([panel(source, lines) for source, lines in panels(results).items()], 300)]


RING = (d.INK, "", "o")


def panel(source, lines):
    series, levels, known = [], [], []
    for index, (size, (finite, infinite)) in enumerate(lines.items()):
        look = d.SERIES_LOOK[index % len(d.SERIES_LOOK)]
        series.append(Series(f"blocks of {size}", look, [
            (cache_tokens(r), 100 * r.value("hit_rate_tokens")) for r in finite]))
        if infinite:
            ceiling = 100 * infinite.value("hit_rate_tokens")
            levels.append((ceiling, f"infinite {ceiling:.1f} %", (look[0], d.DOTTED, "")))
        if is_known(source) and size == KNOWN_BLOCK_SIZE:
            known = [(cache_tokens(r), 100 * rate) for r in finite
                     for share, rate in KNOWN_SHARES.items()
                     if abs(r["capacity_share"] - share) < 1e-9]
    series.append(Series("", RING, known, size=10, hollow=True))
    return Lines(d.shorten(source), Axis("cache size (tokens), log scale", 10),
                 Axis("prompt tokens found in the cache (%)", span=[0]), series, levels,
                 "rings: an independent simulator" if known else "")


# ---- in words -----------------------------------------------------------------------------------

def best_case(results):
    """(source, block size, finite results, infinite result) for the title: of the source whose
    answers are known, else of the source to which the size of the cache matters most."""
    cases = [(source, size, finite, infinite)
             for source, lines in panels(results).items()
             for size, (finite, infinite) in lines.items() if infinite and finite]
    return max(cases, key=lambda case: (is_known(case[0]) and case[1] == KNOWN_BLOCK_SIZE,
                                        case[3].value("hit_rate_tokens") -
                                        tenth(case[2]).value("hit_rate_tokens")), default=None)


def tenth(finite):
    """The case whose capacity is nearest to a tenth of the distinct blocks."""
    return min(finite, key=lambda r: abs(math.log(r["capacity_share"] / 0.1)))


def finding(results):
    case = best_case(results)
    if case is None:
        return "Prefix hit rate against the size of the cache"
    source, size, finite, infinite = case
    row = tenth(finite)
    rate, ceiling = row.value("hit_rate_tokens"), infinite.value("hit_rate_tokens")
    part = f"{percent(rate / ceiling, 0)} of what" if ceiling else "of what"
    return (f"On {source}, a cache of {percent(row['capacity_share'], 0)} of the distinct "
            f"blocks finds {percent(rate)} of the prompt tokens: {part} an infinite one finds "
            f"({percent(ceiling)})")


def number(results):
    case = best_case(results)
    if case is None:
        return None
    source, size, finite, infinite = case
    row = tenth(finite)
    ceiling = infinite.value("hit_rate_tokens")
    return Number(percent(row.value("hit_rate_tokens")),
                  f"of the prompt tokens of {source} found in a cache of "
                  f"{percent(row['capacity_share'], 0)} of its blocks",
                  f"{count(row['capacity_blocks'])} blocks of {size} tokens; counted",
                  row.metrics["hit_rate_tokens"], ceiling,
                  f"Ceiling {percent(ceiling)}: an infinite cache.")


def table(results):
    return plain_table(sorted(results, key=lambda r: (
        r["source"], r["block_size"], is_infinite(r), r["capacity_blocks"])))


PLOT = Plot(
    "prefix-hit-rate", "prefix_hit_rate", "kvproof-study prefix_hit_rate", draw, finding,
    "The dotted line is the infinite cache, the ceiling of any policy at that block size; a "
    "curve that reaches it early needs little memory.",
    "Counted, not timed: the real allocator replays the prompts with its own eviction order; "
    "a hit is the longest cached prefix.", table, number,
    section="Prefix cache", place=10, summary=60)
