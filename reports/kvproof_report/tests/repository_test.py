# SPDX-License-Identifier: Apache-2.0
"""Tests of what git holds: sources, result files and the pictures that a README shows."""

import os
import re
import subprocess
import unittest

from kvproof_report.tests.support import REPORTS

ROOT = os.path.dirname(REPORTS)
GALLERY = "reports/gallery/"
MOST_BYTES, MOST_GALLERY_BYTES, MOST_FILE_BYTES = 10_800_000, 4_000_000, 2_000_000


def tracked():
    """The paths that git tracks and that are there. Skips where git does not know this folder."""
    try:
        done = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT,
                              capture_output=True, check=False)
    except FileNotFoundError:
        raise unittest.SkipTest("git is not installed") from None
    paths = [path for path in done.stdout.decode().split("\0")
             if os.path.isfile(os.path.join(ROOT, path))]
    if done.returncode != 0 or not paths:
        raise unittest.SkipTest(f"{ROOT} is not a checkout")
    return paths


def links_of(path):
    """(text of a link, the path from the root that it leads to), without links to other hosts."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
        text = re.sub(r"^```.*?^```", "", stream.read(), flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        if not re.match(r"[a-z]+:", link):
            yield link, os.path.normpath(os.path.join(os.path.dirname(path), link))


class RepositoryTest(unittest.TestCase):
    def setUp(self):
        self.paths = tracked()
        self.gallery = [path for path in self.paths if path.startswith(GALLERY)]

    def test_is_small(self):
        def size(paths):
            return sum(os.path.getsize(os.path.join(ROOT, path)) for path in paths)
        self.assertLess(size(self.paths), MOST_BYTES)
        self.assertLess(size(self.gallery), MOST_GALLERY_BYTES)
        for path in self.paths:
            self.assertLess(size([path]), MOST_FILE_BYTES, path)

    def test_pages_are_drawn_and_not_kept(self):
        self.assertEqual([path for path in self.gallery if path.endswith(".html")], [])

    def test_links_lead_somewhere_and_every_picture_is_shown(self):
        linked = set()
        for path in self.paths:
            if path.endswith(".md"):
                for link, target in links_of(path):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, target)), f"{path}: {link}")
                    linked.add(target)
        self.assertEqual({path for path in self.gallery if path.endswith(".png")} - linked, set())
