# SPDX-License-Identifier: Apache-2.0
"""Tests of the page that compares machines."""

import json
import os
import re

from kvproof_report.page.programs import compare
from kvproof_report.tests import sample_results
from kvproof_report.tests.page_support import Checker, run
from kvproof_report.tests.support import FolderTest, read


class CompareTest(FolderTest):
    """Two machines: the second takes twice the time, and lacks the kernels."""

    def setUp(self):
        super().setUp()
        self.first, self.second = self.make("one"), self.make("the other")
        sample_results.write_all(self.first)
        sample_results.write_all(self.second, without=("paged_decode",))
        self.change("life_cycle", "ns_per_block", 2)
        self.output = self.path("compare.html")

    def change(self, experiment, metric, factor):
        name = f"the other/{experiment}.json"
        document = json.loads(self.content(name))
        document["environment"]["cpu"] = "Other CPU"
        for row in document["results"]:
            for bound in ("value", "min", "max"):
                row["metrics"][metric][bound] *= factor
        self.write(name, document)

    def compare(self, *paths):
        """(exit code, stderr, the page)"""
        code, said = run(*paths, f"--output={self.output}", program=compare)
        return code, said, read(self.output) if os.path.exists(self.output) else ""

    def test_numbers_of_two_machines_stand_side_by_side(self):
        code, said, page = self.compare(self.first, self.second)
        self.assertEqual((code, said), (0, ""))
        titles = re.findall(r"<h3>([^<]*)</h3>", page)
        self.assertEqual(len(titles), 5)
        self.assertIn("115\u202fns to 229\u202fns per block of a request over its whole life, "
                      "xxh3-128, 64\u202fKi blocks", titles)
        self.assertIn("96.2\u202f% of the memory that 100 requests hold in pages is used, on each "
                      "of 2 machines", titles)
        rows = re.findall(r"<tr>(.*?)</tr>", page)
        decode = [row for row in rows if "read bandwidth reached by paged decode" in row]
        self.assertEqual(len(decode), 1)  # in the table only: one machine has it
        cycle = [re.sub(r"<[^>]*>", "|", row) for row in rows if "xxh3-128" in row]
        self.assertIn("|86.89 to 130.4 ns|", cycle[0])
        self.assertIn("|173.8 to 260.8 ns|", cycle[1])
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
        self.write("the other/report.html", "")
        page = self.compare(self.first, self.second)[2]
        self.assertTrue('<a href="the%20other/report.html">the other</a>' in page)
        self.assertFalse("one/report.html" in page)

    def test_other_cases_do_not_stand_side_by_side(self):
        name = "the other/life_cycle.json"
        self.write(name, self.content(name).replace(b"xxh3-128", b"xxh3-64"))
        page = self.compare(self.first, self.second)[2]
        self.assertFalse(any("over its whole life" in title
                             for title in re.findall(r"<h3>([^<]*)</h3>", page)))

    def test_errors_are_one_line(self):
        for paths, expected in (([self.make("empty")], "expected a folder with result files"),
                                ([self.write("broken.json", "{")], "expected JSON"),
                                ([], "required: PATH"),
                                ([self.first, self.first], "different names"),
                                ([os.path.join(self.first, "mutant.json")],
                                 "none of these files has a number")):
            code, said, page = self.compare(*paths)
            self.assertEqual((code, said.count("\n"), page), (2, 1, ""), said)
            self.assertIn(expected, said)
