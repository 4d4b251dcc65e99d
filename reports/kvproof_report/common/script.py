# SPDX-License-Identifier: Apache-2.0
"""Shared by the scripts that draw: errors of one line, exit codes, files written whole."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
from typing import Any, Callable, Iterable, Iterator, NoReturn

from kvproof_report.common import stopping
from kvproof_report.common.result_files import InputError, readable


class OutputError(Exception):
    """Output cannot be written; the text names the file and says why."""


class Parser(argparse.ArgumentParser):
    """@param example: a command line; exit_codes: what they mean. Both end the help."""

    def __init__(self, prog: str, example: str, exit_codes: str, **other: Any):
        ends = [f"Example: {example}", *textwrap.wrap(f"Exit codes: {exit_codes}.", 78)]
        super().__init__(prog=prog, allow_abbrev=False, epilog="\n".join(ends),
                         formatter_class=argparse.RawDescriptionHelpFormatter, **other)
        self.register("action", None, Once)
        self.register("type", None, something)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog.removesuffix('.py')}: {message} (see: {self.prog} --help)\n")

    def print_help(self, file: Any = None) -> None:
        try:
            put(self.format_help())
        except OutputError as error:
            self.exit(2, f"{self.prog.removesuffix('.py')}: {error}\n")


class Once(argparse.Action):
    """What an option without another action does: it takes one value, and is given once."""
    is_given = False

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                 option_string: str | None = None) -> None:
        if option_string and self.is_given:
            parser.error(f"{option_string} is given twice; expected once")
        self.is_given = True
        setattr(namespace, self.dest, values)


def something(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a value")
    return text


def put(text: str) -> None:
    """Prints a result. Throws OutputError."""
    with said_of("the standard output"):
        try:
            print(text.rstrip("\n"), flush=True)
        except UnicodeEncodeError:  # a path with bytes that are no text
            print(readable(text), flush=True)


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


# ---- files written whole ------------------------------------------------------------------------

def write(path: str, content: bytes) -> None:
    write_all({path: content})


def write_all(contents: dict[str, bytes]) -> None:
    """Writes all files or none. Throws OutputError. @param contents: path -> what

    A regular file or a new one is written beside its place and then renamed. Whatever else there is
    (a device, a pipe, /dev/stdout) is written in place.
    """
    beside = {}
    for path, content in contents.items():
        with said_of(path):
            if is_written_in_place(path):
                write_in_place(path, content)
            else:
                beside[path] = content
    parts: dict[str, str] = {}
    made: list[str] = []
    with stopping.Held():
        try:
            for path, content in beside.items():
                with said_of(path):
                    made += make_folders(os.path.dirname(os.path.realpath(path)))
                    write_beside(path, content, parts)
            for path, part in parts.items():
                with said_of(path):
                    os.replace(part, os.path.realpath(path))
        except BaseException:
            remove(parts.values(), made)
            raise


@contextlib.contextmanager
def said_of(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def is_written_in_place(path: str) -> bool:
    try:
        return descriptor_of(path) is not None or not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:  # it is not there, or writing will say what is wrong
        return False


def descriptor_of(path: str) -> int | None:
    """N of /dev/fd/N, also behind a link like /dev/stdout; None for any other path."""
    for _ in range(8):
        folder, name = os.path.split(path)
        if name.isdecimal() and os.path.realpath(folder) == os.path.realpath("/dev/fd"):
            return int(name)
        if not os.path.islink(path):
            break
        path = os.path.join(folder, os.readlink(path))
    return None


def write_in_place(path: str, content: bytes) -> None:
    descriptor = descriptor_of(path)  # opened anew, a file would be written from its beginning
    with open(path if descriptor is None else os.dup(descriptor), "wb") as stream:
        stream.write(content)


def write_beside(path: str, content: bytes, parts: dict[str, str]) -> None:
    """Notes in `parts` where the content is until all of it is written."""
    folder, name = os.path.split(os.path.realpath(path))  # a link stays one
    handle, parts[path] = tempfile.mkstemp(dir=folder, prefix=name + ".part-")
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(parts[path], 0o666 & ~mask)


def make_folders(folder: str) -> list[str]:
    """@return those that were not there, the innermost first"""
    missing, at = [], os.path.abspath(folder)
    while not os.path.lexists(at):
        missing.append(at)
        at = os.path.dirname(at)
    os.makedirs(folder, exist_ok=True)
    return missing


def remove(files: Iterable[str], folders: Iterable[str]) -> None:
    """Removes the files that are still there, and the folders if they are empty then."""
    for path in files:
        with contextlib.suppress(OSError):
            os.unlink(path)
    for path in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(path)
