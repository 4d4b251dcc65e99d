#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of campaigns: campaign_test.py BUILD_FOLDER [ROUNDS of shards that are killed [TEST]...]"""

import contextlib
import ctypes
import itertools
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
import xml.etree.ElementTree
from pathlib import Path

import main
import merge
import plan
import shard
from task import CHECKOUT, CLOCKS, KINDS, InputError, Task, mutants_of

BUILD, ROUNDS = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
os.environ["KVPROOF_BIN"] = PROGRAMS = str(BUILD / "bin")
MAIN = [sys.executable, "-B", main.__file__]
# Eleven tasks of milliseconds, one of them a check, and one with an input.
ROWS = [{"kind": "simulation", "options": ["--trace=chat", f"--requests={n}", "--memory-gib=1"],
         "cost_core_seconds": n} for n in range(1, 10)] + [
    {"kind": "check", "seeds": [3, 3],
     "options": ["--subject=naive", "--configuration=plain", "--operations=50"]},
    {"kind": "simulation", "options": ["--trace=log.jsonl", "--memory-gib=1"],
     "inputs": ["log.jsonl"]}]
LOG = '{"timestamp": 0, "input_length": 600, "output_length": 20, "hash_ids": [1, 2]}\n'
NAME = "[0-9a-f]{16}"
SEEDED = {"kind": "check", "options": [f"--subject={BUILD}/plugins/kit_pool_seeded.so",
                                       "--configuration=full", "--findings=1"], "seed": 1}


@contextlib.contextmanager
def following(reached):
    """Calls reached((file, line)) for each line of a shard, in all its threads."""
    def trace(frame, event, _):
        place = os.path.basename(frame.f_code.co_filename), frame.f_lineno
        if event == "line" and place[0] in ("shard.py", "task.py"):
            reached(place)
        return trace
    for follow in (threading.settrace, sys.settrace):
        follow(trace)
    yield
    for follow in (threading.settrace, sys.settrace):
        follow(None)


class Campaign(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.work = Path(made.name)
        there = unittest.mock.patch.object(tempfile, "tempdir", made.name)
        there.start()  # shards that are killed leave their folders in it
        self.addCleanup(there.stop)
        (self.work / "log.jsonl").write_text(LOG)
        self.plan = self.planned("plan.json", ROWS)

    def planned(self, name, rows, **more):
        path = self.work / name
        path.write_text(json.dumps({"kvproof_plan": 1, "tasks": rows, **more}))
        return str(path)

    def call(self, *words, **environment):
        """@return (exit code, stdout, stderr) of the verb"""
        done = subprocess.run([*MAIN, *map(str, words)], capture_output=True, text=True,
                              check=False, cwd=self.work,
                              env=dict(os.environ, **environment))
        return done.returncode, done.stdout, done.stderr

    def refuses(self, words, *command):
        code, out, said = self.call(*command)
        self.assertEqual((code, out, said.count("\n")), (2, "", 1), said)
        self.assertRegex(said, words)

    def merged(self, *folders):
        """@return the exit code of a merge, what it says, the file of --json"""
        code, said, errors = self.call("merge", *folders, "--json=merged.json")
        self.assertEqual(errors, "")
        return code, said, (self.work / "merged.json").read_bytes()


class Plans(Campaign):
    def test_says_what_is_wrong(self):
        good = ROWS[0]
        for rows, words in (
                ([], "tasks: expected a list"), ([3], r"tasks\[0\]: expected an object"),
                ([good, {**good, "kind": "echo"}], r"tasks\[1\].kind: expected one of check, "),
                ([{**good, "kind": []}], r"tasks\[0\].kind: expected one of check, "),
                ([{**good, "inputs": ["\ud800"]}], "expected JSON"),
                ([{**good, "options": "--x"}], "options: expected a list of texts"),
                ([{**good, "seed": -1}], "seed: expected a whole"),
                ([{**good, "seeds": [2, 1]}], "seeds: expected the first"),
                ([{**good, "cost_core_seconds": 0}], "cost_core_seconds: expected a number"),
                ([{**good, "memory_gib": True}], "memory_gib: expected a number"),
                ([{**good, "colour": "red"}], "colour: expected no such field"),
                ([{**good, "inputs": ["absent"]}], "absent: cannot be read"),
                ([{**good, "inputs": ["../log.jsonl"]}], "inputs: expected paths beside"),
                ([{**good, "name": "0123"}], r"name: expected \w{16}, found 0123")):
            self.refuses(words, "run", self.planned("bad.json", rows), "--output=bad")
        for text, words in (("", "line 1: expected JSON"), ("[]", "kvproof_plan: expected 1"),
                            ('{"kvproof_plan": 1, "shards": 0, "tasks": [1]}', "shards: expected")):
            (self.work / "bad.json").write_text(text)
            self.refuses(words, "run", "bad.json", "--output=bad")
        self.refuses("expected at most 256 MiB", "run", "/dev/zero", "--output=bad")
        self.assertFalse((self.work / "bad").exists())

    def test_names_a_task_by_what_defines_it(self):
        program = {"version": "1", "commit": "a"}
        task = Task("check", ("--x",), 1, (("a", "0"),), 1, 1)
        others = [Task("liars", *list(vars(task).values())[1:])]
        for field, value in (("options", ("--y",)), ("seed", 2), ("inputs", (("a", "1"),))):
            others.append(Task(**{**vars(task), field: value}))
        names = {each.name(program) for each in [task, *others]}
        self.assertEqual(len(names | {task.name({**program, "commit": "b"})}), 6)
        self.assertEqual(Task("check", ("--x",), 1, (("a", "0"),), 9, 9).name(program),
                         task.name(program))

    def test_deals_by_cost(self):
        made = random.Random(1)
        tasks = {f"{n:04}": types.SimpleNamespace(cost_core_seconds=made.expovariate(1))
                 for n in range(1000)}
        hands = plan.deal(tasks, 64)
        self.assertEqual(hands, plan.deal(dict(reversed(tasks.items())), 64))
        self.assertEqual(sorted(name for _, names in hands for name in names), sorted(tasks))
        loads = [load for load, _ in hands]
        self.assertLess(max(loads) / (sum(loads) / 64), 1.01)

    def test_takes_its_place_from_engines(self):
        three = types.SimpleNamespace(shards=3)
        place = lambda *options, **said: shard.place_of(*options, said, three)[:2]  # noqa: E731
        self.assertEqual(place("3/64", None), (3, 64))
        self.assertEqual(place(None, None), (0, 1))
        self.assertEqual(place(None, None, SLURM_ARRAY_TASK_ID="5", SLURM_ARRAY_TASK_COUNT="7"),
                         (5, 7))
        self.assertEqual(place(None, 9, SLURM_ARRAY_TASK_ID="5", SLURM_ARRAY_TASK_COUNT="7"),
                         (5, 9))
        self.assertEqual(place(None, None, JOB_COMPLETION_INDEX="2"), (2, 3))
        self.assertEqual(place(None, None, BUILDKITE_PARALLEL_JOB="1",
                               BUILDKITE_PARALLEL_JOB_COUNT="2"), (1, 2))
        for wrong in ("3/3", "-1/3", "x", "1", "/3"):
            with self.assertRaisesRegex(InputError, "expected an index"):
                place(wrong, None)
        with self.assertRaisesRegex(InputError, "JOB_COMPLETION_INDEX=3: expected an index"):
            place(None, None, JOB_COMPLETION_INDEX="3")

    def test_built_in_ones_are_read_again(self):
        kinds = set()
        for name, gib in (("smoke", 1), ("outside", 8), ("nightly", 8), ("sweep", 0.25)):
            code, said, _ = self.call("tasks", f"--built-in={name}", "--output=built.json")
            self.assertEqual(code, 0, said)
            built = plan.read_plan(self.work / "built.json")
            self.assertEqual(built.text, (self.work / "built.json").read_text())
            self.assertEqual(max(task.memory_gib for task in built.tasks.values()), gib)
            kinds |= {task.kind for task in built.tasks.values()}
            self.assertTrue(name != "smoke" or all(task.exact for task in built.tasks.values()))
        self.assertEqual(kinds, set(KINDS))

    def test_a_submission_says_what_it_does_not_do(self):
        words = ("submit", self.plan, "--engine=slurm", "--output=cluster", "--dry-run")
        code, script, said = self.call(*words, "--shards=64")
        self.assertEqual(code, 0, said)
        self.assertIn("--array=0-10\n", script)
        self.assertRegex(said, "^kvproof campaign: 11 shards are enough for 11 tasks\n.*nothing "
                         "was written; without --dry-run this is written to .*campaign.sh and")
        self.assertNotIn("enough", self.call(*words, "--shards=11")[2])
        self.assertFalse((self.work / "cluster").exists())

    def test_start_scripts_and_the_programs_of_verbs(self):
        verbs = re.findall(r"^(\w+)\|", (CHECKOUT / "kvproof").read_text(), re.M)
        for kind in KINDS:
            for word in Task(kind, (), None, (), 1, 1).command("")[:3]:
                if word.startswith("kvproof-"):  # the quick tier does not build all of them
                    self.assertIn(word.removeprefix("kvproof-"), verbs)
                elif word.startswith("/") and not word.endswith("/build/fuzz"):
                    self.assertTrue(os.path.exists(word), f"{kind} starts {word}")


class Shards(Campaign):
    def test_merge_to_the_same_bytes_and_do_what_is_missing(self):
        self.assertEqual(self.call("run", self.plan, "--output=one", "--jobs=2")[0], 0)
        self.assertRegex(self.call("run", self.plan, "--output=one")[1], "11 were complete, 0 are")
        code, said, whole = self.merged("one")
        self.assertEqual(code, 0)
        self.assertRegex(said, r"check: 1 of 1 task, \d[\d,]+ operations")
        for index in (2, 0, 3, 1):
            self.call("run", self.plan, f"--output=four{index % 2}", f"--shard={index}/4")
        code, said, found = self.merged("four1", "four0")
        self.assertEqual((code, found), (0, whole))
        code, said, part = self.merged("four0")
        self.assertEqual((code, part == whole), (3, False))
        only = said.partition("--only=")[2].strip()
        code, said, _ = self.call("run", self.plan, "--output=rest", f"--only={only}")
        self.assertIn(f" {only.count(',') + 1} are now", said)
        self.assertEqual(self.merged("rest", "four0")[2], whole)
        self.assertNotIn(os.uname().nodename.encode() + b'"', whole)
        self.assertFalse([name for name in CLOCKS if f'"{name}"'.encode() in whole])

    def test_survive_any_order_and_sudden_ends(self):
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans are ours
        self.call("run", self.plan, "--output=whole")
        _, _, whole = self.merged("whole")
        read, killed, places = plan.read_plan(self.plan), 0, set()
        shard.keep_plan(read, self.work / "followed")
        with following(places.add):
            self.shard_of(read, self.work / "followed", 0, 1)
        turns = itertools.cycle(sorted(places))
        for number in range(ROUNDS):
            drawn, folder = random.Random(number), self.work / f"round{number}"
            shard.keep_plan(read, folder)
            for index in drawn.choices(range(3), k=6):  # some of them twice, some not at all
                killed += self.fork(read, folder, index, 3, next(turns)) == 9
            self.assertEqual(self.fork(read, folder, 0, 1), 0)
            found = merge.Merged([folder])
            self.assertEqual(found.missing, [])
            self.assertTrue(whole == merge.document_of(found, [
                *merge.summary(found, True), *merge.together(found.documents(True))]).encode(),
                f"round {number}")
        self.assertGreater(killed, 3 * ROUNDS)

    @staticmethod
    def shard_of(read, folder, index, count):
        runner = shard.Shard(read, folder, PROGRAMS)
        names = plan.deal(read.tasks, count)[index][1]
        runner.run([name for name in names if not runner.path(name).exists()], 1)

    def fork(self, read, folder, index, count, place=None):
        """Does a shard in another process, which kills itself where it first reaches a place: then
        the machine's speed does not matter. @return its status"""
        process = os.fork()
        if process == 0:
            try:
                with following(lambda now: now == place and os.kill(os.getpid(), signal.SIGKILL)):
                    self.shard_of(read, folder, index, count)
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitpid(process, 0)[1]
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()  # for a task that has lost its shard, and still writes
        return status

    def test_refuse_what_belongs_to_another_plan(self):
        self.call("run", self.plan, "--output=one", "--shard=0/9")
        other = self.planned("other.json", ROWS[1:])
        self.refuses("one/plan.json: expected the tasks of other", "run", other, "--output=one")
        self.refuses("program: expected that of", "run", self.planned(
            "old.json", ROWS, program={"version": "0", "commit": "0"}), "--output=old")
        self.refuses("--only=zz: expected the beginning", "run", self.plan, "--output=one",
                     "--only=zz")
        (self.work / "log.jsonl").write_text(LOG * 2)
        self.refuses("expected the tasks of plan, found other tasks of plan", "run", self.plan,
                     "--output=one")
        shutil.rmtree(self.work / "one" / "results")
        (self.work / "one" / "inputs" / "log.jsonl").write_text(LOG * 2)
        self.refuses("inputs/log.jsonl: expected the content", "run", "one/plan.json",
                     "--output=one")

    def test_keep_no_result_of_what_does_not_run(self):
        rows = [{**ROWS[0], "options": ["--frob"]}, {**ROWS[0], "seed": 1}, ROWS[1]]
        code, said, errors = self.call("run", self.planned("mixed.json", rows), "--output=mixed")
        self.assertEqual((code, errors.count("\n")), (2, 2), errors)
        self.assertRegex(errors, "has no result: simulation --frob ended with 2: kvproof replay: ")
        self.assertRegex(said, "1 are now, 2 have no result")
        self.assertRegex(self.merged("mixed")[1], "missing: 2 of 3 tasks")

    def test_stop_at_a_full_disk(self):
        script = ('mount -t tmpfs -o nr_inodes=14 none full || exit 77; shift; "$@" || code=$?\n'
                  "cp -r full kept; exit $code")
        (self.work / "full").mkdir()
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "", "", *MAIN, "run", self.plan,
                               "--output=full"], cwd=self.work, capture_output=True, text=True,
                              check=False)
        if done.returncode in (1, 77):
            self.skipTest("needs to mount a small file system, as root can")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertRegex(done.stderr, "cannot be written: No space left on device")
        code, said, _ = self.merged("kept")
        self.assertRegex(said, "missing: [1-9] of 11 tasks")
        self.refuses("/dev/full: cannot be written", "merge", "kept", "--json=/dev/full")


class Merges(Campaign):
    def test_refuse_what_is_foreign_damaged_or_different(self):
        self.call("run", self.plan, "--output=a")
        (self.work / "b" / "results").mkdir(parents=True)
        (self.work / "b" / "plan.json").write_text((self.work / "a" / "plan.json").read_text())
        name = sorted((self.work / "a" / "results").iterdir())[0].name
        whole = (self.work / "a" / "results" / name).read_text()
        broken = self.work / "b" / "results" / name
        for text, words in ((whole[:-9], "line 1: expected JSON"),
                            ("{}", "kvproof_result: expected"),
                            (whole.replace(name[:16], "f" * 16), "task: expected"),
                            (whole.replace('"results"', '"result"'), "expected lists"),
                            (whole.replace('"exit_code": 0', '"exit_code": 1'),
                             f"a/results/{name} and b/results/{name} differ")):
            broken.write_text(text)
            self.refuses(words, "merge", "a", "b")
        (self.work / "b" / "plan.json").write_text(self.planned("c.json", ROWS[:1]) and
                                                   (self.work / "c.json").read_text())
        self.refuses("b/plan.json: ", "merge", "a", "b")
        self.refuses("c/plan.json: cannot be read", "merge", "c")

    def test_tell_findings_apart_by_law_and_shape(self):
        two = [SEEDED, {**SEEDED, "seed": 2}, {**SEEDED, "seed": 1, "options": [
            *SEEDED["options"], "--shrink-seconds=31"]}]
        self.assertEqual(self.call("run", self.planned("two.json", two), "--output=two")[0], 1)
        code, said, _ = self.call("merge", "two", "--costs=costs.json", "--junit=junit.xml",
                                  "--sarif=found.sarif")
        self.assertEqual(code, 1)
        self.assertRegex(said, f"kvproof replay .*two/findings/{NAME}-1.jsonl")
        found = [row for row in json.loads((self.work / "costs.json").read_text())["results"]
                 if row["experiment"] == "campaign_finding"]
        for row in found:
            words = shlex.split(row["parameters"]["repeat"])
            again = subprocess.run([f"{PROGRAMS}/kvproof-replay", *words[2:]],
                                   cwd=self.work / "two", capture_output=True, check=False)
            self.assertEqual(again.returncode, 1, words)
            self.assertTrue((self.work / "two" / row["parameters"]["lens"]).exists())
        self.assertIn("I18", [row["parameters"]["law"] for row in found])
        self.assertEqual(sum(row["metrics"]["tasks"]["value"] for row in found), 3)
        suite = xml.etree.ElementTree.parse(self.work / "junit.xml").getroot()
        failed = [case for case in suite.iter("testcase") if case.find("failure") is not None
                  and case.get("classname") == "campaign_task"]
        self.assertEqual(len(failed), 3)
        runs = json.loads((self.work / "found.sarif").read_text())["runs"]
        self.assertEqual(len(runs[0]["results"]), len(found))

    def test_name_each_mutant_that_lives_or_whose_excuse_is_refuted(self):
        rows = [{"experiment": "mutation_score", "parameters": {"seed": 1}}]
        for fate in ("objected", "unit_tests", "survived", "cannot_tell", "not_met"):
            for excuse in ("", "excused"):
                words = dict.fromkeys(("file", "function", "class", "change", "text"), "-")
                rows.append({"experiment": "operator_mutant", "parameters": {
                    **words, "id": fate + excuse, "fate": fate, "equivalent": excuse}})
        self.assertEqual([found["shape"] for found in mutants_of(rows)], [
            "objectedexcused", "unit_testsexcused", "survived", "cannot_tell", "not_met"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
