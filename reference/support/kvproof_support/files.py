# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all, and output whose arrival is part of the answer."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from typing import Iterable, Iterator

from kvproof_support import stopping

UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
MASK = os.umask(0)
os.umask(MASK)


class InputError(Exception):
    """Input cannot be used; the text names the file, the field and what was expected, in a line."""

    def __init__(self, text: str):
        super().__init__("".join(c if c.isprintable() else "?" for c in text))


class OutputError(Exception):
    """Output cannot be written; the text names the file and says why."""


def readable(text: str) -> str:
    """The text of an argument or a path, which may hold any bytes."""
    return UNPRINTABLE.sub("?", os.fsencode(text).decode("utf-8", "replace"))


def put(text: str) -> None:
    """Prints a result. Throws OutputError."""
    with said_of("the standard output"):
        try:
            print(text.rstrip("\n"), flush=True)
        except UnicodeEncodeError:  # a path with bytes that are no text
            print(readable(text), flush=True)


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
        stream.flush()
        os.fsync(handle)  # so that a sudden end of the machine leaves no empty file behind its name
    os.chmod(parts[path], 0o666 & ~MASK)


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
