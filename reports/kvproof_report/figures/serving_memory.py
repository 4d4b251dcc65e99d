# SPDX-License-Identifier: Apache-2.0
"""What the memory of a serving engine holds over time, by cause, a panel for each storage."""

from kvproof_report.common.experiments import STORAGES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.lines import Axis
from kvproof_report.draw.memory import Memory, over_time, stacked
from kvproof_report.draw.numbers import count, percent
from kvproof_report.draw.plot import Plot, Table, label_cell
from kvproof_report.draw.sheet import Beside, Key, Words, drawn
from kvproof_report.figures.live import brief, panels

# (metric, its name, colour and opacity), from the bottom; None stands for the colour of the
# storage. The memory above them is free, and was enough for all requests that came.
PARTS = [
    ("tokens_in_memory", "tokens", None, 1.0),
    ("partial_tail", "partial tail", d.INK, 1.0),
    ("reserved", "reserved, not used", None, 0.3),
    ("stranded", "free, but too little or in pieces", d.RED, 0.45),
]
SHARES = Axis(marks=(0, 0.5, 1), span=(0, 1), text=lambda share: percent(share, 0))
STRETCHES = 96  # a panel averages over so many stretches of time: single steps vary too much


def share(row, name):
    """The share of the whole memory that a part takes; free memory includes stranded memory."""
    whole = sum(row.value(n) for n in ("tokens_in_memory", "partial_tail", "reserved", "free"))
    return row.value(name) / whole if whole else 0


def stretches(rows):
    """(middle of a stretch of time, results in it), without the stretches that have no result."""
    last = max(rows[-1]["seconds"], 1e-9)
    found = {}
    for row in rows:
        found.setdefault(min(STRETCHES - 1, int(row["seconds"] / last * STRETCHES)), []).append(row)
    return [((index + 0.5) / STRETCHES * last, found[index]) for index in sorted(found)]


def mean_share(rows, name):
    """The mean over time: every stretch counts alike, however many samples it has."""
    means = [sum(share(r, name) for r in inside) / len(inside) for _, inside in stretches(rows)]
    return sum(means) / len(means)


# ---- drawing ------------------------------------------------------------------------------------

@drawn
def draw(results):
    sources = panels(results)
    storages = [s for s in STORAGES if any(s in lines for lines in sources.values())]
    key = Key([(name, (colour or d.GREY, "None", "s")) for _, name, colour, _ in PARTS] +
              [("free", (d.GREY, "None", "s"))], 4,
              {"free": 0, **{name: opacity for _, name, _, opacity in PARTS}})
    return [key] + [
        part for source, lines in sources.items()
        for part in (Words(d.shorten(source, 44), d.INK, "bold"), Beside(
            [panel(storage, lines.get(storage)) for storage in storages], 165, 4))]


def panel(storage, rows):
    if not rows:
        return Memory(brief(storage), Axis(marks=(2,), span=(0, 1)), SHARES, (), tall=112,
                      corner=[("serves nothing", d.SOFT)])
    middles, inside = zip(*stretches(rows))
    last = rows[-1]["seconds"]
    if len(middles) == 1:  # a single stretch is drawn as an area, too
        middles, inside = (0, max(last, 1e-9)), inside * 2
    layers = [([sum(share(r, name) for r in some) / len(some) for some in inside],
               colour or d.STORAGE_LOOK[storage][0], opacity)
              for name, _, colour, opacity in PARTS]
    return Memory(brief(storage), over_time(last), SHARES, (), tall=112,
                  areas=stacked(middles, layers))


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    for source, lines in panels(results).items():
        if not {"contiguous_max_length", "paged"} <= set(lines):
            continue
        longest, paged = lines["contiguous_max_length"], lines["paged"]
        held, with_pages = (percent(mean_share(rows, "tokens_in_memory"), 0)
                            for rows in (longest, paged))
        return (f"Tokens fill {with_pages} of the memory with pages, whose partial tails take "
                f"{percent(mean_share(paged, 'partial_tail'))}, and {held} with max-length "
                f"buffers, where {percent(mean_share(longest, 'reserved'), 0)} is reserved and "
                f"not used ({source}, mean over time)")
    return "What memory holds while requests are served, by cause"


def table(results):
    """Means over time as shares of the memory."""
    columns = [("source", False), ("storage", False), ("samples", True)]
    columns += [(f"{name} (%)", True) for _, name, *_ in PARTS] + [("free (%)", True)]
    out = []
    for source, lines in panels(results).items():
        for storage, rows in lines.items():
            means = [mean_share(rows, name) for name, *_ in PARTS]
            means.append(mean_share(rows, "free") - mean_share(rows, "stranded"))
            out.append([label_cell(source), label_cell(storage), (count(len(rows)), len(rows)),
                        *((f"{100 * m:.1f}", m) for m in means)])
    return Table(columns, out)


PLOT = Plot(
    "serving-memory", "serving_over_time", "kvproof-study serving", draw, finding,
    "A panel in its full colour holds tokens and nothing else. Pale is taken by a request that "
    "does not use it yet, or never will; red is free while somebody waits whom it cannot hold, "
    "because it is too little or not in one piece.",
    "Simulated with the runs above: the memory after single steps, as a mean over stretches of "
    "time, each panel on its own time. A token in a shared block counts once.",
    table, section="Serving", place=20)
