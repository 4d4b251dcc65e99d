# SPDX-License-Identifier: Apache-2.0
"""Tests of script.py: files that appear whole or not at all, and what is written in place."""

import os
import resource
import stat
import subprocess
import sys
import threading

from kvproof_support.files import OutputError, write, write_all
from kvproof_report.tests.support import REPORTS, FolderTest

MANY = b"x" * 300_000  # more than a pipe or a buffer takes at once


class WriteTest(FolderTest):
    def write_elsewhere(self, path, **options):
        """Writes MANY to the path in another process. @return the process that has ended"""
        return subprocess.run(
            [sys.executable, "-c", f"""
import sys
from kvproof_support.files import OutputError, write
try:
    write(sys.argv[1], b"x" * {len(MANY)})
except OutputError as error:
    sys.exit(str(error))
""", path], cwd=self.folder, check=False,
            env=os.environ | {"PYTHONPATH": REPORTS}, stderr=subprocess.PIPE, **options)

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

    def test_full_disk_leaves_what_was_there(self):
        write(self.path("a"), b"before")

        def little_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        for path in ("a", "new/folder/a"):
            done = self.write_elsewhere(path, preexec_fn=little_room)
            self.assertEqual(done.stderr.decode(), f"{path}: cannot be written: File too large\n")
        self.assertEqual(os.listdir(self.folder), ["a"])
        self.assertEqual(self.content("a"), b"before")

    def test_of_several_files_all_appear_or_none(self):
        os.mkdir(self.path("b"))
        with self.assertRaises(OutputError) as refused:
            write_all({self.path("new", "a"): b"1", self.path("b"): b"2"})
        self.assertEqual(str(refused.exception),
                         f"{self.path('b')}: cannot be written: Is a directory")
        with self.assertRaises(OutputError):
            write_all({self.path("new", "a"): b"1", self.path("a" * 300): b"2"})
        self.assertEqual(os.listdir(self.folder), ["b"])

    def test_device_is_written_in_place(self):
        os.symlink("/dev/full", self.path("full"))  # the device is in no danger from this test
        done = self.write_elsewhere("full")
        self.assertEqual(done.stderr.decode(), "full: cannot be written: No space left on device\n")
        self.assertTrue(os.path.islink(self.path("full")))
        os.symlink("/dev/null", self.path("null"))
        self.assertEqual(self.write_elsewhere("null").returncode, 0)
        self.assertTrue(os.path.islink(self.path("null")))

    def test_pipe_is_written_in_place(self):
        os.mkfifo(self.path("pipe"))
        read = []
        reader = threading.Thread(target=lambda: read.append(self.content("pipe")), daemon=True)
        reader.start()
        self.assertEqual(self.write_elsewhere("pipe", timeout=3600).returncode, 0)
        reader.join(3600)
        self.assertEqual(read, [MANY])
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("pipe")).st_mode))

    def test_open_files_are_written_where_they_stand(self):
        for path in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            done = self.write_elsewhere(path, stdout=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stdout), (0, MANY), done.stderr)
            with open(self.path("file"), "wb") as stream:
                stream.write(b"before ")
                stream.flush()
                self.assertEqual(self.write_elsewhere(path, stdout=stream).returncode, 0)
            self.assertEqual(self.content("file"), b"before " + MANY)
        done = self.write_elsewhere("/dev/fd/77")
        self.assertEqual(done.stderr.decode(),
                         "/dev/fd/77: cannot be written: Bad file descriptor\n")
