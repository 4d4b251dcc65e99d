# SPDX-License-Identifier: Apache-2.0
"""Finds an interpreter that can draw, and says in one line what a script cannot read or write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Callable

from kvproof_support import stopping
from kvproof_support.files import InputError, OutputError


def guarded(name: str, draw: Callable[[], int]) -> int:
    """Calls draw(). @return its exit code, 2 for bad input or output, 77 without matplotlib"""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        go_on_in(python_that_draws())
        print(f"{name}: matplotlib is not installed (Debian: python3-matplotlib)", file=sys.stderr)
        return 77
    try:
        return draw()
    except (InputError, OutputError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


# ---- an interpreter with matplotlib -------------------------------------------------------------

PYTHONS = (os.environ.get("KVPROOF_PYTHON", ""), "python3", "/usr/bin/python3")  # as the launcher


def python_that_draws() -> str | None:
    """Another interpreter that has matplotlib; None if there is none."""
    found = dict.fromkeys(shutil.which(name) for name in PYTHONS if name)
    return next((path for path in found if path not in (None, sys.executable) and subprocess.run(
        [path, "-c", "import matplotlib.figure"], check=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0), None)


def go_on_in(python: str | None) -> None:
    """Starts this script anew in that interpreter, if it is one."""
    if python:
        with stopping.Held():  # until the script handles signals there
            os.execv(python, [python, *sys.argv])
