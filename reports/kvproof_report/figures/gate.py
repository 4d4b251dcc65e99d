# SPDX-License-Identifier: Apache-2.0
"""What a gate found: the change of each measure of each workload beside its threshold."""

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row, grouped
from kvproof_report.draw.numbers import digits
from kvproof_report.draw.plot import Plot, groups, plain_table
from kvproof_report.draw.sheet import Key, drawn

LOOKS = {"worse": (d.VERMILLION, "", "s"), "better": (d.GREEN, "", "^"), "same": (d.GREY, "", "o"),
         "cannot_tell": (d.AMBER, "", "D")}
MOST = 30  # [%] a larger change stands at the edge, with its number
def measures(results):
    """workload -> its counts, then its time"""
    return groups(results, "workload")


def name_of(result):
    return result.get("measure") or "time, median of pairs"


def change_text(percent):
    """The change in per cent, or as a factor if it is more than tenfold."""
    return f"\u00d7{digits(1 + percent / 100)}" if percent >= 1000 else f"{percent:+.0f} %"


@drawn
def draw(results):
    reach = min(MOST, max([6] + [1.25 * abs(r.value("change_percent")) for r in results]))
    rows = {workload: [row_of(result, reach) for result in found]
            for workload, found in measures(results).items()}
    return [Dots(grouped(rows), "change against the base [%]; band: threshold", -reach, reach,
                 mark=0),
            Key([(words(name), look) for name, look in LOOKS.items()])]


def row_of(result, reach):
    metric = result.metrics["change_percent"]
    threshold = min(result.value("threshold_percent"), reach)
    colour, _, marker = LOOKS.get(result["verdict"], LOOKS["same"])
    beyond = abs(metric.value) > reach
    return Row(name_of(result), [Dot(metric, colour, marker)], colour=d.SOFT,
               texts=[(change_text(metric.value), colour)] if beyond else [],
               band=(-threshold, threshold))


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
