# SPDX-License-Identifier: Apache-2.0
"""What a gate found: the change of each measure of each workload beside its threshold."""

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import digits
from kvproof_report.draw.plot import Plot, groups, plain_table

LOOKS = {"worse": (d.VERMILLION, "", "s"), "better": (d.GREEN, "", "^"), "same": (d.GREY, "", "o"),
         "cannot_tell": (d.AMBER, "", "D")}
MOST = 30  # [%] a larger change stands at the edge, with its number
LINE, HEAD = 17, 24  # [px]


def measures(results):
    """workload -> its counts, then its time"""
    return groups(results, "workload")


def name_of(result):
    return result.get("measure") or "time, median of pairs"


def change_text(percent):
    """The change in per cent, or as a factor if it is more than tenfold."""
    return f"\u00d7{digits(1 + percent / 100)}" if percent >= 1000 else f"{percent:+.0f} %"


def draw(results, width):
    narrow = width < 500
    left = 165 if narrow else 190
    lines = measures(results)
    height = sum(HEAD + LINE * len(rows) for rows in lines.values())
    figure = d.new_figure(width, 30 + height + 46 + 44)
    axes = d.place(figure, left, 30, width - left - 58, height)
    axes.set_ylim(height, 0)
    reach = min(MOST, max([6] + [1.25 * abs(r.value("change_percent")) for r in results]))
    axes.set_xlim(-reach, reach)
    axes.axvline(0, color=d.SOFT, linewidth=0.8)
    y = 0
    for workload, rows in lines.items():
        d.write(axes, workload, (0, y + HEAD - 8), (-left + 6, 0), on="row", weight="bold",
                va="baseline")
        y += HEAD
        for result in rows:
            draw_line(axes, result, y + LINE / 2, reach, left)
            y += LINE
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)
    axes.tick_params(left=False, labelleft=False)
    axes.spines["left"].set_visible(False)
    d.x_title(axes, "change [%]" if narrow else "change against the base [%]; band: threshold")
    d.draw_key(figure, [(words(name), look) for name, look in LOOKS.items()], 20,
               30 + height + 46, width - 20)
    return figure


def draw_line(axes, result, y, reach, left):
    metric = result.metrics["change_percent"]
    threshold = min(result.value("threshold_percent"), reach)
    colour, _, marker = LOOKS.get(result["verdict"], LOOKS["same"])
    axes.fill_betweenx([y - 6, y + 6], -threshold, threshold, color=d.GRID, linewidth=0, zorder=1)
    if metric.has_spread:
        axes.plot([max(-reach, metric.low), min(reach, metric.high)], [y, y], color=colour,
                  linewidth=1.2, zorder=3)
    at = max(-reach, min(reach, metric.value))
    axes.plot([at], [y], color=colour, marker=marker, linestyle="", zorder=4, clip_on=False)
    d.write(axes, d.shorten(name_of(result), 24), (0, y), (-left + 14, 0), d.SOFT, on="row")
    if metric.value != at:
        d.write(axes, change_text(metric.value), (at, y), (8 if at > 0 else -8, 0), colour,
                va="center", ha="left" if at > 0 else "right", annotation_clip=False)


def finding(results):
    moved = {verdict: sorted({r["workload"] for r in results if r["verdict"] == verdict})
             for verdict in ("worse", "better")}
    whole = len(measures(results))
    if moved["worse"]:
        worst = max((r for r in results if r["verdict"] == "worse"),
                    key=lambda r: abs(r.value("change_percent")))
        return (f"Worse in {len(moved['worse'])} of {whole} workloads; most of all "
                f"{name_of(worst)} of {worst['workload']}, "
                f"{change_text(worst.value('change_percent'))}")
    if moved["better"]:
        return f"Better in {len(moved['better'])} of {whole} workloads, worse in none"
    return f"No measure of {whole} workloads moved beyond its threshold"


PLOT = Plot(
    "gate", "gate_measure", "kvproof gate --against=REV --json=gate.json", draw, finding,
    "Red squares lie outside their band, the threshold, on the wrong side; one of them makes its "
    "workload worse.",
    "Instructions and misses by callgrind with stated caches, allocations and bytes by counting "
    "calls; time as the ratio of two fresh processes that took turns, shown is the median with the "
    "10th and 90th percentile.",
    plain_table, sums="gate_time", optional=True, section="Allocator", place=30)
