# SPDX-License-Identifier: Apache-2.0
"""Law by law: how often it was evaluated on each allocator, run and stream, and the verdict."""

import os

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, short
from kvproof_report.draw.plot import Plot, Table, groups
from kvproof_report.figures.engines import many

STEP = 20  # [px] from one line to the next
KINDS = {"check_law": "of an allocator's state", "live_law": "of a whole engine's run",
         "events_law": "of a stream of cache events"}
COUNTS = ("evaluated", "suspended", "exempted", "faults", "known", "new")
LOOKS = [look for look in d.SERIES_LOOK if look[0] != d.AMBER]  # which is what is known


def is_broken(result):
    return verdict(result) == "broken"


def is_vacuous(result):
    """Whether the law was promised and never evaluated."""
    return verdict(result) == "cannot_tell"


def is_bad(result):
    return is_broken(result) or is_vacuous(result)


def number(row, name):
    """0 where the verb does not count it; all findings of a run in a file are new."""
    if name == "new" and name not in row.metrics:
        name = "findings"
    return row.value(name) if name in row.metrics else 0


def verdict(row):
    """A campaign of runs has numbers alone."""
    of_numbers = ("broken" if number(row, "new") else "known" if number(row, "known") else
                  "holds" if number(row, "evaluated") else "not_evaluated")
    return row.get("verdict") or of_numbers


def whose(row):
    """The allocator, the engine of a campaign, or the file of a run."""
    name = row.get("subject") or row.get("engine") or os.path.basename(str(row.get("file") or ""))
    return str(name or ("events" if row.experiment == "events_law" else "a run")).replace(
        "vllm", "vLLM")


def kinds_of(results):
    """The kind of laws -> law -> results, one for each that was judged."""
    return {title: groups([r for r in results if r.experiment == name], "law")
            for name, title in KINDS.items() if any(r.experiment == name for r in results)}


def draw(results, width):
    """Each kind of laws opens with a line of its name."""
    narrow, kinds = width < 500, kinds_of(results)
    rows = [row for laws in kinds.values() for of in laws.values() for row in of]
    looks = dict(zip(dict.fromkeys(map(whose, rows)), LOOKS * len(rows)))
    key = [(d.shorten(name), (colour, "None", marker)) for name, (colour, _, marker) in
           looks.items()]
    for name, colour in (("known finding", d.AMBER), ("broken, or vacuous", d.RED)):
        if any(colour_of(row, "") == colour for row in rows):
            key.append((name, (colour, "None", "s")))
    left, right = (166, 52) if narrow else (218, 60)
    top = d.key_height(key, width - left - 8) + 6
    height = STEP * sum(1 + len(laws) for laws in kinds.values())
    figure = d.new_figure(width, top + height + 48)
    d.draw_key(figure, key, left, 0, width - left - 8)
    axes = d.place(figure, left, top, width - left - right, height)
    set_scale(axes, [number(row, "evaluated") for row in rows], 4 if narrow else 8)
    axes.set_ylim(height / STEP - 0.5, -0.5)
    y = 0
    for kind, laws in kinds.items():
        d.write(axes, f"Laws {kind}", (0, y), (-(158 if narrow else 206), 0), on="row",
                weight="bold")
        if any(number(row, "faults") for of in laws.values() for row in of):
            d.write(axes, "faults", (1, y), (right - 2, 0), d.SOFT, on="row", ha="right")
        for y, of in enumerate(laws.values(), y + 1):
            draw_law(axes, y, of, looks, narrow, right)
        y += 1
    d.row_axis(axes)
    d.x_title(axes, "times evaluated, log scale")
    return figure


def set_scale(axes, values, most_marks):
    """The axis begins at 0 only if a law was never evaluated."""
    least, most = min(values), max(1, *values)
    if least > 0:
        axes.set_xscale("log")
        axes.set_xlim(least / 2, most * 2)
        marks = d.log_marks(least / 2, most * 2, most_marks)
    else:
        axes.set_xscale("symlog", linthresh=1, linscale=0.5)
        axes.set_xlim(0, most * 2)
        marks = [0] + d.powers(1, most * 2)
    d.ticks(axes.xaxis, d.thin(marks, most_marks), short)


def colour_of(row, otherwise):
    return d.RED if is_bad(row) else d.AMBER if verdict(row) == "known" else otherwise


def draw_law(axes, y, rows, looks, narrow, right):
    """A law that was never evaluated is grey, and its line dotted."""
    silent = not any(number(row, "evaluated") for row in rows)
    colour = d.RED if any(map(is_bad, rows)) else d.GREY if silent else d.INK
    axes.axhline(y, color=d.GREY if silent else d.GRID, linewidth=0.8, zorder=0,
                 linestyle=d.DOTTED if silent else "-")
    texts = [(-(158 if narrow else 206), rows[0]["law"], {"weight": "bold"})]
    if rows[0].experiment != "events_law":  # its id is its name
        texts.append((-(130 if narrow else 176), d.shorten(rows[0]["name"], 19 if narrow else 28),
                      {}))
    for shift, text, style in texts:
        d.write(axes, text, (0, y), (shift, 0), colour, on="row", size=11, **style)
    faults = sum(number(row, "faults") for row in rows)
    if faults:
        d.write(axes, count(faults), (1, y), (right - 2, 0), on="row", ha="right", size=11)
    order = list(dict.fromkeys(map(whose, rows)))
    for row in rows:
        own, _, marker = looks[whose(row)]
        # They stand a little apart, so that equal counts do not hide each other.
        place = y + 0.6 * (order.index(whose(row)) + 0.5) / len(order) - 0.3
        own = colour_of(row, own)
        axes.plot([number(row, "evaluated")], [place], color=own, marker=marker,
                  markersize=8 if is_bad(row) else 5, markeredgewidth=1.3,
                  markerfacecolor=own if verdict(row) in ("holds", "known") or is_bad(row)
                  else d.PAPER, clip_on=False, zorder=4 if is_bad(row) else 3)


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    texts = {"check_law": of_states, "live_law": of_runs, "events_law": of_streams}
    return "; ".join(texts[name](rows, results) for name in texts
                     if (rows := [r for r in results if r.experiment == name]))


def of_states(rows, _):
    laws, subjects = groups(rows, "law"), groups(rows, "subject")
    bad = [r for r in rows if is_bad(r)]
    if bad:
        named = "; ".join(f"{r['law']} of {r['subject']} ({words(r['verdict'])})" for r in bad[:5])
        return f"{len(bad)} of {len(rows)} verdicts are not what they should be: {named}"
    asked = [r for r in rows if verdict(r) == "holds"]
    if not asked:
        return f"{len(laws)} laws, and none was evaluated"
    least = min(asked, key=lambda r: r.value("evaluated"))
    whom = next(iter(subjects)) if len(subjects) == 1 else f"{len(subjects)} subjects"
    return (f"{len(groups(asked, 'law'))} laws were evaluated on {whom} "
            f"{count(sum(r.value('evaluated') for r in asked))} times and none was broken; the one "
            f"evaluated least, {least['law']} ({least['name']}) of {least['subject']}, "
            f"{count(least.value('evaluated'))} times")


def of_runs(rows, results):
    sums = {whose(r): r for r in results if r.experiment == "live_run"}
    engines = {}
    for row in rows:
        engines.setdefault(whose(row), []).append(row)
    return "; ".join(of_engine(name, laws, sums.get(name)) for name, laws in engines.items())


def of_engine(name, laws, run):
    """What one campaign found; without its sums, only what the laws say."""
    text = name + ("'s own scheduler: " if laws[0].get("engine") else ": ")
    new = [law["law"] for law in laws if is_broken(law)]
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


def of_streams(rows, _):
    broken = [f"{row['law']} ({words(verdict(row))})" for row in rows
              if verdict(row) in ("broken", "known")]
    asked = sum(number(row, "evaluated") > 0 for row in rows)
    return (f"{count(asked)} of {many(len(rows), 'law')} of a stream of events evaluated, "
            + (f"broken: {', '.join(broken)}" if broken else "none broken"))


def table(results):
    """What is broken comes first: the page shows few rows."""
    rows = sorted((r for r in results if r.experiment in KINDS), key=lambda r: not is_bad(r))
    names = [name for name in COUNTS if any(name in r.metrics for r in rows)]
    return Table(
        [(name, False) for name in ("law", "name", "judged", "verdict")] +
        [(name, True) for name in names],
        [[(text,) * 2 for text in (row["law"], row["name"], whose(row), ": ".join(filter(
            None, (words(verdict(row)), row.get("reason")))))] +
         [(count(number(row, name)), number(row, name)) for name in names] for row in rows])


PLOT = Plot(
    "laws", "check_law", "kvproof check --json=check.json", draw, finding,
    "A law that was never evaluated proves nothing: every filled mark is a law that holds and was "
    "evaluated so often. Hollow: not demanded, with the reason in the table. Amber is what is "
    "known, red is broken, or promised and never evaluated.",
    "An allocator is judged after each of many random operations on every configuration that it "
    "can run; suspended are the times at which an operation set the law aside. Runs are those of "
    "the engine's own scheduler on random requests and failures, or of a file; faults are seeded "
    "into a copy of the engine, and count for the law that detected them first.",
    table, also=("live_law", "events_law"), sums="live_run", optional=True, section="Correctness",
    place=20)
