# SPDX-License-Identifier: Apache-2.0
"""Hit rate against the size of the cache for each eviction policy, beside what is possible."""

import math

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import percent, short
from kvproof_report.draw.plot import Number, Plot, groups, plain_table
from kvproof_report.figures.prefix import is_known, known_or_first, rate_axes
from kvproof_report.figures.prefix import cache_tokens as tokens

# policy -> (name, look). The bounds that no policy can exceed are drawn in ink.
POLICIES = {
    "lru": ("LRU, the allocator's own", (d.BLUE, d.SOLID, "o")),
    "lru_first_block_first": ("LRU, first block freed first", (d.BLUE, d.DASHED, "v")),
    "fifo": ("FIFO", (d.GREY, d.DASHED, "P")),
    "lfu": ("LFU with aging", (d.VERMILLION, d.SOLID, "s")),
    "s3_fifo": ("S3-FIFO", (d.GREEN, d.DASHDOT, "^")),
    "priority_ttl": ("priority and time to live", (d.PINK, d.SOLID, "D")),
}
OPTIMUM = ("offline optimum", (d.INK, d.DASHED, ""))
INFINITE = ("infinite cache", (d.SOFT, d.DOTTED, ""))

# Published for the Mooncake conversation trace at a capacity of a million tokens, which is 2,000
# blocks of 512: (policy, share of the blocks).
PUBLISHED_TOKENS = 2_000 * 512
PUBLISHED = (("LRU", 0.054), ("optimum", 0.255))


def look(policy):
    return (OPTIMUM[1] if policy == "optimum" else
            POLICIES.get(policy, (policy, (d.AMBER, d.DOTTED, "X")))[1])


def name(policy):
    return OPTIMUM[0] if policy == "optimum" else POLICIES.get(policy, (policy,))[0]


def rate(result):
    return 100 * result.value("hit_rate_blocks")


def draw(results, width):
    narrow = width < 500
    sources = groups(results, "source")
    policies = [p for p in groups(results, "policy") if p not in ("optimum", "infinite")]
    entries = [(name(policy), look(policy)) for policy in policies] + [OPTIMUM, INFINITE]
    columns = 1 if narrow or len(sources) == 1 else 2
    panel_width = width // columns - 58
    panel = 220 if narrow else 270
    rows = math.ceil(len(sources) / columns)
    key = d.key_height(entries, width - 48)
    figure = d.new_figure(width, key + rows * (46 + panel + 50))
    d.draw_key(figure, entries, 44, 4, width - 48)
    for index, (source, cases) in enumerate(sources.items()):
        axes = d.place(figure, 44 + (index % columns) * (panel_width + 58),
                       key + 46 + (index // columns) * (panel + 96), panel_width, panel)
        draw_panel(axes, source, cases)
    return figure


def draw_panel(axes, source, results):
    cases = groups(results, "policy")
    finite = [r for policy, rows in cases.items() if policy != "infinite" for r in rows]
    for policy, rows in cases.items():
        colour, dash, marker = look(policy)
        if policy == "infinite":
            axes.axhline(rate(rows[0]), color=d.SOFT, linewidth=1, linestyle=d.DOTTED, zorder=2)
            continue
        rows = sorted(rows, key=tokens)
        axes.plot([tokens(r) for r in rows], [rate(r) for r in rows], color=colour, linestyle=dash,
                  marker=marker, markersize=4.5, zorder=3)
    if is_known(source):
        axes.plot([PUBLISHED_TOKENS] * len(PUBLISHED), [100 * share for _, share in PUBLISHED],
                  linestyle="none", marker="o", markersize=11, markerfacecolor="none",
                  markeredgecolor=d.INK, markeredgewidth=1, zorder=4)
        d.write(axes, "rings: published, LRU and optimum", (1, 0), (-6, 8), d.SOFT, on="axes",
                ha="right")
    rate_axes(axes, list(map(tokens, finite)), lambda low, high: d.log_marks(low, high, 7),
              max(1, *map(rate, results)) * 1.08, 6)
    d.title(axes, d.shorten(source), "prompt blocks found in the cache (%)")
    d.x_title(axes, "cache size (tokens), log scale")


# ---- in words -----------------------------------------------------------------------------------

def chosen_case(results):
    """(source, results at one size) for the title: of the source whose answers are known, else of
    the first, at the size at which LRU leaves most to be gained."""
    sources = groups(results, "source")
    source = known_or_first(sources)
    sizes = []
    for rows in groups([r for r in sources[source] if r["policy"] != "infinite"],
                       "capacity_blocks").values():
        at = {r["policy"]: r for r in rows}
        if "lru" in at and "optimum" in at:
            sizes.append((rate(at["optimum"]) - rate(at["lru"]), at))
    return (source, max(sizes, key=lambda size: size[0])[1]) if sizes else None


def finding(results):
    case = chosen_case(results)
    if case is None:
        return "Hit rate of each eviction policy against the size of the cache"
    source, at = case
    lru, optimum = at["lru"], at["optimum"]
    others = {policy: r for policy, r in at.items() if policy not in ("lru", "optimum")}
    best = max(others, key=lambda policy: rate(others[policy]), default=None)
    second = (f"; the best of the others, {name(best)}, {percent(rate(others[best]) / 100)}"
              if best else "")
    return (f"On {source}, a cache of {short(tokens(lru))} tokens finds {percent(rate(lru) / 100)} "
            f"of the prompt blocks under LRU{second}, and no policy can find more than "
            f"{percent(rate(optimum) / 100)}")


def number(results):
    """LRU beside the optimum, at the size at which LRU leaves most to be gained."""
    case = chosen_case(results)
    if case is None:
        return None
    source, at = case
    infinite = [r for r in results if r["source"] == source and r["policy"] == "infinite"]
    context = f"an infinite cache: {percent(rate(infinite[0]) / 100)}; counted" if infinite else \
        "counted"
    best = at["optimum"].value("hit_rate_blocks")
    return Number(percent(rate(at["lru"]) / 100),
                  f"of the prompt blocks of {source} found under LRU in a cache of "
                  f"{short(tokens(at['lru']))} tokens", context,
                  at["lru"].metrics["hit_rate_blocks"], best,
                  f"Ceiling {percent(best)}: the offline optimum.")


def table(results):
    order = list(POLICIES)
    return plain_table(sorted(results, key=lambda r: (
        r["source"], r["capacity_blocks"],
        order.index(r["policy"]) if r["policy"] in order else len(order))))


PLOT = Plot(
    "eviction", "eviction", "kvproof-study eviction", draw, finding,
    "What a better policy could gain is the space between its curve and the dashed line, the "
    "offline optimum: Belady's choice, which knows all future requests.",
    "Counted, not timed: each policy runs in the real block pool; requests come one at a time and "
    "hold nothing when they are gone. The bounds are computed beside it.", table, number,
    section="Prefix cache", place=20, summary=40)
