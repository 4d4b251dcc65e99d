# SPDX-License-Identifier: Apache-2.0
"""The one thing that starts processes for a verb: a task is a command with limits, an environment,
a result file and an exit code; a verb is a plan of tasks.

What a task has started ends with it. A runner that is stopped ends all its tasks, and what they
have started, before it returns.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Iterable, Iterator, Mapping

from kvproof_support.results import Row, read_rows


class Stopped(Exception):
    """The user, or another program, has asked the runner to stop."""


@dataclass(frozen=True)
class Task:
    name: str                          # what the progress shows
    command: tuple[str, ...]
    result: str = ""                   # the result file that it writes, if it writes one
    log: str = os.devnull              # the file that gets what it prints, both streams
    output: str = ""                   # the file of its standard output alone, if not the log
    environment: Mapping[str, str] = field(default_factory=dict)  # beside that of this process
    folder: str | None = None          # where it runs
    limit_seconds: float | None = None
    expected_seconds: float = 0        # for the progress


@dataclass(frozen=True)
class Ended:
    task: Task
    exit_code: int                     # 124: it ran past its limit; 127: it cannot be started
    seconds: float = 0
    cpu_seconds: float = 0
    peak_rss_bytes: int = 0

    def rows(self) -> list[Row]:
        """@return the rows of its result file; none if there is no file"""
        return read_rows(self.task.result) if self.task.result else []

    def printed(self) -> str:
        with open(self.task.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def last_line(self) -> str:
        lines = [line for line in self.printed().splitlines() if line.strip()]
        return (lines or [f"it printed nothing and ended with {self.exit_code}"])[-1].strip()[:300]


LIMIT, NOT_STARTED = 124, 127


class Runner:
    """Runs tasks, some at a time. `one` may be called by several threads."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def one(self, task: Task) -> Ended:
        """Runs a task to its end. Throws Stopped."""
        begin = time.monotonic()
        with open(task.log, "wb") as log, contextlib.ExitStack() as open_files:
            out = open_files.enter_context(open(task.output, "wb")) if task.output else log
            with self._lock:
                if self._stopped:
                    raise Stopped
                try:
                    process = subprocess.Popen(
                        task.command, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                        cwd=task.folder, env={**os.environ, **task.environment},
                        start_new_session=True)
                except OSError:
                    return Ended(task, NOT_STARTED)
                self._running.add(process)
        try:
            usage, late = self._wait(process, task.limit_seconds)
        finally:
            end(process)
            with self._lock:
                self._running.discard(process)
        if self._stopped:
            raise Stopped
        return Ended(task, LIMIT if late else process.returncode, time.monotonic() - begin,
                     usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)

    def run(self, tasks: Iterable[Task], jobs: int = 1,
            done: Callable[[Ended], None] = lambda _: None) -> Iterator[Ended]:
        """Runs tasks, `jobs` at a time. @return them in the order of the tasks. Throws Stopped.
        @param done is given each as it ends"""
        def one(task: Task) -> Ended:
            ended = self.one(task)
            done(ended)
            return ended
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                yield from pool.map(one, tasks)
            except BaseException:
                self.stop()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def stop(self) -> None:
        """Ends what runs; nothing begins any more. May be called by a handler of signals."""
        self._stopped = True
        for process in list(self._running):
            end(process)

    def _wait(self, process: subprocess.Popen[bytes],
              limit: float | None) -> tuple[resource.struct_rusage, bool]:
        """@return what it used, and whether it was ended for its limit"""
        late = threading.Event()

        def out_of_time() -> None:
            late.set()
            end(process)
        timer = threading.Timer(limit, out_of_time) if limit else None
        if timer:
            timer.daemon = True
            timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if timer:
            timer.cancel()
        return usage, late.is_set()


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a task and whatever it has started in its session's group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
