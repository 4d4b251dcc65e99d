# SPDX-License-Identifier: Apache-2.0
"""Memory of one request as it grows: one buffer of the maximum length against blocks."""

from dataclasses import replace

from kvproof_report.common.experiments import STORAGES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis, Series
from kvproof_report.draw.memory import Area, Memory
from kvproof_report.draw.numbers import bytes_text, count
from kvproof_report.draw.plot import Plot, lines_of, plain_table
from kvproof_report.draw.sheet import Beside, Key, drawn

GB, MB = 1e9, 1e6


@drawn
def draw(results):
    lines = lines_of(results, "storage", "tokens")
    looks = {storage: (*d.STORAGE_LOOK[storage][:2], "") for storage in lines}
    series = [Series("", looks[storage], held(rows, GB)) for storage, rows in lines.items()]
    last = max(r["tokens"] for r in results) or 1
    whole = Memory(
        "", Axis("tokens of the request", span=(0, last), text=count,
                 marks=range(0, last + 1, max(1, last // 4))),
        Axis("KV memory allocated (GB)", span=[0]), series, tall=250,
        note="pale: reserved and not used" * ("contiguous_max_length" in lines),
        areas=[waste(rows, GB) for rows in [lines.get("contiguous_max_length")] if rows])
    block = lines["paged"][0]["block_size"] if "paged" in lines else 0
    near = [r for r in lines.get("paged", []) if r["tokens"] <= 4 * block]
    # Samples that are too coarse show no steps.
    return [Key([(name_of(storage, rows[0]), looks[storage]) for storage, rows in lines.items()],
                left=4),
            Beside([whole, *([first_blocks(near, block)] if len(near) >= 8 else [])], 320)]


def held(rows, unit):
    return [(r["tokens"], r.value("allocated_bytes") / unit) for r in rows]


def waste(rows, unit):
    """What is held beyond the tokens."""
    return Area([(r["tokens"], r.value("used_bytes") / unit, r.value("allocated_bytes") / unit)
                 for r in rows], d.STORAGE_LOOK[rows[0]["storage"]][0], 0.12)


def name_of(storage, row):
    if storage == "contiguous_max_length":
        return (f"contiguous, max length {count(row['max_length'])}: "
                f"{bytes_text(row.value('allocated_bytes'))} at once")
    if storage == "paged":
        over = (row["block_size"] - 1) * row["bytes_per_token"]
        return f"paged, blocks of {row['block_size']}: at most {bytes_text(over)} over"
    return STORAGES[storage]


def first_blocks(rows, block):
    """The first few blocks again, large enough to see the steps."""
    area = waste(rows, MB)
    stairs = [spot for (start, used, _), (end, more, y) in zip(area.bounds, area.bounds[1:])
              for spot in ((start, used, y), (end, more, y))]
    return Memory("", Axis("tokens of the request", span=(0, 4 * block), text=count,
                           marks=range(0, 4 * block + 1, block)),
                  Axis("the first four blocks (MB)", span=[0]),
                  [Series("", (d.BLUE, d.SOLID, ""), [(x, y) for x, _, y in stairs]),
                   Series("", (d.INK, d.SOLID, ""), [(x, used) for x, used, _ in area.bounds], 1)],
                  corner=[("allocated", d.BLUE), ("filled with tokens", d.INK)], tall=250,
                  areas=[replace(area, bounds=stairs)])


def finding(results):
    lines = lines_of(results, "storage", "tokens")
    if not {"contiguous_max_length", "paged"} <= set(lines):
        return "KV memory of one request against its tokens"
    contiguous = lines["contiguous_max_length"][0]
    paged = lines["paged"]
    worst = max(paged, key=lambda r: r.value("allocated_bytes") - r.value("used_bytes"))
    waste = worst.value("allocated_bytes") - worst.value("used_bytes")
    tokens = waste / worst["bytes_per_token"]
    return (f"One request holds {bytes_text(contiguous.value('allocated_bytes'))} from its first "
            f"token when it is contiguous; paged, never more than {bytes_text(waste)} "
            f"({count(tokens)} tokens) beyond what it has produced")


def table(results):
    """The samples nearest to the powers of two, and the last one."""
    sampled = sorted({r["tokens"] for r in results})
    kept = {min(sampled, key=lambda t: abs(t - 2 ** e)) for e in range(24)
            if 2 ** e <= sampled[-1]} | {sampled[-1]}
    rows = sorted((r for r in results if r["tokens"] in kept),
                  key=lambda r: (r["tokens"], r["storage"]))
    return plain_table(rows, ["tokens", "storage"], ["used_bytes", "allocated_bytes"])


PLOT = Plot(
    "memory-of-one-request", "memory_of_one_request",
    "kvproof-study memory_of_one_request", draw, finding,
    "The distance between a line and the diagonal is memory that holds no token: the whole "
    "shaded area for the contiguous buffer, one step of the staircase for the blocks.",
    "Counted, not timed: each storage takes the request token by token and reports what it "
    "has allocated.", table, section="Memory", place=10)
