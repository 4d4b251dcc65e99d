# SPDX-License-Identifier: Apache-2.0
"""The kill matrix: which law detects which bugs, after how many operations, how short a trace."""

from kvproof_report.common.experiments import FATES
from kvproof_report.draw.numbers import count, digits, percent, time_text
from kvproof_report.draw.plot import Plot, Table, header
from kvproof_report.figures.kill_counts import middle_trace, mutants_of, natural, survivors
from kvproof_report.figures.kill_drawing import draw


def by_law(mutants):
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
    text += f", {by_law(mutants)}"
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
    "without a bar has caught nothing. Red is a bug that nothing detected. Right: every bug a dot, "
    "larger where several are equal; the dashed line is the longest trace allowed.",
    "Random operations against an allocator with one source patch: the naive manager for reports "
    "about real engines, otherwise the shipped sources. The laws run without the model and "
    "without the contents; the model and the content oracle then each run alone. Traces are "
    "shrunk. Patches to engine.cpp are faults of a scheduler: the laws of a run judge random runs "
    "of the simulation, an operation is an event, and nothing is shrunk.",
    table, sums="mutants", optional=True, section="Correctness", place=10)
