# SPDX-License-Identifier: Apache-2.0
"""The same requests served from the same memory by every storage: how many run, how fast."""

import textwrap

from kvproof_report.common.experiments import STORAGES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import bytes_text, count, digits, times
from kvproof_report.draw.plot import Plot, groups, plain_table

# [bytes] of all layers, by the model of a run: 2 x layers x KV heads x head size x 2 bytes.
KV_BYTES_PER_TOKEN = {"llama-3-8b": 2 * 32 * 8 * 128 * 2}

# (title, unit, what a row shows, share of the width); the first-token time is a range.
COLUMNS = [
    ("requests at once", "mean", lambda r: r.value("running_mean"), 0.24),
    ("output", "tokens/s", lambda r: r.value("output_tokens_per_second"), 0.24),
    ("first token after", "s, p50 to p99, log scale", None, 0.32),
    ("preemptions", "count", lambda r: r.value("preemptions"), 0.2),
]
STEP = 21  # [px] from one row to the next
VALUE = 50  # [px] for a number behind its bar


def panels(results):
    """source -> results in the order of STORAGES"""
    return {source: [r for storage in STORAGES for r in rows if r["storage"] == storage]
            for source, rows in groups(results, "source").items()}


def answered(result):
    return result.value("requests") - result.value("refused")


def name_of(storage, narrow):
    if not narrow:
        return STORAGES[storage]
    return STORAGES[storage].removeprefix("contiguous, ").removesuffix(" prefix")


# ---- drawing ------------------------------------------------------------------------------------

HEAD, FOOT = 44, 16  # [px] above the rows of a panel and below them


def draw(results, width):
    narrow = width < 500
    sources = panels(results)
    lines = 2 if narrow else 1  # of panels
    notes = {source: refusals(rows, 50 if narrow else 112) for source, rows in sources.items()}
    heights = {source: 22 + lines * (HEAD + STEP * len(rows) + FOOT) + 16 * len(notes[source]) + 10
               for source, rows in sources.items()}
    figure = d.new_figure(width, sum(heights.values()))
    top = 0
    for source, rows in sources.items():
        write_lines(figure, [d.shorten(source, 44)], top, width, d.INK, "bold")
        for line in range(lines):
            columns = COLUMNS[2 * line:2 * line + 2] if narrow else COLUMNS
            draw_line(figure, columns, rows, top + 22 + line * (HEAD + STEP * len(rows) + FOOT),
                      width)
        top += heights[source]
        write_lines(figure, notes[source], top - 16 - 16 * len(notes[source]), width)
    return figure


def draw_line(figure, columns, rows, top, width):
    """Draws panels beside each other, with the names of their rows at the left."""
    narrow = width < 500
    left, gap = (102, 12) if narrow else (178, 16)
    whole = (width - left - gap * (len(columns) - 1) - 2) / sum(column[-1] for column in columns)
    for index, (title, unit, value, share) in enumerate(columns):
        size = whole * share
        axes = d.place(figure, left, top + HEAD, size, STEP * len(rows))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_axis_off()
        if value:
            draw_bars(axes, rows, value, size)
        else:
            draw_ranges(axes, rows, size)
        for text, colour, up in ((title, d.INK, 19), (unit, d.SOFT, 4)):
            d.write(axes, text, (0, 1), (0, up), colour, on="axes", va="bottom")
        if index == 0:
            name_rows(axes, rows, narrow)
        left += size + gap


def name_rows(axes, rows, narrow):
    for y, row in enumerate(rows):
        d.write(axes, name_of(row["storage"], narrow), (0, y), (-9, 0),
                d.STORAGE_LOOK[row["storage"]][0], on="row", ha="right")
        if not answered(row):
            d.write(axes, "refuses all", (0, y), (0, 0), d.SOFT, on="row")


def draw_bars(axes, rows, value, size):
    most = max([1e-9] + [value(r) for r in rows])
    axes.set_xlim(0, most * size / (size - VALUE))
    for y, row in enumerate(rows):
        if answered(row):
            axes.barh(y, value(row), height=0.62, color=d.STORAGE_LOOK[row["storage"]][0],
                      linewidth=0)
            write(axes, value(row), y, value_text(value(row)))


def draw_ranges(axes, rows, size):
    """Draws a bar from p50 to p99, with the two numbers behind it."""
    bounds = {r["storage"]: (r.value("first_token_seconds_p50"), r.value("first_token_seconds_p99"))
              for r in rows if answered(r)}
    known = [bound for pair in bounds.values() for bound in pair if bound > 0] or [1]
    low, high = min(known) / 1.2, max(known) * 1.01
    axes.set_xscale("log")
    axes.set_xlim(low, low * (high / low) ** (size / (size - 2 * VALUE)))
    for y, row in enumerate(rows):
        first, last = bounds.get(row["storage"], (0, 0))
        if not 0 < first <= last:
            continue
        axes.plot([first, last], [y, y], color=d.STORAGE_LOOK[row["storage"]][0], linewidth=9,
                  solid_capstyle="butt")
        write(axes, last, y, f"{digits(first, 2)} to {digits(last, 2)}")


def value_text(value):
    return count(value) if value >= 1000 or float(value).is_integer() else digits(value)


def write(axes, x, y, text):
    d.write(axes, text, (x, y), (5, 0), va="center")


def write_lines(figure, lines, top, width, colour=d.SOFT, weight="normal"):
    axes = d.canvas(figure, 0, top, width, 16 * max(1, len(lines)))
    for y, line in enumerate(lines):
        axes.annotate(line, (6, 16 * y + 8), va="center", color=colour, weight=weight)


def refusals(rows, columns):
    """Says below the rows which storages refused requests, as those served fewer than the rest."""
    names = {}
    for row in rows:
        if row.value("refused"):
            names.setdefault(row.value("refused"), []).append(name_of(row["storage"], True))
    if not names:
        return []
    return textwrap.wrap(
        f"Of {count(rows[0].value('requests'))} requests so many are refused, as they could not "
        "run even alone: " + "; ".join(f"{count(number)} ({', '.join(who)})"
                                       for number, who in names.items()), columns)


# ---- in words -----------------------------------------------------------------------------------

def of_storage(rows, storage):
    return next((r for r in rows if r["storage"] == storage and r.value("running_mean") > 0), None)


def memory_text(row):
    tokens = row.value("capacity_blocks") * row["block_size"]
    per_token = KV_BYTES_PER_TOKEN.get(row["model"])
    return bytes_text(tokens * per_token) if per_token else f"{count(tokens)} tokens of memory"


def finding(results):
    text, unserved = None, []
    for source, rows in panels(results).items():
        longest, paged = (of_storage(rows, s) for s in ("contiguous_max_length", "paged"))
        if paged and not longest:
            unserved.append(source)
        if not (longest and paged) or text:
            continue
        factor = paged.value("running_mean") / longest.value("running_mean")
        text = (f"The same {memory_text(paged)} serve {digits(factor)} times as many requests at "
                f"once with pages as with max-length buffers ({source}: "
                f"{digits(paged.value('running_mean'))} against "
                f"{digits(longest.value('running_mean'))})")
        shared = of_storage(rows, "paged_shared")
        if shared:
            more = shared.value("running_mean") / longest.value("running_mean")
            text += f", {times(more)} with shared prefixes"
    if text and unserved:
        text += f"; of {', '.join(unserved)}, max-length buffers serve none"
    return text or "Requests served from the same memory, by storage"


def table(results):
    return plain_table(
        [r for rows in panels(results).values() for r in rows],
        ["source", "storage"],
        ["requests", "refused", "running_mean", "output_tokens_per_second",
         "first_token_seconds_p50", "first_token_seconds_p99", "seconds_per_token_p50",
         "preemptions", "recomputed_tokens", "hit_rate_tokens", "simulated_seconds"])


PLOT = Plot(
    "serving-storages", "serving_run", "kvproof-study serving", draw, finding,
    "Requests at once are what memory limits; throughput follows them only as far as a step is not "
    "limited by its computations. Growing and copying fits as many as a known length does, and "
    "spends its time on preempted requests that are computed again.",
    "Simulated: continuous batching on the real allocators, 2,000 requests of each source, 256 "
    "clients that always ask again, steps of the length that the card's rates give (a lower bound, "
    "Llama 3 8B on an H100). Buffers have the length of the source's longest request.",
    table, section="Serving", place=10)
