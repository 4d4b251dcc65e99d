# SPDX-License-Identifier: Apache-2.0
"""Tests of the figure of a decode step."""


from kvproof_report.draw import drawing
from kvproof_report.draw.plot import rows_of
from kvproof_report.figures import decode_step
from kvproof_report.tests.page_support import FigureTest, faults_of, texts_of

LOOKS = {"hash alone": drawing.VERMILLION, "one call": drawing.BLUE, "three calls": drawing.GREEN,
         "Python, textbook": drawing.AMBER, "Python, vLLM": drawing.PINK}


def drawn(axes):
    """[(batch or None, label, number, value, spread, colour, is hollow)] from top to bottom"""
    rows = []
    for dot in (line for line in axes.lines if line.get_marker() == "o"):
        (value,), (y,) = dot.get_data()
        said = {text.xy[0]: text.get_text() for text in axes.texts if text.xy[1] == y}
        head = [text.get_text() for text in axes.texts
                if text.get_weight() == "bold" and 0 < y - text.xy[1] < 20]
        lines = [tuple(line.get_xdata()) for line in axes.lines
                 if line.get_marker() == "None" and list(line.get_ydata()) == [y, y]]
        rows.append((*(head or [None]), said[0], said[1], value, *(lines or [None]),
                     dot.get_color(), dot.get_markerfacecolor() == drawing.PAPER))
    return rows


def row(batch, label, number, value, spread):
    return batch, label, number, value, spread, LOOKS[label], label == "hash alone"


class DecodeStepTest(FigureTest):
    def figures(self, **changed):
        rows = rows_of(decode_step.PLOT, self.samples("decode_step", **changed))
        return [decode_step.PLOT.draw(rows, width) for width in (drawing.WIDE, drawing.NARROW)]

    def without(self, *endings):
        def change(result):
            result["metrics"] = {name: metric for name, metric in result["metrics"].items()
                                 if not name.endswith(endings)}
        return change

    def test_every_time_stands_at_its_place_on_a_log_axis(self):
        wide, narrow = (figure.axes[0] for figure in self.figures())
        self.assertEqual((wide.get_xscale(), narrow.get_xscale()), ("log", "log"))
        first, second = "batch of 128", "batch of 1,024"
        expected = [
            row(first, "hash alone", "0.500 (0.450 to 0.600)", 0.5, (0.45, 0.6)),
            row(None, "one call", "10.0 (9.00 to 13.0)", 10, (9, 13)),
            row(None, "three calls", "20.0 (19.0 to 23.0)", 20, (19, 23)),
            row(None, "Python, textbook", "1,000 (900 to 1,200)", 1000, (900, 1200)),
            row(None, "Python, vLLM", "5,000 (4,500 to 6,000)", 5000, (4500, 6000)),
            row(second, "hash alone", "0.500 (0.450 to 0.600)", 0.5, (0.45, 0.6)),
            row(None, "one call", "12.5 (11.5 to 15.5)", 12.5, (11.5, 15.5)),
            row(None, "three calls", "25.0 (24.0 to 28.0)", 25, (24, 28)),
            row(None, "Python, textbook", "1,250 (1,125 to 1,500)", 1250, (1125, 1500)),
            row(None, "Python, vLLM", "6,250 (5,625 to 7,500)", 6250, (5625, 7500))]
        self.assertEqual(drawn(wide), expected)
        self.assertEqual(drawn(narrow), [(head, label, number.split(" ")[0], *rest)
                                         for head, label, number, *rest in expected])
        for axes in (wide, narrow):
            low, high = axes.get_xlim()
            self.assertTrue(low < 0.45 and high > 7500)
            marks = axes.xaxis.get_major_locator()()
            self.assertEqual(list(marks), [1, 10, 100, 1000])

    def test_instructions_stand_on_an_axis_from_zero_with_their_floor(self):
        for figure in self.figures():
            axes = figure.axes[1]
            self.assertEqual((axes.get_xscale(), axes.get_xlim()[0]), ("linear", 0))
            self.assertEqual(drawn(axes), [
                row(head, label, number, value, None)
                for batch in ("batch of 128", "batch of 1,024")
                for head, label, number, value in ((batch, "hash alone", "8.00", 8),
                                                   (None, "one call", "45.0", 45),
                                                   (None, "three calls", "90.0", 90))])

    def test_without_valgrind_the_figure_says_so_and_draws_the_times(self):
        whole = self.figures()
        for figure, full in zip(self.figures(change=self.without("instructions_per_token")), whole):
            self.assertEqual(drawn(figure.axes[0]), drawn(full.axes[0]))
            self.assertEqual([text.get_text() for text in figure.axes[1].texts], [
                "Instructions of a token: not counted here.\n"
                "That takes valgrind, and a run without --smoke."])
            self.assertLess(figure.bbox.height, full.bbox.height)

    def test_who_was_not_measured_has_no_row(self):
        figure, _ = self.figures(change=self.without("vllm_ns_per_token", "vllm_times_as_long"),
                                 keep=lambda r: r["parameters"]["live_requests"] == 128)
        self.assertEqual([label for _, label, *_ in drawn(figure.axes[0])],
                         ["hash alone", "one call", "three calls", "Python, textbook"])
        three, _ = self.figures(keep=lambda r: r["parameters"]["calls"] == "three")
        self.assertEqual([label for _, label, *_ in drawn(three.axes[0])],
                         ["hash alone", "three calls"] * 2)

    def test_texts_are_large_enough_within_their_figure_and_apart(self):
        for change in (self.without(), self.without("instructions_per_token")):
            for figure in self.figures(change=change):
                self.assertEqual(faults_of(texts_of(figure), figure.bbox.padded(1)), [])

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
