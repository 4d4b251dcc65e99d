# SPDX-License-Identifier: Apache-2.0
"""The verdicts of rows, and the exit code of each; bench/results/verdict.h is the same in C++."""

from typing import Iterable

# In the order in which one decides over the others.
EXIT_CODES = {
    "broken": 1,          # a law was broken, a fault was not detected
    "worse": 1,           # a measurement got worse
    "cannot_tell": 3,     # something prevented a verdict
    "known": 0,           # broken as a row of known findings says
    "holds": 0,
    "better": 0,
    "same": 0,
    "not_evaluated": 0,   # the law applies, and no run was about it
    "not_applicable": 0,  # a trait, an ability or a missing view leaves the law out
    "skipped": 77,        # it could not run here; the reason says why
}


def exit_code(verdicts: Iterable[str]) -> int:
    """@return the code of the verdict that decides: 77 if everything was skipped, or nothing ran"""
    there = set(verdicts)
    return next((code for verdict, code in EXIT_CODES.items() if verdict in there), 77)
