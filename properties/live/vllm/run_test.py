#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of a campaign against vLLM's scheduler. vLLM and the judge are stand-ins."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import world

ONE, TWO, THREE = [case.name for case in world.CASES[:3]]
HOLDS = '{"laws": [{"law": "S1", "name": "content", "sentence": "-"}], "environment": {}, ' \
    '"runs": [{"steps": 1000, "requests": 1, "spoke": {"S1": 1}, "findings": [FINDINGS]}]}'
# It notes of which case and seed, and of which copy, its run is.
DRIVER = """#!/bin/sh
for word do case $word in --output=*) file=${word#*=} ;; esac; done
echo "$* $PYTHONPATH" >"$file"
case $* in
  *--case=TWO*) echo "it broke" >&2; exit 1 ;;
  *--seed=9*) echo $$ >"$RUNNING"; exec sleep 9999 ;;
esac
"""
JUDGE = f"""#!/bin/sh
grep -q -e '--case=THREE' "$1" && {{ echo "$1: line 2: expected an integer" >&2; exit 2; }}
found=
grep -v /mended "$1" | grep -q -e /fault-0 -e '--seed=7' && found='{{"law": "S1", "what": "wrong"}}'
echo '{HOLDS}' | sed "s/FINDINGS/$found/" >"${{2#--json=}}"
[ -z "$found" ]
"""
# The verb, whose environments and faults are others.
VERB = """import pathlib, sys, run, seeded
work, sys.argv = pathlib.Path(sys.argv[1]), ["run.py", *sys.argv[2:]]
run.CHECKOUT, run.environment, run.site_packages = work, lambda *_, **__: work, lambda _: work
seeded.MENDS, seeded.FAULTS = {}, [
    seeded.Fault("blocks are lost", "S1", "ONE", seeded.Change("pool.py", "right", "wrong"))]
sys.exit(run.main())
"""


class CampaignTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        for path, text in (("bin/python", DRIVER), ("bin/kvproof-live", JUDGE),
                           ("vllm/pool.py", "right = 1\n")):
            self.work.joinpath(path).parent.mkdir(exist_ok=True)
            self.work.joinpath(path).write_text(text.replace("TWO", TWO).replace("THREE", THREE))
            self.work.joinpath(path).chmod(0o755)
        (self.work / "tmp").mkdir()

    def start(self, *words):
        return subprocess.Popen(
            [sys.executable, "-B", "-c", VERB.replace("ONE", ONE), str(self.work),
             "--scheduler=vllm", "--steps=3000", "--json=out.json", *words], cwd=self.work,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(
                os.environ, PYTHONPATH=str(pathlib.Path(__file__).parent), KVPROOF_BIN=str(
                    self.work / "bin"), TMPDIR=str(self.work / "tmp"),
                RUNNING=str(self.work / "running")))

    def ended(self, code, *words):
        """@return what it printed, and its results"""
        process = self.start(*words)
        out, errors = process.communicate()
        self.assertEqual((process.returncode, errors), (code, ""), out)
        self.assertEqual(os.listdir(self.work / "tmp"), [])
        return out, json.loads((self.work / "out.json").read_text())

    def test_a_run_that_cannot_be_judged_loses_no_other(self):
        for seed, code, new in ((1, 2, 0), (7, 1, 1)):
            out, told = self.ended(code, f"--seed={seed}", *(
                f"--case={case}" for case in (ONE, TWO, THREE)))
            self.assertIn("1000 steps in 1 runs", out)
            self.assertIn("faults detected: 1 of 1", out)
            self.assertIn(f"NOT JUDGED: {TWO}, seed {seed}: python: it broke\n  repeat: ./kvproof "
                          f"live --scheduler=vllm --case={TWO} --seed={seed} --steps=1000", out)
            kept = f"build/engines/{THREE}-{seed}-vllm.jsonl"
            self.assertIn(f"{THREE}, seed {seed}: kvproof-live: {kept}: line 2: expected", out)
            self.assertIn(f"--case={THREE}", (self.work / kept).read_text())
            self.assertEqual((told["runs"], told["findings_new"], told["noticed"]), (1, new, 1))
            self.assertEqual([row["case"] for row in told["unjudged"]], sorted([TWO, THREE]))

    def test_interrupted_it_leaves_nothing(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)):
            process = self.start("--seed=9", f"--case={ONE}")
            running = self.work / "running"
            while not running.exists() or not running.read_text():
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            process.send_signal(number)
            process.communicate()
            self.assertEqual(process.returncode, code)
            self.assertEqual(os.listdir(self.work / "tmp"), [])
            self.assertFalse((self.work / "out.json").exists())
            with self.assertRaises(ProcessLookupError):
                os.kill(int(running.read_text()), 0)
            running.unlink()


if __name__ == "__main__":
    unittest.main()
