# SPDX-License-Identifier: Apache-2.0
"""The kill matrix: which law detects which bugs, after how many operations, how short a trace."""

import re
import statistics
from collections import Counter
from dataclasses import replace
from itertools import accumulate
from math import sqrt

from kvproof_report.common.experiments import FATES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row, exact
from kvproof_report.draw.grid import Cell, Grid, Line
from kvproof_report.draw.numbers import count, digits, percent, time_text
from kvproof_report.draw.plot import Plot, Table, header
from kvproof_report.draw.sheet import Beside, Key, Words, drawn

LONGEST_TRACE = 25  # [operations] the target: no shrunk trace is longer
MOST_NAMES = 60  # of survivors
BESIDE = (d.SOFT, "None", ".")
KEY = [("expected law first", (d.BLUE, "None", "s")), ("another law first", (d.AMBER, "None", "s")),
       ("broken as well", BESIDE), ("survived", (d.RED, "None", "s"))]
COLOURS = {fate: d.AMBER for fate in FATES} | {"expected": d.BLUE, "survived": d.RED}


def mutants_of(results):
    return [r for r in results if r.experiment == "mutant"]


def survivors(mutants):
    return [m for m in mutants if m["fate"] == "survived"]


def natural(name):
    """A sort key that puts A2 before A10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part)
            for part in re.findall(r"\d+|\D+", name)]


def law_order(law):
    """A sort key that puts the laws I1 ... before the others."""
    return (not law.startswith("I"), natural(law))


def laws_of(mutant):
    return [law for law in mutant["laws"].split() if law != "-"]


def column_of(mutant):
    """Each mutant counts once: for the law that it broke first, or for the expected one if it broke
    several at once; else for its fate."""
    if mutant["fate"] == "expected":
        return mutant["expected_law"]
    return [*laws_of(mutant), None][0] if mutant["fate"] == "other_law" else mutant["fate"]


# ---- drawing ------------------------------------------------------------------------------------

@drawn
def draw(results):
    mutants = mutants_of(results)
    reported, patched = families(mutants)
    parts, rows = [], [(of[0]["family"], of) for of in reported]
    if reported:
        parts = [matrix([(Line(d.shorten(of[0]["family_name"], 24), of[0]["family"]), of)
                         for of in reported])]
    if patched:
        parts += [Words("patches to the shipped sources (src)", d.INK, "bold"), matrix(
            [(Line(d.shorten(of[0]["where"].rpartition("/")[2], 24)), of) for of in patched])]
        rows.append(("src", sum(patched, [])))
    return [*parts, Key(KEY, left=0), *survived(mutants), Beside([
        dots(rows, "operations_to_kill", "operations to first kill, log", log=True),
        dots(rows, "trace_operations", "operations after shrinking", mark=LONGEST_TRACE)], 165)]


def families(mutants):
    """The mutants of each family of reported bugs, and those of each patched source."""
    reported, patched = {}, {}
    for m in mutants:
        found, name = ((reported, m["family"]) if m["where"].startswith("reference/") else
                       (patched, m["where"]))
        found.setdefault(name, []).append(m)
    return [[found[name] for name in sorted(found, key=natural)] for found in (reported, patched)]


def matrix(rows):
    """A cell counts the mutants of its law, or of a fate beyond all laws."""
    mutants = [m for _, of in rows for m in of]
    laws = {law for m in mutants for law in [m["expected_law"], *laws_of(m)]}
    names = sorted(laws, key=law_order) + [
        fate for fate in FATES if any(column_of(m) == fate for m in mutants)]
    columns = [Line(FATES.get(name, name), colour=d.RED if name == "survived" else d.INK,
                    sums=[count(sum(column_of(m) == name for m in mutants))]) for name in names]
    cells = {(y, x): cell_of(name, of) for y, (_, of) in enumerate(rows)
             for x, name in enumerate(names)}
    return Grid([replace(line, colour=d.RED if survivors(of) else d.INK, sums=[count(len(of)), *(
        count(sum(m.value(f"{oracle}_operations") > 0 for m in of))
        for oracle in ("model", "content"))]) for line, of in rows], columns,
                {spot: cell for spot, cell in cells.items() if cell},
                ("bugs", "model alone", "content alone"), ["credited"])


def cell_of(name, mutants):
    """In the colours of the fates of its mutants, each as wide as its share."""
    fates = Counter(m["fate"] for m in mutants if column_of(m) == name)
    if not fates:
        return Cell(BESIDE, 4) if any(name in laws_of(m) for m in mutants) else None
    shares = [number / fates.total() for number in fates.values()]
    return Cell(text=count(fates.total()), fills=[
        (end - share, share, COLOURS[fate])
        for end, share, fate in zip(accumulate(shares), shares, fates)])


def dots(rows, metric, unit, **axis):
    """A dot for each mutant; equal mutants share a dot with the sum of their areas."""
    def of(mutants):
        values = Counter(m.value(metric) for m in mutants
                         if m["fate"] != "survived" and m.value(metric) > 0)
        return [Dot(exact(value), d.BLUE, size=min(11, 4 * sqrt(number)))
                for value, number in values.items()]
    return Dots([Row("", of(mutants), name, texts=()) for name, mutants in rows], unit, step=17,
                **axis)


def survived(mutants):
    """The mutants that no oracle noticed, by name."""
    names = sorted((m["id"] for m in survivors(mutants)), key=natural)
    more = " and more, see the table" * (len(names) > MOST_NAMES)
    return [Words(f"Survived ({count(len(names))}): {' '.join(names[:MOST_NAMES])}{more}", d.RED,
                  "bold", left=0)] if names else []


# ---- in words -----------------------------------------------------------------------------------

def middle_trace(mutants):
    """(median, longest) of the shrunk traces, as `check` reports them; None if there are none."""
    lengths = [m.value("trace_operations") for m in mutants
               if m["fate"] != "survived" and m.value("trace_operations") > 0]
    return (statistics.median_high(lengths), max(lengths)) if lengths else None


def share_text(mutants):
    expected = sum(m["fate"] == "expected" for m in mutants)
    share = "all" if expected == len(mutants) else (
        f"{count(expected)} ({percent(expected / len(mutants))})")
    return f"{share} by the expected law"


def finding(results):
    mutants = mutants_of(results)
    killed = len(mutants) - len(survivors(mutants))
    score = (f"All {count(killed)}" if killed == len(mutants) else
             f"{count(killed)} of {count(len(mutants))}")
    text = f"{score} seeded bugs are detected"
    if killed < len(mutants):
        alive = len(mutants) - killed
        text += (f" ({percent(killed / len(mutants))}) and {count(alive)} "
                 f"survive{'s' if alive == 1 else ''}")
    text += f", {share_text(mutants)}"
    trace = middle_trace(mutants)
    if trace:
        text += (f"; the median shrunk trace has {digits_of(trace[0])} operations, the longest "
                 f"{count(trace[1])}")
    return f"{text} ({'; '.join(counted(results))})"


def counted(results):
    """Says what was seeded, and which reports the percentages leave out."""
    mutants = mutants_of(results)
    reported = sum(m["where"].startswith("reference/") for m in mutants)
    parts = [f"{count(reported)} re-made from reports"]
    for total in (r for r in results if r.experiment == "mutants"):
        parts[0] += f", {count(total.value('not_applicable'))} further reports do not apply"
        parts.append(f"all in {time_text(1e9 * total.value('seconds'))}")
    if reported < len(mutants):
        parts.insert(1, f"{count(len(mutants) - reported)} patches to the shipped sources")
    return parts


def digits_of(value):
    return count(value) if float(value).is_integer() else digits(value, 2)


def table(results):
    """Unusual mutants come first, because the page shows a limited number of rows."""
    unusual = list(FATES)[::-1]
    mutants = sorted(mutants_of(results), key=lambda m: (
        unusual.index(m["fate"]), -m.value("trace_operations"), natural(m["id"])))
    texts = ("id", "family", "family_name", "where", "configuration", "expected_law", "laws")
    numbers = ("operations_to_kill", "trace_operations", "model_operations", "content_operations")
    columns = ([("id", False), ("fate", False)] +
               [(header(name, ""), False) for name in texts[1:]] +
               [(header(name, ""), True) for name in numbers] + [("seconds to kill", True)])
    return Table(columns, [
        [(m["id"], m["id"]), (FATES[m["fate"]], unusual.index(m["fate"]))] +
        [(m[name], m[name]) for name in texts[1:]] +
        [(count(m.value(name)), m.value(name)) for name in numbers] +
        [(digits(m.value("seconds_to_kill"), 2), m.value("seconds_to_kill"))
         if "seconds_to_kill" in m.metrics else ("", "")] for m in mutants])


PLOT = Plot(
    "kill-matrix", "mutant", "kvproof selftest --mutants --json=mutants.json", draw, finding,
    "Each seeded bug counts once: for the expected law if the first violating operation broke it, "
    "else for the first law that it broke; small dots are laws that it broke as well. A law "
    "that is credited with none has caught nothing. Red is a bug that nothing detected. Below: "
    "every bug a dot, larger where several are equal; the line is the longest trace allowed.",
    "Random operations against an allocator with one source patch: the naive manager for reports "
    "about real engines, otherwise the shipped sources. The laws run without the model and "
    "without the contents; the model and the content oracle then each run alone. Traces are "
    "shrunk. Patches to engine.cpp are faults of a scheduler: the laws of a run judge random runs "
    "of the simulation, an operation is an event, and nothing is shrunk.",
    table, sums="mutants", optional=True, section="Correctness", place=10)
