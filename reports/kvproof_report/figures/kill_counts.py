# SPDX-License-Identifier: Apache-2.0
"""Counts seeded bugs: which row of the matrix each belongs to, and which oracle gets the credit."""

import re
import statistics
from collections import Counter
from dataclasses import dataclass, field

from kvproof_report.common.experiments import FATES

BEYOND_LAWS = [fate for fate in FATES if fate not in ("expected", "other_law")]


@dataclass
class Row:
    """A row of the matrix: a family of reported bugs, or a patched source."""
    id: str
    name: str
    patched: bool
    mutants: list = field(default_factory=list)

    def alone(self, oracle):
        """How many of the mutants this oracle notices when it works alone."""
        return sum(m.value(f"{oracle}_operations") > 0 for m in self.mutants)

    def by_law(self, fate):
        """law -> mutants credited to it. Each mutant is credited once: to the law that it broke
        first, or to the expected one if its first violation broke several."""
        return Counter(credited_law(m) for m in self.mutants
                       if m["fate"] == fate and credited_law(m))

    def beside(self):
        """law -> mutants that it also noticed at the same operation, without getting the credit."""
        return Counter(law for m in self.mutants for law in laws_of(m) if law != credited_law(m))

    def of_fate(self, fate):
        return sum(m["fate"] == fate for m in self.mutants)

    def values(self, metric):
        """value -> how many mutants have it, counting only the mutants that have the metric."""
        return Counter(m.value(metric) for m in self.mutants
                       if m["fate"] != "survived" and m.value(metric) > 0)


def mutants_of(results):
    return [r for r in results if r.experiment == "mutant"]


def laws_of(mutant):
    return [law for law in mutant["laws"].split() if law != "-"]


def credited_law(mutant):
    """The law that gets the credit; None if no law noticed the mutant."""
    if mutant["fate"] == "expected":
        return mutant["expected_law"]
    return laws_of(mutant)[0] if mutant["fate"] == "other_law" and laws_of(mutant) else None


def natural(name):
    """A sort key that puts A2 before A10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part)
            for part in re.findall(r"\d+|\D+", name)]


def law_order(law):
    """A sort key that puts the laws I1 ... before the others."""
    return (not law.startswith("I"), natural(law))


def matrix_rows(mutants):
    """The rows: families in their order, then patched sources in theirs."""
    rows = {}
    for m in mutants:
        patched = not m["where"].startswith("reference/")
        key = (patched, m["where"] if patched else m["family"])
        name = m["where"].rpartition("/")[2] if patched else m["family_name"]
        rows.setdefault(key, Row("" if patched else m["family"], name, patched)).mutants.append(m)
    return [rows[key] for key in sorted(rows, key=lambda key: (key[0], natural(key[1])))]


def columns_of(mutants):
    """Every law that is expected of a mutant or objected to one."""
    laws = {law for m in mutants for law in [m["expected_law"], *laws_of(m)]}
    return sorted(laws, key=law_order)


def survivors(mutants):
    return [m for m in mutants if m["fate"] == "survived"]


def middle_trace(mutants):
    """(median, longest) of the shrunk traces, as `check` reports them; None if there are none."""
    lengths = [m.value("trace_operations") for m in mutants
               if m["fate"] != "survived" and m.value("trace_operations") > 0]
    return (statistics.median_high(lengths), max(lengths)) if lengths else None
