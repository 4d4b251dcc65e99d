# SPDX-License-Identifier: Apache-2.0
"""What is changed in copies of vLLM 0.33.0: mends of defects that have an advisory, and faults."""

import os
from types import SimpleNamespace
from typing import NamedTuple

from kvproof_support.patches import patches


class Fault(NamedTuple):
    what: str
    told: str  # the laws of which one reports it first, and the bug report that it makes again
    cases: str  # in which its code runs
    change: SimpleNamespace

    @property
    def laws(self):
        return [word for word in self.told.split() if "#" not in word]

    @property
    def report(self):
        return next((word for word in self.told.split() if "#" in word), "")


def rows():
    return patches(os.path.dirname(os.path.abspath(__file__)), "seeded.patches")


def __getattr__(name):  # options are checked before there is a program that reads the list
    if name == "FAULTS":
        return [Fault(row.what, row.law, row.configuration, row) for row in rows() if row.law]
    if name == "MENDS":  # by advisory in ../findings: a run that it explains holds
        return {page: [row for row in rows() if page in row.id.split()]
                for page in dict.fromkeys(page for row in rows() for page in row.id.split())}
    raise AttributeError(name)


def mends(but=None):
    """@return the changes after which all defects that have an advisory are gone, except one"""
    return [row for row in rows() if {*row.id.split()} - {but}]
