# SPDX-License-Identifier: Apache-2.0
"""The folder of a report: while one report writes into it, no other does."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Iterator

from kvproof_support.files import OutputError, make_folders, remove


@contextlib.contextmanager
def held(folder: str) -> Iterator[None]:
    """Makes the folder and holds it; one that was not there and is empty at the end goes again.
    Throws OutputError."""
    try:
        made = make_folders(folder)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise OutputError(
            f"{folder}: cannot be made ({error.strerror}); expected a folder") from None
    try:
        try:
            if not os.access(folder, os.W_OK):
                raise OutputError(f"{folder}: cannot be written")
            lock(handle, folder)
            yield
        finally:
            os.close(handle)
    finally:
        remove([], made)


def lock(handle: int, folder: str) -> None:
    """The lock is on the folder itself and ends with this process: there is nothing to remove."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputError(f"{folder}: {holder_of(handle)} writes a report into it; expected a "
                          "folder of its own") from None
    except OSError:  # a file system that has no such locks
        pass


def holder_of(handle: int) -> str:
    """The process that holds the lock, where the system says so."""
    inode = str(os.fstat(handle).st_ino)
    with contextlib.suppress(OSError), open("/proc/locks", encoding="ascii") as stream:
        for line in stream:  # "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode:
                return f"process {words[4]}"
    return "another process"
