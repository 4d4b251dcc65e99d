#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of .ci/same: which differences between rows it tells, and which it leaves out."""

import importlib.util
import json
import pathlib
import unittest
from importlib.machinery import SourceFileLoader
from unittest import mock

PATH = pathlib.Path(__file__).resolve().parents[1] / ".ci" / "same"
LOADER = SourceFileLoader("same", str(PATH))
same = importlib.util.module_from_spec(importlib.util.spec_from_loader("same", LOADER))
LOADER.exec_module(same)
row = same.row

BEFORE = [row("check_law", {"law": "I1", "verdict": "holds"}, checked=7),
          row("check_law", {"law": "I2", "verdict": "not demanded: it has no ids"}, checked=0),
          row("liar", {"lie": "late", "often_by": "C12"}, noticed=1, seconds=3.5),
          row("gate_record", {"workload": "decode"}, instructions_per_block=2052)]
AFTER = [row("check_law", {"law": "I1", "verdict": "holds"}, evaluated=7),
         row("check_law", {"law": "I2", "verdict": "not_applicable", "reason": "it has no ids"},
             evaluated=0),
         row("liar", {"lie": "late", "often_by": "C12"}, noticed=1, seconds=4.5),
         row("gate_record", {"workload": "decode"}, instructions_per_block=2052)]


class SameTest(unittest.TestCase):
    def tells(self, lines, after, before=None):
        self.assertEqual(same.differences(before or BEFORE, after), lines)

    def changed(self, place, part, column, value):
        rows = json.loads(json.dumps(AFTER))
        rows[place][part][column] = value
        return rows

    def test_renamed_columns_and_clocks_are_no_difference(self):
        self.tells([], AFTER)
        self.tells([], AFTER, AFTER)
        self.tells(["check_law: 2 rows have columns or verdicts of earlier"], BEFORE)

    def test_a_row_that_is_gone_or_new_is_told(self):
        self.tells(["check_law law=I1: is gone"], AFTER[1:])
        self.tells(["liar lie=late (2): is new"], [*AFTER, *AFTER[2:3]])

    def test_another_outcome_or_count_is_told(self):
        self.tells(["check_law law=I1: verdict: holds -> not_evaluated"],
                   self.changed(0, "parameters", "verdict", "not_evaluated"))
        self.tells(["liar lie=late: noticed: 1 -> 0"],
                   self.changed(2, "metrics", "noticed", {"value": 0, "unit": "count"}))
        for value, unit, told in ((2053, "count", "2053"), (2052, "bytes", "2052 bytes")):
            self.tells([f"gate_record workload=decode: instructions_per_block: 2052 -> {told}"],
                       self.changed(3, "metrics", "instructions_per_block",
                                    {"value": value, "unit": unit}))

    def test_a_column_is_new_or_gone_only_with_a_reason(self):
        more = self.changed(0, "metrics", "exempted", {"value": 1, "unit": "count"})
        self.tells(["check_law.exempted: is new"], more)
        self.tells(["check_law.exempted: is gone"], AFTER, more)
        with mock.patch.object(same, "ADDED", {"check_law.exempted": "it is new"}):
            self.tells([], more)
        with mock.patch.object(same, "GONE", {"check_law.exempted": "it is old"}):
            self.tells([], AFTER, more)
        self.tells(["liar.*: is new", "check_law law=I1: is gone"], AFTER[1:3], BEFORE[:2])

    def test_bad_usage_is_told(self):
        for words in ([], ["a", "b"], ["--help"], ["no-such-revision"]):
            with mock.patch("sys.stderr") as said:
                self.assertEqual(same.main(words), 2)
            self.assertTrue(said.write.called)


if __name__ == "__main__":
    unittest.main()
