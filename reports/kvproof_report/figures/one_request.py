# SPDX-License-Identifier: Apache-2.0
"""Memory of one request as it grows: one buffer of the maximum length against blocks."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import bytes_text, count, digits
from kvproof_report.draw.plot import Plot, lines_of, plain_table

GB, MB = 1e9, 1e6


def draw(results, width):
    narrow = width < 500
    height = 330 if narrow else 360
    figure = d.new_figure(width, height)
    axes = d.place(figure, 38, 32, width - 38 - 18, height - 32 - 46)
    lines = lines_of(results, "storage", "tokens")
    top = max(r.value("allocated_bytes") for r in results) / GB or 1
    last = max(r["tokens"] for r in results) or 1
    draw_waste(axes, lines)
    for storage, rows in lines.items():
        colour, dash, _ = d.STORAGE_LOOK[storage]
        axes.plot([r["tokens"] for r in rows], [r.value("allocated_bytes") / GB for r in rows],
                  color=colour, linestyle=dash, zorder=3)
    name_lines(axes, lines, top, last, narrow)
    axes.set_xlim(0, last)
    axes.set_ylim(0, top * 1.16)
    d.y_title(axes, "KV memory allocated (GB)")
    d.x_title(axes, "tokens of the request")
    step = max(1, last // 4)
    d.ticks(axes.xaxis, range(0, last + 1, step), count)
    if "paged" in lines:
        draw_staircase(figure, lines["paged"], narrow, height)
    return figure


def draw_waste(axes, lines):
    """Shades the memory that the contiguous buffer holds beyond the tokens."""
    rows = lines.get("contiguous_max_length")
    if rows:
        axes.fill_between([r["tokens"] for r in rows], [r.value("used_bytes") / GB for r in rows],
                          [r.value("allocated_bytes") / GB for r in rows], color=d.VERMILLION,
                          alpha=0.10, linewidth=0, zorder=1)


def name_lines(axes, lines, top, last, narrow):
    if "contiguous_max_length" in lines:
        row = lines["contiguous_max_length"][0]
        axes.annotate(f"contiguous, max length {count(row['max_length'])}: "
                      f"{bytes_text(row.value('allocated_bytes'))} at once",
                      (last * 0.01, row.value("allocated_bytes") / GB), xytext=(0, 5),
                      textcoords="offset points", color=d.VERMILLION)
        if not narrow:
            axes.annotate("reserved and not used", (last * 0.62, top * 0.89), ha="center",
                          va="center", color=d.SOFT)
    if "paged" in lines:
        row = lines["paged"][0]
        at = 0.56 if narrow else 0.60
        over = (row["block_size"] - 1) * row["bytes_per_token"]
        axes.annotate(f"paged, blocks of {row['block_size']}:" + ("\n" if narrow else " ") +
                      f"at most {bytes_text(over)} over", (last * at, top * at),
                      xytext=(10, -8), textcoords="offset points", color=d.BLUE, va="top")


def draw_staircase(figure, rows, narrow, height):
    """Draws the first few blocks again, large enough to see the steps."""
    block = rows[0]["block_size"]
    near = [r for r in rows if r["tokens"] <= 4 * block]
    if len(near) < 8:  # the samples are too coarse to show steps
        return
    left, top = (78, 104) if narrow else (120, 112)
    inset = d.place(figure, left, top, 108 if narrow else 210, 70 if narrow else 96)
    tokens = [r["tokens"] for r in near]
    used = [r.value("used_bytes") / MB for r in near]
    allocated = [r.value("allocated_bytes") / MB for r in near]
    inset.fill_between(tokens, used, allocated, step=None, color=d.BLUE, alpha=0.15, linewidth=0)
    inset.plot(tokens, allocated, color=d.BLUE, drawstyle="steps-pre", linewidth=1.5)
    inset.plot(tokens, used, color=d.INK, linewidth=1)
    inset.set_xlim(0, 4 * block)
    inset.set_ylim(0, max(allocated) * 1.05 or 1)
    d.ticks(inset.xaxis, range(0, 4 * block + 1, block), count)
    per_block = near[-1].value("allocated_bytes") / max(1, -(-near[-1]["tokens"] // block)) / MB
    d.ticks(inset.yaxis, [0, 2 * per_block, 4 * per_block], lambda v: digits(v, 2))
    d.y_title(inset, "first blocks (MB)" if narrow else "the first four blocks (MB)")


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
