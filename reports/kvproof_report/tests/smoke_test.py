# SPDX-License-Identifier: Apache-2.0
"""Tests `kvproof report --smoke` with the programs themselves, found in KVPROOF_BIN; 77 without."""

import json
import os
import re
import subprocess
import sys

import matplotlib  # noqa: F401  a report without it has no page

from kvproof_report.common.parts import parts_of
from kvproof_report.tests.support import FolderTest, read, script

PROGRAMS = os.environ.get("KVPROOF_BIN", "")
if not os.path.exists(os.path.join(PROGRAMS, "kvproof-check")):
    print("skipped: KVPROOF_BIN names no folder of built programs")
    sys.exit(77)


class SmokeTest(FolderTest):
    def test_every_part_is_measured_and_the_page_says_that_it_is_correct(self):
        done = subprocess.run(
            [sys.executable, script("report"), "--smoke", "--output=results",
             "--json=summary.json"], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "results/report.html\n"), done.stderr)
        lenses = {f"lens-{scene}.html" for scene in ("double-free", "stale-hit")}
        names = {f"{part.name}.json" for part in parts_of("smoke")}
        self.assertEqual(set(os.listdir(self.path("results"))),
                         names | {"run.json", "report.html", *lenses})
        for lens in lenses:
            self.assertIn(f'href="{lens}"', read(self.path("results", "report.html")))
        summary = json.loads(self.content("summary.json"))
        self.assertEqual((summary["passed"], summary["failed"]), (len(names), 0))
        page = read(self.path("results", "report.html"))
        self.assertRegex(page, r'<p class="verdict good"><b>Correct\.</b> <span>\d+ laws held in ')
        self.assertEqual(re.findall(r"This figure is missing: [^<]*", page), [])
