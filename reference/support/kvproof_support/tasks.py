# SPDX-License-Identifier: Apache-2.0
"""The one thing that starts processes for a verb: a task is a command with limits, an environment,
a result file and an exit code; a verb is a plan of tasks.

What a task has started ends with it: its process group at once; and what left that, known by its
mark in the environment or because orphans come to this process, when the task is late or is ended
by a signal, else when no task runs any more. A runner that is stopped by a signal asks its tasks to
end, so that they remove their unfinished files, and then kills them. If the runner itself is
killed, its keeper does the same. Needs Linux 5.3.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import ctypes
import functools
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, TypeVar

from kvproof_support import stopping
from kvproof_support.files import said_of
from kvproof_support.results import Row, read_rows

LIMIT, NOT_STARTED = 124, 127
MARK = "KVPROOF_TASKS"  # of the environment: the tasks that a process belongs to, one in another
GRACE_SECONDS = 2       # from the request to end until the kill
PR_SET_CHILD_SUBREAPER = 36
Item = TypeVar("Item")
Made = TypeVar("Made")
running: set[int] = set()  # the tasks of this process, each of which leads a session
lock = threading.Lock()


class Stopped(Exception):
    """The user, or another program, has asked the runner to stop."""


@dataclass(frozen=True)
class Task:
    name: str                          # what the progress shows
    command: tuple[str, ...] = ()
    result: str = ""                   # the result file that it writes, if it writes one
    log: str = os.devnull              # the file that gets what it prints, both streams; if it
                                       # is empty, it prints where this process does
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

    def last_line(self, otherwise: str | None = None) -> str:
        lines = [line for line in self.printed().splitlines() if line.strip()]
        if not lines and otherwise is None:
            otherwise = f"it printed nothing and ended with {self.exit_code}"
        return lines[-1].strip()[:300] if lines else otherwise or ""


class Runner:
    """Runs tasks, some at a time. `one` may be called by several threads. From when it is made, a
    signal stops it. At the end of its block, or of the process, its temporary folder `work` goes,
    which is that of its tasks, too. A verb that starts processes beside it leaves them in its own
    session."""

    def __init__(self, watch: Callable[[], object] = lambda: None):
        """@param watch is called now and then while a task runs, in the thread that made this; it
        may stop the runner. Throws OutputError."""
        self._count = 0
        self._stop_end, self._stop = os.pipe()
        self._watch, self._watched = watch, threading.get_ident()
        self._before = {each.pid for each in processes() if each.parent == os.getpid()}
        self.stopped = False
        with said_of("the temporary folder"), stopping.Held():
            self.work = os.path.realpath(tempfile.mkdtemp(prefix="kvproof-"))
            self._mark = f"/{os.getpid()}-{time.time_ns():x}."
            self._keeper = start_keeper(self._mark, self.work)
            atexit.register(self.close)
        if threading.current_thread() is threading.main_thread():
            stopping.handle(self.stop)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close()
        if self.stopped and not kind:
            raise Stopped

    def close(self) -> None:
        """From here on a signal ends this process."""
        atexit.unregister(self.close)
        shutil.rmtree(self.work, ignore_errors=True)
        with contextlib.suppress(OSError):  # it is closed already, or somebody killed the keeper
            self._keeper.send(b".")
            self._keeper.recv(1)
        self._keeper.close()
        if threading.current_thread() is threading.main_thread():
            stopping.end_at_once()

    def one(self, task: Task) -> Ended:
        """Runs a task to its end. Throws Stopped."""
        begin = time.monotonic()
        with contextlib.ExitStack() as open_files:
            log = open_files.enter_context(open(task.log, "wb")) if task.log else None
            out = open_files.enter_context(open(task.output, "wb")) if task.output else log
            with lock:
                if self.stopped:
                    raise Stopped
                self._count += 1
                mark = f"{self._mark}{self._count}/"
                environment = {**os.environ, "TMPDIR": self.work, **task.environment,
                               MARK: os.environ.get(MARK, "") + mark}
                try:
                    process = subprocess.Popen(
                        task.command, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                        cwd=task.folder, env=environment, start_new_session=True)
                except OSError:
                    return Ended(task, NOT_STARTED)
                running.add(process.pid)
        late = True
        try:
            late = self._wait(process.pid, task.limit_seconds)
        finally:
            usage = self._end(process, mark)
        self.check()
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
        yield from self.each(one, tasks, jobs)

    def each(self, do: Callable[[Item], Made], items: Iterable[Item], jobs: int = 1,
             prepare: Callable[[], object] = lambda: None) -> Iterator[Made]:
        """Calls do(item), which calls `one`, in `jobs` threads. @return what it returns, in order
        @param prepare is called in each of the threads"""
        with concurrent.futures.ThreadPoolExecutor(jobs, initializer=prepare) as pool:
            waits = [pool.submit(do, item) for item in items]
            try:
                for wait in waits:
                    yield self._result(wait)
            except GeneratorExit:  # nobody wants the others
                pool.shutdown(wait=True, cancel_futures=True)
            except BaseException:
                self.stop()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    @contextlib.contextmanager
    def open(self, command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[Any]]:
        """Starts a process that is talked to while it runs, and ends it behind the block. Throws
        Stopped, OSError. @param how as of Popen"""
        with lock:
            if self.stopped:
                raise Stopped
            self._count += 1
            mark = f"{self._mark}{self._count}/"
            process = subprocess.Popen(command, start_new_session=True, **how | {
                "env": {**how.get("env", os.environ), MARK: os.environ.get(MARK, "") + mark}})
            running.add(process.pid)

        def is_left(each: Process) -> bool:
            return each.session == process.pid or each.has(mark)

        def end_if_stopped() -> None:
            with contextlib.suppress(ProcessLookupError):
                self._wait(process.pid, None)
            if self.stopped:
                end(is_left)
        threading.Thread(target=end_if_stopped, daemon=True).start()
        try:
            yield process
        finally:
            end(is_left)
            process.wait()
            with lock:
                running.discard(process.pid)
            for stream in filter(None, (process.stdin, process.stdout)):
                with contextlib.suppress(OSError):
                    stream.close()
            self.check()

    def check(self) -> None:
        """Throws Stopped if the runner was stopped."""
        if self.stopped:
            raise Stopped

    def stop(self) -> None:
        """Ends what runs; nothing begins any more. A handler of signals may call it."""
        if not self.stopped:
            self.stopped = True
            os.write(self._stop, b".")  # nobody reads it: whoever waits, and will wait, wakes up

    def _result(self, wait: concurrent.futures.Future[Made]) -> Made:
        """Waits for the work of another thread, and watches meanwhile."""
        while True:
            with contextlib.suppress(concurrent.futures.TimeoutError):
                return wait.result(0.25)
            if wait.done():
                return wait.result()
            if threading.get_ident() == self._watched:
                self._watch()

    def _wait(self, pid: int, limit: float | None) -> bool:
        """Waits until the task has ended, is late, or is to stop. @return whether it is late"""
        ended = os.pidfd_open(pid)
        try:
            events = select.poll()
            events.register(ended, select.POLLIN)
            events.register(self._stop_end, select.POLLIN)
            end = time.monotonic() + (limit or 1e9)
            pause = 0.01
            while not events.poll(1000 * max(0, min(pause, end - time.monotonic()))):
                if time.monotonic() >= end:
                    return True
                pause = min(0.25, 2 * pause)
                if threading.get_ident() == self._watched:
                    self._watch()
        finally:
            os.close(ended)
        return False

    def _end(self, process: subprocess.Popen[bytes], mark: str) -> resource.struct_rusage:
        """Ends what is left of a task; until it is waited for, nothing else gets its number."""
        pid = process.pid
        over = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if over and over.si_code == os.CLD_EXITED:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        else:
            end(lambda each: each.session == pid or each.has(mark))
        with lock:
            _, status, usage = os.wait4(pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            running.discard(pid)
            with contextlib.suppress(ChildProcessError):
                if not running:
                    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # there is a child
                    self._end_orphans()
        return usage

    def _end_orphans(self) -> None:
        """Ends what tasks that have ended have left to this process."""
        here, session = os.getpid(), os.getsid(0)

        def is_orphan(each: Process) -> bool:
            is_child = each.parent == here and each.session != session
            return is_child and each.pid not in self._before or each.has(self._mark)
        end(is_orphan)
        for each in filter(is_orphan, processes(zombies=True)):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(each.pid, os.WNOHANG)


@functools.cache
def runner() -> Runner:
    """@return the runner of this process, which is one verb"""
    return Runner()


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    session: int

    def has(self, mark: str) -> bool:
        with contextlib.suppress(OSError), open(f"/proc/{self.pid}/environ", "rb") as file:
            return mark.encode() in file.read()
        return False


def processes(zombies: bool = False) -> Iterator[Process]:
    """@return the processes of this machine, ended ones only where they are wanted"""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
            if zombies or state not in b"ZX":
                yield Process(int(name), int(parent), int(session))


def family(is_head: Callable[[Process], bool]) -> set[int]:
    """@return the processes of which that holds, and whatever they have started"""
    here = list(processes())
    found = {each.pid for each in here if is_head(each)}
    while more := {each.pid for each in here if each.parent in found} - found:
        found |= more
    return found


def end(is_head: Callable[[Process], bool]) -> None:
    """Asks a family to end, and kills what has not ended then."""
    asked: set[int] = set()
    until, pause, empty = time.monotonic() + GRACE_SECONDS, 0.005, 0
    while empty < 2 and time.monotonic() < until + GRACE_SECONDS:  # nobody can kill what hangs in
        left = family(is_head)                                     # the kernel
        is_late = time.monotonic() >= until
        for pid in left if is_late else left - asked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL if is_late else signal.SIGTERM)
        asked |= left
        empty = 0 if left else empty + 1  # what is born during a look may be missed by it
        if left:
            time.sleep(pause)
            pause = min(0.1, 2 * pause)


def let_orphans_come(do: bool) -> None:
    """Makes this process the parent of what ended children have started; or not."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(do))


def start_keeper(mark: str, work: str) -> socket.socket:
    """Starts the process that clears away when this one ends without a word.
    @return the end on which to say the word"""
    ours, theirs = socket.socketpair()
    let_orphans_come(False)
    first = os.fork()
    if first:
        theirs.close()
        os.waitpid(first, 0)
        let_orphans_come(True)
        return ours
    try:
        if os.fork():  # the keeper is nobody's child here
            os._exit(0)
        os.setsid()
        for number in stopping.SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, theirs.fileno())  # whoever reads them is not to wait for this process
        os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        if not theirs.recv(1):
            end(lambda each: each.has(mark))
            shutil.rmtree(work, ignore_errors=True)
    finally:
        os._exit(0)
