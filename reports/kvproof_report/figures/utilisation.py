# SPDX-License-Identifier: Apache-2.0
"""Memory of a hundred requests, allocated and used, beside a published run of the same kind."""

from kvproof_report.common.experiments import STORAGES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import bytes_text, count, digits, percent, times
from kvproof_report.draw.plot import Number, Plot, plain_table

GB = 1e9

# A published run of 100 requests (min 34, mean 193, max 631 tokens) at 131,072 B/token and a max
# length of 8,192: bytes allocated and the share of them used.
PUBLISHED = {"contiguous_max_length": (107.37e9, 0.024), "paged": (2.63e9, 0.961)}
PUBLISHED_FACTOR = 40.9


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


def draw_bars(axes, rows):
    for index, storage, who, allocated, share, arena in rows:
        colour = d.STORAGE_LOOK[storage][0]
        axes.barh(index, allocated / GB, height=0.62, color=colour, alpha=0.16, linewidth=0)
        axes.barh(index, allocated / GB, height=0.62, fill=False, edgecolor=colour, linewidth=1,
                  linestyle="-" if who == "here" else (0, (3, 2)))
        axes.barh(index, allocated * share / GB, height=0.62, color=colour, linewidth=0)
        if arena > allocated * 1.005:
            axes.plot([allocated / GB, arena / GB], [index, index], color=colour, linewidth=1,
                      marker="|", markevery=[1], markersize=9)
    d.row_axis(axes)


def draw(results, width):
    narrow = width < 500
    rows = [(index, *row) for index, row in enumerate(bars(results))]
    step = 54 if narrow else 34
    most = max(row[3] for row in rows) / GB
    small = [row for row in rows if row[3] / GB < most / 10]
    below = narrow and small  # on a phone the magnified bars stand below the others, else beside
    beside = 0.7 if small and not narrow else 0  # [rows] below the last one, for the lens's axis
    rows_height = step * (len(rows) + beside)
    height = 14 + rows_height + 46 + (34 + 30 * len(small) + 40 if below else 0)
    figure = d.new_figure(width, height)
    left = 12 if narrow else 218
    axes = d.place(figure, left, 14, width - left - 16, rows_height)
    draw_bars(axes, rows)
    axes.set_xlim(0, most * 1.02)
    axes.set_ylim(len(rows) - 0.5 + beside, -0.5)
    for row in rows:
        name_bar(axes, row, most, narrow)
    d.x_title(axes, "KV memory (GB): outlined = allocated, filled = used")
    if below:
        lens = d.place(figure, left, height - 40 - 30 * len(small), width - left - 16,
                       30 * len(small))
        d.y_title(lens, "the short bars, magnified (GB)")
        magnify(lens, small)
    elif small:
        magnify(d.place(figure, 450, 14 + step * small[0][0], width - 450 - 20,
                        step * len(small)), small)
    return figure


def name_bar(axes, row, most, narrow):
    index, storage, who, allocated, share, arena = row
    name = f"{STORAGES[storage]}, {who}"
    numbers = f"{bytes_text(allocated)}, {percent(share)} used"
    if narrow:
        axes.annotate(f"{name}: {numbers}", (0, index - 0.34), va="bottom", color=d.INK)
        return
    d.write(axes, name, (0, index), (-10, 0), va="center", ha="right")
    inside = allocated / GB > most * 0.6
    end = allocated if inside else max(allocated, arena)
    d.write(axes, numbers, (end / GB, index), (-10 if inside else 10, 0), va="center",
            ha="right" if inside else "left")


def magnify(lens, rows):
    """Draws the bars that are too short to compare once more, on a scale of their own."""
    draw_bars(lens, rows)
    most = max(max(row[3], row[5]) for row in rows) / GB
    lens.set_xlim(0, most * 1.05)
    lens.set_ylim(rows[-1][0] + 0.5, rows[0][0] - 0.5)
    lens.patch.set_facecolor(d.PAPER)
    lens.patch.set_visible(True)
    d.ticks(lens.xaxis, range(int(most) + 1) if 1 <= most < 8 else [0, most],
            lambda value: f"{digits(value, 2)}\u202fGB")


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
    "Counted, not timed: all requests are alive at their final length; a thin line to the right of "
    "a bar is the arena that first fit needed for it. Published run: 100 requests ("
    "min 34, mean 193, max 631 tokens), 131,072 B per token, max length 8,192.",
    plain_table, number, section="Memory", place=30, summary=30)
