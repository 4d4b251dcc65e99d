#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the page that compares machines."""

import contextlib
import io
import json
import os
import re
import tempfile
import unittest

from page_test_support import Checker, read  # first: it skips without matplotlib

import sample_results
from compare import main


class CompareTest(unittest.TestCase):
    """Two machines: the second takes twice the time, and lacks the kernels."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.first, self.second = (os.path.join(self.folder, name) for name in ("one", "the other"))
        for path in (self.first, self.second):
            os.mkdir(path)
        sample_results.write_all(self.first)
        sample_results.write_all(self.second, without=("paged_decode",))
        self.change("life_cycle", "ns_per_block", 2)
        self.output = os.path.join(self.folder, "compare.html")

    def change(self, experiment, metric, factor):
        path = os.path.join(self.second, experiment + ".json")
        document = json.loads(read(path))
        document["environment"]["cpu"] = "Other CPU"
        for row in document["results"]:
            for name in ("value", "min", "max"):
                row["metrics"][metric][name] *= factor
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(document, stream)

    def compare(self, *paths):
        """(exit code, stderr, the page)"""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                code = main([*paths, f"--output={self.output}"])
            except SystemExit as end:
                code = end.code
        return code, said.getvalue(), read(self.output) if os.path.exists(self.output) else ""

    def test_numbers_of_two_machines_stand_side_by_side(self):
        code, said, page = self.compare(self.first, self.second)
        self.assertEqual((code, said), (0, ""))
        titles = re.findall(r"<h3>([^<]*)</h3>", page)
        self.assertEqual(len(titles), 5)
        self.assertIn("48.5\u202fns to 97.0\u202fns per block of a request over its whole life, "
                      "xxh3-128, 64\u202fKi blocks", titles)
        self.assertIn("96.0\u202f% of the memory that 100 requests hold in pages is used, on each "
                      "of 2 machines", titles)
        rows = re.findall(r"<tr>(.*?)</tr>", page)
        decode = [row for row in rows if "read bandwidth reached by paged decode" in row]
        self.assertEqual(len(decode), 1)  # in the table only: one machine has it
        cycle = [re.sub(r"<[^>]*>", "|", row) for row in rows if "xxh3-128" in row]
        self.assertIn("|47 to 51 ns|", cycle[0])
        self.assertIn("|94 to 102 ns|", cycle[1])
        self.assertTrue("Sample CPU" in page and "Other CPU" in page)

    def test_page_needs_nothing_else(self):
        _, _, page = self.compare(self.first, self.second)
        checker = Checker()
        checker.feed(page)
        self.assertEqual((checker.stack, checker.sources), ([], []))
        self.assertEqual(len(checker.ids), len(set(checker.ids)))
        self.assertEqual(checker.references - set(checker.ids), set())
        self.assertEqual(re.findall(r"https?://[^\"' >]+", page), [])
        self.assertEqual(self.compare(self.first, self.second)[2], page)

    def test_machine_leads_to_its_own_page(self):
        with open(os.path.join(self.second, "report.html"), "w", encoding="utf-8"):
            pass
        page = self.compare(self.first, self.second)[2]
        self.assertTrue('<a href="the%20other/report.html">the other</a>' in page)
        self.assertFalse("one/report.html" in page)

    def test_other_cases_do_not_stand_side_by_side(self):
        path = os.path.join(self.second, "life_cycle.json")
        text = read(path).replace("xxh3-128", "xxh3-64")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        page = self.compare(self.first, self.second)[2]
        self.assertFalse(any("over its whole life" in title
                             for title in re.findall(r"<h3>([^<]*)</h3>", page)))

    def test_errors_are_one_line(self):
        empty = os.path.join(self.folder, "empty")
        os.mkdir(empty)
        broken = os.path.join(self.folder, "broken.json")
        with open(broken, "w", encoding="utf-8") as stream:
            stream.write("{")
        for paths, expected in (([empty], "expected a folder with result files"),
                                ([broken], "expected JSON"), ([], "required: PATH"),
                                ([self.first, self.first], "different names"),
                                ([os.path.join(self.first, "mutant.json")],
                                 "none of these files has a number")):
            code, said, page = self.compare(*paths)
            self.assertEqual((code, said.count("\n"), page), (2, 1, ""), said)
            self.assertIn(expected, said)


if __name__ == "__main__":
    unittest.main()
