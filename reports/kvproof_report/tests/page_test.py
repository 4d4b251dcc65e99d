# SPDX-License-Identifier: Apache-2.0
"""Tests of one page of all sample results, looked at from many sides."""

import os
import re
import tempfile
import unittest

from kvproof_report.page.programs import make_page
from kvproof_report.page.sections import PLOTS
from kvproof_report.tests import sample_results
from kvproof_report.tests.page_support import Checker
from kvproof_report.tests.support import read


class PageTest(unittest.TestCase):
    """One page of all sample results, looked at from many sides."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.files = sample_results.write_all(cls.folder.name)
        cls.path = os.path.join(cls.folder.name, "report.html")
        with open(os.path.join(cls.folder.name, "lens-x.html"), "w", encoding="utf-8") as lens:
            lens.write("<title>Of A &amp; B.</title>")
        cls.code = make_page([*cls.files, f"--output={cls.path}", "--png"])
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
        self.assertEqual(self.checker.sources, ["lens-x.html"])  # beside it
        self.assertFalse("@import" in self.page)
        self.assertEqual(set(self.checker.links), {sample_results.REPORT})
        self.assertEqual(set(re.findall(r"https?:[^\"' <>]+", self.page)),
                         {sample_results.REPORT})

    def test_laws_lead_to_the_lenses_beside_the_page(self):
        laws = self.page[self.page.index('id="correctness"'):self.page.index('id="memory"')]
        self.assertTrue('<a href="lens-x.html">Of A &amp; B</a>' in laws)

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
                "One request holds 1.05\u202fGB", "1.92\u202fMB (15 tokens)",
                "One request of 131,072 tokens takes 42.9\u202fGB with llama-3-70b and "
                "138\u202fMB with mamba-codestral-7b, 311\u202f× less, as much as its first",
                "use 2.3\u202f% of what contiguous", "41.1 times less memory",
                "waste 7.5 tokens a request", "hold 20.0 times the tokens that are alive",
                "28.4\u202f% of the prompt tokens", "(37.4\u202f%)",
                "A request costs 11.2 times the hash of its tokens alone: 115 ns for each of its "
                "blocks over its whole life (xxh3-128, 64\u202fKi blocks)",
                "step of 128 requests takes 10.0 ns a token by one call (45.0 instructions)",
                "23.5 (free request) to 188 ns a block (evict batch)",
                "one call of free request × 8,192 takes 190\u202fµs",
                "99 of 100 at most 288\u202fµs",
                "39 of 40 seeded bugs are detected (97.5\u202f%) and 1 survives, 36 "
                "(90.0\u202f%) by the expected law; the median shrunk trace has 6 operations, the "
                "longest 11 (30 re-made from reports, 2 further reports do not apply; 10 patches "
                "to the shipped sources; all in 12.5\u202fs)",
                "12 laws were evaluated on 2 subjects 2,708,402 times and none was broken; the one "
                "evaluated least, I12 (the rule of 12) of naive, 416 times",
                "1 of 2 spaces closed, 3,020,000 states and 90,600,000 edges; two of them were "
                "taken for one with a probability of 1 × 10⁻²⁶"):
            self.assertTrue(words in self.page, words)

    def test_summary_names_machine_commit_date_and_numbers(self):
        head = self.page[:self.page.index("<nav>")]
        for words in ("Sample CPU", "8.0\u202fGiB", "commit 0123456789ab<", "2026-01-02",
                      "32\u202fKiB"):
            self.assertTrue(words in head, words)
        shown = re.findall(r"<b>([^<]*)</b>", head)
        self.assertEqual(shown, ["Correct as far as it was checked, with gaps.",
                                 "53\u202f%", "1.25\u202f×", "96.2\u202f%", "8.7\u202f%",
                                 "115\u202fns"])
        for words in ("Ceiling 100\u202f%: the fastest plain read", "10 to 90\u202f% of the rounds"
                      ": 46 to 58", "Floor 1\u202f×: the same kernel over contiguous", "max-length "
                      "buffers: 2.3\u202f%", "Ceiling 32.2\u202f%: the offline optimum.",
                      "Floor 9.94\u202fns: the hash alone.", "11.2 times it",
                      "39 of 40 seeded bugs are detected", "12 laws held in 2,708,402 answers"):
            self.assertIn(words.lower(), head.lower())
        self.assertEqual([round(float(share)) for share in re.findall(r'width:([\d.]+)%', head)],
                         [53, 80, 96, 27, 9])

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

    def test_tables_read_without_the_script_and_are_sorted_by_buttons(self):
        tables = self.page[:self.page.index("<script>")]
        self.assertFalse("<button" in tables)
        self.assertTrue("<table class=\"sortable\">" in tables)
        for head in re.findall(r"<th [^>]*>", tables):
            self.assertIn('scope="col"', head)
        script = self.page[self.page.index("<script>"):]
        for part in ('createElement("button")', "aria-sort", "addEventListener(\"click\""):
            self.assertTrue(part in script, part)

    def test_style_knows_dark_phones_and_paper(self):
        style = self.page[self.page.index("<style>"):self.page.index("</style>")]
        for rule in ("(prefers-color-scheme:dark)", "(max-width: 700px)", "@media print",
                     "break-before: page", "break-inside: avoid", "overflow-x: auto"):
            self.assertTrue(rule in style, rule)

    def test_pictures_lie_beside_the_page(self):
        names = os.listdir(os.path.join(self.folder.name, "figures"))
        self.assertEqual(sorted(names), sorted(plot.key + ".png" for plot in PLOTS))

    def test_nothing_else_is_left_in_the_folder(self):
        self.assertEqual([name for name in os.listdir(self.folder.name)
                          if not name.endswith((".json", ".html"))], ["figures"])
