# SPDX-License-Identifier: Apache-2.0
"""The same requests served from the same memory by every storage: how many run, how fast."""

from kvproof_report.common.experiments import STORAGES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.bars import Bar, Bars, Column, Row
from kvproof_report.draw.numbers import bytes_text, count, digits, times
from kvproof_report.draw.plot import Plot, groups, plain_table
from kvproof_report.draw.sheet import Words, drawn

# [bytes] of all layers, by the model of a run: 2 x layers x KV heads x head size x 2 bytes.
KV_BYTES_PER_TOKEN = {"llama-3-8b": 2 * 32 * 8 * 128 * 2}

# (title, unit, what a row shows); the first-token time is a range.
COLUMNS = [("requests at once", "mean", "running_mean"),
           ("output", "tokens/s", "output_tokens_per_second"),
           ("first token after", "s, p50 to p99, log", None),
           ("preemptions", "count", "preemptions")]


def panels(results):
    """source -> results in the order of STORAGES"""
    return {source: [r for storage in STORAGES for r in rows if r["storage"] == storage]
            for source, rows in groups(results, "source").items()}


def answered(result):
    return result.value("requests") - result.value("refused")


def brief(storage):
    return STORAGES[storage].removeprefix("contiguous, ").removesuffix(" prefix")


@drawn
def draw(results):
    parts = []
    for source, rows in panels(results).items():
        parts += [Words(d.shorten(source, 44), d.INK, "bold"), Bars(
            [Row(STORAGES[r["storage"]], bars_of(r), d.STORAGE_LOOK[r["storage"]][0],
                 brief(r["storage"])) for r in rows],
            [Column(title, unit, log=not metric) for title, unit, metric in COLUMNS])]
        parts += [Words(note) for note in refusals(rows)]
    return parts


def bars_of(row):
    if not answered(row):
        return [Bar([], [("refuses all", d.SOFT, "normal")])] + [None] * (len(COLUMNS) - 1)
    colour = d.STORAGE_LOOK[row["storage"]][0]
    bars = []
    for _, _, name in COLUMNS:
        first, last = (0, row.value(name)) if name else (
            row.value("first_token_seconds_p50"), row.value("first_token_seconds_p99"))
        said = value_text(last) if name else f"{digits(first, 2)} to {digits(last, 2)}"
        bars.append(Bar([(last - first, colour, 1)], [(said, d.INK, "normal")], first)
                    if name or 0 < first <= last else None)
    return bars


def value_text(value):
    return count(value) if value >= 1000 or float(value).is_integer() else digits(value)


def refusals(rows):
    """Says below the rows which storages refused requests, as those served fewer than the rest."""
    names = {}
    for row in rows:
        if row.value("refused"):
            names.setdefault(row.value("refused"), []).append(brief(row["storage"]))
    return [f"Of {count(rows[0].value('requests'))} requests so many are refused, as they could "
            "not run even alone: " + "; ".join(
                f"{count(number)} ({', '.join(who)})"
                for number, who in names.items())] if names else []


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
