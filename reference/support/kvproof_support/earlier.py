# SPDX-License-Identifier: Apache-2.0
"""Reads rows that earlier versions wrote: the one place that knows their columns and verdicts."""

from __future__ import annotations

from kvproof_support.results import Row
from kvproof_support.verdicts import EXIT_CODES

# experiment -> what a column was called -> what it is called. Parameters and metrics alike.
RENAMED: dict[str, dict[str, str]] = {
    "check": {"laws_spoke": "laws_evaluated", "worded": "exempted"},
    "check_law": {"checked": "evaluated", "worded": "exempted"},
    "check_finding": {"finding": "law", "text": "reason"},
    "check_run": {"not_run": "reason"},
    "campaign_finding": {"text": "reason", "replay": "repeat"},
    "engines": {"laws_spoke": "laws_evaluated", "worded": "exempted", "noticed": "detected"},
    "engine_law": {"state": "verdict", "why": "reason", "checked": "evaluated",
                   "worded": "exempted"},
    "engine_history": {"state": "verdict", "why": "reason"},
    "events_law": {"asked": "evaluated"},
    "live_run": {"laws_spoke": "laws_evaluated", "noticed": "detected"},
    "live_law": {"spoke": "evaluated"},
    "live_engine": {"state": "verdict", "why": "reason", "laws_spoke": "laws_evaluated"},
    "live_history": {"state": "verdict", "why": "reason", "spoke": "evaluated"},
    "gate": {"because": "reason"},
}

# The beginnings of verdicts that were sentences, in lower case, and what they are now.
VERDICTS = (
    ("wrong", "broken"),
    ("holds", "holds"), ("held", "holds"), ("closed", "holds"), ("worded", "holds"),
    ("broken, as is known", "known"), ("known", "known"), ("broken", "broken"), ("new", "broken"),
    ("violated", "broken"), ("vacuous", "cannot_tell"), ("not demanded", "not_applicable"),
    ("no run was about it", "not_evaluated"), ("found", "known"), ("not found", "holds"),
    ("unknown", "not_evaluated"), ("not evaluated", "not_evaluated"),
    ("silent", "not_evaluated"), ("cannot tell", "cannot_tell"),
    ("nothing to judge", "cannot_tell"), ("cut off", "cannot_tell"),
    ("no run", "skipped"), ("not run", "skipped"), ("not checked", "skipped"))


# The exit codes of kvproof check, which a metric told.
CODES = {0: "holds", 1: "broken", 3: "cannot_tell"}


def present(row: Row) -> Row:
    """@return a row as it is written today; one that is, as it is"""
    names = RENAMED.get(row["experiment"], {})
    out = dict(row)
    for part in ("parameters", "metrics"):
        if isinstance(out.get(part), dict):
            out[part] = {names.get(name, name): value for name, value in out[part].items()}
    parameters, metrics = (out.get(part, {}) for part in ("parameters", "metrics"))
    if row["experiment"] in ("check", "check_deep") and isinstance(metrics.get("verdict"), dict):
        code = metrics["verdict"].get("value")
        if isinstance(code, (int, float)):  # else the reader says what is wrong
            parameters["verdict"] = CODES.get(code, "broken")
            del metrics["verdict"]
    if row["experiment"] == "check_run" and "verdict" not in parameters:
        parameters["verdict"] = "skipped" if parameters.get("reason") else "holds"
    return with_verdict(out)


def with_verdict(row: Row) -> Row:
    """Makes a column of a verdict that is a sentence, and a reason of the rest."""
    said = row.get("parameters", {}).get("verdict")
    if not isinstance(said, str) or said in EXIT_CODES:
        return row
    start, verdict = next(((start, verdict) for start, verdict in VERDICTS
                           if said.lower().startswith(start)), ("", said))
    if start:
        rest = said[len(start):].lstrip(",;: ")
        row["parameters"] = {"reason": rest} | row["parameters"] | {"verdict": verdict}
    return row
