# SPDX-License-Identifier: Apache-2.0
"""Tests that a signal ends the scripts that draw, whatever they do, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from unittest import mock

from kvproof_support import stopping
from kvproof_support.files import write
from kvproof_report.tests import sample_results
from kvproof_report.tests.support import FolderTest, script


# Until a script handles signals, its interpreter answers with a traceback: it is to get them later.
LATER = ["env", "--block-signal=INT,TERM,HUP"]


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
