# SPDX-License-Identifier: Apache-2.0
"""Tests of files that appear whole or not at all. (.ci/edges/ has what is no file.)"""

import os
import stat

from kvproof_support.files import OutputError, write, write_all
from kvproof_report.tests.support import FolderTest


class WriteTest(FolderTest):
    def test_file_is_replaced_and_a_link_to_it_stays(self):
        write(self.path("new", "folder", "a"), b"1")
        os.symlink(self.path("new", "folder", "a"), self.path("link"))
        write(self.path("link"), b"2")
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertEqual(self.content("new/folder/a"), b"2")
        self.assertEqual(os.listdir(self.path("new", "folder")), ["a"])
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("link")).st_mode), 0o666 & ~mask)

    def test_of_several_files_all_appear_or_none(self):
        os.mkdir(self.path("b"))
        with self.assertRaises(OutputError) as refused:
            write_all({self.path("new", "a"): b"1", self.path("b"): b"2"})
        self.assertEqual(str(refused.exception),
                         f"{self.path('b')}: cannot be written: Is a directory")
        with self.assertRaises(OutputError):
            write_all({self.path("new", "a"): b"1", self.path("a" * 300): b"2"})
        self.assertEqual(os.listdir(self.folder), ["b"])
