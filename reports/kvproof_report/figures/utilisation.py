# SPDX-License-Identifier: Apache-2.0
"""Memory of a hundred requests, allocated and used, beside a published run of the same kind."""

from kvproof_report.common.experiments import STORAGES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.bars import Bar, Bars, Column, Row
from kvproof_report.draw.lines import Axis
from kvproof_report.draw.numbers import bytes_text, count, digits, percent, times
from kvproof_report.draw.plot import Number, Plot, plain_table
from kvproof_report.draw.sheet import drawn

GB = 1e9

# A published run of 100 requests (min 34, mean 193, max 631 tokens) at 131,072 B/token and a max
# length of 8,192: bytes allocated and the share of them used.
PUBLISHED = {"contiguous_max_length": (107.37e9, 0.024), "paged": (2.63e9, 0.961)}
PUBLISHED_FACTOR = 40.9


@drawn
def draw(results):
    found = bars(results)
    longest = max(bar[2] for bar in found)
    small = [bar for bar in found if bar[2] < longest / 10]
    parts = [Bars(list(map(row_of, found)), [Column(
        x=Axis("KV memory (GB): outlined = allocated, filled = used"))])]
    if small:  # once more, on a scale of their own
        parts.append(Bars(list(map(row_of, small)), [Column(
            "the short bars, magnified", x=Axis("KV memory (GB)"))]))
    return parts


def bars(results):
    """[(storage, source, allocated, utilisation, arena)], with the published run below ours."""
    rows = []
    for storage in STORAGES:
        for result in results:
            if result["storage"] == storage:
                arena = result.metrics.get("arena_bytes")
                rows.append((storage, "here", result.value("allocated_bytes"),
                             result.value("utilisation"), arena.value if arena else 0))
        if storage in PUBLISHED:
            rows.append((storage, "published", *PUBLISHED[storage], 0))
    return rows


def row_of(bar):
    storage, who, allocated, share, arena = bar
    colour = d.STORAGE_LOOK[storage][0]
    pieces = [(allocated * share / GB, colour, 1), (allocated * (1 - share) / GB, colour, 0.16)]
    text = (f"{bytes_text(allocated)}, {percent(share)} used", d.INK, "normal")
    return Row(f"{STORAGES[storage]}, {who}", [Bar(
        pieces, [text], outline=(colour, d.SOLID if who == "here" else d.DASHED),
        span=(allocated / GB, arena / GB) if arena > allocated * 1.005 else None)])


def of_storage(results, storage):
    return next((r for r in results if r["storage"] == storage), None)


def finding(results):
    contiguous, paged = (of_storage(results, s) for s in ("contiguous_max_length", "paged"))
    if not (contiguous and paged):
        return "Memory allocated and used by many requests at once"
    factor = contiguous.value("allocated_bytes") / paged.value("allocated_bytes")
    return (f"{count(paged['requests'])} requests use {percent(contiguous.value('utilisation'))} "
            f"of what contiguous buffers reserve and {percent(paged.value('utilisation'))} of what "
            f"paging allocates: {digits(factor)} times less memory (published: "
            f"{PUBLISHED_FACTOR} times)")


def number(results):
    contiguous, paged = (of_storage(results, s) for s in ("contiguous_max_length", "paged"))
    if not (contiguous and paged):
        return None
    factor = contiguous.value("allocated_bytes") / paged.value("allocated_bytes")
    used = paged.metrics["utilisation"]
    return Number(percent(used.value),
                  f"of the memory that {count(paged['requests'])} requests hold in pages is used",
                  f"max-length buffers: {percent(contiguous.value('utilisation'))}, "
                  f"{times(factor)} the memory; published: {percent(PUBLISHED['paged'][1])} and "
                  f"{percent(PUBLISHED['contiguous_max_length'][1])}; counted",
                  used, 1.0, "Ceiling 100\u202f%: no slot empty.")


PLOT = Plot(
    "utilisation", "utilisation", "kvproof-study utilisation", draw,
    finding,
    "A bar that is almost all outline is memory paid for and not used; compare each bar with "
    "the dashed one of the published run below it.",
    "Counted, not timed: all requests are alive at their final length; a thin line beyond the "
    "end of a bar is the arena that first fit needed for it. Published run: 100 requests ("
    "min 34, mean 193, max 631 tokens), 131,072 B per token, max length 8,192.",
    plain_table, number, section="Memory", place=30, summary=30)
