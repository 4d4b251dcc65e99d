# SPDX-License-Identifier: Apache-2.0
"""Memory over time while a trace is served, each reservation policy against paged blocks: a panel
per source, a line per storage, external fragmentation below."""

from dataclasses import replace

from kvproof_report.common.experiments import STORAGES
from kvproof_report.common.result_files import Metric
from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.memory import Area, Memory, clock, over_time
from kvproof_report.draw.numbers import count, digits, percent, times
from kvproof_report.draw.plot import Number, Plot, Table, groups, label_cell, number_cell
from kvproof_report.draw.sheet import Key, drawn

MOST_POINTS = 400  # of one line; more cannot be seen and only make the page heavy


def panels(results):
    """source -> storage (in the order of STORAGES) -> results over time."""
    return {source: {storage: sorted(lines[storage], key=lambda r: r["seconds"])
                     for storage in STORAGES if storage in (lines := groups(rows, "storage"))}
            for source, rows in groups(results, "source").items()}


@drawn
def draw(results):
    sources = panels(results)
    shown = [s for s in STORAGES if any(s in lines for lines in sources.values())]
    key = [(brief(s), (*d.STORAGE_LOOK[s][:2], "")) for s in shown]
    return [Key([*key, ("tokens alive", (d.INK, d.SOLID, ""))], left=4)] + [
        part for source, lines in sources.items() for part in parts_of(source, lines)]


def brief(storage):
    return STORAGES[storage].removeprefix("contiguous, ").removesuffix(" prefix")


def parts_of(source, lines):
    """The memory, and below it the external fragmentation if there is any."""
    last = max(rows[-1]["seconds"] for rows in lines.values())
    unit, name = clock(last)
    strip = [Series("", d.STORAGE_LOOK[storage][:2] + ("",), running_mean(
        [(r["seconds"] / unit, 100 * r.value("external_fragmentation")) for r in thin(rows)
         if "external_fragmentation" in r.metrics]), 1.3)
             for storage, rows in lines.items() if "paged" not in storage]  # any free block will do
    time = over_time(last / unit, f"{name} since the first request")
    if not any(y > 0 for series in strip for _, y in series.points):
        return [memory(source, lines, time, unit)]
    return [memory(source, lines, replace(time, title=""), unit),
            Lines("", time, Axis("external fragmentation (%), running mean", marks=(0, 50, 100),
                                 span=(0, 100)), strip, tall=56)]


def memory(source, lines, time, unit):
    low = floor(lines)
    series = [Series("", d.STORAGE_LOOK[storage][:2] + ("",),
                     [(r["seconds"] / unit, max(low, r.value("reserved_tokens")))
                      for r in thin(rows)], 2 if storage == "paged" else 1.5)
              for storage, rows in sorted(lines.items(), key=lambda line: line[0] == "paged")]
    alive = [(r["seconds"] / unit, max(low, r.value("live_tokens")))
             for r in thin(lines.get("paged") or next(iter(lines.values())))]
    return Memory(d.shorten(source), time,
                  Axis("tokens of KV memory" + ", log scale" * bool(low), 10 * bool(low),
                       span=[low]),
                  [Series("", (d.INK, d.SOLID, ""), alive, 0.8), *series],
                  areas=[Area([(x, low / 2, y) for x, y in alive], d.INK, 0.10)])


def thin(rows):
    """Keeps at most MOST_POINTS points, each the highest of its stretch: no peak is lost."""
    if len(rows) <= MOST_POINTS:
        return rows
    size = len(rows) / MOST_POINTS
    stretches = [rows[int(i * size):int((i + 1) * size)] for i in range(MOST_POINTS)]
    return [max(stretch, key=lambda r: r.value("reserved_tokens")) for stretch in stretches]


def peak(rows):
    return max(r.value("reserved_tokens") for r in rows)


def floor(lines):
    """0; the lowest value shown if the policies are too far apart to be seen together on an axis
    that is not logarithmic. The first arrivals may fall below."""
    peaks = list(map(peak, lines.values()))
    positive = sorted(r.value("live_tokens") for rows in lines.values() for r in rows
                      if r.value("live_tokens") > 0)
    return 0 if max(peaks) <= 8 * max(1, min(peaks)) else (
        positive[len(positive) // 50] if positive else 1)


def running_mean(points):
    """Averages over a fifteenth of the time, because single samples vary too much."""
    reach = len(points) // 30
    windows = [points[max(0, i - reach):i + reach + 1] for i in range(len(points))]
    return [(x, sum(y for _, y in window) / len(window)) for (x, _), window in zip(points, windows)]


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
