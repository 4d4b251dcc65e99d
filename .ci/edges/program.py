# SPDX-License-Identifier: Apache-2.0
"""Runs one of the programs as a user would, and says everything that came of it.

A run gets a folder of its own to work in and another one for temporary files, whose name its
processes have in their environment, and a session of its own, so that whatever it leaves behind can
be found.
"""

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from dataclasses import dataclass, field

from kvproof_support.tasks import processes

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.environ.get("KVPROOF_BIN", os.path.join(CHECKOUT, "build", "release", "bin"))
PLUGINS = os.path.join(os.path.dirname(PROGRAMS), "plugins")
SEED = int(os.environ.get("KVPROOF_SEED", "1"))
MOST_BYTES = 1 << 30  # of memory, for whatever input
MOST_SECONDS = 3600  # a hang; what is slow is told by the time of the processor
PATIENCE = 60  # seconds in which the system ends what was killed


@dataclass
class Outcome:
    words: list
    code: int          # negative: the signal that ended it
    out: bytes
    error: bytes
    bytes_at_most: int
    seconds: float  # of the processor, with those of what it started and waited for
    files: list = field(default_factory=list)      # left in its folders
    processes: list = field(default_factory=list)  # left of those that it has started

    @property
    def lines(self):
        return self.error.decode("utf-8", "replace").splitlines()

    def __str__(self):
        return (f"{' '.join(self.words)}\n  ended with {self.code} after "
                f"{self.seconds:.1f} s of the processor, "
                f"{self.bytes_at_most >> 20} MiB\n  stderr: {self.error[:400]!r}\n"
                f"  stdout: {self.out[-200:]!r}\n  left: {self.files} {self.processes}")


def program(name):
    return os.path.join(PROGRAMS, f"kvproof-{name}")


def is_revision():
    """Whether the checkout has a revision, to compare with."""
    return subprocess.run(["git", "-C", CHECKOUT, "rev-parse", "-q", "--verify", "HEAD"],
                          capture_output=True, check=False).returncode == 0


def names_in(folder):
    return sorted(os.path.relpath(os.path.join(root, name), folder)
                  for root, folders, files in os.walk(folder) for name in folders + files)


def left_of(session, mark):
    """The command lines of processes that are in a session or have a text in their environment, and
    do not end soon: the system takes a moment to kill."""
    end = time.monotonic() + PATIENCE
    while found := [each.pid for each in processes() if each.session == session or each.has(mark)]:
        if time.monotonic() >= end:
            break
        time.sleep(0.05)
    said = []
    for pid in found:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="utf-8",
                                                errors="replace") as stream:
            said.append(stream.read().replace("\0", " ").strip())
    return said


def run(name, *arguments, folder=None, signal_after=None, environment=None, stdout=None,
        prepare=None):
    """@param name of a verb's program, or the path of any program
    @param folder where it runs, whose new files are expected; none: one that must stay empty
    @param signal_after (signal, seconds)
    @param stdout a path that it prints to
    @param prepare is called in the new process"""
    words = [name if "/" in name else program(name), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as temporary:
        where = folder or work
        variables = {**os.environ, "TMPDIR": temporary, **(environment or {})}
        with open(stdout or os.path.join(temporary, "out"), "wb") as out, \
                open(os.path.join(temporary, "error"), "w+b") as error:
            process = subprocess.Popen(words, cwd=where, env=variables, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=error, start_new_session=True,
                                       preexec_fn=prepare)
            stop = threading.Timer(MOST_SECONDS, lambda: os.killpg(process.pid, signal.SIGKILL))
            stop.start()
            if signal_after:
                time.sleep(signal_after[1])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal_after[0])
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            stop.cancel()
            error.seek(0)
            said = error.read()
        printed = b""
        if not stdout:
            with open(os.path.join(temporary, "out"), "rb") as stream:
                printed = stream.read()
        outcome = Outcome(words, process.returncode, printed, said, usage.ru_maxrss * 1024,
                          usage.ru_utime + usage.ru_stime)
        outcome.processes = left_of(process.pid, temporary)
        outcome.files = [name for name in names_in(temporary) if name not in ("out", "error")]
        outcome.files += [] if folder else names_in(work)
    return outcome


class Case(unittest.TestCase):
    """Prints the seed, and how to repeat a failure."""

    longMessage = True

    @classmethod
    def setUpClass(cls):
        if not os.access(program("replay"), os.X_OK):
            raise unittest.SkipTest(f"no programs in {PROGRAMS}")
        print(f"seed {SEED}; the same again: KVPROOF_SEED={SEED}", flush=True)

    def setUp(self):
        self.random = random.Random(f"{SEED} {self.id()}")
        begin = time.monotonic()
        self.addCleanup(lambda: print(f"{time.monotonic() - begin:.1f} s ", end="", flush=True))

    def clean(self, outcome, what=""):
        """Nothing that is wrong for whatever input."""
        told = f"{what}\n{outcome}"
        self.assertGreaterEqual(outcome.code, 0, f"ended by a signal: {told}")
        self.assertIn(outcome.code, (0, 1, 2, 3), told)
        self.assertLess(outcome.bytes_at_most, MOST_BYTES, f"took too much memory: {told}")
        self.assertEqual(outcome.files, [], f"left files behind: {told}")
        self.assertEqual(outcome.processes, [], f"left processes behind: {told}")

    def refused(self, outcome, *parts, what=""):
        """Exit code 2 and one line, with these parts in it."""
        self.clean(outcome, what)
        told = f"{what}\n{outcome}"
        self.assertEqual(outcome.code, 2, told)
        self.assertEqual(len(outcome.lines), 1, f"expected one line: {told}")
        self.assertNotIn("json.exception", outcome.lines[0], told)
        self.assertLess(len(outcome.lines[0]), 1000, told)
        for part in parts:
            self.assertIn(part, outcome.lines[0], told)


class Folder(Case):
    """With a folder for each test."""

    def setUp(self):
        super().setUp()
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as stream:
            stream.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as stream:
            return stream.read()
