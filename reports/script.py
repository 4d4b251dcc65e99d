# SPDX-License-Identifier: Apache-2.0
"""Shared by the scripts that draw: errors of one line, exit codes, files written whole."""

import argparse
import os
import sys
import tempfile

from result_files import InputError


class Parser(argparse.ArgumentParser):
    def __init__(self, prog, **other):
        super().__init__(prog=prog, allow_abbrev=False, **other)

    def error(self, message):
        self.exit(2, f"{self.prog.removesuffix('.py')}: {message} (see: {self.prog} --help)\n")


def guarded(name, output, draw):
    """Calls draw(). @return its exit code, 2 for bad input or output, 77 without matplotlib"""
    try:
        return draw()
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        code, said = 77, "matplotlib is not installed (Debian: python3-matplotlib)"
    except InputError as error:
        code, said = 2, error
    except OSError as error:
        code, said = 2, f"{error.filename or output}: cannot be written: {error.strerror}"
    print(f"{name}: {said}", file=sys.stderr)
    return code


def write(path, content):
    """All of it or nothing: written under another name in the same folder, then renamed."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix="." + os.path.basename(path) + ".")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
