# SPDX-License-Identifier: Apache-2.0
"""Tests that a signal ends scripts, whatever they do, and what their tasks have started."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from unittest import mock

from kvproof_support import stopping
from kvproof_support.files import write
from kvproof_support.tasks import LIMIT, NOT_STARTED, Runner, Stopped, Task, processes
from kvproof_report.tests import sample_results
from kvproof_report.tests.support import FolderTest, script


# Until a script handles signals, its interpreter answers with a traceback: it is to get them later.
LATER = ["env", "--block-signal=INT,TERM,HUP"]


# Starts a process in a session of its own, one that has no environment either, and one that stays
# when it is asked to end.
BREEDER = """setsid sleep 9000 & env -i setsid sleep 9000 &
(trap '' TERM; while :; do sleep 0.01; done) & : >ready; """


class RunnerTest(FolderTest):
    def one(self, script, **how):
        return self.runner.one(Task("one", ("sh", "-c", BREEDER + script), folder=self.folder,
                                    **how)).exit_code

    def setUp(self):
        super().setUp()
        self.runner = Runner()
        self.addCleanup(self.runner.close)

    def test_what_a_task_has_started_ends_with_it(self):
        for script, code, limit in (("exit 0", 0, None), ("exit 3", 3, None), ("wait", LIMIT, 0.5),
                                    ("kill -9 $$", -9, None)):
            self.assertEqual(self.one(script, limit_seconds=limit), code)
            self.assertEqual(self.left(), [])
        self.assertEqual(self.runner.one(Task("none", ("/absent",))).exit_code, NOT_STARTED)

    def test_what_was_here_before_a_runner_goes_on(self):
        other = subprocess.Popen(["sleep", "9000"], start_new_session=True)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        runner = Runner()
        self.addCleanup(runner.close)
        self.assertEqual(runner.one(Task("one", ("true",))).exit_code, 0)
        self.assertIsNone(other.poll())

    def test_a_signal_ends_all_tasks_and_the_next_does_not_begin(self):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        task = Task("one", ("sh", "-c", BREEDER + "wait"), folder=self.folder)
        with self.assertRaises(Stopped):
            list(self.runner.run([task] * 5, jobs=2))
        self.assertEqual(self.left(), [])
        with self.assertRaises(Stopped):
            self.one("exit 0")

    def test_a_runner_that_is_killed_leaves_no_task_and_no_folder(self):
        process = os.fork()
        if process == 0:
            self.runner = Runner()
            write(self.path("work"), self.runner.work.encode())
            self.one("wait")
        while not os.path.exists(self.path("ready")):
            time.sleep(0.01)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        end = time.monotonic() + 60  # its keeper takes two seconds to kill what does not obey
        while os.path.exists(self.content("work")) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(os.path.exists(self.content("work")))
        self.assertEqual(self.left(), [])

    def left(self):
        """@return what runs in the folder"""
        found = []
        for each in processes():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{each.pid}/cwd") == os.path.realpath(self.folder):
                    found.append(each)
        return found


class StoppingTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.samples = self.make("samples")
        sample_results.write_all(self.samples)

    def stop(self, delay, number, *command):
        """Starts the script and sends it the signal. @return its exit code and what it said"""
        process = subprocess.Popen([*LATER, sys.executable, *command], cwd=self.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        time.sleep(delay)
        process.send_signal(number)
        _, said = process.communicate(timeout=3600)
        return process.returncode, said.decode()

    def test_scripts_end_whatever_they_do(self):
        if subprocess.run([*LATER, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("env cannot block signals here")
        page, figure, compare = map(script, ("make_page", "draw_figure", "compare"))
        models = os.path.join(self.samples, "memory_of_models.json")
        os.mkfifo(self.path("pipe.svg"))  # nobody reads: they wait at the end
        for delay, number, command in (
                (0.02, signal.SIGINT, (page, models, "--output=pipe.svg")),
                (0.1, signal.SIGHUP, (page, models, "--output=new/report.html", "--png")),
                (0.7, signal.SIGTERM, (compare, self.samples, "--output=pipe.svg")),
                (1.5, signal.SIGINT, (page, models, "--output=pipe.svg")),
                (1.5, signal.SIGTERM, (figure, models, "--figure=memory-of-models",
                                       "--output=pipe.svg"))):
            code, said = self.stop(delay, number, *command)
            self.assertEqual((code, said), (stopping.STOPPED, ""), command)
            self.assertEqual(sorted(os.listdir(self.folder)), ["pipe.svg", "samples"])

    def test_signal_waits_while_files_are_written(self):
        came = []
        before = signal.signal(signal.SIGTERM, lambda *_: came.append(os.listdir(self.folder)))
        self.addCleanup(signal.signal, signal.SIGTERM, before)

        replace = os.replace

        def stopped_before(*arguments):
            os.kill(os.getpid(), signal.SIGTERM)
            replace(*arguments)
        with mock.patch("os.replace", stopped_before):
            write(self.path("a"), b"1")
        self.assertEqual([sorted(names) for names in came], [["a", "samples"]])
