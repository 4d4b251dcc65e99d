#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the page and of reports/run.sh. Exits 77 with a reason where matplotlib is missing."""

import contextlib
import copy
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError:
    print("skipped: matplotlib is not installed (Debian: python3-matplotlib)")
    sys.exit(77)

import sample_results  # noqa: E402
from figures import PLOTS, drawing, kill_counts, numbers  # noqa: E402
from make_page import main  # noqa: E402
from result_files import load  # noqa: E402


def run(*arguments):
    """make_page.py without a process of its own: (exit code, stderr)."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            code = main(list(arguments))
        except SystemExit as end:
            code = end.code
    return code, said.getvalue()


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


class Checker(HTMLParser):
    """Collects what has to hold for any page: ids, references, and that every tag is closed."""

    VOID = {"meta", "link", "br", "hr", "img", "input"}

    def __init__(self):
        super().__init__()
        self.ids, self.references, self.sources, self.stack = [], set(), [], []

    def handle_starttag(self, tag, attributes):
        self.note(attributes)
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.note(attributes)

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing")

    def note(self, attributes):
        for name, value in attributes:
            value = value or ""
            if name == "id":
                self.ids.append(value)
            if name in ("href", "xlink:href"):
                (self.references.add(value[1:]) if value.startswith("#") else
                 self.sources.append(value))
            if name in ("src", "srcset", "action"):
                self.sources.append(value)
            self.references.update(re.findall(r"url\(#([^)]+)\)", value))


class PageTest(unittest.TestCase):
    """One page of all sample results, looked at from many sides."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.files = sample_results.write_all(cls.folder.name)
        cls.path = os.path.join(cls.folder.name, "report.html")
        cls.code = main([*cls.files, f"--output={cls.path}", "--png"])
        cls.page = read(cls.path)
        cls.checker = Checker()
        cls.checker.feed(cls.page)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_is_whole(self):
        self.assertEqual(self.code, 0)
        self.assertEqual(self.checker.stack, [])
        for plot in PLOTS:
            self.assertTrue(f'id="{plot.key}"' in self.page)
        self.assertEqual(self.page.count("<svg"), 2 * len(PLOTS))
        self.assertFalse("missing" in self.page)

    def test_needs_no_network(self):
        self.assertEqual(self.checker.sources, [])
        self.assertFalse("@import" in self.page)
        self.assertEqual(set(re.findall(r"https?://[^\"' >]+", self.page)), set())

    def test_identifiers_do_not_clash_and_references_are_there(self):
        self.assertEqual(len(self.checker.ids), len(set(self.checker.ids)))
        self.assertEqual(self.checker.references - set(self.checker.ids), set())

    def test_every_colour_of_a_figure_follows_the_scheme(self):
        drawings = "".join(re.findall(r"<svg.*?</svg>", self.page, re.S))
        self.assertEqual(set(re.findall(r"#[0-9a-f]{6}\b", drawings)), set())
        self.assertNotIn("font-family", drawings)
        for text in re.findall(r"<text [^>]*>", drawings):
            self.assertRegex(text, r"fill: (currentColor|var\(--)")

    def test_words_state_what_was_measured(self):
        for words in (
                "One request holds 1.02\u202fGB", "1.88\u202fMB (15 tokens)",
                "One request of 8,192 tokens takes 8.19\u202fMB with grows-1b and 40.0\u202fKB "
                "with state-1b, 205\u202f× less, as much as its first token took",
                "use 4.0\u202f% of what contiguous", "24.0 times less memory",
                "waste 7.5 tokens a request", "hold 20.0 times the tokens that are alive",
                "28.4\u202f% of the prompt tokens", "(37.4\u202f%)",
                "48.5 ns for each of its blocks over its whole life (xxh3-128, 64\u202fKi blocks), "
                "within the target of 60 ns",
                "7.20 (take release) to 21.6 ns a block (evict batch)",
                "one call of evict batch × 512 takes 11.1\u202fµs",
                "99 of 100 at most 22.1\u202fµs",
                "39 of 40 seeded bugs are noticed (97.5\u202f%) and 1 survives, 36 "
                "(90.0\u202f%) by the expected law; the median shrunk trace has 6 operations, the "
                "longest 11 (30 re-made from reports, 2 further reports do not apply; 10 patches "
                "to the shipped sources; all in 12.5\u202fs)",
                "12 laws had a say about 2 subjects 2,708,402 times and none was broken; the one "
                "asked least, I12 (the rule of 12) of naive, 416 times",
                "1 of 2 spaces closed, 3,020,000 states and 90,600,000 edges; two of them were "
                "taken for one with a probability of 1 × 10⁻²⁶"):
            self.assertTrue(words in self.page, words)

    def test_summary_names_machine_commit_date_and_numbers(self):
        head = self.page[:self.page.index("<nav>")]
        for words in ("Sample CPU", "8.0\u202fGiB", "commit 0123456789ab<", "2026-01-02",
                      "32\u202fKiB"):
            self.assertTrue(words in head, words)
        shown = re.findall(r"<b>([^<]*)</b>", head)
        self.assertEqual(shown, ["39 of 40", "24.0\u202f×", "3.8\u202f%", "1.020\u202f×",
                                 "28.4\u202f%", "48.5\u202fns", "50\u202f%"])

    def test_commands_carry_no_folder_of_the_machine(self):
        self.assertTrue(">kvproof-study</span>" in self.page)
        self.assertTrue(">--json=utilisation.json</span>" in self.page)
        for folder in ("/opt/", "/home/", "/data/"):
            self.assertFalse(folder in self.page)
        self.assertTrue("mooncake conversation trace" in self.page)

    def test_totals_are_the_table_of_the_figure_they_belong_to(self):
        figure = self.page[self.page.index('id="live-memory"'):self.page.index('id="prefix-cache"')]
        for text in ("capacity tokens", "65,432", "1,234"):
            self.assertIn(text, figure[figure.index("<details>"):])
        self.assertFalse('id="further"' in self.page)

    def test_known_answers_stand_only_beside_the_trace_they_belong_to(self):
        self.assertEqual(self.page.count("rings: an independent simulator"), 2)  # wide and narrow

    def test_same_files_give_the_same_bytes_in_any_order(self):
        """In a process of its own, with another seed for Python's hashes."""
        again = os.path.join(self.folder.name, "again.html")
        subprocess.run([sys.executable, os.path.join(HERE, "make_page.py"), *reversed(self.files),
                        f"--output={again}"], check=True,
                       env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"})
        self.assertTrue(read(again) == self.page)

    def test_pictures_lie_beside_the_page(self):
        names = os.listdir(os.path.join(self.folder.name, "figures"))
        self.assertEqual(sorted(names), sorted(plot.key + ".png" for plot in PLOTS))

    def test_nothing_else_is_left_in_the_folder(self):
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith(".")],
                         [])


class OtherResultsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "page.html")

    def write(self, content, name="a.json"):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def test_missing_result_is_named_and_the_rest_is_drawn(self):
        files = sample_results.write_all(self.folder.name, without=("utilisation", "life_cycle"))
        code, said = run(*files, f"--output={self.path}",
                         "--absent=life_cycle=it ended with exit code 7: no <clock>")
        self.assertEqual(code, 1)
        self.assertEqual(said.strip(), "make_page: the page lacks utilisation, life_cycle")
        page = read(self.path)
        self.assertIn("This figure is missing: not measured: it ended with exit code 7: no "
                      "&lt;clock&gt;.", page)
        self.assertTrue("no result of utilisation in the given files" in page)
        self.assertEqual(page.count("<svg"), 2 * (len(PLOTS) - 2))

    def test_different_builds_on_one_page_are_pointed_out(self):
        first = sample_results.document("life_cycle")
        second = copy.deepcopy(sample_results.document("utilisation"))
        second["environment"]["commit"] = "fedcba"
        second["environment"]["command"] += " --smoke"
        run(self.write(first), self.write(second, "b.json"), f"--output={self.path}")
        page = read(self.path)
        self.assertTrue("differ in their commit share this page: 0123456789abcdef; fedcba." in page)
        self.assertTrue("A smoke run" in page)

    def test_further_experiments_become_tables(self):
        document = sample_results.document("life_cycle")
        document["results"] += [sample_results.result("brand_new", {"case": "a<b"},
                                                      speed=(3.5, "m/s"))]
        run(self.write(document), f"--output={self.path}")
        page = read(self.path)
        self.assertTrue("<h3>brand new</h3>" in page)
        self.assertTrue("a&lt;b" in page)
        self.assertTrue("speed (m/s)" in page)

    def test_results_at_their_edges_are_drawn(self):
        """One row of each experiment, and rows of zeros: no figure may fail on either."""
        for maker in sample_results.MAKERS:
            document = sample_results.document(maker.__name__)
            single = {**document, "results": [
                row for row in document["results"] if row["experiment"] == maker.__name__][-1:]}
            zeros = copy.deepcopy(document)
            for row in zeros["results"]:
                for name in ("live_tokens", "hit_rate_tokens", "mean_waste_tokens", "waste_share",
                             "used_bytes", "utilisation", "external_fragmentation"):
                    if name in row["metrics"]:
                        row["metrics"][name]["value"] = 0
            for case in (single, zeros):
                code, said = run(self.write(case), f"--output={self.path}")
                self.assertEqual((code, said.count("\n")), (1, 1), f"{maker.__name__}: {said}")

    def test_malformed_files_are_named_with_field_and_expectation(self):
        good = sample_results.document("life_cycle")

        def broken(change):
            document = copy.deepcopy(good)
            change(document)
            return document

        def metric(document):
            return document["results"][0]["metrics"]["ns_per_block"]

        cases = [
            ("", "line 1, column 1: expected JSON"),
            ('{"schema":1,\n "environment"', "line 2, column 15: expected JSON"),
            ('{"schema": NaN}', "NaN"),
            ("[" * 100_000, "expected less nesting"),
            ('{"schema":1,"environment":{},"results":[' + "9" * 5000 + "]}", "expected JSON"),
            ([], "the document: expected an object"),
            (broken(lambda d: d.update(schema=2)), "schema: expected 1"),
            (broken(lambda d: d.update(schema=True)), "schema: expected 1"),
            (broken(lambda d: d.pop("environment")), "environment: expected an object"),
            (broken(lambda d: d["environment"].update(memory_bytes=10 ** 400)),
             "environment.memory_bytes: expected a finite number"),
            (broken(lambda d: d.update(results={})), "results: expected a list"),
            (broken(lambda d: d["results"].append(3)), "results[3]: expected an object"),
            (broken(lambda d: d["results"][0].pop("experiment")),
             "results[0].experiment: expected a name"),
            (broken(lambda d: d["results"][0].update(parameters=[])),
             "results[0].parameters: expected an object"),
            (broken(lambda d: d["results"][0]["parameters"].update(x=[1])),
             "results[0].parameters.x: expected a text"),
            (broken(lambda d: metric(d).update(value="4")),
             "results[0].metrics.ns_per_block.value: expected a finite number"),
            (broken(lambda d: metric(d).update(value=10 ** 400)),
             "results[0].metrics.ns_per_block.value: expected a finite number"),
            (broken(lambda d: metric(d).update(value=-1)),
             "results[0].metrics.ns_per_block.value: expected a number above 0"),
            (broken(lambda d: metric(d).pop("unit")),
             "results[0].metrics.ns_per_block.unit: expected a text"),
            (broken(lambda d: metric(d).update(min=600)),
             "results[0].metrics.ns_per_block.min: expected at most the max"),
            (broken(lambda d: d["results"][0]["metrics"].pop("ns_per_block")),
             "results[0].metrics.ns_per_block: expected this metric"),
        ]
        for content, expected in cases:
            path = self.write(content)
            code, said = run(path, f"--output={self.path}")
            self.assertEqual(code, 2, said)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertIn(path, said)
            self.assertIn(expected, said)
            self.assertFalse(os.path.exists(self.path))

    def test_a_case_that_is_there_twice_is_named(self):
        document = sample_results.document("life_cycle")
        first, second = self.write(document), self.write(document, "b.json")
        code, said = run(first, second, f"--output={self.path}")
        self.assertEqual((code, said), (2, f"make_page: {second}: results[0]: expected one result "
                                        f"per case; {first} has this one too\n"))

    def test_more_than_a_page_can_show_is_refused(self):
        document = sample_results.document("utilisation")
        row = document["results"][0]
        document["results"] = [{**row, "parameters": {**row["parameters"], "requests": n}}
                               for n in range(1, 40)]
        self.assertIn("results[32]: expected at most 32 results of utilisation",
                      run(self.write(document), f"--output={self.path}")[1])
        document = sample_results.document("waste_against_block_size")
        row = document["results"][0]
        document["results"] = [{**row, "parameters": {"block_size": 1, "workload": f"w{n}"}}
                               for n in range(40)]
        self.assertIn("results[32].parameters.workload: expected at most 32",
                      run(self.write(document), f"--output={self.path}")[1])

    def test_huge_values_take_neither_memory_nor_time(self):
        """Every number of every experiment replaced by a huge or a tiny one."""
        for maker in sample_results.MAKERS:
            for huge in (1e300, 1e-300, 10 ** 15):
                document = sample_results.document(maker.__name__)
                for row in document["results"]:
                    for metric in row["metrics"].values():
                        metric.update(value=huge, min=huge, max=huge)
                self.assertIn(run(self.write(document), f"--output={self.path}")[0], (1, 2))
            document["results"] = document["results"][:1]
            for name, value in document["results"][0]["parameters"].items():
                if isinstance(value, (int, float)):
                    document["results"][0]["parameters"][name] = 10 ** 15
            self.assertIn(run(self.write(document), f"--output={self.path}")[0], (1, 2))

    def test_wrong_parameters_of_each_experiment_are_named(self):
        for experiment, parameter, value in (
                ("memory_of_one_request", "tokens", -1), ("memory_of_models", "context_tokens", 0),
                ("utilisation", "storage", "elastic"),
                ("waste_against_block_size", "block_size", 0), ("live_memory", "seconds", "soon"),
                ("prefix_hit_rate", "source", ""), ("pool_operation", "num_blocks", None),
                ("mutant", "fate", "noticed"), ("mutant", "laws", ""), ("mutant", "laws", "I2"),
                ("mutant", "where", None), ("exhaustive", "space", 3),
                ("check_law", "verdict", "")):
            document = sample_results.document(experiment)
            document["results"][0]["parameters"][parameter] = value
            code, said = run(self.write(document), f"--output={self.path}")
            self.assertEqual(code, 2)
            self.assertIn(f"results[0].parameters.{parameter}: expected", said)

    def test_usage_errors_are_one_line(self):
        for arguments in ([], ["--bogus"], [os.path.join(self.folder.name, "absent.json")],
                          [self.write(sample_results.document("life_cycle")),
                           "--output=/proc/no/page.html"]):
            code, said = run(*arguments)
            self.assertEqual(code, 2)
            self.assertEqual(said.count("\n"), 1, said)


class CorrectnessTest(unittest.TestCase):
    """The figures of what `kvproof check` finds: they show it most of all when it is bad."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "page.html")

    def page_of(self, document):
        path = os.path.join(self.folder.name, "a.json")
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(document, stream)
        self.code, self.said = run(path, f"--output={self.path}")
        return read(self.path) if os.path.exists(self.path) else ""

    def article(self, document, key):
        page = self.page_of(document)
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
        self.assertTrue("All 40 seeded bugs are noticed, 37 (92.5" in clean)

    def test_what_went_another_way_comes_first_in_the_table(self):
        table = self.article(sample_results.document("mutant"), "kill-matrix")
        rows = re.findall(r"<tr><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>", table)
        self.assertEqual(rows[:4], [("B023", "survived"), ("B019", "crash"),
                                    ("B013", "model only"), ("B007", "another law")])

    def test_every_seeded_bug_stands_in_one_cell(self):
        path = os.path.join(self.folder.name, "m.json")
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(sample_results.document("mutant"), stream)
        mutants = kill_counts.mutants_of(load([path]).of("mutant"))
        rows = kill_counts.matrix_rows(mutants)
        self.assertEqual([row.id or row.name for row in rows],
                         [f"A{n}" for n in range(1, 12)] + [f"source_{n}.h" for n in range(3)])
        credited = sum(sum(row.by_law(fate).values()) for row in rows
                       for fate in ("expected", "other_law"))
        beyond = sum(row.of_fate(fate) for row in rows for fate in kill_counts.BEYOND_LAWS)
        self.assertEqual((credited, beyond), (37, 3))
        self.assertEqual(kill_counts.columns_of(mutants), [f"I{n}" for n in range(1, 13)] +
                         ["C2", "C5"])

    def test_broken_and_vacuous_laws_are_red(self):
        document = sample_results.document("check_law")
        self.assertFalse("var(--red)" in self.article(document, "law-table"))
        document["results"][2]["parameters"]["verdict"] = "BROKEN"
        document["results"][15]["parameters"]["verdict"] = "VACUOUS: never had a say"
        bad = self.article(document, "law-table")
        self.assertTrue("2 of 24 verdicts are not what they should be: I3 of naive (broken); I4 of "
                        "half (vacuous)" in bad)
        self.assertTrue("var(--red)" in bad)

    def test_laws_of_all_subjects_stand_in_one_row(self):
        table = self.article(sample_results.document("check_law"), "law-table")
        self.assertEqual(table.count("<tr>"), 1 + 12)
        self.assertTrue("half: checked" in table)
        self.assertTrue("not demanded: it shows no index" in table)

    def test_space_that_was_cut_off_says_so(self):
        text = self.article(sample_results.document("exhaustive"), "exhaustive-search")
        self.assertEqual(text.count("not closed at depth 17"), 2)  # wide and narrow
        self.assertTrue(">1 × 10⁻²⁶</td>" in text)

    def test_fields_are_named(self):
        for experiment, metric in (("mutant", "trace_operations"), ("exhaustive", "closed"),
                                   ("check_law", "checked")):
            document = sample_results.document(experiment)
            document["results"][0]["metrics"][metric]["value"] = 1.5
            self.page_of(document)
            self.assertEqual((self.code, self.said.count("\n")), (2, 1))
            self.assertIn(f"results[0].metrics.{metric}.value: expected", self.said)

    def test_page_is_whole_without_it(self):
        names = [maker.__name__ for maker in sample_results.CHECKED]
        files = sample_results.write_all(self.folder.name, without=names)
        self.assertEqual(run(*files, f"--output={self.path}"), (0, ""))
        page = read(self.path)
        self.assertFalse("Correctness" in page)
        self.assertEqual(len(re.findall(r"<b>[^<]*</b>", page[:page.index("<nav>")])), 6)
        self.assertEqual(run(*files, f"--output={self.path}", "--absent=mutant=it hung")[0], 1)
        self.assertTrue("This figure is missing: not measured: it hung." in read(self.path))


class DrawFigureTest(unittest.TestCase):
    """reports/draw_figure.py, which plan --figure calls."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        sample_results.write_all(self.folder.name)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def draw(self, *arguments):
        done = subprocess.run([sys.executable, os.path.join(HERE, "draw_figure.py"), *arguments],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def test_draws_one_figure_in_the_format_of_its_name(self):
        for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
            self.assertEqual(self.draw(self.path("memory_of_models.json"),
                                       "--figure=memory-of-models",
                                       f"--output={self.path(name)}"), (0, ""))
            with open(self.path(name), "rb") as stream:
                content = stream.read()
            self.assertTrue(content.startswith(start))
            if name == "a.svg":
                self.assertIn(b"window-1b", content)

    def test_usage_errors_are_one_line_and_write_nothing(self):
        good = self.path("memory_of_models.json")
        for file, figure, output, expected in (
                (good, "memory-of-models", "a.pdf", "ends in .png or .svg"),
                (good, "nothing", "a.png", "expected one of kill-matrix"),
                (self.path("utilisation.json"), "memory-of-models", "a.png",
                 "expected results of memory_of_models"),
                (self.path("absent.json"), "memory-of-models", "a.png", "cannot be read")):
            code, said = self.draw(file, f"--figure={figure}", f"--output={self.path(output)}")
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertIn(expected, said)
            self.assertFalse(os.path.exists(self.path(output)))


class DrawingTest(unittest.TestCase):
    def test_colours_can_be_read_on_light_and_dark(self):
        def luminance(colour):
            parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
            return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear))

        for side in (0, 1):
            paper = luminance(drawing.COLOURS["paper"][side])
            for role, pair in drawing.COLOURS.items():
                high, low = sorted((luminance(pair[side]), paper), reverse=True)
                least = 1 if role in ("paper", "grid") else 4
                self.assertGreaterEqual((high + 0.05) / (low + 0.05), least, role)

    def test_labels_are_pushed_apart_and_stay_inside(self):
        spots = drawing.spread([50, 50, 51, 99], 14, 0, 100)
        self.assertTrue(all(b - a >= 13.9 for a, b in zip(spots, spots[1:])))
        self.assertTrue(spots[0] >= 0 and spots[-1] <= 100.1)
        self.assertEqual(drawing.spread([10, 60], 14, 0, 100), [10, 60])

    def test_numbers_read_well(self):
        for value, text in ((0, "0"), (1234567, "1,234,567"), (12.34, "12.3"), (0.01234, "0.0123"),
                            (999.6, "1,000"), (8, "8.00")):
            self.assertEqual(numbers.digits(value), text)
        self.assertEqual(numbers.bytes_text(1.024e9), "1.02\u202fGB")
        self.assertEqual(numbers.bytes_text(999.96e6), "1.00\u202fGB")
        self.assertEqual(numbers.time_text(1500), "1.50\u202fµs")
        self.assertEqual(numbers.percent(0.961), "96.1\u202f%")
        self.assertEqual(numbers.short(2_500_000), "2.5\u202fM")
        self.assertEqual([numbers.tiny(value) for value in (0, 0.25, 3.2e-21)],
                         ["0", "0.250", "3 × 10⁻²¹"])


if __name__ == "__main__":
    unittest.main()
