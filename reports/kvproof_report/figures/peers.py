# SPDX-License-Identifier: Apache-2.0
"""Our kernels and our allocator beside those of other engines, measured interleaved in one run: our
time over theirs for kernels, both times for allocators."""

from math import exp, log

from kvproof_report.common.kernel_cases import GROUPS, label_of
from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row, grouped
from kvproof_report.draw.numbers import digits
from kvproof_report.draw.plot import Plot, groups, plain_table
from kvproof_report.draw.sheet import Key, Words, drawn

COLOURS = (d.VERMILLION, d.BLUE, d.GREEN, d.PINK)
BY_PEER = "ours_over_peer"


def compared(results):
    return [r for r in results if BY_PEER in r.metrics]


def drawn_or_said(rows_of):
    """Draws the rows of the pairs that could be compared; where there is none, the reasons stand in
    the table."""
    @drawn
    def draw(results):
        found = compared(results)
        return rows_of(found) if found else [Words("no peer could be measured")]
    return draw


@drawn_or_said
def draw_kernels(results):
    """A row for each case: a dot for each peer, the one that comes nearest to ours first."""
    looks = dict(zip(dict.fromkeys(r["peer"] for r in results), COLOURS))
    rows = {f"{GROUPS[operation].partition(':')[0]}, {threads} thread{'s' * (threads > 1)}": [
        Row(label_of(same[0].parameters), [
            Dot(r.metrics[BY_PEER], looks[r["peer"]])
            for r in sorted(same, key=lambda r: -r.value(BY_PEER))])
        for same in groups(group, "case").values()]
        for (threads, operation), group in groups(results, "threads", "operation").items()}
    return [Key([(peer, (colour, "", "o")) for peer, colour in looks.items()]),
            Dots(grouped(rows), "our time over theirs; left of the line: faster", mark=1,
                 spread=True)]


@drawn_or_said
def draw_allocators(results):
    """A row for each operation and peer: ours, what its caller waits, and what is not binding."""
    times = {"time": (d.BLUE, False), "peer_time": (d.VERMILLION, True),
             "peer_inner_time": (d.VERMILLION, False)}
    rows = {operation: [
        Row(f"{r['peer']}, ours by {r['hash']}: {digits(1 / r.value(BY_PEER))} times",
            [Dot(r.metrics[name], colour, hollow=hollow)
             for name, (colour, hollow) in times.items() if name in r.metrics]) for r in group]
        for operation, group in groups(results, "operation").items()}
    return [Key([("ours", (d.BLUE, "", "o")), ("theirs", (d.VERMILLION, "", "o")),
                 ("theirs, inside a binding", (d.VERMILLION, "", "o"))], fill={"theirs": 0}),
            Dots(grouped(rows), "ns a block (decode step: a token), log scale", log=True)]


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
