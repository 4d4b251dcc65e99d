#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the list of engines and of what runs it. No engine is needed."""

import contextlib
import glob
import io
import os
import subprocess
import sys
import tempfile
import unittest
from types import SimpleNamespace

import history
import places
import run
from faults import Fault
from rows import DEFECTS, HISTORY, RELEASES, ROWS, SHARED

HERE = os.path.dirname(os.path.abspath(__file__))
ROW = ROWS[0]._replace(name="mine", revision="abc1234", source="checkout", origin="me/mine",
                       adapter="nano_vllm.py", abilities={})
# Lines of code of an adapter at most. vLLM V1's shows all that it has; one of SGLang's, two cores;
# TVM's writes contents; OpenVINO's has a scheduler in front.
LINES = {"../vllm_adapter.py": 120, "sglang_unified.py": 120, "transformers_cache.py": 90,
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
            self.assertNotEqual(fault.old, fault.new, fault.what)
            self.assertLessEqual(fault.old.strip().count("\n"), 4, fault.what)


class HistoryTest(unittest.TestCase):
    def test_each_defect_is_gone_around_by_its_name(self):
        with open(os.path.join(HERE, "..", "vllm_known.py"), encoding="utf-8") as script:
            known = script.read()
        for defect in DEFECTS:
            self.assertIn(f'"{defect.name}"', known)
            self.assertTrue({*defect.lived} <= {*RELEASES}, defect)
        for row in HISTORY:
            self.assertIn(f'"{row.revision.rpartition(".")[0]}"', known)

    def probed(self, results, met, code=0):
        class Checker:
            work = self.enterContext(tempfile.TemporaryDirectory())

            def run(self, place, name, *_):
                if met:
                    with open(os.path.join(self.work, f"{name}.count"), "w",
                              encoding="ascii") as file:
                        file.write(str(met))
                return code, results, "the last words"
        place, history.Place = history.Place, lambda row, *_: row
        self.addCleanup(setattr, history, "Place", place)
        return history.probed(Checker(), HISTORY[0], DEFECTS[0], run)

    def test_a_defect_is_found_or_not_or_cannot_be_met(self):
        finding = {"experiment": "check_finding",
                   "parameters": {"finding": "I9", "text": "block 5"}}
        run.folder = run.checkout = None
        for results, met, code, state, why in (
                ([finding], 7, 1, "found", "I9: block 5"), ([], 7, 0, "not found", "-"),
                ([], 0, 0, "unknown", "no call that could meet it can be made"),
                ([], 7, 2, "unknown", "the last words")):
            result = self.probed(results, met, code)
            self.assertEqual((result["parameters"]["state"], result["parameters"]["why"],
                              result["metrics"]["met"]["value"]), (state, why, met))

    def test_what_is_listed_is_looked_for_by_name(self):
        def probed(_, row, defect, __):
            state = "found" if defect.name == "twice" else "not found"
            return {"parameters": {
                "engine": row.name, "revision": row.revision, "defect": defect.name, "link": "l",
                "what": "w", "expected": "yes", "why": "I9: block 5; more", "state": state}}
        self.addCleanup(setattr, history, "probed", history.probed)
        history.probed = probed
        holds = run.Outcome(HISTORY[0], verdict="holds", counts={"findings_known": 0})
        others = run.Outcome(HISTORY[0], verdict="VIOLATED"), run.Outcome(ROW, verdict="holds")
        found = history.known([holds, *others], run, None)
        self.assertEqual(holds.counts, {"findings_known": 1})
        self.assertEqual(len(found), sum(d.expected("0.11.0") for d in DEFECTS))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            history.print_known(found)
        self.assertIn("known: vllm-v1 0.11.0: twice: w (l); block 5\n", said.getvalue())
        self.assertIn("not as expected: progress in 0.11.0: not found", said.getvalue())

    def test_what_the_list_does_not_expect_is_told(self):
        lives, gone = ({"metrics": {}, "parameters": {
            "defect": "twice", "revision": revision, "state": state, "expected": "yes",
            "why": "-"}} for revision, state in (("1.0", "found"), ("2.0", "not found")))
        self.assertFalse(history.differs(lives))
        self.assertTrue(history.differs(gone))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            history.print_grid([lives, gone])
        self.assertIn("twice           X    .\n", said.getvalue())
        self.assertIn("not as expected: twice in 2.0: not found", said.getvalue())


class PlacesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.top = os.path.join(self.folder.name, "mine-abc1234")
        os.makedirs(os.path.join(self.top, "a", "b"))
        for name, text in (("a/b/c.py", "one\ntwo\n"), ("a/d.py", "three\n"), ("e.py", "four\n")):
            with open(os.path.join(self.top, name), "w", encoding="utf-8") as file:
                file.write(text)

    def text(self, *path):
        with open(os.path.join(*path), encoding="utf-8") as file:
            return file.read()

    def test_a_copy_differs_in_the_words_of_its_faults_alone(self):
        copy = os.path.join(self.folder.name, "copy")
        places.overlay(self.top, copy, [Fault("", "a/b/c.py", "two", "2"),
                                        Fault("", "a/d.py", "three", "3")])
        self.assertEqual(self.text(copy, "a/b/c.py"), "one\n2\n")
        self.assertEqual(self.text(copy, "a/d.py"), "3\n")
        self.assertEqual(self.text(copy, "e.py"), "four\n")
        self.assertEqual(self.text(self.top, "a/b/c.py"), "one\ntwo\n")
        self.assertEqual(self.text(self.top, "a/d.py"), "three\n")

    def test_words_that_are_not_there_once_are_refused(self):
        for words in ("five", "o"):
            with self.assertRaisesRegex(places.Absent, "a/b/c.py"):
                places.overlay(self.top, os.path.join(self.folder.name, "copy"),
                               [Fault("", "a/b/c.py", words, "")])

    def test_two_verbs_see_their_packages_in_one_environment(self):
        sites = [os.path.join(self.folder.name, name, "lib", "python3.11", "site-packages")
                 for name in ("engine", "wire", "live")]
        for site in sites:
            os.makedirs(site)
        for other in ("wire", "live", "wire"):
            places.see(os.path.join(self.folder.name, "engine"),
                       os.path.join(self.folder.name, other))
        self.assertEqual(self.text(sites[0], "shared.pth").splitlines(), sites[1:])

    def test_a_copy_that_is_not_python_is_refused(self):
        with self.assertRaisesRegex(places.Absent, "a/b/c.py:2: '\\(' was never closed"):
            places.overlay(self.top, os.path.join(self.folder.name, "copy"),
                           [Fault("", "a/b/c.py", "two", "len((2,)")])

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
    def test_the_results_are_those_of_the_checks(self):
        counts = dict.fromkeys(run.COUNTS, 3)
        fault = "what it does"
        checked = run.Outcome(ROW, verdict="holds", counts=counts, noticed=[fault, fault],
                              missed=[fault])
        written = run.document([checked, run.Outcome(ROW, skipped="not there")], {"seed": 1})
        (result,) = written["results"]
        self.assertEqual(written["schema"], 1)
        self.assertEqual({name: result["parameters"][name] for name in (
            "engine", "revision", "source")},
            {"engine": "mine", "revision": "abc1234", "source": "checkout"})
        self.assertEqual({name: metric["value"] for name, metric in result["metrics"].items()},
                         counts | {"seeded": 3, "noticed": 2, "seconds": 0})

    def test_what_is_no_program_is_given_no_time_to_start(self):
        checker = run.Checker("echo", [], os.curdir)
        for source, given in (("own", False), ("pypi", True)):
            place = SimpleNamespace(row=ROW._replace(source=source, known=()), options=(),
                                    subject=lambda _: "--subject=mine")
            self.assertEqual("--start-limit-seconds" in checker.run(place, "mine")[2], given)

    def test_a_fault_whose_check_did_not_run_is_said_to_be_so(self):
        checker = run.Checker("kvproof", [], self.enterContext(tempfile.TemporaryDirectory()))
        place = SimpleNamespace(row=ROW, with_fault=lambda *_: place)
        for code, noticed, why in ((1, True, ""), (0, False, ""), (3, False, ""),
                                   (2, False, ", for its check ended with 2: hang")):
            checker.run = lambda *_, code=code: (code, [], "words\nhang\n")
            self.assertEqual(checker.notices(place, 0, Fault("what", "f", "a", "b")),
                             ("what", noticed, why))

    def test_each_law_has_a_state_and_why(self):
        def law(name, verdict, worded=0):
            return {"experiment": "check_law",
                    "parameters": {"subject": "x", "law": name, "name": "n", "verdict": verdict},
                    "metrics": {"checked": {"value": 5, "unit": "count"},
                                "suspended": {"value": 0, "unit": "count"},
                                "worded": {"value": worded, "unit": "count"}}}

        def finding(laws, text, known, link):
            return {"experiment": "check_finding", "metrics": {}, "parameters": {
                "finding": laws, "text": text, "known": known, "link": link}}

        found = run.law_results(ROW, [
            law("I1", "holds"), law("I2", "holds, 2 times as a trait words it", 2),
            law("I3", "holds; in part not demanded: it does not show links"),
            law("I4", "broken, as is known"), law("I5", "BROKEN"), law("I6", "no run was about it"),
            law("I7", "not demanded: it does not declare fork"),
            finding("I4", "text", "a reason", "https://a"),
            finding("I5+I4", "other", "a reason", "https://a"), finding("I5", "new", "", ""),
            finding("content", "known one", "a reason", ""), finding("content", "two", "", "")])
        self.assertEqual([tuple(result["parameters"][name] for name in ("law", "state", "why"))
                          for result in found], [
            ("I1", "holds", "-"), ("I2", "worded", "-"),
            ("I3", "holds", "in part not demanded: it does not show links"),
            ("I4", "known", "a reason https://a"), ("I5", "broken", "new"),
            ("I6", "silent", "no run was about it"),
            ("I7", "silent", "not demanded: it does not declare fork"),
            ("content", "broken", "two")])
        self.assertEqual([list(result["metrics"]) for result in found[-2:]],
                         [["checked", "worded"], []])
        written = run.document([run.Outcome(ROW, verdict="holds", counts={"worded": 2},
                                            laws=found)], {})
        self.assertEqual([result["experiment"] for result in written["results"]],
                         ["engines"] + 8 * ["engine_law"])

    def test_nothing_to_be_had_is_77_and_wrong_options_are_2(self):
        script = os.path.join(HERE, "run.py")
        for words, code, said in (
                (["--engine=atom"], 77, "no checkout: https://github.com/ROCm/ATOM at ffdf3bb"),
                (["--engine=nobody"], 2, "invalid choice"), (["--seed=-1"], 2, "--seed"),
                (["--operations=x"], 2, "--operations"), (["--checkout"], 2, "--checkout"),
                (["--events", "--json=a"], 2, "--events")):
            done = subprocess.run([sys.executable, "-B", script, *words], check=False, text=True,
                                  capture_output=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
