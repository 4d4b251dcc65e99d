#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the recorder of runs: whoever reads, and whatever goes wrong, the engine goes on.

KVPROOF_LIVE_JUDGE names a judge that reads standard input; without it that part is skipped.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

from kvproof.live import recorder
from kvproof.live.recorder import Masked, Recorder

HEADER = {"kvproof_run": 1, "engine": "none", "patience": 9, "null_block": False,
          "tiers": [{"name": "device", "blocks": 4}],
          "groups": [{"block_size": 2, "window": 0, "state": False}]}
STALE = [HEADER, {"op": "request", "req": "a", "tokens": [1, 2, 3]},  # block 1 was never written
         {"op": "dispatch", "step": 0, "rows": [{"req": "a", "start": 2, "n": 1,
                                                 "tables": [[1, 2]]}]},
         {"op": "run", "step": 0}, {"op": "retire", "step": 0}]


def events_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Recording(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.pipe = folder.name, os.path.join(folder.name, "pipe")
        self.said = io.StringIO()
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(contextlib.redirect_stderr(self.said))
        stack.enter_context(mock.patch.object(recorder, "PATIENCE", 600))

    def test_a_folder_gets_a_file_that_only_its_owner_reads(self):
        recording = Recorder(self.folder)
        recording.emit({"op": "quiet"})
        recording.close()
        (name,) = os.listdir(self.folder)
        path = os.path.join(self.folder, name)
        self.assertEqual(events_of(path), [{"op": "quiet"}])
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    def test_what_finds_no_room_is_counted_and_nothing_is_put_behind_the_gap(self):
        os.mkfifo(self.pipe)
        recording = Recorder(self.pipe, room=4)
        began = time.monotonic()
        for number in range(10):
            recording.emit({"number": number})
        self.assertLess(time.monotonic() - began, recorder.PATIENCE)  # nobody reads, nobody waits
        lines = []
        with open(self.pipe, encoding="utf-8") as pipe:
            reader = threading.Thread(target=lambda: lines.extend(map(json.loads, pipe)))
            reader.start()
            recording.close()
            reader.join()
        lost = [line for line in lines if line.get("op") == "lost"]
        self.assertEqual(lines[:4], [{"number": number} for number in range(4)])
        self.assertEqual(sum(line["events"] for line in lost), 6)
        self.assertEqual(lines[4:], lost)

    def test_nobody_opens_the_pipe_and_the_engine_ends(self):
        os.mkfifo(self.pipe)
        recording = Recorder(self.pipe)
        recording.emit({"op": "quiet"})
        with mock.patch.object(recorder, "PATIENCE", 0.2):
            recording.close()
        self.assertTrue(recording.thread.is_alive())

    def test_a_full_disk_ends_the_recording_and_not_the_engine(self):
        recording = Recorder("/dev/full")
        recording.emit({"op": "quiet"})
        recording.close()
        self.assertIn("ends here: [Errno 28]", self.said.getvalue())

    def test_a_file_ends_with_a_whole_line_when_the_disk_is_full(self):
        path = os.path.join(self.folder, "run")
        program = (
            "import resource, signal, sys\n"
            "from kvproof.live import Recorder\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
            "recording = Recorder(sys.argv[1])\n"
            "for number in range(200): recording.emit({'number': number})\n"
            "recording.close(); print('goes on')\n")
        done = subprocess.run([sys.executable, "-B", "-c", program, path], capture_output=True,
                              text=True, check=False, cwd=os.path.dirname(__file__) or ".")
        self.assertEqual((done.returncode, done.stdout), (0, "goes on\n"))
        self.assertIn("File too large", done.stderr)
        numbers = [event["number"] for event in events_of(path)]
        self.assertTrue(numbers)
        self.assertEqual(numbers, list(range(len(numbers))))

    def test_a_judge_that_dies_is_said_and_the_engine_goes_on(self):
        with mock.patch.dict(os.environ, KVPROOF_LIVE_JUDGE="false"):
            recording = Recorder("judge")
            while "the recording of judge ends here" not in self.said.getvalue():
                recording.emit({"op": "quiet"})
                time.sleep(0.002)
            recording.close()
        self.assertFalse(recording.thread.is_alive())

    def test_a_translator_ends_with_what_it_writes_to(self):
        for where, environment in ((self.folder, {}), ("judge", {"KVPROOF_LIVE_JUDGE": "wc -l"})):
            with mock.patch.dict(os.environ, environment):
                recording = Recorder(where, translator="kvproof.live.vllm_told")
                recording.emit({"op": "quiet"})
                recording.emit(("withdraws", 1))
                recording.emit(("ran", 5, {}))  # of a step that nobody ordered
                recording.close()
            self.assertFalse(recording.thread.is_alive())
        (name,) = os.listdir(self.folder)
        lines = events_of(os.path.join(self.folder, name))
        self.assertEqual(lines[0], {"op": "quiet"})
        self.assertEqual([line["op"] for line in lines], ["quiet", "lost"])

    def test_a_translator_that_nobody_reads_ends_behind_the_engine(self):
        os.mkfifo(self.pipe)
        program = ("import sys, threading\nfrom kvproof.live import recorder\n"
                   "recorder.PATIENCE = 0.1\n"
                   "recorder.Recorder(sys.argv[1], translator='kvproof.live.vllm_told')\n")
        subprocess.run([sys.executable, "-B", "-c", program, self.pipe], check=True, timeout=3600,
                       stderr=subprocess.PIPE,  # until all have closed it
                       cwd=os.path.dirname(__file__) or ".")

    def test_there_is_no_such_folder(self):
        recording = Recorder(os.path.join(self.folder, "none", "run"))
        recording.emit({"op": "quiet"})
        recording.close()
        self.assertIn("No such file", self.said.getvalue())

    @unittest.skipUnless(os.environ.get("KVPROOF_LIVE_JUDGE"), "KVPROOF_LIVE_JUDGE is not set")
    def test_a_judge_says_what_is_wrong_while_the_engine_runs(self):
        command = os.environ["KVPROOF_LIVE_JUDGE"].split()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as judge:
            recording = Recorder(f"/proc/self/fd/{judge.stdin.fileno()}")
            for event in STALE:
                recording.emit(event)
            first = judge.stdout.readline()  # before the end
            recording.close()
            judge.stdin.close()
            rest = judge.stdout.read()
        self.assertIn(b"S1 content", first)
        self.assertIn(b": broken, S1 (content) first", rest)
        self.assertEqual(judge.returncode, 1)


class Tokens(unittest.TestCase):
    def test_equal_tokens_stay_equal_and_are_not_told(self):
        masked = Masked()
        masked.key = bytes(16)
        self.assertEqual(masked.of([5, 7, 5])[0], masked[5])
        self.assertEqual(len(set(masked.of(range(1000)))), 1000)
        self.assertFalse(set(masked.of(range(1000))) & set(range(1000)))
        self.assertNotEqual(Masked().key, Masked().key)

    def test_plain_ones_are_told_if_that_is_asked_for(self):
        with mock.patch.dict(os.environ, KVPROOF_LIVE_TOKENS="plain"):
            self.assertEqual(Masked().of([5, 7]), [5, 7])


if __name__ == "__main__":
    unittest.main()
