# SPDX-License-Identifier: Apache-2.0
"""Tests of the figure of a decode step."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.plot import rows_of
from kvproof_report.figures import decode_step
from kvproof_report.tests.page_support import FigureTest

COLOURS = {"hash alone": d.VERMILLION, "one call": d.BLUE, "three calls": d.GREEN,
           "Python, textbook": d.AMBER, "Python, vLLM": d.PINK}


class DecodeStepTest(FigureTest):
    def parts(self, **changed):
        rows = rows_of(decode_step.PLOT, self.samples("decode_step", **changed))
        return decode_step.draw.__wrapped__(rows)

    def without(self, *endings):
        def change(result):
            result["metrics"] = {name: metric for name, metric in result["metrics"].items()
                                 if not name.endswith(endings)}
        return change

    def test_every_time_has_its_row_on_a_log_axis(self):
        times, counts = self.parts()
        self.assertEqual((times.log, counts.log), (True, False))
        self.assertEqual([(row.group, row.label, dot.metric.value, dot.metric.low, dot.metric.high)
                          for row in times.rows for dot in row.dots], [
            ("batch of 128", "hash alone", 0.5, 0.45, 0.6), ("", "one call", 10, 9, 13),
            ("", "three calls", 20, 19, 23), ("", "Python, textbook", 1000, 900, 1200),
            ("", "Python, vLLM", 5000, 4500, 6000),
            ("batch of 1,024", "hash alone", 0.5, 0.45, 0.6),
            ("", "one call", 12.5, 11.5, 15.5), ("", "three calls", 25, 24, 28),
            ("", "Python, textbook", 1250, 1125, 1500), ("", "Python, vLLM", 6250, 5625, 7500)])
        self.assertEqual([(row.label, dot.metric.value) for row in counts.rows
                          for dot in row.dots],
                         [("hash alone", 8), ("one call", 45), ("three calls", 90)] * 2)
        for row in (*times.rows, *counts.rows):
            self.assertEqual((row.dots[0].colour, row.dots[0].hollow),
                             (COLOURS[row.label], row.label == "hash alone"))

    def test_without_valgrind_the_figure_says_so_and_draws_the_times(self):
        times, said = self.parts(change=self.without("instructions_per_token"))
        self.assertEqual(times, self.parts()[0])
        self.assertIn("takes valgrind", said.text)

    def test_who_was_not_measured_has_no_row(self):
        times, _ = self.parts(change=self.without("vllm_ns_per_token", "vllm_times_as_long"),
                              keep=lambda r: r["parameters"]["live_requests"] == 128)
        self.assertEqual([row.label for row in times.rows],
                         ["hash alone", "one call", "three calls", "Python, textbook"])
        three, _ = self.parts(keep=lambda r: r["parameters"]["calls"] == "three")
        self.assertEqual([row.label for row in three.rows], ["hash alone", "three calls"] * 2)

    def test_title_states_both_ways_and_what_python_takes(self):
        calls = ("A decode step of 128 requests takes 10.0 ns a token by one call{} and 20.0 ns a "
                 "token by three calls{}")
        for endings, expected in (
                ((), calls.format(" (45.0 instructions)", " (90.0 instructions)") +
                 "; Python takes 100\u202f× (textbook) and 500\u202f× (vLLM) the time of one call"),
                (("instructions_per_token", "vllm_times_as_long"), calls.format("", "") +
                 "; Python takes 100\u202f× (textbook) the time of one call"),
                (("instructions_per_token", "times_as_long"), calls.format("", ""))):
            self.assertEqual(self.finding(decode_step.PLOT, self.samples(
                "decode_step", change=self.without(*endings))), expected)
