# SPDX-License-Identifier: Apache-2.0
"""Laws of runs by what each detected first in an engine's scheduler, and its evaluations."""

import os

from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, short
from kvproof_report.draw.plot import Plot, Table
from kvproof_report.figures.engines import many

STEP = 20  # [px] from one line to the next
LOOKS = {
    "faults": ("seeded faults", (d.BLUE, "None", "s")),
    "known": ("runs with a known finding", (d.AMBER, "None", "s")),
    "new": ("runs with a new finding", (d.RED, "None", "s")),
}
PANELS = {"faults": ("faults",), "runs": ("known", "new")}  # side by side


def split(results):
    """(the laws by engine, the whole campaigns by the same)"""
    laws = {}
    for row in (r for r in results if r.experiment == "live_law"):
        laws.setdefault(whose(row), []).append(row)
    return laws, {whose(r): r for r in results if r.experiment == "live_run"}


def whose(row):
    """The engine of a campaign, else the file of a run."""
    return str(row.get("engine") or os.path.basename(str(row.get("file"))) or "a run")


def number(row, name):
    """0 where the verb does not count it; all findings of a run in a file are new."""
    if name == "new" and name not in row.metrics:
        name = "findings"
    return row.value(name) if name in row.metrics else 0


def engine_text(engine):
    return engine.replace("vllm", "vLLM")


def draw(results, width):
    """Each engine opens with a line of its name; the titles of the columns stand in the first."""
    engines, _ = split(results)
    narrow = width < 500
    left, right = (112, 64) if narrow else (190, 90)
    height = STEP * sum(1 + len(found) for found in engines.values())
    key = list(LOOKS.values())
    figure = d.new_figure(width, height + 10 + d.key_height(key, width))
    axes = d.canvas(figure, 0, 0, width, height)
    lines, y = [], STEP / 2  # of (law, its y)
    for engine, found in engines.items():
        d.write(axes, d.shorten(engine_text(engine), 12 if narrow else 20), (0, y), (0, 0),
                va="center", weight="bold")
        lines += [(law, y + STEP * row) for row, law in enumerate(found, 1)]
        y += STEP * (1 + len(found))
    for law, at in lines:
        draw_law(axes, law, at, left, width)
    d.write(axes, "evaluated", (width, STEP / 2), (0, 0), d.SOFT, va="center", ha="right")
    wide = (width - left - right) / len(PANELS)
    for nth, (title, names) in enumerate(PANELS.items()):
        d.write(axes, title, (left + nth * wide, STEP / 2), (0, 0), d.SOFT, va="center")
        draw_bars(axes, lines, names, left + nth * wide, wide)
    d.draw_key(figure, key, 0, height + 10, width)
    return figure


def draw_law(axes, law, y, left, width):
    """Draws the name of a law and how often it was evaluated; the line is dotted if never."""
    times = number(law, "evaluated")
    colour = d.RED if number(law, "new") else d.INK if times else d.GREY
    d.write(axes, law["law"], (0, y), (0, 0), colour, va="center", weight="bold", size=11)
    d.write(axes, d.shorten(law["name"], 11 if left < 150 else 20), (30, y), (0, 0), colour,
            va="center", size=11)
    d.write(axes, short(times) if times else "never", (width, y), (0, 0),
            d.INK if times else d.GREY, va="center", ha="right", size=11)
    axes.plot([left, width - 62], [y, y], color=d.GRID if times else d.GREY, linewidth=1,
              linestyle="-" if times else d.DOTTED, zorder=0)


def draw_bars(axes, lines, names, left, wide):
    """Draws a bar of what each law detected first, with the number of the last of these names."""
    axes.plot([left, left], [STEP, axes.get_ylim()[0]], color=d.SOFT, linewidth=0.8)
    bars = [(y, [(number(law, name), name) for name in names if number(law, name)])
            for law, y in lines]
    bars = [(y, parts, count(parts[-1][0]) + " new" * (parts[-1][1] == "new"))
            for y, parts in bars if parts]
    scale = min(((wide - 14 - 7 * len(text)) / sum(size for size, _ in parts)
                 for _, parts, text in bars), default=1)
    for y, parts, text in bars:
        end = left
        for size, name in parts:
            colour = LOOKS[name][1][0]
            axes.barh(y, max(2, scale * size), 0.6 * STEP, end, color=colour, linewidth=0)
            end += max(2, scale * size)
        d.write(axes, text, (end, y), (5, 0), colour, va="center", size=11)


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    engines, runs = split(results)
    return "; ".join(engine_finding(engine, laws, runs.get(engine))
                     for engine, laws in engines.items())


def engine_finding(engine, laws, run):
    """What one campaign found; without its sums, only what the laws say."""
    text = engine_text(engine) + ("'s own scheduler: " if laws[0].get("engine") else ": ")
    new = [law["law"] for law in laws if number(law, "new")]
    if run:
        text = (f"{many(number(run, 'steps'), 'step')} of {text}"
                f"{many(number(run, 'findings_known'), 'known finding')}, ")
    text += f"something new, detected by {', '.join(new)}" if new else "nothing new"
    by = sum(number(law, "faults") > 0 for law in laws)
    if run and number(run, "seeded"):
        text += (f"; {count(number(run, 'detected'))} of "
                 f"{many(number(run, 'seeded'), 'seeded fault')} detected, by {count(by)} of "
                 f"{many(len(laws), 'law')}")
    silent = [law["law"] for law in laws if not number(law, "evaluated")]
    return text + (f"; {', '.join(silent)} never evaluated" if silent else "")


def table(results):
    """What found something new comes first: the page shows few rows."""
    titles = {"evaluated": "evaluated", **{name: title for name, (title, _) in LOOKS.items()}}
    laws = sorted((r for r in results if r.experiment == "live_law"),
                  key=lambda r: -number(r, "new"))
    return Table(
        [(name, False) for name in ("engine", "law", "name")] + [
            (title, True) for title in titles.values()],
        [[(whose(law),) * 2] + [(law[name], law[name]) for name in ("law", "name")] +
         [(count(number(law, name)), number(law, name)) for name in titles] for law in laws])


PLOT = Plot(
    "run-laws", "live_law", "kvproof live --scheduler=vllm --json=results/live.json", draw,
    finding,
    "A fault or a run counts for the law that detected it first. A dotted line is a law that was "
    "never evaluated, which proves nothing. Red is a finding that no advisory explains.",
    "The engine's own scheduler, with its pools and connectors and a worker that computes nothing, "
    "on random requests, failures and evictions; known is what goes away when the defects that "
    "have an advisory are mended. Each fault is seeded into a copy of the engine.",
    table, sums="live_run", optional=True, section="Correctness", place=29)
