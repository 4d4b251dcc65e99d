# SPDX-License-Identifier: Apache-2.0
"""Tests of a whole report with programs that only pretend to measure."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time

from kvproof_report.common.parts import PARTS, parts_of
from kvproof_report.tests import sample_results
from kvproof_report.tests.support import REPORTS, FolderTest, read

NAMES = [part.name for part in parts_of("smoke")]
NUM_PARTS = len(NAMES)
SLOW_PART = "utilisation"  # the tests interrupt the run during this part
BEFORE_SLOW = NAMES[:NAMES.index(SLOW_PART)]

# Pretends to be kvproof-study and the others: it copies a sample to where results belong.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >>"$SAMPLES/calls"
case $0 in *check) name=check_law ;; esac
for arg do
  case $arg in
    --json=*) json=${arg#--json=} ;;
    --filter=*) name=${arg#--filter=^}; name=${name%%/*} ;;
    --mutants) name=mutant ;;
    --liars) name=liar ;;
    --peers) name=peers_kernels ;;
    --exhaustive) name=exhaustive ;;
    --*) ;;
    *) name=$arg ;;
  esac
done
case $name in
  "${FAILING:-}") echo "bench: warming up" >&2; echo "the <clock> stands still" >&2; exit 3 ;;
  "${UNREADABLE:-}") echo "trace.jsonl:7: input_length: expected a number" >&2; exit 2 ;;
  "${SLOW:-}") : >"$json.part-$$"; : >"$SAMPLES/slow"; exec sleep 7200 ;;
  "${SILENT:-}") exit 0 ;;
esac
[ -z "${PAUSE:-}" ] || sleep "$PAUSE"
[ "$name" = brand_new ] && shown=$name || shown=made_up_$name  # one without a figure
[ -f "$SAMPLES/$name.json" ] || cat >"$SAMPLES/$name.json" <<END
{"schema": 1, "environment": {}, "results": [{"experiment": "$shown", "parameters": {"case": "a"},
 "metrics": {"speed": {"value": 1, "unit": "m/s"}}}]}
END
cp "$SAMPLES/$name.json" "$json"
[ "$name" != "${VIOLATED:-}" ] || exit 1
[ "$name" != "${VAGUE:-}" ] || exit 3
"""

NEW_FIGURE = """
from kvproof_report.draw import drawing
from kvproof_report.draw.plot import Plot, plain_table


def draw(results, width):
    figure = drawing.new_figure(width, 100)
    drawing.place(figure, 20, 20, width - 40, 60).plot([r.value("speed") for r in results])
    return figure


PLOT = Plot("brand-new", "brand_new", "kvproof-study brand_new", draw, lambda results: "It is fast",
            "The line.", "Counted.", plain_table, section="Memory")
"""


class RunTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.samples, self.bin = self.make("samples"), self.make("bin")
        for name in ("kvproof-study", "kvproof-bench", "kvproof-check", "kvproof-selftest"):
            os.chmod(self.write(f"bin/{name}", PROGRAM), 0o755)
        self.environment = {**os.environ, "KVPROOF_BIN": self.bin, "KVPROOF_PYTHON": sys.executable,
                            "SAMPLES": self.samples, "TMPDIR": self.folder}

    def sample(self, *names):
        """Programs copy these results, or all. Of others they make up one that no figure shows:
        then the page is drawn soon, lacks figures, and the exit code is 1."""
        sample_results.write_all(self.samples, set(sample_results.NAMES) - set(
            names or sample_results.NAMES))

    def start(self, *arguments, stderr=subprocess.PIPE, reports=REPORTS, **environment):
        return subprocess.Popen(["sh", os.path.join(reports, "run.sh"), *arguments],
                                cwd=self.folder, env={**self.environment, **environment}, text=True,
                                stdout=subprocess.PIPE, stderr=stderr, start_new_session=True)

    def run_sh(self, *arguments, **environment):
        """(exit code, stdout, stderr)"""
        process = self.start(*arguments, **environment)
        out, said = process.communicate(timeout=3600)  # a hang, not a slow machine
        return process.returncode, out, said

    def copied(self, ignore):
        """@return a copy of reports/, with what it shares with other verbs, as it is installed"""
        shutil.copytree(REPORTS, self.path("reports"), ignore=ignore)
        return self.path("reports")

    def calls(self):
        return read(self.path("samples", "calls")).splitlines()

    def page(self, folder="results"):
        return read(self.path(folder, "report.html"))

    def test_measures_everything_and_ends_with_the_page(self):
        self.sample()
        number = len(parts_of("default"))
        code, out, said = self.run_sh()
        self.assertEqual((code, out), (0, "results/report.html\n"), said)
        self.assertEqual(sorted(os.listdir(self.path("results"))), sorted(
            ["report.html", "run.json"] + [f"{part.name}.json" for part in parts_of("default")]))
        self.assertRegex(said, rf"{number} parts, about \d+ s in all")
        self.assertRegex(said, rf"1/{number} live memory  \(\d+ s, about \d+ s left\)")
        self.assertIn(f"\n{number}/{number} ", said)
        self.assertIn("\ndrawing the page  (", said)
        self.assertRegex(said, r"The report took \d+ s; at most \d+ MB of memory \(")
        self.assertRegex(self.page(), r"<td[^>]*>memory of one request</td>"
                         r"(<td[^>]*>[\d.]+</td>){2}"
                         r"<td[^>]*>[\d.]+\u202fMB</td>")
        self.assertFalse([n for n in os.listdir(self.folder) if n.startswith("kvproof-")])
        first_look = [call for call in self.calls() if "=^movement" in call]
        self.assertRegex(first_look[0], r"--min-seconds-per-case=0\.02 --fewest-rounds=5 --json=")
        self.assertFalse('<article id="published' in self.page())
        self.assertIn("<dt>looked</dt>", self.page())

    def test_longer_runs_look_longer_and_hunt_every_bug(self):
        """Peers are measured where their download was agreed to."""
        self.sample("mutant", "liar", "exhaustive", "check_law", "peers_kernels")
        reports = self.copied(shutil.ignore_patterns("gallery", "__pycache__"))
        os.chmod(self.write("kvproof", PROGRAM), 0o755)
        code, _, said = self.run_sh("--thorough", "--json=summary.json", reports=reports,
                                    KVPROOF_YES="no")
        self.assertEqual(code, 1, said)
        self.assertIn("peers is left out: with --yes it", said)
        summary = json.loads(self.content("summary.json"))
        self.assertEqual((summary["passed"], summary["failed"], summary["skipped"]),
                         (len(parts_of("thorough")), 0, 0))
        self.assertGreater(summary["run_cpu_seconds"], 0)
        before = len(self.calls())
        code, _, said = self.run_sh("--full", reports=reports, KVPROOF_YES="yes")
        self.assertEqual(code, 1, said)
        self.assertEqual(self.calls()[-1],
                         "kvproof bench --yes --peers --json=results/peers.json")
        thorough, full = ([" ".join(call.split()[:-1]) for call in calls]
                          for calls in (self.calls()[:before], self.calls()[before:]))
        self.assertIn("kvproof-bench --filter=^movement", thorough)
        for call in ("kvproof-selftest --mutants", "kvproof-selftest --liars",
                     "kvproof-check --exhaustive", "kvproof-check",
                     "kvproof-bench --filter=^movement --min-seconds-per-case=1"):
            self.assertIn(call, full)
        for key in ("kill-matrix", "liar-matrix", "exhaustive-search", "laws", "peers-kernels"):
            self.assertTrue(f'<article id="{key}">' in self.page(), key)

    def test_new_part_is_one_row_and_new_figure_one_module_of_an_installation(self):
        """Only what is installed, in a folder that nobody may write to."""
        self.sample()
        reports = self.copied(lambda _, names: [
            name for name in names if name in ("gallery", "__pycache__") or "." in name and not (
                name.endswith(".py") or name == "run.sh" or name.startswith("page."))])
        self.write("reports/kvproof_report/figures/brand_new.py", NEW_FIGURE)
        parts = "reports/kvproof_report/common/parts.py"
        self.write(parts, self.content(parts).replace(
            b"PARTS = (\n", b'PARTS = (\n    study("brand_new", 1, 1),\n'))
        folders = [folder for folder, _, _ in os.walk(reports)]
        for folder in folders:
            os.chmod(folder, 0o555)
        code, _, said = self.run_sh("--smoke", reports=reports)
        for folder in folders:  # so that it can be removed
            os.chmod(folder, 0o755)
        self.assertEqual(code, 0, said)
        self.assertIn("kvproof-study brand_new --smoke --json=", self.calls()[0])
        memory = self.page()[self.page().index('<section id="memory">'):
                             self.page().index('<section id="prefix-cache">')]
        self.assertTrue('<article id="brand-new">\n<h3>It is fast</h3>' in memory)

    def test_options_reach_the_parts_that_know_them(self):
        """And results of other verbs that lie there are drawn, too."""
        self.sample()
        self.make("my results")
        for sample, left in (("mutant", "mutants"), ("engine_law", "engines"),
                             ("engine_history", "history"), ("live_law", "live"),
                             ("live_history", "live_history"), ("peers_kernels", "peers")):
            shutil.copy(self.path("samples", f"{sample}.json"),
                        self.path("my results", f"{left}.json"))
        trace = self.write("some trace.jsonl", "")
        code, out, said = self.run_sh("--smoke", f"--trace={trace}", "--output=my results", "--png",
                                      "--json=/dev/stdout")
        summary, page = out.splitlines()
        self.assertEqual((code, page), (0, "my results/report.html"), said)
        self.assertEqual(json.loads(summary)["failed"], 0)
        self.assertTrue(os.path.exists(self.path("my results", "figures", "live-memory.png")))
        for call in self.calls():
            self.assertIn("--operations=1500" if "-check " in call else "--smoke", call)
            reads = call.split()[1] in [part.name for part in PARTS if part.traces]
            self.assertEqual(f"--trace={trace}" in call, reads, call)
            self.assertEqual("--workloads" in call, reads, call)
        page = self.page("my results")
        for key in ("kill-matrix", "engines", "engine-history", "laws", "live-history",
                    "peers-kernels"):
            self.assertTrue(f'<article id="{key}">' in page, key)
        self.assertTrue('<p id="exhaustive-search" class="absent">' in page)

    def test_failing_part_is_explained_and_the_rest_is_drawn(self):
        self.make("results")
        self.write("results/memory_of_models.json", "of an earlier run")
        os.unlink(self.path("bin", "kvproof-bench"))
        code, out, said = self.run_sh(FAILING="memory_of_models", SILENT="utilisation")
        self.assertEqual((code, out), (1, "results/report.html\n"), said)
        why = "kvproof-study ended with exit code 3: the <clock> stands still"
        self.assertIn(f"kvproof report: memory_of_models failed: {why}\n", said)
        self.assertTrue(why.replace("<", "&lt;").replace(">", "&gt;") in self.page())
        self.assertTrue("kvproof-study ended with exit code 0" in self.page())
        self.assertTrue("not measured: kvproof-bench is not built" in self.page())
        self.assertFalse(os.path.exists(self.path("results", "memory_of_models.json")))

    def begin(self, *arguments, **environment):
        """@return the process, which runs the part SLOW now"""
        process = self.start(*arguments, **environment)
        while not os.path.exists(self.path("samples", "slow")):
            self.assertIsNone(process.poll())
            time.sleep(0.1)
        return process

    def interrupt(self, *arguments, **environment):
        """Ctrl-C while the part SLOW runs; (exit code, stderr)"""
        process = self.begin(*arguments, **environment)
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=3600)
        return process.returncode, said

    def contents(self, folder):
        """name -> (inode, bytes) of each file"""
        return {name: (os.stat(self.path(folder, name)).st_ino, self.content(f"{folder}/{name}"))
                for name in os.listdir(self.path(folder))}

    def test_folder_of_a_running_report_is_left_alone(self):
        self.sample("life_cycle")
        running = self.begin("--smoke", "--output=o", SLOW=SLOW_PART)
        before = self.contents("o")
        for arguments in (["--smoke"], ["--smoke", "--resume"], [f"--compare={self.samples}"]):
            code, out, said = self.run_sh(*arguments, "--output=o")
            self.assertEqual((code, out), (2, ""), said)
            self.assertRegex(said, r"^kvproof report: o: (process \d+|another process) writes a "
                             r"report into it; expected a folder of its own\n$")
        self.assertEqual(self.contents("o"), before)
        if os.path.exists("/proc/locks"):
            self.assertIn(f"process {running.pid} ", said)
        os.kill(running.pid, signal.SIGINT)
        running.communicate(timeout=3600)
        self.assertEqual(self.run_sh(f"--compare={self.samples}", "--output=o")[0], 0)

    def test_interrupt_leaves_finished_result_files(self):
        code, said = self.interrupt("--thorough", SLOW=SLOW_PART)
        self.assertEqual(code, 130, said)
        self.assertEqual(sorted(os.listdir(self.path("results"))),
                         sorted(f"{name}.json" for name in [*BEFORE_SLOW, "run"]))
        self.assertIn(f"Stopped; {len(BEFORE_SLOW)} of {NUM_PARTS} parts are finished "
                      f"({', '.join(BEFORE_SLOW)})", said)
        self.assertIn("kvproof report --thorough --resume\n", said)
        self.assertIn("make_page.py results/*.json --output=results/report.html", said)
        self.assertFalse([n for n in os.listdir(self.folder) if n.startswith("kvproof-")])

    def test_signal_while_it_draws_leaves_nothing_unfinished(self):
        self.sample()
        process = self.start("--smoke", "--output=o", "--png")
        while "drawing" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=3600)
        self.assertEqual(process.returncode, 130, said)
        self.assertTrue(said.startswith(f"Stopped; {NUM_PARTS} of {NUM_PARTS} parts"), said)
        self.assertEqual(sorted(os.listdir(self.path("o"))),
                         sorted(f"{name}.json" for name in [*NAMES, "run"]))
        self.assertFalse([n for n in os.listdir(self.folder) if n.startswith("kvproof-")])

    def test_a_reader_that_goes_away_ends_it(self):
        process = self.start("--smoke", SLOW=NAMES[1])
        process.stderr.readline()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=120), 130)
        self.assertFalse(os.path.exists(self.path("results", "report.html")))

    def test_resume_measures_only_what_is_missing(self):
        self.interrupt("--smoke", "--output=o", SLOW=SLOW_PART)
        self.write("o/prefix_hit_rate.json", '{"schema": 1, "envir')  # as after a power cut
        before = len(self.calls())
        code, out, said = self.run_sh("--smoke", "--output=o", "--resume")
        self.assertEqual((code, out), (1, "o/report.html\n"), said)
        self.assertIn(f"{len(BEFORE_SLOW) - 1} of {NUM_PARTS} parts are there from before.\n", said)
        again = [call.split()[1] for call in self.calls()[before:]]
        self.assertEqual(again[:2], ["prefix_hit_rate", SLOW_PART])
        self.assertEqual(len(again), NUM_PARTS - len(BEFORE_SLOW) + 1)
        table = self.page("o")[self.page("o").index('id="sources"'):]
        self.assertTrue("live memory" in table and "utilisation" in table)

    def test_resume_refuses_another_build_and_other_options(self):
        self.interrupt("--smoke", SLOW=SLOW_PART)
        for arguments, expected in ((["--resume"], "the same options: expected smoke, found def"),
                                    (["--smoke", "--resume", f"--trace={__file__}"],
                                     "found smoke, run_test.py of "),
                                    (["--resume", "--output=new"],
                                     "new/run.json: cannot be read")):
            code, out, said = self.run_sh(*arguments)
            self.assertEqual((code, out, said.count("\n")), (2, "", 1), said)
            self.assertIn(expected, said)
        self.write("bin/kvproof-bench", PROGRAM + "# built again\n")
        code, out, said = self.run_sh("--smoke", "--resume")
        self.assertEqual((code, out, said.count("\n")), (2, "", 1), said)
        self.assertIn("--resume needs the same build", said)

    def test_what_check_finds_is_drawn_and_is_the_exit_code(self):
        self.sample()
        for found, expected, words in (("VIOLATED", 1, "not all of it holds"),
                                       ("VAGUE", 3, "cannot tell")):
            code, out, said = self.run_sh("--smoke", **{found: "check_law"})
            self.assertEqual((code, out), (expected, "results/report.html\n"), said)
            self.assertIn(f"kvproof report: check: {words}; the page says what\n", said)
            self.assertTrue('<article id="laws">' in self.page())
        os.unlink(self.path("results", "utilisation.json"))  # the rest is there from before
        self.assertEqual(self.run_sh("--smoke", "--resume")[0], 3)

    def test_unreadable_trace_stops_at_once(self):
        code, out, said = self.run_sh("--trace=absent.jsonl")
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(said, "kvproof report: absent.jsonl: cannot be read; expected a trace\n")
        code, out, said = self.run_sh(f"--trace={__file__}", UNREADABLE="live_memory")
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(said.splitlines()[-1], "trace.jsonl:7: input_length: expected a number")
        self.assertFalse(os.path.exists(self.path("results")))

    def test_help_has_an_example_and_ends_with_the_exit_codes(self):
        code, out, _ = self.run_sh("--help")
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("usage: kvproof report "), out)
        self.assertIn("Example: kvproof report", out)
        self.assertRegex(out, r"\nExit codes: 0 [^:]*130 stopped\.\n$")
        self.assertFalse(os.path.exists(self.path("results")))

    def test_result_that_cannot_be_printed_is_an_error_of_one_line(self):
        self.sample("life_cycle")
        why = "the standard output: cannot be written: No space left on device\n"
        for arguments, ends in ((["--help"], "kvproof report: " + why),
                                ([f"--compare={self.samples}"], "compare: " + why),
                                (["--smoke"], "kvproof report: " + why)):
            with open("/dev/full", "wb") as full:
                done = subprocess.run(["sh", os.path.join(REPORTS, "run.sh"), *arguments],
                                      cwd=self.folder, env=self.environment, text=True, stdout=full,
                                      stderr=subprocess.PIPE, check=False)
            self.assertEqual((done.returncode, done.stderr.splitlines(True)[-1]), (2, ends))
        self.assertIn("report.html", os.listdir(self.path("results")))

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
        out, _ = process.communicate(timeout=3600)
        self.assertEqual((process.returncode, out), (1, "results/report.html\n"))
        self.assertRegex(said.decode(), rf"\[#+ +\] \d+/{NUM_PARTS} pool operation  "
                         r"\(\d+ s, about \d+ s left")
