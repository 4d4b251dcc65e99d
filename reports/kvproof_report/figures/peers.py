# SPDX-License-Identifier: Apache-2.0
"""Our kernels and our allocator beside those of other engines, measured interleaved in one run: our
time over theirs for kernels, both times for allocators."""

from math import exp, log

from kvproof_report.common.kernel_cases import GROUPS, label_of
from kvproof_report.draw import drawing as d
from kvproof_report.draw.dot_rows import draw_rows, height_of
from kvproof_report.draw.numbers import digits, short
from kvproof_report.draw.plot import Plot, groups, plain_table

COLOURS = (d.VERMILLION, d.BLUE, d.GREEN, d.PINK)
BY_PEER = "ours_over_peer"


def compared(results):
    return [r for r in results if BY_PEER in r.metrics]


def looks_of(results):
    """peer -> its colour"""
    return dict(zip(dict.fromkeys(r["peer"] for r in results), COLOURS))


def kernel_rows(results, looks):
    """A row for each case: a dot for each peer, the one that comes nearest to ours first."""
    rows = []
    for (threads, operation), group in groups(results, "threads", "operation").items():
        title = f"{GROUPS[operation].partition(':')[0]}, {threads} thread{'s' * (threads > 1)}"
        for case, same in groups(group, "case").items():
            same = sorted(same, key=lambda r: -r.value(BY_PEER))
            rows.append((title, label_of(same[0].parameters),
                         [(r.metrics[BY_PEER], (looks[r["peer"]], False)) for r in same]))
            title = None
    return rows


def nothing(width):
    """Where no pair could be compared the reasons stand in the table."""
    figure = d.new_figure(width, 40)
    d.write(d.canvas(figure, 0, 0, width, 40), "no peer could be measured", (8, 20), (0, 0), d.SOFT)
    return figure


def draw_kernels(results, width):
    results, looks = compared(results), looks_of(compared(results))
    if not results:
        return nothing(width)
    rows = kernel_rows(results, looks)
    key = [(peer, (colour, "", "o")) for peer, colour in looks.items()]
    keys = d.key_height(key, width - 20)
    figure = d.new_figure(width, keys + 12 + height_of(rows) + 50)
    d.draw_key(figure, key, 20, 0, width - 20)
    most = max(r.value(BY_PEER) for r in results)
    more = "" if width < 500 else "; left of the line ours is faster; line through a dot: range"
    draw_rows(figure, rows, keys + 12, width, 0, max(1.15, 1.05 * most),
              "our time over the peer's" + more)
    return figure


def allocator_rows(results, narrow):
    """A row for each operation and peer: ours, what its caller waits, and what is not binding."""
    rows = []
    for operation, group in groups(results, "operation").items():
        title = operation
        for result in group:
            name = f"{result['peer']}, {result['hash']}" if narrow else (
                f"{result['peer']}, ours by {result['hash']}: "
                f"{digits(1 / result.value(BY_PEER))} times")
            dots = [(result.metrics["time"], (d.BLUE, False)),
                    (result.metrics["peer_time"], (d.VERMILLION, True))]
            if "peer_inner_time" in result.metrics:
                dots.append((result.metrics["peer_inner_time"], (d.VERMILLION, False)))
            rows.append((title, name, dots))
            title = None
    return rows


def draw_allocators(results, width):
    rows = allocator_rows(compared(results), width < 500)
    if not rows:
        return nothing(width)
    key = [("ours", (d.BLUE, "", "o")), ("theirs (hollow)", (d.VERMILLION, "", "o")),
           ("theirs, inside a binding", (d.VERMILLION, "", "o"))]
    keys = d.key_height(key, width - 20)
    figure = d.new_figure(width, keys + 12 + height_of(rows) + 50)
    d.draw_key(figure, key, 20, 0, width - 20)
    times = [metric.value for _, _, dots in rows for metric, _ in dots]
    least, most = min(times) / 2, max(times) * 2
    axes = draw_rows(figure, rows, keys + 12, width, least, most,
                     "ns a block (decode step: a token), log scale", mark=-1)
    axes.set_xscale("log")
    d.ticks(axes.xaxis, d.log_marks(least, most, 6), short)
    return figure


# ---- in words -----------------------------------------------------------------------------------

def finding_of_kernels(results):
    found = compared(results)
    if not found:
        return "No peer could be measured beside our kernels"
    ahead = [r for r in found if r.value(BY_PEER) <= 1]
    worst = max(found, key=lambda r: r.value(BY_PEER))
    return (f"Our CPU kernels are ahead in {len(ahead)} of {len(found)} pairs of case and peer, "
            f"and take {digits(middle(found))} of the peer's time in the middle; the nearest is "
            f"{worst['peer']} at {digits(worst.value(BY_PEER))} ({worst['case']})")


def middle(results):
    """The geometric mean of the ratios."""
    return exp(sum(log(r.value(BY_PEER)) for r in results) / len(results))


def finding_of_allocators(results):
    found = compared(results)
    if not found:
        return "No peer could be measured beside our allocator"
    parts = [f"{digits(1 / max(r.value(BY_PEER) for r in rows))} times as fast as {peer}" +
             inside(rows) for peer, rows in groups(found, "peer").items()]
    return f"For who calls it, our allocator is at least {', '.join(parts)}"


def inside(rows):
    ratios = [r.value("ours_over_peer_inner") for r in rows if "ours_over_peer_inner" in r.metrics]
    return f" ({digits(1 / max(ratios))} times without its binding)" if ratios else ""


def table(results):
    return plain_table(results, ["case", "peer", *(
        name for name in ("binds", "not_comparable") if any(r.get(name) for r in results))])


PLOTS = [
    Plot("peers-kernels", "peers_kernels", "kvproof bench --peers --json=peers.json", draw_kernels,
         finding_of_kernels,
         "Each row is a case, each dot a peer; the number is of the peer that comes nearest.",
         "Interleaved in one process, on the same inputs, after each result was compared with "
         "double precision; what a peer prepares once for a batch is not timed, and of its several "
         "forms the fastest counts. A row names sequences × tokens of each; unless it says "
         "otherwise, heads of 128 elements, 32 over 8, blocks of 16 tokens in random order, bf16.",
         table, optional=True, section="Beside peers", place=10),
    Plot("peers-allocators", "peers_allocators", "kvproof bench --peers --json=peers.json",
         draw_allocators, finding_of_allocators,
         "Each row has our time, which is the number, and that of a peer; how many times ours it "
         "is stands at the left.",
         "The same requests, interleaved, each engine in a process of its own, called as its "
         "scheduler calls it: ours and OpenVINO's from C++, the others from Python; hits and "
         "blocks taken were equal.",
         table, optional=True, section="Beside peers", place=20)]
