# SPDX-License-Identifier: Apache-2.0
"""What one request of each model preset takes, by its length: linear, capped, or flat."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.numbers import bytes_text, count, digits
from kvproof_report.draw.plot import Plot, lines_of, plain_table
from kvproof_report.draw.sheet import drawn

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


@drawn
def draw(results):
    lines = ranked(results)
    looks = looks_of(lines)
    series = [part for model, rows in reversed(lines.items())  # dashed lines lie over solid ones
              for part in parts_of(d.shorten(model, 22), rows, looks[model])]
    kinds = dict.fromkeys(rows[0]["cache"] for rows in lines.values())
    return [Lines("", Axis("tokens of the request, log scale", 10, pad=1),
                  Axis("cache of one request, log scale", 10, lambda value: bytes_text(value, 1),
                       pad=1.6), series, tall=320,
                  corner=[(d.shorten(kind, 20), COLOURS.get(kind, d.INK))
                          for kind in list(kinds)[:8]])]


def parts_of(name, rows, look):
    """The line is thin beyond the context of the model, with a dot where the context ends."""
    points = [(r["tokens"], r.value("allocated_bytes")) for r in rows]
    within = sum(r["tokens"] <= r["context_tokens"] for r in rows) or 1
    parts = [Series("", look, points[:within]), Series(name, look, points[within - 1:], 0.9)]
    if within < len(points):
        parts.append(Series("", (look[0], "", "o"), points[within - 1:within]))
    return parts


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
