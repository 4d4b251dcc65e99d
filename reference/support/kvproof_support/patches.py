# SPDX-License-Identifier: Apache-2.0
"""Lists of patches (properties/selftest/patch.h); a program of the build reads and applies them."""

import functools
import json
import os
import shutil
import subprocess
from types import SimpleNamespace

from kvproof_support.environments import Absent
from kvproof_support.results import program

def _patch(*words):
    """@return what the program prints. Throws Absent."""
    patcher = os.path.join(os.path.dirname(program("check")), "kvproof_patch_sources")
    done = subprocess.run([patcher, *words], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise Absent(done.stderr.strip())
    return done.stdout


@functools.cache
def patches(*path):
    """@return the rows of a list: objects with the members of Patch, and what they do. Throws
    Absent."""
    return [SimpleNamespace(**row, what=row["sentence"])
            for row in json.loads(_patch("--list", os.path.join(*path)))]


def overlay(original, copy, rows):
    """Makes a copy of a folder with some patches; whatever is the same is a link. Throws Absent
    where a text does not occur exactly once, or where what is left of a script is not Python."""
    shutil.rmtree(copy, ignore_errors=True)
    _patch("--package", original, copy, *(row.place for row in rows))
    for name in {row.file for row in rows if row.file.endswith(".py")}:
        try:
            with open(os.path.join(copy, name), encoding="utf-8") as file:
                compile(file.read(), name, "exec", dont_inherit=True)
        except SyntaxError as error:
            raise Absent(f"{name}:{error.lineno}: {error.msg}") from error
