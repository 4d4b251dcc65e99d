#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No room has more lines than .ci/rooms.tsv allows, and what .ci/lines counts and refuses."""
import runpy
import shutil
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
LINES = SimpleNamespace(**runpy.run_path(str(ROOT / ".ci/lines")))


class LinesTest(unittest.TestCase):
    def test_the_rooms_keep_their_limits(self):
        if not shutil.which("git") or not (ROOT / ".git").exists():
            self.skipTest("git is not installed, or this folder is no checkout")
        limits = LINES.read_limits((ROOT / LINES.LIMITS).read_text(encoding="utf-8"))
        self.assertEqual(LINES.complaints(LINES.count(LINES.files("")), limits), [])
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        self.assertIn(LINES.table(limits), text, "`.ci/lines --write` makes this table")
        self.assertFalse(any(others for *_, others in LINES.raises()), "see .ci/lines --raises")

    def test_counts_what_people_write(self):
        code = b"a\n\nb\n"
        found = [("bench/gate/a.cpp", code), ("bench/gate/a_test.cpp", code), ("kvproof", code),
                 ("bench/gate/faults.jsonl", code), ("bench/README.md", code), ("LICENSE", code),
                 ("properties/sources/traces/vectors/a.jsonl", code),
                  ("bench/gate/deep/bugs.tsv", b"x\ty"),
                 ("properties/engines/findings/a.md", b"Why:\n\n```\none\ntwo\n```\nprose\n")]
        self.assertEqual(LINES.count(found), {"bench/gate": [7, 3], ".": [3, 0],
                                              "properties/engines": [2, 0]})

    def test_names_the_room_the_lines_and_the_limit(self):
        limits = LINES.rounded({"a/b": [51, 50], "c": [1, 0]})
        self.assertEqual(limits, {"a/b": [100, 50], "c": [50, 0], "sum": [200]})
        self.assertEqual(LINES.complaints({"a/b": [100, 50], "c": [50, 0]}, limits), [])
        over = {"a/b": [100, 51], "new": [1, 0]}
        self.assertEqual(LINES.complaints(over, {**limits, "sum": [9]}),
                         [".ci/rooms.tsv: a/b: 51 lines of tests, at most 50",
                          ".ci/rooms.tsv: new: 1 lines of product, at most 0",
                          ".ci/rooms.tsv: sum: the rooms have 200 lines, at most 9"])

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_lists_the_commits_that_raised_the_sum(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / ".ci").mkdir()
            LINES.git("init", "-q", root=root)
            for subject, most, all_most in (("first", 50, 50), ("raise", 50, 100),
                                            ("use", 100, 100), ("both", 150, 150)):
                (root / LINES.LIMITS).write_text(
                    f"room\tproduct\ttests\na\t{most}\t0\nsum\t{all_most}\n", encoding="utf-8")
                LINES.git("add", "-A", root=root)
                LINES.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", subject,
                          root=root)
            found = [(commit.split()[1], *rest) for commit, *rest in LINES.raises(root)]
            self.assertEqual(found, [("both", 100, 150, True), ("raise", 50, 100, False)])
            (root / "more.py").write_text("x\n" * 200, encoding="utf-8")
            (root / "CONTRIBUTING.md").write_text("", encoding="utf-8")
            with self.assertRaisesRegex(SystemExit, "the sum would rise from 150 to 200"):
                LINES.write(root)


if __name__ == "__main__":
    unittest.main()
