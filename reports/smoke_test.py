#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `kvproof report --smoke` with the programs themselves, found in KVPROOF_BIN; 77 without."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.environ.get("KVPROOF_BIN", "")
if not os.path.exists(os.path.join(PROGRAMS, "kvproof-check")):
    print("skipped: KVPROOF_BIN names no folder of built programs")
    sys.exit(77)

from page_test_support import read  # noqa: E402  it skips without matplotlib

from parts import parts_of  # noqa: E402


class SmokeTest(unittest.TestCase):
    def test_every_part_is_measured_and_the_page_says_that_it_is_correct(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, os.path.join(HERE, "run.py"), "--smoke", "--output=results",
                 "--json=summary.json"], cwd=folder, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, "results/report.html\n"),
                             done.stderr)
            names = {f"{part.name}.json" for part in parts_of("smoke")}
            self.assertEqual(set(os.listdir(os.path.join(folder, "results"))),
                             names | {"run.json", "report.html"})
            summary = json.loads(read(os.path.join(folder, "summary.json")))
            self.assertEqual((summary["passed"], summary["failed"]), (len(names), 0))
            page = read(os.path.join(folder, "results", "report.html"))
        self.assertRegex(page, r'<p class="verdict good"><b>Correct\.</b> <span>\d+ laws held in ')
        self.assertEqual(re.findall(r"This figure is missing: [^<]*", page), [])


if __name__ == "__main__":
    unittest.main()
