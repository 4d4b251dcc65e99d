# SPDX-License-Identifier: Apache-2.0
"""What every test may use: where things are, and a folder of its own."""

import json
import os
import tempfile
import unittest

REPORTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GALLERY = os.path.join(REPORTS, "gallery")


def script(name: str) -> str:
    return os.path.join(REPORTS, f"{name}.py")


def machines_of_the_gallery() -> list[str]:
    """Their folders; an installation has none."""
    entries = os.scandir(GALLERY) if os.path.isdir(GALLERY) else ()
    return sorted(entry.path for entry in entries if entry.is_dir())


def read(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


class FolderTest(unittest.TestCase):
    """Has a folder until it ends."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="a b ")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def make(self, *names):
        """@return the path of a new folder"""
        os.makedirs(self.path(*names))
        return self.path(*names)

    def write(self, name, content):
        """@param content: a text, bytes, or what becomes JSON. @return the path of the file"""
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content)
        with open(self.path(name), "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
        return self.path(name)

    def content(self, name):
        with open(self.path(name), "rb") as stream:
            return stream.read()
