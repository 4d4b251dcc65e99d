#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of reports/run.sh with programs that only pretend to measure; 77 without matplotlib."""

import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError:
    print("skipped: matplotlib is not installed (Debian: python3-matplotlib)")
    sys.exit(77)

import sample_results  # noqa: E402

# Pretends to be kvproof-study and kvproof-bench: copies a sample to where the results belong.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >>"$SAMPLES/calls"
for arg do
  case $arg in
    --json=*) json=${arg#--json=} ;;
    --filter=*) name=${arg#--filter=^} ;;
    --*) ;;
    *) name=$arg ;;
  esac
done
case $name in
  "${FAILING:-}") echo "bench: warming up" >&2; echo "the <clock> stands still" >&2; exit 3 ;;
  "${UNREADABLE:-}") echo "trace.jsonl:7: input_length: expected a number" >&2; exit 2 ;;
  "${SLOW:-}") : >"$json.part-$$"; : >"$SAMPLES/slow"; exec sleep 60 ;;
  "${SILENT:-}") exit 0 ;;
esac
[ -z "${PAUSE:-}" ] || sleep "$PAUSE"
cp "$SAMPLES/$name.json" "$json"
"""


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="a b ")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.samples, self.bin = (os.path.join(self.folder, name) for name in ("samples", "bin"))
        os.mkdir(self.samples)
        os.mkdir(self.bin)
        sample_results.write_all(self.samples)
        for name in ("kvproof-study", "kvproof-bench"):
            path = os.path.join(self.bin, name)
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(PROGRAM)
            os.chmod(path, 0o755)
        self.environment = {**os.environ, "KVPROOF_BIN": self.bin, "KVPROOF_PYTHON": sys.executable,
                            "SAMPLES": self.samples, "TMPDIR": self.folder}

    def start(self, *arguments, stderr=subprocess.PIPE, **environment):
        return subprocess.Popen(["sh", os.path.join(HERE, "run.sh"), *arguments], cwd=self.folder,
                                env={**self.environment, **environment}, text=True,
                                stdout=subprocess.PIPE, stderr=stderr, start_new_session=True)

    def run_sh(self, *arguments, **environment):
        """(exit code, stdout, stderr)"""
        process = self.start(*arguments, **environment)
        out, said = process.communicate(timeout=120)
        return process.returncode, out, said

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def calls(self):
        with open(self.path("samples", "calls"), encoding="utf-8") as stream:
            return stream.read().splitlines()

    def page(self, folder="results"):
        with open(self.path(folder, "report.html"), encoding="utf-8") as stream:
            return stream.read()

    def test_measures_everything_and_ends_with_the_page(self):
        code, out, said = self.run_sh()
        self.assertEqual((code, out), (0, "results/report.html\n"), said)
        self.assertEqual(sorted(os.listdir(self.path("results"))), sorted(
            ["report.html"] + [maker.__name__ + ".json" for maker in sample_results.MEASURED]))
        self.assertRegex(said, r"1/13 live memory  \(\d+ s, about \d+ s left\)")
        self.assertIn("13/13 drawing the page", said)
        self.assertFalse([n for n in os.listdir(self.folder) if n.startswith("kvproof-report")])

    def test_results_of_check_that_lie_there_are_drawn_too(self):
        os.mkdir(self.path("results"))
        shutil.copy(self.path("samples", "mutant.json"), self.path("results", "mutants.json"))
        code, _, said = self.run_sh("--smoke")
        self.assertEqual(code, 0, said)
        self.assertTrue('<article id="kill-matrix">' in self.page())
        self.assertTrue('<article id="law-table" class="absent">' in self.page())

    def test_options_reach_the_parts_that_know_them(self):
        trace = self.path("some trace.jsonl")
        with open(trace, "w", encoding="utf-8"):
            pass
        code, out, said = self.run_sh("--smoke", f"--trace={trace}", "--output=my results", "--png")
        self.assertEqual((code, out), (0, "my results/report.html\n"), said)
        self.assertTrue(os.path.exists(self.path("my results", "figures", "live-memory.png")))
        for call in self.calls():
            self.assertIn("--smoke", call)
            reads = call.split()[1] in ("live_memory", "prefix_hit_rate",
                                        "waste_against_block_size", "serving")
            self.assertEqual(f"--trace={trace}" in call, reads, call)

    def test_failing_part_is_explained_and_the_rest_is_drawn(self):
        os.mkdir(self.path("results"))
        with open(self.path("results", "life_cycle.json"), "w", encoding="utf-8") as stream:
            stream.write("of an earlier run")
        code, out, said = self.run_sh(FAILING="life_cycle", SILENT="utilisation")
        self.assertEqual((code, out), (1, "results/report.html\n"), said)
        why = "kvproof-bench ended with exit code 3: the <clock> stands still"
        self.assertIn(f"kvproof report: life_cycle failed: {why}\n", said)
        self.assertTrue(why.replace("<", "&lt;").replace(">", "&gt;") in self.page())
        self.assertTrue("kvproof-study ended with exit code 0" in self.page())
        self.assertFalse(os.path.exists(self.path("results", "life_cycle.json")))

    def test_program_that_is_not_built_is_named(self):
        os.unlink(self.path("bin", "kvproof-bench"))
        code, out, said = self.run_sh()
        self.assertEqual((code, out), (1, "results/report.html\n"), said)
        self.assertTrue("not measured: kvproof-bench is not built" in self.page())

    def test_interrupt_leaves_finished_result_files(self):
        process = self.start(SLOW="utilisation")
        for _ in range(300):
            if os.path.exists(self.path("samples", "slow")):
                break
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130, said)
        self.assertEqual(sorted(os.listdir(self.path("results"))),
                         ["live_memory.json", "memory_of_one_request.json", "prefix_hit_rate.json",
                          "serving.json", "waste_against_block_size.json"])
        self.assertIn("make_page.py results/*.json --output=results/report.html", said)
        self.assertFalse([n for n in os.listdir(self.folder) if n.startswith("kvproof-report")])

    def test_unreadable_trace_stops_at_once(self):
        code, out, said = self.run_sh("--trace=absent.jsonl")
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(said, "kvproof report: absent.jsonl: cannot be read; expected a trace\n")
        code, out, said = self.run_sh(f"--trace={__file__}", UNREADABLE="live_memory")
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(said.splitlines()[-1], "trace.jsonl:7: input_length: expected a number")
        self.assertEqual(os.listdir(self.path("results")), [])

    def test_usage_errors_are_one_line(self):
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        for arguments, expected in ((["--bogus"], "unknown option '--bogus'"),
                                    (["--trace"], "--trace needs a value"),
                                    (["--output="], "--output needs a value"),
                                    (["--output=file/results"], "cannot be made")):
            code, out, said = self.run_sh(*arguments)
            self.assertEqual((code, out, said.count("\n")), (2, "", 1), said)
            self.assertIn(expected, said)
        self.assertEqual(self.run_sh(KVPROOF_BIN="")[0], 2)

    def test_help_has_an_example(self):
        code, out, _ = self.run_sh("--help")
        self.assertEqual(code, 0)
        self.assertIn("Example: kvproof report", out)
        self.assertFalse(os.path.exists(self.path("results")))

    def test_works_from_an_installation(self):
        """Only what is installed, in a folder that nobody may write to."""
        installed = self.path("share", "reports")
        os.makedirs(os.path.join(installed, "figures"))
        for folder in ("", "figures"):
            for name in os.listdir(os.path.join(HERE, folder)):
                if name.endswith(".py") or name == "run.sh" or name.startswith("page."):
                    shutil.copy(os.path.join(HERE, folder, name),
                                os.path.join(installed, folder, name))
            os.chmod(os.path.join(installed, folder), 0o555)
        done = subprocess.run(["sh", os.path.join(installed, "run.sh"), "--output=out"],
                              cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, check=False)
        for folder in ("", "figures"):  # so that it can be removed
            os.chmod(os.path.join(installed, folder), 0o755)
        self.assertEqual((done.returncode, done.stdout), (0, "out/report.html\n"), done.stderr)

    def test_terminal_gets_a_bar_with_an_estimate(self):
        try:
            ours, theirs = pty.openpty()
        except OSError as error:
            self.skipTest(f"this system gives out no terminals: {error}")
        process = self.start("--smoke", stderr=theirs, PAUSE="0.4")
        os.close(theirs)
        said = b""
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # Linux reports the end of a terminal so
                break
            if not chunk:
                break
            said += chunk
        os.close(ours)
        out, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (0, "results/report.html\n"))
        self.assertRegex(said.decode(), r"\[#+ +\] 10/13 pool operation  \d+ s, about \d+ s left")


if __name__ == "__main__":
    unittest.main()
