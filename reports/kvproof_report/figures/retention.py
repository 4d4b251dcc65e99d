# SPDX-License-Identifier: Apache-2.0
"""Hit rate of hybrids against the size of the pool, by what they keep of windows and states."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, percent, short
from kvproof_report.draw.plot import Plot, groups, plain_table
from kvproof_report.figures.prefix import is_infinite, known_or_first, rate_axes

DENSE, BOUNDARIES, OPTIMUM = "dense", "0", "optimum"
LOOK = {DENSE: (d.VERMILLION, d.SOLID, "s"), BOUNDARIES: (d.BLUE, d.SOLID, "o"),
        OPTIMUM: (d.INK, d.DASHED, "")}
SEGMENTS_LOOK = (d.GREEN, d.DASHDOT, "^")
INSIDE = "inside blocks"


def name(retention):
    return {DENSE: "dense: all", BOUNDARIES: "0: where requests end and part",
            OPTIMUM: "no hybrid finds more"}.get(
                retention, f"each {count(int(retention)) if retention.isdigit() else ''} tokens")


def order(retention):
    return (DENSE, "", BOUNDARIES, OPTIMUM).index(retention if retention in LOOK else "")


def look(retention):
    return LOOK.get(retention, SEGMENTS_LOOK)


def tokens(result):
    return result["capacity_blocks"] * result["block_size"] / result["groups"]


def rate(result):
    return 100 * result.value("hit_rate_tokens")


def settings(results):
    """source -> (model, hits) -> results"""
    return {source: {(model, hits): found for model, rows in groups(cases, "model").items()
                     for hits, found in groups(rows, "hits").items()}
            for source, cases in groups(results, "source").items()}


def draw(results, width):
    narrow = width < 500
    sources = settings(results)
    retentions = sorted(groups(results, "retention"), key=lambda r: (order(r), r))
    entries = [(name(r), look(r)) for r in retentions]
    columns = 1 if narrow else min(3, max(map(len, sources.values())))
    panel_width, panel, above, below = width // columns - 48, 200, 48, 66
    key = d.key_height(entries, width - 48)
    lines = {source: -(-len(cases) // columns) for source, cases in sources.items()}
    height = sum(24 + n * (above + panel + below) for n in lines.values())
    figure = d.new_figure(width, key + height)
    d.draw_key(figure, entries, 44, 4, width - 48)
    top = key
    for source, cases in sources.items():
        head = d.place(figure, 4, top, width - 8, 24)
        head.set_axis_off()
        head.annotate(d.shorten(source, 48), (0, 0), xycoords="axes fraction", color=d.INK,
                      weight="bold", va="bottom")
        highest = max(1, *(rate(r) for rows in cases.values() for r in rows)) * 1.08
        for index, (case, rows) in enumerate(cases.items()):
            axes = d.place(figure, 40 + index % columns * (panel_width + 48),
                           top + 24 + above + index // columns * (above + panel + below),
                           panel_width, panel)
            draw_panel(axes, case, rows, highest)
        top += 24 + lines[source] * (above + panel + below)
    return figure


def draw_panel(axes, case, results, highest):
    model, hits = case
    finite = [r for r in results if not is_infinite(r)]
    by_retention = groups(finite, "retention")
    for retention in sorted(by_retention, key=order):  # the last is the smallest and on top
        colour, dash, marker = look(retention)
        rows = sorted(by_retention[retention], key=tokens)
        axes.plot([tokens(r) for r in rows], [rate(r) for r in rows], color=colour, linestyle=dash,
                  marker=marker, markersize=7 - 1.5 * order(retention), zorder=3,
                  linewidth=1 if retention == OPTIMUM else 1.7)
    rate_axes(axes, list(map(tokens, finite)), d.powers, highest, 5)
    d.title(axes, d.shorten(model, 16) + (", inside blocks" if hits == INSIDE else ""),
            "prompt tokens found (%)")
    d.x_title(axes, "pool size (tokens), log scale")
    write_kept(axes, [r for r in results if is_infinite(r) and "kept_blocks" in r.metrics])


def write_kept(axes, results):
    """Under the panel: the blocks that each keeps where there is room for all."""
    rows = sorted(results, key=lambda r: order(r["retention"]))
    texts = [("blocks kept:", d.SOFT)] * bool(rows) + [
        (short(float(f"{r.value('kept_blocks'):.3g}")), look(r["retention"])[0]) for r in rows]
    for place, (text, colour) in enumerate(texts[:4]):
        d.write(axes, text, ((0, 0.41, 0.62, 0.83)[place], 0), (0, -45), colour, on="axes",
                va="center")


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
