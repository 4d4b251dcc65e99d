# SPDX-License-Identifier: Apache-2.0
"""Virtual environments with packages of other engines: made by pip at the first call, then kept."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import sys
import tempfile
import time
from typing import Iterable, TextIO

from kvproof_support.results import CHECKOUT
from kvproof_support.tasks import Task, runner

ENGINES = CHECKOUT / "build" / "engines"  # where the environments of all verbs are


class Absent(Exception):
    """Something that is wanted cannot be had; the text says why."""


def run(*command: str) -> str:
    """Runs a command quietly. @return its output. Throws Absent with its last words."""
    with tempfile.NamedTemporaryFile() as log:
        ended = runner().one(Task(command[0], command, log=log.name))
        if ended.exit_code:
            raise Absent(f"{' '.join(command[1:4])}: {ended.last_line()}")
        return ended.printed()


def folder() -> str:
    """@return the folder of the environments, which is made if it is not there"""
    os.makedirs(ENGINES, exist_ok=True)
    return str(ENGINES)


def site_packages(environment: str) -> str:
    (library,) = glob.glob(os.path.join(glob.escape(environment), "lib", "python3*"))
    return os.path.join(library, "site-packages")


def install(environment: str, requirements: Iterable[str], *options: str) -> None:
    """Installs with the pip of an environment. Throws Absent."""
    run(os.path.join(environment, "bin", "python"), "-m", "pip", "install", "--quiet",
        "--disable-pip-version-check", *options, *requirements)


def see(environment: str, other: str) -> None:
    """Lets an environment see the packages of another behind its own, and behind those that it sees
    already: two verbs may share it that need other packages."""
    line = site_packages(other) + "\n"
    with open(os.path.join(site_packages(environment), "shared.pth"), "a+",
              encoding="utf-8") as file:
        file.seek(0)
        if line not in file.readlines():
            file.write(line)


def environment(folder: str, name: str, requirements: Iterable[str], *options: str,
                beside: str | None = None, python: str = sys.executable) -> str:
    """A virtual environment with what pip installs, made at the first call.

    @param beside another environment, whose packages are seen, too
    @return its folder. Throws Absent.
    """
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.lock"), "w", encoding="utf-8") as lock:
        while not is_held(lock):  # another task of a campaign may want it, too
            runner().check()
            time.sleep(0.2)
        path = made(os.path.join(folder, name), name, tuple(requirements), options, python)
        if beside:
            see(path, beside)
    return path


def is_held(lock: TextIO) -> bool:
    """@return whether the lock is ours; it does not wait, so that a signal is noticed"""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def made(path: str, name: str, requirements: tuple[str, ...], options: tuple[str, ...],
         python: str) -> str:
    """@return the folder of an environment, which is made if it is not there as it is wanted"""
    ready, wanted = os.path.join(path, "ready"), "\n".join(requirements)
    if os.path.exists(ready):
        with open(ready, encoding="utf-8") as file:
            if file.read() == wanted:
                return path
    print(f"kvproof: {name}: pip installs {', '.join(requirements)}", file=sys.stderr,
          flush=True)
    shutil.rmtree(path, ignore_errors=True)
    run(python, "-m", "venv", path)
    install(path, requirements, *options)
    with open(ready, "w", encoding="utf-8") as file:
        file.write(wanted)
    return path
