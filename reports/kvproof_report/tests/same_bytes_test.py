# SPDX-License-Identifier: Apache-2.0
"""Tests that the same results give the same bytes, wherever and whenever they are drawn."""

import gzip
import os
import subprocess
import sys

from kvproof_report.common.result_files import paths_in
from kvproof_report.page import compare
from kvproof_report.page.sections import PLOTS
from kvproof_report.tests import sample_results
from kvproof_report.tests.page_support import run
from kvproof_report.tests.support import GALLERY, FolderTest, machines_of_the_gallery, script


def draw_all(files, output, **environment):
    """Page, pictures, one drawing and a comparison, each in a process of its own, in `output`."""
    for name, *arguments in (
            ("make_page", *files, "--png", "--output=report.html"),
            ("draw_figure", *files, "--figure=memory-of-models", "--output=models.svg"),
            ("compare", os.path.dirname(files[0]), "--output=compare.html")):
        subprocess.run([sys.executable, script(name), *arguments], check=True, cwd=output,
                       env={**os.environ, **environment}, stdout=subprocess.DEVNULL)


def contents(folder):
    """path within the folder -> bytes"""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as stream:
                found[os.path.relpath(os.path.join(path, name), folder)] = stream.read()
    return found


class SameBytesTest(FolderTest):
    def test_same_files_give_the_same_bytes_in_any_order(self):
        """Packed or plain, in any order, from another folder, with another seed and time zone."""
        plain, packed = self.make("here/machine"), self.make("a copy/machine")
        files = sample_results.write_all(plain)
        for path in files:
            with open(path, "rb") as source, gzip.open(
                    os.path.join(packed, os.path.basename(path) + ".gz"), "wb") as target:
                target.write(source.read())
        one, two = self.make("one"), self.make("elsewhere/two")
        draw_all(files, one, PYTHONHASHSEED="1", TZ="UTC")
        draw_all([os.path.relpath(path, two) for path in reversed(paths_in(packed))], two,
                 PYTHONHASHSEED="7", TZ="Asia/Tokyo")
        first, second = contents(one), contents(two)
        self.assertEqual(len(first), len(PLOTS) + 3)
        self.assertEqual(sorted(first), sorted(second))
        for name, content in first.items():
            self.assertTrue(content == second[name], name)
            self.assertFalse(self.folder.encode() in content, name)

    def test_gallery_draws_whole_pages_and_their_comparison(self):
        if not os.path.isdir(GALLERY):
            self.skipTest("an installation has no gallery")
        entries = machines_of_the_gallery()
        self.assertTrue(entries)
        for path in entries:
            code, said = run(*paths_in(path), f"--output={self.folder}/report.html")
            is_gpu = os.path.exists(os.path.join(path, "device.json.gz"))  # it lacks other parts
            self.assertEqual((code, said.startswith("make_page: the page lacks ")),
                             (int(is_gpu), is_gpu), said)
        page = compare.render(compare.machines_of(entries), self.folder)
        for path in entries:
            self.assertTrue(f">{os.path.basename(path)}</td>" in page, path)
