#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the list of engines and of what runs it. No engine is needed."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest
from types import SimpleNamespace

import history
import places
import run
from rows import DEFECTS, HISTORY, RELEASES, ROWS, SHARED

from kvproof_support import environments, known, results
from kvproof_support.patches import overlay, patches

HERE = os.path.dirname(os.path.abspath(__file__))
ROW = ROWS[0]._replace(name="mine", revision="abc1234", source="checkout", origin="me/mine",
                       adapter="nano_vllm.py", abilities={})
# Lines of code of an adapter at most. vLLM V1's shows all that it has; one of SGLang's, two cores;
# TVM's writes contents; OpenVINO's has a scheduler in front.
LINES = {"vllm_adapter.py": 120, "sglang_unified.py": 120, "transformers_cache.py": 90,
         "tvm_cache.py": 130, "openvino_genai.cpp": 200}
WIDTH = 80


class RowsTest(unittest.TestCase):
    def test_each_engine_has_an_adapter_that_compiles(self):
        for path in glob.glob(os.path.join(HERE, "*.py")):
            with open(path, encoding="utf-8") as script:
                compile(script.read(), path, "exec")
        for row in ROWS:
            path = os.path.join(HERE, row.adapter.split(" ")[0])
            self.assertTrue(row.source == "own" or os.path.isfile(path), row)

    def test_an_adapter_is_short(self):
        for name in {row.adapter.split(" ")[0] for row in ROWS if row.adapter}:
            with open(os.path.join(HERE, name), encoding="utf-8") as script:
                text = script.read()
            code = [line for line in (text if name.endswith(".cpp") else text.split('"""', 2)[2])
                    .splitlines() if line.strip()]
            self.assertLessEqual(len(code), LINES.get(name, WIDTH), name)

    def test_an_engine_is_listed_once_and_knows_what_it_needs(self):
        names = [(row.name, row.revision) for row in ROWS]
        self.assertEqual(len(names), len(set(names)))
        for row in ROWS:
            self.assertIn(row.source, ("pypi", "checkout", "own"))
            self.assertTrue(row.source == "own" or row.needs in SHARED, row)
            self.assertTrue(row.source != "pypi" or "==" in row.origin and row.package, row)

    def test_the_list_says_what_an_engine_does_otherwise(self):
        does, can = next(row for row in ROWS if row.name == "lightllm").says()
        self.assertIn("granularity token", does)
        self.assertIn("plain", can)
        self.assertIn("block_sizes 1", can)
        self.assertIn("cross/sliding_window/chunked_local/mamba", ROWS[0].says()[1])
        self.assertEqual(ROWS[-1].says(), ("-", "not restricted"))

    def test_what_an_adapter_says_otherwise_is_told(self):
        class Says:
            row = ROW._replace(traits={"free_list": "set"})

            @staticmethod
            def subject(_):
                return """--subject-command=echo '{"traits":{},"abilities":{}}'"""
        self.assertEqual(run.said_otherwise(Says()),
                         'its adapter says traits {}, the list {"free_list": "set"}')
        Says.row = ROW
        self.assertEqual(run.said_otherwise(Says()), "")

    def test_a_fault_quotes_a_few_lines_at_most(self):
        seeded = [fault for row in ROWS for fault in (*row.seeded, *row.mend)]
        self.assertGreaterEqual(len(seeded), 40)
        for fault in seeded:
            quoted = re.sub(r"\{\+.*?\+\}", "", fault.text, flags=re.DOTALL)
            self.assertLessEqual(quoted.strip().count("\n"), 4, fault.what)


class HistoryTest(unittest.TestCase):
    def test_each_defect_is_gone_around_by_its_name(self):
        with open(os.path.join(HERE, "vllm_known.py"), encoding="utf-8") as script:
            known = script.read()
        for defect in DEFECTS:
            self.assertIn(f'"{defect.name}"', known)
            self.assertLessEqual({defect.first, defect.last}, {*RELEASES}, defect)
        for row in HISTORY:
            self.assertIn(f'"{row.revision.rpartition(".")[0]}"', known)

    def probed(self, rows, met, code, defect):
        class Checker:
            work = self.enterContext(tempfile.TemporaryDirectory())

            def run(self, place, name, *_):
                if met:
                    with open(os.path.join(self.work, f"{name}.count"), "w",
                              encoding="ascii") as file:
                        file.write(str(met))
                return SimpleNamespace(exit_code=code, last_line=lambda: "the last words"), rows
        place, history.Place = history.Place, lambda row, *_: row
        self.addCleanup(setattr, history, "Place", place)
        return history.probed(Checker(), HISTORY[0], defect,
                              SimpleNamespace(folder=None, checkout=None))

    def test_a_defect_is_found_or_not_or_cannot_be_met(self):
        finding = results.row("check_finding", {"law": "I9", "reason": "block 5"}, {})
        lives, gone = (next(each for each in DEFECTS if each.lives_in("0.11.0") == lives)
                       for lives in (True, False))
        for defect, rows, met, code, verdict, reason in (
                (lives, [finding], 7, 1, "known", "I9: block 5"), (gone, [], 7, 0, "holds", ""),
                (gone, [finding], 7, 1, "broken", "I9: block 5"),
                (lives, [], 7, 0, "broken", "it is expected, and was not found"),
                (lives, [], 0, 0, "not_evaluated", "no call that could meet it can be made"),
                (lives, [], 7, 2, "not_evaluated", "the last words")):
            row = self.probed(rows, met, code, defect)
            self.assertEqual((row["parameters"]["verdict"], row["parameters"]["reason"],
                              results.value(row, "met")), (verdict, reason, met))

    def test_what_is_listed_is_looked_for_by_name(self):
        def probed(_, row, defect, *__):
            return results.row("engine_known", {
                "verdict": "known" if defect.name == "twice" else "broken"}, {})
        self.addCleanup(setattr, history, "probed", history.probed)
        history.probed = probed
        holds, *others = (run.Outcome(row, code, [run.whole(row, "holds", "")])
                          for row, code in ((HISTORY[0], 0), (HISTORY[0], 1), (ROW, 0)))
        history.defects_of([holds, *others], None, None)
        self.assertEqual(results.value(holds.rows[0], "findings_known"), 1)
        self.assertEqual(len(holds.rows), 1 + sum(d.lives_in("0.11.0") for d in DEFECTS))
        self.assertEqual([len(each.rows) for each in others], [1, 1])


class PlacesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.top = os.path.join(self.folder.name, "mine-abc1234")
        os.makedirs(os.path.join(self.top, "a", "b"))
        for name, text in (("a/b/c.py", "one\ntwo\n"), ("a/d.py", "three\n"), ("e.py", "four\n"),
                           ("a/d.py.half", "")):
            with open(os.path.join(self.top, name), "w", encoding="utf-8") as file:
                file.write(text)

    def text(self, *path):
        with open(os.path.join(*path), encoding="utf-8") as file:
            return file.read()

    def overlaid(self, listed):
        """@return a copy of the package with these patches"""
        copy, path = (os.path.join(self.folder.name, name) for name in ("copy", f"{hash(listed)}"))
        with open(path, "w", encoding="utf-8") as file:
            file.write("columns: sentence text\n" + listed)
        overlay(self.top, copy, patches(path))
        return copy

    def test_a_copy_differs_in_the_words_of_its_faults_alone(self):
        copy = self.overlaid("file: a/b/c.py\nA | [-two-]{+2+}\nB | 2{+.0+}\n"
                             "file: a/d.py\nC | [-three-]{+3+}")
        self.assertTrue(os.path.islink(os.path.join(copy, "e.py")))
        self.assertEqual(self.text(copy, "a/b/c.py"), "one\n2.0\n")
        self.assertEqual(self.text(copy, "a/d.py"), "3\n")
        self.assertEqual(self.text(copy, "e.py"), "four\n")
        self.assertEqual(self.text(self.top, "a/b/c.py"), "one\ntwo\n")
        self.assertEqual(self.text(self.top, "a/d.py"), "three\n")
        self.assertEqual(self.text(self.top, "a/d.py.half"), "", "the copy's is a link to it")

    def test_words_that_are_not_there_once_are_refused(self):
        for words, times in (("five", 0), ("o", 2)):
            with self.assertRaisesRegex(places.Absent, f":3: a/b/c.py: .* {times} times"):
                self.overlaid(f"file: a/b/c.py\nA | [-{words}-]")
            self.assertFalse(os.path.exists(os.path.join(self.folder.name, "copy")))

    def test_a_file_outside_of_the_package_is_refused(self):
        for name in ("a/../../e.py", os.path.join(self.top, "e.py")):
            with self.assertRaisesRegex(places.Absent, ":3: expected a file of the package"):
                self.overlaid(f"file: {name}\nA | [-four-]")
        self.assertEqual(self.text(self.top, "e.py"), "four\n")

    def test_two_verbs_see_their_packages_in_one_environment(self):
        sites = [os.path.join(self.folder.name, name, "lib", "python3.11", "site-packages")
                 for name in ("engine", "wire", "live")]
        for site in sites:
            os.makedirs(site)
        for other in ("wire", "live", "wire"):
            environments.see(os.path.join(self.folder.name, "engine"),
                       os.path.join(self.folder.name, other))
        self.assertEqual(self.text(sites[0], "shared.pth").splitlines(), sites[1:])

    def test_a_copy_that_is_not_python_is_refused(self):
        with self.assertRaisesRegex(places.Absent, "a/b/c.py:2: '\\(' was never closed"):
            self.overlaid("file: a/b/c.py\nA | [-two-]{+len((2,)+}")

    def test_an_engine_in_c_plus_plus_is_compiled_with_its_copy(self):
        row = ROW._replace(adapter="mine.cpp", revision="abc1234+asan", package="openvino")
        place = object.__new__(places.Compiled)
        place.row, place.original, place.work = row, self.top, os.path.join(self.top, "work")
        place.environment = os.path.join(self.folder.name, "venv")
        libraries = os.path.join(place.environment, "lib", "python3", "site-packages", "openvino",
                                 "libs")
        os.makedirs(libraries)
        with open(os.path.join(libraries, "libopenvino.so.1"), "w", encoding="ascii"):
            pass
        said, places.run = places.run, lambda *command: calls.append(command) or "/lib/libasan.so\n"
        self.addCleanup(setattr, places, "run", said)
        calls = []
        place.put(self.top)
        self.assertIn("-fsanitize=address", calls[0])
        self.assertIn(f"-I{os.path.join(self.top, 'src/cpp/src')}", calls[0])
        self.assertRegex(place.subject("."), "LD_PRELOAD='/lib/libasan.so' '.*kvproof-check' "
                         "--serve='.*work/plugin.so'")
        place.put(os.path.join(self.top, "a"))
        self.assertIn("a/plugin.so", place.subject("."))

    def test_a_checkout_lies_in_a_folder_of_its_name_or_is_given_itself(self):
        self.assertEqual(places.checkout_of(ROW, self.folder.name), self.top)
        for folder in (None, self.top):
            with self.assertRaisesRegex(places.Absent, "https://github.com/me/mine at abc1234"):
                places.checkout_of(ROW, folder)
        git = ["git", "-C", self.top, "-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
            subprocess.run(git + words, check=True)
        head = subprocess.run(git + ["rev-parse", "HEAD"], check=True, capture_output=True,
                              text=True).stdout.strip()
        other = os.path.join(self.folder.name, "mine")
        os.rename(self.top, other)
        self.assertEqual(places.checkout_of(ROW._replace(revision=head[:7]), other), other)


class OutcomesTest(unittest.TestCase):
    def checker(self):
        return run.Checker(SimpleNamespace(known=[], seed=None, operations=3),
                           self.enterContext(tempfile.TemporaryDirectory()))

    def place(self, **fields):
        return SimpleNamespace(row=ROW._replace(**fields), options=(),
                               subject=lambda _: "--subject=mine")

    def test_what_is_no_program_is_given_no_time_to_start(self):
        os.environ["KVPROOF_BIN"], before = "/nowhere", os.environ.get("KVPROOF_BIN")
        self.addCleanup(lambda: before is None or os.environ.update(KVPROOF_BIN=before))
        for source, given in (("own", False), ("pypi", True)):
            ended, rows = self.checker().run(self.place(source=source), "mine")
            self.assertEqual(("--start-limit-seconds=600" in ended.task.command, rows,
                              ended.exit_code), (given, [], 127))
            self.assertIn("--operations=3", ended.task.command)

    def test_a_fault_whose_check_did_not_run_is_said_to_be_so(self):
        place, checker = self.place(), self.checker()
        place.with_fault = lambda *_: place
        for code, detected, reason in ((1, 1, ""), (0, 0, ""), (3, 0, ""),
                                       (2, 0, "its check ended with 2: hang")):
            checker.run = lambda *_, code=code: (
                SimpleNamespace(exit_code=code, last_line=lambda: "hang"), [])
            row = checker.detects(place, 0, SimpleNamespace(what="what"))
            self.assertEqual((row["parameters"]["fault"], results.value(row, "detected"),
                              row["parameters"]["reason"]), ("what", detected, reason))

    def test_what_is_known_of_an_engine_is_given_to_its_check(self):
        checker = self.checker()
        checker.own = known.Known([known.Row(law="I9", engine="mine", id="A")])
        checker.users = known.Known([known.Row(law="I5", engine="other", id="B")])
        (option,) = checker.known_of(ROW)
        self.assertEqual([row.id for row in known.read_rows(option.partition("=")[2])], ["A"])
        self.assertEqual(checker.known_of(ROW._replace(name="nobody")), [])

    def test_the_rows_are_those_of_the_check(self):
        def law(name, verdict, reason="", exempted=0):
            return results.row("check_law", {"subject": "x", "law": name, "name": "n",
                                             "verdict": verdict, "reason": reason},
                               {"evaluated": 5, "suspended": 0, "exempted": exempted})

        def finding(laws, reason, id=""):
            return results.row("check_finding", {"law": laws, "reason": reason, "known": id}, {})

        found = run.laws_of(ROW, [
            law("I1", "holds"), law("I2", "holds", exempted=2), law("I4", "known"),
            law("I5", "broken"), law("I6", "not_evaluated", "no run was about it"),
            law("I7", "not_applicable", "it does not declare fork"),
            finding("I4", "text", "KVP-1"), finding("I5+I4", "other", "KVP-2"),
            finding("I5", "new"), finding("content", "known one", "KVP-3"),
            finding("content", "two")])
        self.assertEqual([tuple(row["parameters"][name] for name in ("law", "verdict", "reason"))
                          for row in found], [
            ("I1", "holds", ""), ("I2", "holds", ""), ("I4", "known", "KVP-1"),
            ("I5", "broken", "new"), ("I6", "not_evaluated", "no run was about it"),
            ("I7", "not_applicable", "it does not declare fork"), ("content", "broken", "two")])
        self.assertEqual([list(row["metrics"]) for row in found[-2:]],
                         [["evaluated", "exempted"], []])

    def test_nothing_to_be_had_is_77_and_wrong_options_are_2(self):
        script = os.path.join(HERE, "run.py")
        for words, code, said in (
                (["--engine=atom"], 77, "no checkout: https://github.com/ROCm/ATOM at ffdf3bb"),
                (["--engine=nobody"], 2, "invalid choice"), (["--seed=-1"], 2, "--seed"),
                (["--operations=x"], 2, "--operations"), (["--checkout"], 2, "--checkout"),
                (["--json=/nowhere/a"], 2, "/nowhere/a: cannot be written"),
                (["--events", "--history"], 2, "--history")):
            done = subprocess.run([sys.executable, "-B", script, *words], check=False, text=True,
                                  capture_output=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
