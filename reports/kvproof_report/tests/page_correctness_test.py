# SPDX-License-Identifier: Apache-2.0
"""Tests of the figures of what `kvproof check` finds, and of the verdict."""

import re

from kvproof_report.draw import drawing
from kvproof_report.draw.grid import Grid
from kvproof_report.figures import kill_matrix, laws
from kvproof_report.tests import sample_results
from kvproof_report.tests.page_support import DocumentTest


class CorrectnessTest(DocumentTest):
    """The figures of what `kvproof check` finds: they show it most of all when it is bad."""

    def article(self, document, key, *others):
        _, _, page = self.draw(*self.write_all(document, *others))
        start = page.index(f'<article id="{key}">')
        return page[start:page.index("</article>", start)]

    def test_survivors_are_named_in_red(self):
        document = sample_results.document("mutant")
        drawings = re.findall(r"<svg.*?</svg>", self.article(document, "kill-matrix"), re.S)
        for drawing_text in drawings:
            self.assertRegex(drawing_text, r"<text [^>]*var\(--red\)[^>]*>Survived \(1\): B023<")
        for row in document["results"]:
            if row["parameters"].get("fate") == "survived":
                row["parameters"].update(fate="expected", laws=row["parameters"]["expected_law"])
        clean = self.article(document, "kill-matrix")
        self.assertFalse("Survived" in clean)
        self.assertTrue("All 40 seeded bugs are detected, 37 (92.5" in clean)

    def test_what_went_another_way_comes_first_in_the_table(self):
        table = self.article(sample_results.document("mutant"), "kill-matrix")
        rows = re.findall(r"<tr><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>", table)
        self.assertEqual(rows[:4], [("B023", "survived"), ("B019", "crash"),
                                    ("B013", "model only"), ("B007", "another law")])

    def test_every_seeded_bug_stands_in_one_cell(self):
        results = self.load(sample_results.document("mutant"))
        grids = [part for part in kill_matrix.draw.__wrapped__(results.of("mutant"))
                 if isinstance(part, Grid)]
        self.assertEqual([[row.name or row.label for row in grid.rows] for grid in grids],
                         [[f"A{n}" for n in range(1, 12)], [f"source_{n}.h" for n in range(3)]])
        cells = [(grid.columns[x].label, cell) for grid in grids
                 for (_, x), cell in grid.cells.items() if cell.text]
        self.assertEqual(sum(int(cell.text) for _, cell in cells), 40)
        self.assertEqual({name for name, cell in cells if cell.fills[0][2] != drawing.BLUE},
                         {"I9", "model only", "crash", "survived"})
        self.assertEqual([column.label for column in grids[0].columns][:14],
                         [f"I{n}" for n in range(1, 13)] + ["C2", "C5"])

    def test_broken_and_vacuous_laws_are_red(self):
        document = sample_results.document("check_law")
        self.assertFalse("var(--red)" in self.article(document, "laws"))
        document["results"][2]["parameters"]["verdict"] = "broken"
        document["results"][15]["parameters"]["verdict"] = "cannot_tell"
        bad = self.article(document, "laws")
        self.assertTrue("2 of 24 verdicts are not what they should be: I3 of naive (broken); I4 of "
                        "half (cannot tell)" in bad)
        self.assertTrue("var(--red)" in bad)

    def test_laws_of_all_kinds_stand_in_one_figure(self):
        documents = [sample_results.document(name) for name in ("check_law", "live_law")]
        documents[0]["results"] += [sample_results.result(
            "events_law", {"law": law, "name": "a sentence", "verdict": verdict, "reason": ""},
            evaluated=9, found=3) for law, verdict in (("tail", "known"), ("removed", "holds"))]
        text = self.article(documents[0], "laws", documents[1])
        self.assertEqual(text.count("<tr>"), 1 + 24 + 8 + 2)
        self.assertIn("not applicable: it shows no index", text)
        self.assertIn("; 2 of 2 laws of a stream of events evaluated, broken: tail (known)</h3>",
                      text)
        for title in laws.KINDS.values():
            self.assertEqual(text.count(f">Laws {title}<"), 2)  # wide and narrow

    def test_space_that_was_cut_off_says_so(self):
        text = self.article(sample_results.document("exhaustive"), "exhaustive-search")
        self.assertEqual(text.count("not closed at depth 17"), 2)  # wide and narrow
        self.assertTrue(">1 × 10⁻²⁶</td>" in text)

    def test_engines_are_named_by_what_they_break(self):
        document = sample_results.document("engine_law")
        text = self.article(document, "engines")
        self.assertIn("3 revisions of 2 engines: nothing is broken in 1, only what is known in 1, "
                      "something new in 1 (theirs def5678); 3 to 12 of 12 laws evaluated; "
                      "9 of 10 seeded faults detected", text)
        for drawing_text in re.findall(r"<svg.*?</svg>", text, re.S):
            self.assertEqual(re.findall(r"<text [^>]*var\(--red\)[^>]*>([^<]*)<", drawing_text),
                             ["theirs def5678", "broken, new"])
            for words in (">100 %<", ">25 %<", ">9 of 10<", ">content<"):
                self.assertIn(words, drawing_text)
        rows = re.findall(r"<tr><td[^>]*>([^<]*)</td>" + 3 * "<td[^>]*>([^<]*)</td>", text)
        self.assertIn(("exempted", "theirs", "abc1234", "I2"), rows)
        self.assertEqual(rows[:3], [("broken", "theirs", "def5678", "I3"),
                                    ("broken", "theirs", "def5678", "content"),
                                    ("known", "theirs", "abc1234", "I4")])

    def test_engines_without_their_sums_are_drawn(self):
        document = sample_results.document("engine_law")
        document["results"] = document["results"][:1]
        text = self.article(document, "engines")
        self.assertIn("1 revision of 1 engine: nothing is broken in 1; 1 of 1 law evaluated</h3>",
                      text)

    def test_a_life_goes_from_the_first_release_to_the_last(self):
        text = self.article(sample_results.document("engine_history"), "engine-history")
        self.assertIn("3 releases of theirs: 2 of 3 defects found, 1 of them gone in the last "
                      "release that can be asked; the longest life, 1.0 to 1.1: the old defect"
                      "</h3>", text)
        link = f'<a href="{sample_results.REPORT}">{sample_results.REPORT}</a>'
        self.assertEqual(text.count(f">{link}<"), 3)
        self.assertEqual(text.count(">no call that could meet it can be made<"), 3)

    def test_laws_of_runs_are_named_by_what_they_detected(self):
        document = sample_results.document("live_law")
        text = self.article(document, "laws")
        self.assertIn("1,177,032 steps of vLLM 1.0&#x27;s own scheduler: 7 known findings, nothing "
                      "new; 25 of 30 seeded faults detected, by 6 of 8 laws; S6 never evaluated",
                      text)
        for drawing_text in re.findall(r"<svg.*?</svg>", text, re.S):
            self.assertEqual(re.findall(r"<text [^>]*var\(--red\)[^>]*>([^<]*)<", drawing_text),
                             [])
            self.assertEqual(re.findall(r"<text [^>]*var\(--grey\)[^>]*>([^<]*)<", drawing_text),
                             ["S6", "rule of 6"])
        document["results"][4]["metrics"]["new"]["value"] = 2
        text = self.article(document, "laws")
        self.assertIn("7 known findings, something new, detected by S5; 25 of 30", text)
        for drawing_text in re.findall(r"<svg.*?</svg>", text, re.S):
            self.assertEqual(re.findall(r"<text [^>]*var\(--red\)[^>]*>([^<]*)<", drawing_text),
                             ["broken, or vacuous", "S5", "rule of 5"])
        self.assertEqual(re.findall(r"<tr><td[^>]*>([^<]*)</td>", text)[:2],
                         ["S5", "S1"])

    def test_laws_of_runs_without_their_sums_or_faults_are_drawn(self):
        document = sample_results.document("live_law")
        document["results"][-1]["metrics"]["seeded"]["value"] = 0
        self.assertIn("7 known findings, nothing new; S6 never evaluated</h3>",
                      self.article(document, "laws"))
        document["results"] = document["results"][:1]
        self.assertIn("<h3>vLLM 1.0&#x27;s own scheduler: nothing new</h3>",
                      self.article(document, "laws"))

    def test_laws_of_a_run_in_a_file_are_drawn_with_its_findings(self):
        document = sample_results.document("live_law")
        document["results"] = [sample_results.result(
            "live_law", {"file": "/runs/a.jsonl", "law": "S1", "name": "x", "verdict": "broken"},
            evaluated=5, findings=2)]
        self.assertIn("<h3>a.jsonl: something new, detected by S1</h3>",
                      self.article(document, "laws"))

    def test_releases_that_ran_are_told_from_those_that_did_not(self):
        text = self.article(sample_results.document("live_history"), "live-history")
        self.assertIn("2 of 3 releases of theirs-cpu ran; something new: S2 in 2.0; what is known: "
                      "S2 in 1.1; 1.1 ended early; S3 not evaluated</h3>", text)
        self.assertEqual(text.count(">ImportError: no module<"), 3)

    def test_fields_are_named(self):
        for experiment, metric in (("mutant", "trace_operations"), ("exhaustive", "closed"),
                                   ("check_law", "evaluated"), ("engine_law", "exempted"),
                                   ("engine_history", "met"), ("live_law", "evaluated"),
                                   ("live_history", "findings")):
            document = sample_results.document(experiment)
            document["results"][0]["metrics"][metric]["value"] = 1.5
            code, said, _ = self.draw(*self.write_all(document))
            self.assertEqual((code, said.count("\n")), (2, 1))
            self.assertIn(f"results[0].metrics.{metric}.value: expected", said)

    def verdict(self, *documents):
        """(its class, its words) on a page of these."""
        _, _, page = self.draw(*self.write_all(*documents))
        kind, words = re.search(r'<p class="verdict (\w+)">(.*?)</p>', page).groups()
        return kind, re.sub(r"<[^>]*>", "", words)

    def test_verdict_is_the_worst_of_what_was_found(self):
        laws, mutants = (sample_results.document(name) for name in ("check_law", "mutant"))
        self.assertEqual(self.verdict(sample_results.document("life_cycle"))[0], "unknown")
        self.assertEqual(self.verdict(laws)[0], "good")
        kind, words = self.verdict(laws, mutants)
        self.assertEqual(kind, "partly")  # one survives
        self.assertIn("39 of 40 seeded bugs are detected.", words)
        self.assertEqual(self.verdict(sample_results.document("exhaustive"))[0], "partly")
        laws["results"][2]["parameters"]["verdict"] = "broken"
        kind, words = self.verdict(laws, mutants)
        self.assertEqual((kind, words[:6]), ("bad", "Wrong."))
        self.assertIn("I3 of naive", words)

    def test_too_few_operations_are_a_gap_and_not_a_fault(self):
        laws = sample_results.document("check_law")
        laws["results"].append(sample_results.result(
            "check", {"subject": "half", "broken": "", "verdict": "cannot_tell"}, seconds=(1, "s"),
            operations=5))
        kind, words = self.verdict(laws)
        self.assertEqual(kind, "partly")
        self.assertIn("too few operations ran to tell whether all holds of half.", words)
        laws["results"].pop()
        laws["results"][2]["parameters"]["verdict"] = "cannot_tell"
        self.assertIn("of naive.", self.verdict(laws)[1])

    def test_what_no_law_but_an_oracle_found_is_wrong_too(self):
        laws = sample_results.document("check_law")
        laws["results"].append(sample_results.result(
            "check", {"subject": "half", "broken": "the model", "verdict": "broken"},
            seconds=(1, "s"), operations=5))
        kind, words = self.verdict(laws)
        self.assertEqual(kind, "bad")
        self.assertIn("the model of half", words)

    def test_page_is_whole_without_it(self):
        files = sample_results.write_all(self.folder, without=sample_results.CHECKED)
        code, said, page = self.draw(*files)
        self.assertEqual((code, said), (0, ""))
        self.assertFalse("<h2>Correctness" in page)
        self.assertIn("<b>Correctness was not checked in this run.</b>", page)
        code, _, page = self.draw(*files, "--absent=mutant=it hung")
        self.assertEqual(code, 1)
        self.assertTrue("This figure is missing: not measured: it hung." in page)
