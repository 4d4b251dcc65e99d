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

PATCHER = pathlib.Path(os.environ["KVPROOF_BIN"], "kvproof_patch_sources")
ONE, TWO, THREE = [case.name for case in world.CASES[:3]]
ROWS = r"""{"results": [{"experiment": "live_run", "parameters": {}, "metrics": {"steps": {"value":
1000}, "requests": {"value": 1}}}, {"experiment": "live_law", "parameters": {"law": "S1", "name":
"content"}, "metrics": {"evaluated": {"value": 1}}}FOUND]}"""
FOUND = r""", {"experiment": "live_finding", "metrics": {}, "parameters": {"law": "S1", "name":
"content", "sentence": "-", "reason": "wrong", "event": 3}}"""
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
if grep -v /mended "$1" | grep -q -e /fault-0 -e '--seed=7'; then
  echo '{ROWS.replace("FOUND", FOUND)}' >"${{2#--json=}}"; exit 1
fi
echo '{ROWS.replace("FOUND", "")}' >"${{2#--json=}}"
"""
# The verb, whose environments and faults are others.
VERB = """import pathlib, sys, run, seeded
work, sys.argv = pathlib.Path(sys.argv[1]), ["run.py", *sys.argv[2:]]
env = run.environments
env.ENGINES, env.environment, env.site_packages = work, lambda *_, **__: work, lambda _: work
seeded.rows, seeded.MENDS, seeded.FAULTS = list, {}, [
    seeded.Fault("blocks are lost", "S1", "ONE", seeded.patches(work, "list")[0])]
sys.exit(run.verb.run("kvproof live", run.main))
"""
DESCRIBE = os.environ.get("KVPROOF_BIN", "build/release/bin") + "/kvproof-describe"


class CampaignTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        for path, text in (("bin/python", DRIVER), ("bin/kvproof-live", JUDGE),
                           ("vllm/pool.py", "right = 1\n"),
                           ("list", "file: pool.py\nA\n  [-right-]{+wrong+}\n")):
            self.work.joinpath(path).parent.mkdir(exist_ok=True)
            self.work.joinpath(path).write_text(text.replace("TWO", TWO).replace("THREE", THREE))
            self.work.joinpath(path).chmod(0o755)
        (self.work / "bin" / "kvproof-describe").symlink_to(DESCRIBE)
        (self.work / "bin" / PATCHER.name).symlink_to(PATCHER)
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
        """@return its rows"""
        process = self.start(*words)
        out, errors = process.communicate()
        self.assertEqual((process.returncode, errors), (code, ""), out)
        self.assertEqual(os.listdir(self.work / "tmp"), [])
        return json.loads((self.work / "out.json").read_text())["results"]

    def test_a_run_that_cannot_be_judged_loses_no_other(self):
        for seed, code, new in ((1, 2, 0), (7, 1, 1)):
            rows = self.ended(code, f"--seed={seed}", *(
                f"--case={case}" for case in (ONE, TWO, THREE)))
            run, law = ({row["experiment"]: row for row in rows}[name] for name in (
                "live_run", "live_law"))
            self.assertEqual([run["metrics"][name]["value"] for name in (
                "steps", "runs", "seeded", "detected", "findings_new")], [1000, 1, 1, 1, new])
            self.assertEqual([run["parameters"]["verdict"], law["parameters"]["verdict"]],
                             ["broken", "broken"] if new else ["cannot_tell", "holds"])
            unjudged = {row["parameters"]["case"]: row["parameters"] for row in rows
                        if row["experiment"] == "live_unjudged"}
            self.assertEqual({*unjudged}, {TWO, THREE})
            self.assertEqual(unjudged[TWO]["reason"], "python: it broke")
            self.assertEqual(unjudged[TWO]["repeat"], "./kvproof live --scheduler=vllm "
                             f"--case={TWO} --seed={seed} --steps=1000 --no-seeded")
            kept = f"{THREE}-{seed}-vllm.jsonl"
            self.assertIn(f"kvproof-live: {kept}: line 2: expected", unjudged[THREE]["reason"])
            self.assertIn(f"--case={THREE}", (self.work / kept).read_text())
            found = [row["parameters"] for row in rows
                     if row["experiment"] == "live_finding"]
            self.assertEqual([(row["case"], row["line"], row["file"]) for row in found],
                             [(ONE, 3, f"{ONE}-7.jsonl")] * new)

    def test_what_the_user_knows_is_not_new(self):
        (self.work / "mine.jsonl").write_text('{"law":"S1","says":"wrong","id":"MINE-1"}\n'
                                              '{"law":"S2","id":"MINE-2"}\n')
        rows = self.ended(0, "--seed=7", f"--case={ONE}", "--known=mine.jsonl")
        self.assertEqual([row["parameters"]["known"] for row in rows if row["experiment"] in (
            "live_finding", "known")], ["MINE-2", "MINE-1"])

    def test_interrupted_it_leaves_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start("--seed=9", f"--case={ONE}")
            running = self.work / "running"
            while not running.exists() or not running.read_text():
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            process.send_signal(number)
            process.communicate()
            self.assertEqual(process.returncode, 130)
            self.assertEqual(os.listdir(self.work / "tmp"), [])
            self.assertFalse((self.work / "out.json").exists())
            with self.assertRaises(ProcessLookupError):
                os.kill(int(running.read_text()), 0)
            running.unlink()


if __name__ == "__main__":
    unittest.main()
