# SPDX-License-Identifier: Apache-2.0
"""Interruptions at random times: the signal ends the verb, and nothing stays behind.

Nothing: no file in the folder or among the temporary ones that was not there before and is not a
complete result, and no process that it has started, however deep, in whatever session.
"""

import json
import os
import signal
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

from program import CHECKOUT, PROGRAMS, Case, is_revision, names_in, run

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PYTHON = [sys.executable, "-B"]
RUN = os.path.join(CHECKOUT, "properties", "shadow", "runs", "sound.jsonl")
CAMPAIGN = os.path.join(CHECKOUT, "bench", "campaign", "main.py")
ENGINES = os.path.join(CHECKOUT, "properties", "engines", "allocators", "run.py")
ADAPTER = os.path.join(CHECKOUT, "properties", "engines", "kit", "examples", "adapter.py")

# name, seconds until nothing more of interest begins, the program and its arguments
RUNS = (
    ("bench", 1.0, "bench", "--smoke", "--filter=life_cycle|pool", "--json=bench.json"),
    ("replay", 0.3, "replay", "--trace=chat", "--json=replay.json"),
    ("serving", 0.3, "replay", "--trace=chat", "--simulate", "--json=served.json"),
    ("study", 0.5, "study", "utilisation", "live_memory", "--json=study.json"),
    ("check", 1.0, "check", "--json=check.json"),
    ("mutants", 1.0, "selftest", "--mutants", "--json=mutants.json"),
    ("exhaustive", 0.5, "check", "--exhaustive", "--json=exhaustive.json"),
    ("on disk", 0.5, "check", "--exhaustive=forks", "--visited-memory-gib=0.0001"),
    ("adapter", 0.5, "check", f"--subject-command={sys.executable} {ADAPTER}", "--json=check.json"),
    # A program in a program, neither of which ends by itself.
    ("hanging", 0.5, "check", "--subject-command=sleep 9999; true", "--start-limit-seconds=9000"),
    ("gate", 1.5, "gate", "--against=naive", "--operations=1", "--json=gate.json"),
    ("live", 0.5, "live", *[RUN] * 300, "--json=live.json"),
    ("report", 8.0, "/bin/sh", os.path.join(CHECKOUT, "reports", "run.sh"), "--smoke",
     "--output=out"),
    ("campaign", 4.0, *PYTHON, CAMPAIGN, "run", "plan.json", "--output=out", "--jobs=2"),
    ("engines", 4.0, *PYTHON, ENGINES, "--engine=kvproof", "--json=engines.json"),
    ("revision", 3.0, "gate", "--against=HEAD", "--operations=1", "--json=gate.json"),
)
TIMES = 10  # that each is interrupted
FILES = {"kvproof-failure-1.jsonl", "kvproof-failure-1.html"}
# Tasks of which each takes a part of a second; an adapter leaves a process in a session of its own.
LEAVER = f"sh -c 'setsid sleep 9999 & exec {sys.executable} {ADAPTER}'"
PLAN = {"kvproof_plan": 1, "tasks": [
    {"kind": "check", "options": ["--subject=naive", "--operations=5000"], "seeds": [1, 40]},
    {"kind": "check", "options": [f"--subject-command={LEAVER}", "--operations=2000"],
     "seeds": [1, 40]}]}


class Interruptions(Case):
    def check(self, words, number, most, outcome, files):
        self.assertEqual(outcome.files, [], f"left behind by {number.name}: {outcome}")
        self.assertEqual(outcome.processes, [], f"left running by {number.name}: {outcome}")
        for path, is_whole in files.items():
            ours = f"--json={path}" in words or path.startswith("out" + os.sep)
            named = number == signal.SIGKILL or ".part-" not in path  # the next run goes on
            self.assertTrue(path in FILES or ours and is_whole and named,
                            f"left {path} by {number.name}: {outcome}")
        ended = outcome.code in (-number, 130, 0, 1, 3, 77)  # or it was faster than the signal
        self.assertTrue(ended, f"{number.name}: {outcome}")
        self.assertLess(outcome.seconds, (most + 8) * os.cpu_count(), outcome)

    def test_all(self):
        plans = []
        for name, most, *words in RUNS:
            if name == "revision" and not is_revision():
                print("not interrupted: gate --against=HEAD, for this is no git checkout")
                continue
            # Of the two another process clears away, so that they can be killed, too.
            sent = (*SIGNALS, signal.SIGKILL) if name in ("campaign", "engines") else SIGNALS
            plans += [(words, self.random.choice(sent), most, self.random.random() * most)
                      for _ in range(TIMES)]
        with ThreadPoolExecutor(3) as pool:  # they mostly wait
            for ended in pool.map(lambda plan: interrupted(*plan), plans):
                self.check(*ended)
        print(f"{len(plans)} interruptions", flush=True)

    def test_a_process_that_stays_is_seen(self):
        """The test of this test."""
        with mock.patch("program.PATIENCE", 1):
            outcome = run("/bin/sh", "-c", "sleep 300.125 & touch left.part-1; exit 0")
        self.assertEqual(outcome.files, ["left.part-1"])
        self.assertEqual(outcome.processes, ["sleep 300.125"])

    def test_nohup_stays_nohup(self):
        outcome = run("replay", "--trace=chat", "--requests=20000",
                      signal_after=(signal.SIGHUP, 0.2),
                      prepare=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual(outcome.code, 0, outcome)


def interrupted(words, number, most, after):
    """What came of it: as the arguments of check()."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "plan.json"), "w", encoding="utf-8") as stream:
            json.dump(PLAN, stream)
        outcome = run(*words, folder=folder, signal_after=(number, after),
                      environment={"KVPROOF_BIN": PROGRAMS})
        files = {path: is_whole(os.path.join(folder, path)) for path in names_in(folder)
                 if path != "plan.json" and not os.path.isdir(os.path.join(folder, path))}
    return words, number, most, outcome, files


def is_whole(path):
    """Whether a result file is; of others it does not say."""
    try:
        with open(path, encoding="utf-8") as stream:
            return not path.endswith(".json") or json.load(stream) is not None
    except ValueError:
        return False


if __name__ == "__main__":
    unittest.main(verbosity=2)
