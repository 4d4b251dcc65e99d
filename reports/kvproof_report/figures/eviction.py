# SPDX-License-Identifier: Apache-2.0
"""Hit rate against the size of the cache for each eviction policy, beside what is possible."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.numbers import percent, short
from kvproof_report.draw.plot import Number, Plot, groups, plain_table
from kvproof_report.draw.sheet import Beside, Key, drawn
from kvproof_report.figures.prefix import RING, is_known, known_or_first
from kvproof_report.figures.prefix import cache_tokens as tokens

# policy -> (name, look). The bounds that no policy can exceed are drawn in ink.
POLICIES = {
    "lru": ("LRU, the allocator's own", (d.BLUE, d.SOLID, "o")),
    "lru_first_block_first": ("LRU, first block freed first", (d.BLUE, d.DASHED, "v")),
    "fifo": ("FIFO", (d.GREY, d.DASHED, "P")),
    "lfu": ("LFU with aging", (d.VERMILLION, d.SOLID, "s")),
    "s3_fifo": ("S3-FIFO", (d.GREEN, d.DASHDOT, "^")),
    "priority_ttl": ("priority and time to live", (d.PINK, d.SOLID, "D")),
    "optimum": ("offline optimum", (d.INK, d.DASHED, "")),
    "infinite": ("infinite cache", (d.SOFT, d.DOTTED, "")),
}
BOUNDS = ("optimum", "infinite")

# Published for the Mooncake conversation trace at a capacity of a million tokens, which is 2,000
# blocks of 512: (policy, share of the blocks).
PUBLISHED_TOKENS = 2_000 * 512
PUBLISHED = (("LRU", 0.054), ("optimum", 0.255))


def named(policy):
    return POLICIES.get(policy, (policy, (d.AMBER, d.DOTTED, "X")))


def rate(result):
    return 100 * result.value("hit_rate_blocks")


@drawn
def draw(results):
    policies = [p for p in groups(results, "policy") if p not in BOUNDS]
    return [Key([named(policy) for policy in (*policies, *BOUNDS)], 44),
            Beside([panel(source, cases) for source, cases in groups(results, "source").items()],
                   300)]


def panel(source, results):
    cases = groups(results, "policy")
    infinite = cases.pop("infinite", [])[:1]
    series = [Series("", named(policy)[1], [(tokens(r), rate(r)) for r in sorted(rows, key=tokens)])
              for policy, rows in cases.items()]
    if is_known(source):
        series.append(Series("", RING, [(PUBLISHED_TOKENS, 100 * share) for _, share in PUBLISHED],
                             size=11, hollow=True))
    return Lines(d.shorten(source), Axis("cache size (tokens), log scale", 10),
                 Axis("prompt blocks found in the cache (%)", span=[0]), series,
                 [(rate(r), "", named("infinite")[1]) for r in infinite],
                 "rings: published, LRU and optimum" if is_known(source) else "", tall=250)


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
    second = (f"; the best of the others, {named(best)[0]}, {percent(rate(others[best]) / 100)}"
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
    order = [policy for policy in POLICIES if policy not in BOUNDS]
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
