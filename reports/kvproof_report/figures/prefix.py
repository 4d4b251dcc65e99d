# SPDX-License-Identifier: Apache-2.0
"""Prefix hit rate against the size of the cache, with the infinite cache as the ceiling."""

import math

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, percent, short
from kvproof_report.draw.plot import Number, Plot, groups, plain_table

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


def draw(results, width):
    narrow = width < 500
    sources = panels(results)
    columns = 1 if narrow or len(sources) == 1 else 2
    panel_width = (width - columns * (44 + 104)) // columns
    panel = 200 if narrow else 230
    rows = math.ceil(len(sources) / columns)
    figure = d.new_figure(width, rows * (46 + panel + 50))
    for index, (source, lines) in enumerate(sources.items()):
        left = 44 + (index % columns) * (panel_width + 44 + 104)
        axes = d.place(figure, left, 46 + (index // columns) * (panel + 96), panel_width, panel)
        draw_panel(axes, source, lines)
    return figure


def cache_tokens(result):
    return float(result["capacity_blocks"] * result["block_size"])


def known_or_first(sources):
    """The source whose answers are known, else the first."""
    return next((source for source in sources if is_known(source)), next(iter(sources)))


def rate_axes(axes, sizes, marks, highest, bins):
    """A hit rate against the size of a cache. @param marks: (low, high) -> ticks of the size"""
    low, high = min(sizes, default=1) / 1.3, max(sizes, default=10) * 1.3
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    d.ticks(axes.xaxis, marks(low, high), short)
    axes.set_ylim(0, highest)
    axes.yaxis.get_major_locator().set_params(nbins=bins)


def draw_panel(axes, source, lines):
    ends, sizes = [], []
    for index, (size, (finite, infinite)) in enumerate(lines.items()):
        colour, dash, marker = d.SERIES_LOOK[index % len(d.SERIES_LOOK)]
        xs = [cache_tokens(r) for r in finite]
        ys = [100 * r.value("hit_rate_tokens") for r in finite]
        axes.plot(xs, ys, color=colour, linestyle=dash, marker=marker, zorder=3)
        sizes += xs
        if xs:
            ends.append((xs[-1], ys[-1], f"blocks of {size}", colour))
        if infinite:
            ceiling = 100 * infinite.value("hit_rate_tokens")
            axes.axhline(ceiling, color=colour, linewidth=1, linestyle=d.DOTTED, zorder=2)
            ends.append((max(xs, default=1), ceiling, f"infinite {ceiling:.1f} %", colour))
        if is_known(source) and size == KNOWN_BLOCK_SIZE:
            draw_known(axes, finite)
    rate_axes(axes, sizes, d.powers, max([1] + [end[1] for end in ends]) * 1.12, 5)
    d.title(axes, d.shorten(source), "prompt tokens found in the cache (%)")
    d.x_title(axes, "cache size (tokens), log scale")
    d.end_labels(axes, ends)


def draw_known(axes, finite):
    points = [(cache_tokens(r), 100 * rate) for r in finite for share, rate in KNOWN_SHARES.items()
              if abs(r["capacity_share"] - share) < 1e-9]
    if not points:
        return
    axes.plot(*zip(*points), linestyle="none", marker="o", markersize=10, markerfacecolor="none",
              markeredgecolor=d.INK, markeredgewidth=1, zorder=4)
    d.write(axes, "rings: an independent simulator", (1, 0), (-6, 8), d.SOFT, on="axes", ha="right")


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
