# SPDX-License-Identifier: Apache-2.0
"""Law by law: how often it was evaluated on each allocator, run and stream, and the verdict."""

import os

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row, exact
from kvproof_report.draw.numbers import count
from kvproof_report.draw.plot import Plot, Table, groups
from kvproof_report.draw.sheet import Key, drawn
from kvproof_report.figures.engines import many

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


@drawn
def draw(results):
    """Each kind of laws opens with a line of its name."""
    kinds = kinds_of(results)
    of_laws = [rows for laws in kinds.values() for rows in laws.values()]
    looks = dict(zip(dict.fromkeys(whose(row) for rows in of_laws for row in rows),
                     LOOKS * len(results)))
    key = [(d.shorten(name), (colour, "None", marker)) for name, (colour, _, marker) in
           looks.items()]
    colours = [colour_of(row, "") for rows in of_laws for row in rows]
    key += [(name, (colour, "None", "s")) for name, colour in (
        ("known finding", d.AMBER), ("broken, or vacuous", d.RED)) if colour in colours]
    has_faults = any(map(faults, of_laws))
    return [Key(key), Dots(
        [row_of(rows, looks, f"Laws {kind}" * (nth == 0)) for kind, laws in kinds.items()
         for nth, rows in enumerate(laws.values())],
        "times evaluated, log scale", log=True, cut=True,
        heads=[("faults", d.SOFT)] * has_faults)]


def faults(rows):
    return sum(number(row, "faults") for row in rows)


def colour_of(row, otherwise):
    return d.RED if is_bad(row) else d.AMBER if verdict(row) == "known" else otherwise


def row_of(rows, looks, group):
    """A law that was never evaluated is grey, and its line dotted."""
    silent = not any(number(row, "evaluated") for row in rows)
    colour = d.RED if any(map(is_bad, rows)) else d.GREY if silent else d.INK
    # The id of a law of streams is its name.
    name = "" if rows[0].experiment == "events_law" else d.shorten(rows[0]["name"], 28)
    dots = [Dot(exact(number(row, "evaluated")), colour_of(row, looks[whose(row)][0]),
                looks[whose(row)][2], size=8 if is_bad(row) else 5,
                hollow=not is_bad(row) and verdict(row) not in ("holds", "known"))
            for row in rows]
    return Row(name, dots, rows[0]["law"], group,
               [(count(faults(rows)), d.INK)] if faults(rows) else [], colour=colour, faint=silent)


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
