# SPDX-License-Identifier: Apache-2.0
"""Whether the results are right: by the laws, seeded bugs, liars and the exhaustive search."""

from __future__ import annotations

from typing import Optional

from kvproof_report.common.result_files import Results
from kvproof_report.draw.numbers import count
from kvproof_report.draw.plot import groups
from kvproof_report.figures.exhaustive import is_closed, split
from kvproof_report.figures.kill_matrix import mutants_of, survivors
from kvproof_report.figures.laws import is_broken, is_vacuous
from kvproof_report.figures.liar_matrix import fates_of

Found = Optional[tuple[str, str]]  # a kind with its line; None where there are no results


def verdict_of(results: Results) -> tuple[str, str, list[str]]:
    """(kind, title, lines); the kind is a class of the page: bad, partly, good or unknown."""
    found = [part for of in (laws, mutants, lies, spaces) if (part := of(results))]
    if not found:
        return "unknown", "Correctness was not checked in this run.", [
            "kvproof check --json=check.json beside these files does."]
    kinds = [kind for kind, _ in found]
    kind = next(kind for kind in ("bad", "partly", "good") if kind in kinds)
    title = {"bad": "Wrong.", "partly": "Correct as far as it was checked, with gaps.",
             "good": "Correct."}[kind]
    return kind, title, [line for _, line in found]


def laws(results: Results) -> Found:
    """The verdict of kvproof check on each allocator."""
    rows, checks = results.of("check_law"), results.of("check")
    verdicts = [(row, row.get("verdict")) for row in checks]
    bad = [f"{row['law']} of {row['subject']}" for row in rows if is_broken(row)]
    bad += [f"{row.get('broken') or 'an oracle'} of {row.get('subject')}"
            for row, verdict in verdicts if verdict == "broken"]
    if bad:
        return "bad", f"Not as it should be: {', '.join(dict.fromkeys(bad))}."
    vague = [row["subject"] for row in rows if is_vacuous(row)]
    vague += [str(row.get("subject")) for row, verdict in verdicts if verdict == "cannot_tell"]
    if vague:
        return "partly", (f"Nothing is broken, but too few operations ran to tell whether all "
                          f"holds of {', '.join(dict.fromkeys(vague))}.")
    if not rows:
        return None
    asked = [row for row in rows if row.value("evaluated") > 0]
    answers = count(sum(row.value("evaluated") for row in asked))
    whom = len(groups(rows, "subject"))
    return ("good" if asked else "partly",
            f"{len(groups(asked, 'law'))} laws held in {answers} answers about {whom} "
            f"allocator{'s' if whom > 1 else ''}.")


def mutants(results: Results) -> Found:
    rows = mutants_of(results.of("mutant"))
    if not rows:
        return None
    lives = len(survivors(rows))
    return ("partly" if lives else "good",
            f"{count(len(rows) - lives)} of {count(len(rows))} seeded bugs are detected.")


def lies(results: Results) -> Found:
    cells = results.of("liar")
    if not cells:
        return None
    fates = fates_of(cells)
    return ("partly" if fates["missed"] else "good",
            f"{count(fates['detected'])} of {count(len(cells))} lies of a sound allocator are "
            f"detected, {count(fates['missed'])} pass.")


def spaces(results: Results) -> Found:
    rows = results.of("exhaustive")
    if not rows:
        return None
    found, _ = split(rows)
    closed = sum(is_closed(row) for row in found)
    return ("good" if closed == len(found) else "partly",
            f"{count(sum(row.value('states') for row in found))} states of {len(found)} small "
            f"managers visited, {closed} of them without a state left out.")
