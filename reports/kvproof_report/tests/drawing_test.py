# SPDX-License-Identifier: Apache-2.0
"""Tests of single figures, of what they are drawn with, and of draw_figure.py."""

import os
import subprocess
import sys
import unittest

from kvproof_report.draw import drawing, numbers, svg
from kvproof_report.tests import sample_results
from kvproof_report.tests.support import REPORTS, FolderTest, script


class DrawFigureTest(FolderTest):
    """reports/draw_figure.py, which plan --figure calls."""

    def setUp(self):
        super().setUp()
        sample_results.write_all(self.folder)

    def draw(self, *arguments):
        done = subprocess.run([sys.executable, script("draw_figure"), *arguments],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def test_draws_one_figure_in_the_format_of_its_name(self):
        for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
            self.assertEqual(self.draw(self.path("memory_of_models.json"),
                                       "--figure=memory-of-models",
                                       f"--output={self.path(name)}"), (0, ""))
            self.assertTrue(self.content(name).startswith(start))
        self.assertIn(b"llama-3-70b", self.content("a.svg"))

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


class PythonTest(FolderTest):
    """With -S an interpreter does not see the packages of the system, matplotlib among them."""

    def run_without(self, code, *arguments, **environment):
        """@return the exit code, and what was said"""
        done = subprocess.run([sys.executable, "-S", *code, *arguments], cwd=self.folder,
                              env={**os.environ, **environment}, capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stderr

    def setUp(self):
        super().setUp()
        sample_results.write_all(self.folder)

    def test_scripts_go_on_in_an_interpreter_that_can_draw(self):
        other = self.write("another python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        os.chmod(other, 0o755)
        for name, *arguments in (
                ("draw_figure", "--figure=memory-of-models", "--output=a b.svg"),
                ("compare", "--output=a b.html")):
            self.assertEqual(self.run_without([script(name)], "memory_of_models.json",
                                              "utilisation.json", *arguments,
                                              KVPROOF_PYTHON=other), (0, ""))
            self.assertTrue(os.path.exists(self.path(arguments[-1][9:])))

    def test_without_any_of_them_the_exit_code_is_77(self):
        code = """
import sys
from kvproof_report.common import script
from kvproof_report.page.programs import make_page
script.PYTHONS = ("absent", "false", sys.executable)
sys.exit(make_page(sys.argv[1:]))
"""
        self.assertEqual(self.run_without(["-c", code], "memory_of_models.json",
                                          PYTHONPATH=REPORTS), (
            77, "make_page: matplotlib is not installed (Debian: python3-matplotlib)\n"))


class DrawingTest(unittest.TestCase):
    def test_labels_are_pushed_apart_and_stay_inside(self):
        spots = drawing.spread([50, 50, 51, 99], 14, 0, 100)
        self.assertTrue(all(b - a >= 13.9 for a, b in zip(spots, spots[1:])))
        self.assertTrue(spots[0] >= 0 and spots[-1] <= 100.1)
        self.assertEqual(drawing.spread([10, 60], 14, 0, 100), [10, 60])

    def test_words_of_a_figure_keep_their_digits(self):
        drawing.use_style()
        figure = drawing.new_figure(200, 100)
        drawing.place(figure, 20, 20, 150, 60).annotate("1.00412 \u00d7", (0.123456, 0.5))
        text = svg.to_svg(figure, "t", "name")
        self.assertIn(">1.00412 ×<", text)
        self.assertNotRegex(text.replace("1.00412", ""), r"\d\.\d{3}")

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
