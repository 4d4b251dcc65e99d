# SPDX-License-Identifier: Apache-2.0
"""Hit rate of hybrids against the size of the pool, by what they keep of windows and states."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.numbers import count, percent, short
from kvproof_report.draw.plot import Plot, groups, plain_table
from kvproof_report.draw.sheet import Beside, Key, Words, drawn
from kvproof_report.figures.prefix import is_infinite, known_or_first

DENSE, BOUNDARIES, OPTIMUM = "dense", "0", "optimum"
# what is kept -> (its name, look), in the order of drawing; "": each so many tokens
RETENTIONS = {DENSE: ("dense: all", (d.VERMILLION, d.SOLID, "s")),
              "": ("each {} tokens", (d.GREEN, d.DASHDOT, "^")),
              BOUNDARIES: ("0: where requests end and part", (d.BLUE, d.SOLID, "o")),
              OPTIMUM: ("no hybrid finds more", (d.INK, d.DASHED, ""))}
INSIDE = "inside blocks"


def named(retention):
    name, look = RETENTIONS.get(retention, RETENTIONS[""])
    return name.format(count(int(retention)) if retention.isdigit() else ""), look


def order(retention):
    return list(RETENTIONS).index(retention if retention in RETENTIONS else "")


def tokens(result):
    return result["capacity_blocks"] * result["block_size"] / result["groups"]


def rate(result):
    return 100 * result.value("hit_rate_tokens")


def settings(results):
    """source -> (model, hits) -> results"""
    return {source: {(model, hits): found for model, rows in groups(cases, "model").items()
                     for hits, found in groups(rows, "hits").items()}
            for source, cases in groups(results, "source").items()}


@drawn
def draw(results):
    retentions = sorted(groups(results, "retention"), key=lambda r: (order(r), r))
    parts = [Key(list(map(named, retentions)), 44)]
    for source, cases in settings(results).items():
        highest = max(1, *(rate(r) for rows in cases.values() for r in rows)) * 1.08
        parts += [Words(source, d.INK, "bold"),
                  Beside([panel(case, rows, highest) for case, rows in cases.items()], 225)]
    return parts


def panel(case, results, highest):
    model, hits = case
    finite = groups([r for r in results if not is_infinite(r)], "retention")
    infinite = sorted((r for r in results if is_infinite(r) and "kept_blocks" in r.metrics),
                      key=lambda r: order(r["retention"]))
    series = [Series("", named(retention)[1],
                     [(tokens(r), rate(r)) for r in sorted(rows, key=tokens)],
                     1 if retention == OPTIMUM else 1.7, 7 - 1.5 * order(retention))
              for retention, rows in sorted(finite.items(), key=lambda item: order(item[0]))]
    kept = [(short(float(f"{r.value('kept_blocks'):.3g}")), named(r["retention"])[1][0])
            for r in infinite[:3]]
    return Lines(d.shorten(model, 16) + (", inside blocks" if hits == INSIDE else ""),
                 Axis("pool size (tokens), log scale", 10),
                 Axis("prompt tokens found (%)", span=[0, highest]), series, tall=200,
                 below=[("blocks kept:", d.SOFT)] * bool(kept) + kept)


# ---- in words -----------------------------------------------------------------------------------

def pairs(rows):
    """(dense, boundaries) at each size of the pool; the infinite one last."""
    sizes = groups([r for r in rows if r["retention"] in (DENSE, BOUNDARIES)], "capacity_share")
    found = [{r["retention"]: r for r in cases} for cases in sizes.values()]
    whole = [(at[DENSE], at[BOUNDARIES]) for at in found if len(at) == 2]
    return sorted(whole, key=lambda pair: (is_infinite(pair[0]), pair[0]["capacity_blocks"]))


def chosen_case(results):
    """(source, pair with the largest gain, pair of the infinite pool or None): of the source whose
    answers are known, else of the first, and of its first model."""
    sources = settings(results)
    source = known_or_first(sources)
    found = pairs(next(iter(sources[source].values())))
    finite = [pair for pair in found if not is_infinite(pair[0])]
    infinite = next((pair for pair in found if is_infinite(pair[0])), None)
    if not finite:
        return None
    return source, max(finite, key=lambda pair: rate(pair[1]) - rate(pair[0])), infinite


def finding(results):
    case = chosen_case(results)
    if case is None:
        return "Hit rate of hybrids by what they keep of windows and states"
    source, (dense, kept), infinite = case
    text = (f"On {source}, {dense['model']} finds {percent(rate(kept) / 100)} of the prompt tokens "
            f"in a pool of {short(tokens(dense))} tokens if it keeps only what lies where requests "
            f"end and part, {percent(rate(dense) / 100)} if it keeps all")
    if infinite:
        first, second = (percent(rate(result) / 100) for result in reversed(infinite))
        text += f"; with room for all, {first} and {second}"
    return text


def table(results):
    return plain_table(sorted(results, key=lambda r: (
        r["source"], r["model"], r["hits"], is_infinite(r), r["capacity_blocks"],
        order(r["retention"]))))


PLOT = Plot(
    "retention", "retention", "kvproof-study retention", draw, finding,
    "Where the curve of 0 is above that of dense, blocks that nobody would have read have made "
    "room; where it ends below, a prefix was met for the second time and not found. "
    "\u201cInside blocks\u201d: a hit may end within a block of Mamba states. \u201cBlocks "
    "kept\u201d: in the end, in a pool with room for all.",
    "Counted, not timed: the real allocator with the profile vllm-0.33, one request at a time, in "
    "chunks of 8,192 tokens; a pool of so many tokens has a block for each in every group. The "
    "dashed line is the offline optimum of full attention, were the whole pool its own.", table,
    optional=True, section="Prefix cache", place=30)
