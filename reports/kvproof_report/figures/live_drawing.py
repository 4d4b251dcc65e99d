# SPDX-License-Identifier: Apache-2.0
"""Draws memory over time: a panel per source, a line per storage, external fragmentation below."""

from statistics import median

from kvproof_report.common.experiments import STORAGES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, short
from kvproof_report.draw.plot import groups

MOST_POINTS = 400  # of one line; more cannot be seen and only make the page heavy


def panels(results):
    """source -> storage (in the order of STORAGES) -> results over time."""
    return {source: {storage: sorted(lines[storage], key=lambda r: r["seconds"])
                     for storage in STORAGES if storage in (lines := groups(rows, "storage"))}
            for source, rows in groups(results, "source").items()}


def draw(results, width):
    narrow = width < 500
    sources = panels(results)
    right = 16 if narrow else 178
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


def extent(lines):
    values = [r.value("reserved_tokens") for rows in lines.values() for r in rows]
    return max([1] + values)


def is_log(lines):
    """The axis is logarithmic if the policies are too far apart to be seen together."""
    peaks = [max(r.value("reserved_tokens") for r in rows) for rows in lines.values()]
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
    most = extent(lines)
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
    axes.xaxis.get_major_locator().set_params(nbins=7)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / unit:g}")
    step = next((s for s in (1, 2, 5, 10, 15, 20, 30, 60, 120, 240, 480, 1440)
                 if last / unit / s <= 7), last / unit / 7)
    d.ticks(axes.xaxis, [step * unit * i for i in range(int(last / unit / step) + 1)],
            lambda v: count(v / unit))
    d.x_title(axes, f"{name} since the first request")
