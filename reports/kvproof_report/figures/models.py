# SPDX-License-Identifier: Apache-2.0
"""What one request of each model preset takes, by its length: linear, capped, or flat."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import bytes_text, count, digits, short
from kvproof_report.draw.plot import Plot, lines_of, plain_table

# One colour per kind of cache, one dash per model of a kind.
COLOURS = {"full attention": d.BLUE, "MLA": d.PINK, "full and window": d.AMBER,
           "window": d.GREEN, "full and Mamba": d.GREY, "Mamba": d.VERMILLION}
DASHES = (d.SOLID, d.DASHED, d.DOTTED, d.DASHDOT)
TABLE_TOKENS = (1, 64, 1024, 4096, 16_384, 131_072)


def ranked(results):
    """model -> results by ascending tokens; the model that takes most memory comes first."""
    return dict(sorted(lines_of(results, "model", "tokens").items(),
                       key=lambda line: -line[1][-1].value("allocated_bytes")))


def looks_of(lines):
    """model -> (colour, dash, marker)"""
    looks, seen = {}, {}
    for model, rows in lines.items():
        kind = rows[0]["cache"]
        nth = seen[kind] = seen.get(kind, -1) + 1
        looks[model] = (COLOURS.get(kind, d.INK), DASHES[nth % len(DASHES)], "")
    return looks


def draw(results, width):
    narrow = width < 500
    lines = ranked(results)
    looks = looks_of(lines)
    panel, right = (280, 16) if narrow else (330, 150)
    names = [(d.shorten(model), looks[model]) for model in lines]
    key = d.key_height(names, width - 20) if narrow else 0
    figure = d.new_figure(width, 32 + panel + 48 + key)
    axes = d.place(figure, 58, 32, width - 58 - right, panel)
    for model, rows in reversed(lines.items()):  # dashed lines are drawn over solid ones
        draw_line(axes, rows, looks[model])
    name_kinds(axes, lines)
    log_log(axes, [r["tokens"] for r in results], [r.value("allocated_bytes") for r in results])
    d.y_title(axes, "cache of one request, log scale")
    d.x_title(axes, "tokens of the request, log scale")
    if narrow:
        d.draw_key(figure, names, 20, 32 + panel + 48, width - 20)
    else:
        d.end_labels(axes, [(rows[-1]["tokens"], rows[-1].value("allocated_bytes"),
                             d.shorten(model, 22), looks[model][0])
                            for model, rows in lines.items()])
    return figure


def draw_line(axes, rows, look):
    """The line is thin beyond the context of the model, with a dot where the context ends."""
    colour, dash, _ = look
    within = [r for r in rows if r["tokens"] <= r["context_tokens"]] or rows[:1]
    beyond = rows[len(within) - 1:]
    for part, line_width in ((within, 1.8), (beyond, 0.9)):
        axes.plot([r["tokens"] for r in part], [r.value("allocated_bytes") for r in part],
                  color=colour, linestyle=dash, linewidth=line_width, zorder=3)
    if len(beyond) > 1:
        axes.plot([within[-1]["tokens"]], [within[-1].value("allocated_bytes")], color=colour,
                  marker="o", zorder=4)


def name_kinds(axes, lines):
    """Explains the colours, in the corner that lines from the lower left leave free."""
    kinds = list(dict.fromkeys(rows[0]["cache"] for rows in lines.values()))
    for nth, kind in enumerate(kinds[:8]):
        d.write(axes, d.shorten(kind, 20), (0, 1), (10, -4 - 15 * nth), COLOURS.get(kind, d.INK),
                on="axes", va="top")


def log_log(axes, xs, ys):
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = min(ys) / 1.6, max(ys) * 1.6
    axes.set_xlim(min(xs), max(max(xs), 2 * min(xs)))
    axes.set_ylim(low, high)
    d.ticks(axes.xaxis, d.powers(min(xs), max(xs)), short)
    d.ticks(axes.yaxis, d.powers(low, high), lambda value: bytes_text(value, 1))


def finding(results):
    lines = ranked(results)
    ends = list(lines.items())
    (most, most_rows), (least, least_rows) = ends[0], ends[-1]
    most_bytes = most_rows[-1].value("allocated_bytes")
    least_bytes = least_rows[-1].value("allocated_bytes")
    if len(lines) < 2 or most_bytes == least_bytes:
        return "Cache of one request against its tokens"
    at_first = least_rows[0].value("allocated_bytes")
    return (f"One request of {count(most_rows[-1]['tokens'])} tokens takes "
            f"{bytes_text(most_bytes)} with {most} and {bytes_text(least_bytes)} with {least}, "
            f"{digits(most_bytes / least_bytes)}\u202f× less" +
            (", as much as its first token took" if at_first == least_bytes else ""))


def table(results):
    """Each model at a few lengths, the samples nearest to round numbers."""
    rows = []
    for lengths in ranked(results).values():
        kept = {min((r["tokens"] for r in lengths), key=lambda t: abs(t - wanted))
                for wanted in TABLE_TOKENS}
        rows += [r for r in lengths if r["tokens"] in kept]
    return plain_table(rows, ["model", "cache", "tokens"], ["allocated_bytes", "live_bytes"])


PLOT = Plot(
    "memory-of-models", "memory_of_models", "kvproof-study memory_of_models", draw, finding,
    "A line that keeps rising is a cache that grows with every token; a window bends it, and stops "
    "it where every layer has one; a Mamba state is there from the first token and stays. Thin, "
    "after a dot: beyond the context of the model's configuration.",
    "Computed from the published configurations (kvproof plan --list) in 16-bit elements, in whole "
    "blocks of the shared pool: layers in equal groups, pages made equal, Mamba pages padded.",
    table, section="Memory", place=20)
