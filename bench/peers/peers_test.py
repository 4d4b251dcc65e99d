#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of bench --peers without a peer: what becomes of times, and of processes that end, are
absent or decide otherwise."""

import contextlib
import json
import os
import re
import sys
import tempfile
import unittest
from types import SimpleNamespace
from unittest import mock

import kernels
import kernel_rounds
import allocators
import pairs

CASE = kernels.Case("decode", 2, 64)
ECHO = """
import sys
print("ready=1", flush=True)
for line in sys.stdin:
    print("a library says hello")
    print("ns={ns} hits={hits} taken=3", flush=True)
    {then}
"""


class KernelRows(unittest.TestCase):
    TIMES = {("kvproof", "hnd"): [9, 9, 9], ("kvproof", "nhd"): [4, 6, 8],
             ("PyTorch", "slow"): [50, 60, 70], ("PyTorch", "fast"): [2, 12, 2],
             ("read", "00"): [2, 3, 4], ("multiply", ""): [1, 1, 1]}

    def row(self, times, peer="PyTorch", **reasons):
        return kernel_rounds.row_of("a case", CASE, peer, times, reasons, {"threads": 1})

    def test_the_fastest_form_of_both_counts_and_ratios_are_of_one_round(self):
        row = self.row(self.TIMES)
        self.assertEqual(["nhd", "fast", "PyTorch", "a case", 1], [row["parameters"][name] for name
                         in ("our_form", "form", "peer", "case", "threads")])
        self.assertEqual({"value": 2, "unit": "ratio", "min": 0.5, "max": 4},
                         row["metrics"]["ours_over_peer"])
        self.assertEqual([0.5, 0.25 + 0.75], [row["metrics"][name]["value"] for name in (
            "fraction_of_read", "peer_fraction_of_read")])

    def test_being_behind_is_laid_to_pages_only_where_those_make_the_difference(self):
        for contiguous, said in (([1, 12, 1], "the pages"), (
                [3, 13, 3], "it comes to 1.00 of the fastest read, ours to 0.50")):
            row = self.row(self.TIMES | {("contiguous", ""): contiguous})
            self.assertIn(said, row["parameters"]["binds"])
        ahead = self.row(self.TIMES | {("PyTorch", "fast"): [20, 20, 20]})
        self.assertNotIn("binds", ahead["parameters"])

    def test_without_times_the_reasons_stand_there(self):
        row = self.row(self.TIMES, "vLLM", vLLM=["Absent: no AVX-512", "amx: off"])
        self.assertEqual("no AVX-512; amx: off", row["parameters"]["not_comparable"])
        self.assertEqual({}, row["metrics"])

    def test_a_form_far_behind_its_peer_gets_no_rounds(self):
        took = {("a", "good"): 1.0, ("a", "bad"): 3.5, ("b", "only"): 9.0}
        watch = kernel_rounds.Stopwatch.__new__(kernel_rounds.Stopwatch)
        watch.once = lambda launch: launch()
        found = watch.time({key: lambda key=key: took[key] for key in took}, 4)
        self.assertEqual({("a", "good"): [1.0] * 4, ("b", "only"): [9.0] * 4}, found)


class KernelProcesses(unittest.TestCase):
    def test_every_pair_has_one_row_whatever_becomes_of_the_process(self):
        name = kernels.cases(True)[0]
        row = {"parameters": {"case": name, "peer": "vLLM"}, "metrics": {}}
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "kernel_rounds.py"), "w", encoding="utf-8") as file:
                file.write(f"print('noise')\nprint({json.dumps(row)!r})\nraise SystemExit(9)\n")
            options = SimpleNamespace(folder=folder, smoke=True)
            with mock.patch.object(kernels, "HERE", folder), mock.patch.object(
                    kernels, "environment", lambda _: (sys.executable, [])):
                found = list(kernels.measure(kernels.cases(True), options))
        pairs_found = [(each["parameters"]["case"], each["parameters"]["peer"]) for each in found]
        self.assertEqual(sorted((case, peer) for case in kernels.cases(True)
                                for peer in kernels.PEERS), sorted(pairs_found))
        self.assertTrue(all("ended before" in each["parameters"]["not_comparable"]
                            for each in found[1:]))

    def test_cases_have_names_of_their_own(self):
        for family in (kernels, allocators):
            names = family.cases(False)
            self.assertEqual(len(names), len(set(names)))


class AllocatorRounds(unittest.TestCase):
    def process(self, folder, name, **said):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(ECHO.format(**({"ns": 100, "hits": 5, "then": "pass"} | said)))
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            return allocators.Process(self.stack, [sys.executable, path], "start", log)

    def rounds(self, **theirs):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as self.stack:
            both = [self.process(folder, "a"), self.process(folder, "b", **theirs)]
            return allocators.rounds("a case", "vLLM", allocators.OPERATIONS["hit"],
                                     allocators.SMOKE, *both, {})

    def test_times_are_per_part_and_compared(self):
        row = self.rounds(ns=400)
        self.assertEqual(0.25, row["metrics"]["ours_over_peer"]["value"])
        self.assertEqual(400 / (50 * 64), row["metrics"]["peer_time"]["value"])

    def test_who_decides_otherwise_is_not_compared(self):
        with self.assertRaisesRegex(allocators.Absent, "hits 6, ours 5"):
            self.rounds(hits=6)

    def test_every_pair_has_a_row_where_no_peer_is_here(self):
        with tempfile.TemporaryDirectory() as folder:
            found = list(allocators.measure(allocators.cases(True), SimpleNamespace(
                folder=folder, checkout=None, smoke=True, yes=False, seed=1)))
        self.assertEqual(len(allocators.cases(True)) * len(allocators.PEERS), len(found))
        for row in found:
            self.assertRegex(row["parameters"]["not_comparable"], "--yes allows it|no prefix cache")

    def test_who_ends_is_not_compared(self):
        with self.assertRaisesRegex(allocators.Absent, "ended with 3"):
            self.rounds(then="sys.exit(3)")


class Verb(unittest.TestCase):
    def test_rows_of_pairs_that_cannot_be_compared_say_why(self):
        row = pairs.not_comparable("e", "c", "p", "why", hash="x")
        self.assertEqual({"peer": "p", "case": "c", "not_comparable": "why", "hash": "x"},
                         row["parameters"])

    def test_the_list_has_every_case_and_measures_nothing(self):
        import subprocess
        said = subprocess.run([sys.executable, "-B", os.path.join(kernels.HERE, "run.py"),
                               "--peers", "--list"], capture_output=True, text=True, check=True)
        lines = said.stdout.splitlines()
        for case in kernels.cases(False) + allocators.cases(False):
            self.assertIn(case, lines)
        self.assertEqual(2, sum(bool(re.match("# (kernels|allocators), beside", line))
                                for line in lines))


if __name__ == "__main__":
    unittest.main()
