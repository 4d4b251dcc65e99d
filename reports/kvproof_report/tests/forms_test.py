# SPDX-License-Identifier: Apache-2.0
"""Tests of the forms of figures at several widths: what they are given stands where it belongs."""

import unittest

from kvproof_report.common.result_files import Metric
from kvproof_report.draw import drawing as d
from kvproof_report.draw.bars import Bar, Bars, Column, Row
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.sheet import Beside, Key, Words, sheet
from kvproof_report.tests.page_support import faults_of, texts_of

WIDTHS = (320, 390, 560, 760, 1000)
LONG = "a name that is by far too long to stand beside anything on a phone"


def panel(name="short"):
    return Lines("title", Axis("tokens", 2, marks=[1, 4, 16]), Axis("share", span=[0, 1]), [
        Series(name, (d.BLUE, d.SOLID, "o"), [(1, 0.2), (16, Metric(0.9, "ratio", 0.5, 1.4))]),
        Series("other", (d.GREEN, d.SOLID, "s"), [(1, 0.1), (16, 0.9)])])


def bars(label="short"):
    said = [("12 of 24", d.INK, "normal")]
    return Bars([Row(label, [Bar([(10, d.BLUE, 1), (2, d.SOFT, 0.2)], said)]),
                 Row("b", [Bar([(24, d.BLUE, 1)], said, span=(20, 40))])],
                [Column(x=Axis("ns"))])


class FormsTest(unittest.TestCase):
    def setUp(self):
        d.use_style()

    def texts(self, width, *parts):
        figure = sheet(width, parts)
        texts = texts_of(figure)
        self.assertEqual(faults_of(texts, figure.bbox.padded(1)), [], f"{parts} at {width} px")
        return figure, {text.get_text(): box for text, box in texts}

    def test_nothing_is_cut_or_covered_at_any_width(self):
        for width in WIDTHS:
            for name in ("short", LONG[:48]):
                self.texts(width, Words(LONG), Key([(name, panel().series[0].look)]), panel(name),
                           bars(name), Beside([panel(), panel(), bars()], 250))

    def test_names_of_lines_stand_at_their_ends_or_else_above(self):
        for width, at_end in ((760, True), (320, False)):
            figure, texts = self.texts(width, panel(LONG[:40]))
            axes = next(axes for axes in figure.axes if axes.axison)
            self.assertEqual(texts[LONG[:40]].x0 > axes.bbox.x1, at_end)
            self.assertEqual(texts[LONG[:40]].y0 > axes.bbox.y1, not at_end)
            self.assertGreaterEqual(axes.get_ylim()[1], 1.4)  # the spread is inside
            self.assertEqual([text.get_text() for text in axes.get_xticklabels()], ["1", "4", "16"])

    def test_bars_have_their_lengths_and_their_labels_room(self):
        for width in WIDTHS:
            figure, texts = self.texts(width, bars(LONG[:30]))
            (axes,) = figure.axes
            self.assertEqual([(bar.get_x(), bar.get_width()) for bar in axes.patches],
                             [(0, 10), (10, 2), (0, 24)])
            self.assertGreater(texts["12 of 24"].x0, axes.transData.transform((24, 0))[0])
            self.assertGreaterEqual(axes.get_xlim()[1], 40)  # the spread is inside
            self.assertEqual(texts[LONG[:30]].x1 < axes.bbox.x0, width > 500)

    def test_a_key_has_equal_columns_and_shows_marks_as_they_are_drawn(self):
        key = Key([("theirs", (d.BLUE, "", "o")), ("half", (d.RED, "", "s")),
                   *[("ours", (d.BLUE, "", "o"))] * 4], fill={"theirs": 0, "half": 0.5})
        (axes,) = self.texts(475, key)[0].axes  # as wide as 4 or 5 of them
        self.assertEqual([text.xy for text in axes.texts[3:]], [
            (text.xy[0], text.xy[1] + 19) for text in axes.texts[:3]])
        theirs, half, ours, *_ = axes.lines
        self.assertEqual(theirs.get_markerfacecolor(), "none")
        self.assertEqual([mark.get_markerfacecolor()[3] for mark in (half, ours)], [0.5, 1])

    def test_parts_stand_below_each_other_where_the_width_is_too_small(self):
        beside = Beside([panel(), panel()], 300)
        self.assertEqual(beside.height(760), panel().height(372))
        self.assertEqual(beside.height(350), 2 * panel().height(350))


if __name__ == "__main__":
    unittest.main()
