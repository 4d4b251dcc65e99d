# SPDX-License-Identifier: Apache-2.0
"""Tests of rows of dots, grids and memory over time: what stands where, at several widths."""

import unittest

from kvproof_report.common.result_files import Metric
from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row, exact
from kvproof_report.draw.grid import Cell, Grid, Line
from kvproof_report.draw.lines import Axis
from kvproof_report.draw.memory import Area, Memory, over_time, stacked
from kvproof_report.draw.sheet import sheet

MARK = Cell((d.BLUE, "None", "s"), joined=True)


def axes_of(part, width):
    (axes,) = sheet(width, [part]).axes
    return axes


class GridTest(unittest.TestCase):
    def setUp(self):
        d.use_style()

    def test_lines_join_neighbours_along_a_row_at_every_width(self):
        grid = Grid([Line("a"), Line("b")], [Line(f"release {n}") for n in range(60)],
                    {(0, 3): MARK, (0, 4): MARK, (1, 4): MARK, (1, 6): MARK})
        for width, joined in ((1000, [([3, 4], [0, 0])]), (350, [([0, 0], [3, 4])])):
            axes = axes_of(grid, width)  # transposed where the columns have no room
            self.assertEqual([tuple(map(list, line.get_data())) for line in axes.lines
                              if line.get_color() == d.RED], joined)
            (marks,) = (line for line in axes.lines if line.get_marker() == "s")
            spots = {(3, 0), (4, 0), (4, 1), (6, 1)}
            self.assertEqual(set(zip(*marks.get_data())),
                             spots if width == 1000 else {(y, x) for x, y in spots})

    def test_fills_have_their_colours_and_shares(self):
        axes = axes_of(Grid([Line("a")], [Line("b")], {(0, 0): Cell(
            fills=[(0, 0.25, d.BLUE), (0.25, 0.75, d.AMBER)], text="4")}), 350)
        first, second = (patch.get_path().get_extents() for patch in axes.patches)
        self.assertAlmostEqual(second.width, 3 * first.width)
        self.assertAlmostEqual(second.x0, first.x1)

    def test_labels_of_dots_stand_beside_their_rows_or_above(self):
        rows = [Row("a case that has a rather long name", [Dot(exact(3), d.BLUE)])]
        for width, beside in ((760, True), (350, False)):
            axes = axes_of(Dots(rows, "unit"), width)
            label, number = axes.texts
            self.assertEqual((label.xy[1] == number.xy[1], number.get_text()), (beside, "3.00"))

    def test_dots_stand_at_their_values_and_inside_the_axis(self):
        dots = [Dot(Metric(30, "", 2, 40), d.BLUE), Dot(exact(0), d.RED)]
        axes = axes_of(Dots([Row("a", dots)], "unit", most=10), 350)
        self.assertEqual([list(line.get_xdata()) for line in axes.lines if
                          line.get_color() in (d.BLUE, d.RED)], [[2, 10], [10], [0]])
        axes = axes_of(Dots([Row("a", dots)], "unit", mark=31), 350)
        self.assertEqual([text.get_text() for text in axes.get_xticklabels()],
                         ["0", "10", "20", "31", "40"])
        axes = axes_of(Dots([Row("a", [Dot(exact(-30), d.BLUE)])], "unit", mark=0), 350)
        self.assertEqual([text.get_text() for text in axes.get_xticklabels()],
                         ["\u221230", "\u221220", "\u221210", "0"])
        for values, scale in (([0, 30], "symlog"), ([3, 30], "log")):
            rows = [Row("a", [Dot(exact(value), d.BLUE) for value in values])]
            self.assertEqual(axes_of(Dots(rows, "unit", log=True), 350).get_xscale(), scale)

    def test_layers_stand_upon_each_other_and_what_is_empty_has_no_area(self):
        areas = stacked([0, 5], [([1, 2], d.BLUE, 1), ([0, 0], d.RED, 1), ([3, 3], d.INK, 0.5)])
        self.assertEqual(areas, [Area([(0, 0, 1), (5, 0, 2)], d.BLUE),
                                 Area([(0, 1, 4), (5, 2, 5)], d.INK, 0.5)])
        axes = axes_of(Memory("a", over_time(5), Axis(span=(0, 5)), (), areas=areas), 350)
        self.assertEqual([text.get_text() for text in axes.get_xticklabels()], ["0", "5.00 s"])
        self.assertEqual(len(axes.collections), 2)
