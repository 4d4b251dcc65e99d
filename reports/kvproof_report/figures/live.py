# SPDX-License-Identifier: Apache-2.0
"""Memory over time while a trace is served, each reservation policy against paged blocks: a panel
per source, a line per storage, external fragmentation below."""

from statistics import median

from kvproof_report.common.experiments import STORAGES
from kvproof_report.common.result_files import Metric
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, digits, percent, short, times
from kvproof_report.draw.plot import Number, Plot, Table, groups, label_cell, number_cell

MOST_POINTS = 400  # of one line; more cannot be seen and only make the page heavy


def panels(results):
    """source -> storage (in the order of STORAGES) -> results over time."""
    return {source: {storage: sorted(lines[storage], key=lambda r: r["seconds"])
                     for storage in STORAGES if storage in (lines := groups(rows, "storage"))}
            for source, rows in groups(results, "source").items()}


def draw(results, width):
    narrow = width < 500
    sources = panels(results)
    right = 16 if narrow else 190
    memory, gap, strip = (220, 34, 54) if narrow else (230, 34, 60)
    strips = {source: has_fragmentation(lines) for source, lines in sources.items()}
    keys = d.key_height(key_entries(sources), width) if narrow else 0
    heights = [46 + memory + (gap + strip if strips[s] else 0) + 50 for s in sources]
    figure = d.new_figure(width, sum(heights) + keys)
    if narrow:
        d.draw_key(figure, key_entries(sources), 4, 0, width - 4)
    top = keys
    for (source, lines), height in zip(sources.items(), heights):
        axes = d.place(figure, 52, top + 46, width - 52 - right, memory)
        draw_memory(axes, lines, narrow)
        d.title(axes, d.shorten(source),
                "tokens of KV memory" + (", log scale" if is_log(lines) else ""))
        last = axes
        if strips[source]:
            last = d.place(figure, 52, top + 46 + memory + gap, width - 52 - right, strip)
            draw_fragmentation(last, lines)
            d.ticks(axes.xaxis, [], str)
        time_axis(last, lines)
        axes.set_xlim(last.get_xlim())
        top += height
    return figure


def key_entries(sources):
    """On a phone there is no room beside the lines: the key stands above them."""
    shown = [s for s in STORAGES if any(s in lines for lines in sources.values())]
    names = [STORAGES[s].replace("contiguous,", "contig.,").replace(" and ", " & ") for s in shown]
    return [(name, (*d.STORAGE_LOOK[s][:2], "")) for name, s in zip(names, shown)] + [
        ("tokens alive", (d.INK, d.SOLID, ""))]


def has_fragmentation(lines):
    return any("external_fragmentation" in r.metrics and r.value("external_fragmentation") > 0
               for rows in lines.values() for r in rows)


def thin(rows):
    """Keeps at most MOST_POINTS points, each the highest of its stretch: no peak is lost."""
    if len(rows) <= MOST_POINTS:
        return rows
    size = len(rows) / MOST_POINTS
    stretches = [rows[int(i * size):int((i + 1) * size)] for i in range(MOST_POINTS)]
    return [max(stretch, key=lambda r: r.value("reserved_tokens")) for stretch in stretches]


def peak(rows):
    return max(r.value("reserved_tokens") for r in rows)


def is_log(lines):
    """The axis is logarithmic if the policies are too far apart to be seen together."""
    peaks = list(map(peak, lines.values()))
    return max(peaks) > 8 * max(1, min(peaks))


def draw_memory(axes, lines, narrow):
    for storage, rows in lines.items():
        rows = thin(rows)
        colour, dash, _ = d.STORAGE_LOOK[storage]
        axes.plot([r["seconds"] for r in rows], [r.value("reserved_tokens") for r in rows],
                  color=colour, linestyle=dash, zorder=4 if storage == "paged" else 3,
                  linewidth=2 if storage == "paged" else 1.5)
    alive = thin(lines.get("paged") or next(iter(lines.values())))
    times_s = [r["seconds"] for r in alive]
    tokens = [r.value("live_tokens") for r in alive]
    axes.fill_between(times_s, tokens, color=d.INK, alpha=0.10, linewidth=0, zorder=1)
    axes.plot(times_s, tokens, color=d.INK, linewidth=0.8, zorder=2)
    scale(axes, lines)
    if not narrow:
        name_lines(axes, lines, tokens)


def name_lines(axes, lines, alive):
    """Sets each name beside the usual height of its line, because all lines end near zero."""
    low = axes.get_ylim()[0]
    names = [(median(r.value("reserved_tokens") for r in rows), STORAGES[storage],
              *d.STORAGE_LOOK[storage][:2]) for storage, rows in lines.items()]
    names.append((median(alive), "tokens alive", d.INK, d.SOLID))
    d.side_labels(axes, [(max(height, low), *rest) for height, *rest in names])


def scale(axes, lines):
    most = max(1, *map(peak, lines.values()))
    if not is_log(lines):
        axes.set_ylim(0, most * 1.05)
        axes.yaxis.set_major_formatter(lambda value, _: short(value))
        axes.yaxis.get_major_locator().set_params(nbins=5)
        return
    axes.set_yscale("log")
    positive = sorted(r.value("live_tokens") for rows in lines.values() for r in rows
                      if r.value("live_tokens") > 0)
    low = positive[len(positive) // 50] if positive else 1  # the first arrivals may fall below
    axes.set_ylim(low / 1.5, most * 1.5)
    d.ticks(axes.yaxis, d.log_marks(low / 1.5, most * 1.5), short)


def draw_fragmentation(axes, lines):
    for storage, rows in lines.items():
        if "paged" in storage:  # any free block will do
            continue
        rows = [r for r in thin(rows) if "external_fragmentation" in r.metrics]
        colour, dash, _ = d.STORAGE_LOOK[storage]
        shares = running_mean([100 * r.value("external_fragmentation") for r in rows])
        axes.plot([r["seconds"] for r in rows], shares, color=colour, linestyle=dash, linewidth=1.3)
    axes.set_ylim(0, 100)
    d.ticks(axes.yaxis, [0, 50, 100], lambda v: f"{v:g}")
    d.y_title(axes, "external fragmentation (%), running mean")


def running_mean(values):
    """Averages over a fifteenth of the time, because single samples vary too much."""
    reach = len(values) // 30
    windows = [values[max(0, i - reach):i + reach + 1] for i in range(len(values))]
    return [sum(window) / len(window) for window in windows]


def time_axis(axes, lines):
    last = max(rows[-1]["seconds"] for rows in lines.values())
    unit, name = ((60, "minutes"), (1, "seconds"))[last < 600]
    axes.set_xlim(0, max(last, 1e-9))
    step = next((s for s in (1, 2, 5, 10, 15, 20, 30, 60, 120, 240, 480, 1440)
                 if last / unit / s <= 7), last / unit / 7)
    d.ticks(axes.xaxis, [step * unit * i for i in range(int(last / unit / step) + 1)],
            lambda v: count(v / unit))
    d.x_title(axes, f"{name} since the first request")


# ---- in words -----------------------------------------------------------------------------------

def mean_ratio(rows):
    """Reserved tokens over live tokens, both summed over time."""
    alive = sum(r.value("live_tokens") for r in rows)
    return sum(r.value("reserved_tokens") for r in rows) / alive if alive else float("nan")


def worst_case(results):
    """(source, ratio of pages, of max length), of the sources that have both; or None."""
    ratios = [(source, mean_ratio(lines["paged"]), mean_ratio(lines["contiguous_max_length"]))
              for source, lines in panels(results).items()
              if {"paged", "contiguous_max_length"} <= set(lines)]
    return max(ratios, key=lambda row: row[2], default=None)


def finding(results):
    case = worst_case(results)
    if not case:
        return "Memory over time, by reservation policy"
    source, paged, longest = case
    return (f"Over {source}, max-length buffers hold {digits(longest)} times the tokens that are "
            f"alive, and paged blocks {paged:.3f} times")


def number(results):
    case = worst_case(results)
    if not case:
        return None
    source, paged, longest = case
    return Number(f"{paged:.3f}\u202f×", f"the memory of the live tokens is what paging holds, "
                  f"mean over {source}",
                  f"max-length buffers hold {times(longest)}; counted",
                  Metric(paged, "ratio", paged, paged), 1.0,
                  "Floor 1\u202f×: the tokens that are alive.", less=True)


def table(results):
    columns = [("source", False), ("storage", False), ("peak reserved (tokens)", True),
               ("reserved over alive, mean", True), ("external fragmentation, worst", True),
               ("moved (tokens)", True)]
    rows = []
    for source, lines in panels(results).items():
        for storage, points in lines.items():
            row = [label_cell(source), label_cell(storage),
                   number_cell(peak(points)),
                   (f"{mean_ratio(points):.3f}", mean_ratio(points))]
            for name, text in (("external_fragmentation", percent), ("moved_tokens", count)):
                known = [r.value(name) for r in points if name in r.metrics]
                row.append((text(max(known)), max(known)) if known else ("", ""))
            rows.append(row)
    return Table(columns, rows)


PLOT = Plot(
    "live-memory", "live_memory", "kvproof-study live_memory", draw, finding,
    "The grey area is what is alive; the distance of a line above it is memory that no "
    "request can use. Lower strip: how much of the free memory lies outside its largest run.",
    "Counted, not timed: requests arrive as in their source and grow token by token; every "
    "storage serves the same requests. A shared token counts as alive for each request that has "
    "it; a contiguous arena is the smallest in which first fit serves them.",
    table, number, "live_memory_run", section="Memory", place=50, summary=70)
