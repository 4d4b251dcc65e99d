# SPDX-License-Identifier: Apache-2.0
"""Tests of the page's style and of every figure, of the samples and of the gallery: each text is
large enough, inside the picture and apart from the others, can be read on what is behind it, and
each mark has a name of its own."""

import functools
import json
import os
import re
import tempfile
import unittest
from collections import Counter


from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Patch

from kvproof_report.common.result_files import load, paths_in
from kvproof_report.draw import drawing
from kvproof_report.draw.plot import rows_of
from kvproof_report.page import page
from kvproof_report.page.sections import PLOTS
from kvproof_report.tests import sample_results
from kvproof_report.tests.page_support import faults_of, texts_of
from kvproof_report.tests.support import machines_of_the_gallery

LEAST_CONTRAST = 4.5
# The texts in the cells and above the columns of a grid are smaller.
GRIDS = ("kill-matrix", "liar-matrix", "engine", "live-history")
ROLES = {light: role for role, (light, _) in drawing.COLOURS.items()}


def every_result():
    """name -> results: the samples, and each machine of the gallery"""
    with tempfile.TemporaryDirectory() as folder:
        paths = sample_results.write_all(folder)
        beyond = sample_results.document("paged_decode")
        for row in beyond["results"]:  # as if each passed the ceiling
            row["metrics"]["fraction_of_read_ceiling"] = {"value": 1.05, "unit": "ratio"}
        with open(os.path.join(folder, "paged_decode.json"), "w", encoding="utf-8") as stream:
            json.dump(beyond, stream)
        found = {"samples": load(paths)}
    return found | {os.path.basename(path): load(paths)
                    for path in machines_of_the_gallery() if (paths := paths_in(path))}


@functools.cache
def every_figure():
    """(where it comes from, figure, its texts with their boxes) of everything that can be drawn"""
    return [(where, figure, texts_of(figure)) for where, figure in drawn()]


def drawn():
    drawing.use_style()
    for name, results in every_result().items():
        for plot in PLOTS:
            rows = rows_of(plot, results)
            for width in (drawing.WIDE, drawing.NARROW) if rows else ():
                yield f"{plot.key} of {name}, {width} px", plot.draw(rows, width)


class Ceilings(unittest.TestCase):
    def test_who_passes_one_is_still_inside_the_picture(self):
        figures = [figure for name, figure, _ in every_figure() if name.startswith("decode-block")]
        self.assertGreaterEqual(len(figures), 2)
        for axes in (axes for figure in figures for axes in figure.axes[:2]):
            drawn_values = [y for line in axes.lines[:4] for y in line.get_ydata()]
            self.assertLessEqual(max(drawn_values), axes.get_ylim()[1])


# ---- contrast -----------------------------------------------------------------------------------

def luminance(colour):
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in to_rgb(colour)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def colour_of(role, side):
    return drawing.COLOURS[role][side]


def role_of(colour):
    """A figure has no other colours than those that follow the page."""
    return ROLES[to_hex(colour)]


def fills_of(figure):
    """(axes, artist, colour with opacity, path and clip on the screen) in the order of drawing"""
    for axes in figure.axes:
        for artist in sorted(axes.get_children(), key=lambda child: child.get_zorder()):
            if not isinstance(artist, (Patch, PolyCollection)) or not artist.get_visible():
                continue
            paths = artist.get_paths() if isinstance(artist, PolyCollection) else \
                [artist.get_path()]
            colours = artist.get_facecolor()
            for path in paths:
                colour = colours[0] if isinstance(artist, PolyCollection) else colours
                if len(path.vertices) and colour[3] > 0:
                    clip = artist.get_clip_box() if artist.get_clip_on() else None
                    yield axes, artist, colour, artist.get_transform().transform_path(path), clip


def behind(text, box, fills, side):
    """The colours behind the middle and the corners of a text."""
    own = text.get_bbox_patch()
    if own is not None:
        return {colour_of(role_of(own.get_facecolor()), side)}
    found = set()
    for x, y in ((0.5, 0.5), (0.1, 0.2), (0.9, 0.2), (0.1, 0.8), (0.9, 0.8)):
        point = (box.x0 + x * box.width, box.y0 + y * box.height)
        colour = to_rgb(colour_of("paper", side))
        for axes, artist, fill, path, clip in fills:
            is_under = axes is not text.axes or artist.get_zorder() <= text.get_zorder()
            is_there = path.contains_point(point) and (clip is None or clip.contains(*point))
            if is_under and is_there:
                upper, opacity = to_rgb(colour_of(role_of(fill), side)), fill[3]
                colour = tuple(opacity * u + (1 - opacity) * c for u, c in zip(upper, colour))
        found.add(colour)
    return found


class ContrastTest(unittest.TestCase):
    def test_colours_can_be_read_in_light_and_dark(self):
        for role in drawing.COLOURS.keys() - {"paper", "grid"}:
            for side in (0, 1):
                self.assertGreaterEqual(contrast(colour_of(role, side), colour_of("paper", side)),
                                        LEAST_CONTRAST, role)

    def test_texts_of_the_page_can_be_read_in_light_and_dark(self):
        style = re.sub(r"/\*.*?\*/", "", page.read("page.css"), flags=re.S)
        pairs = set()
        for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", style):
            rule = dict(re.findall(r"(?:^|;)\s*([a-z-]+)\s*:\s*([^;]+)", body))
            roles = {name: re.fullmatch(r"var\(--(\w+)\)", rule[name].strip())
                     for name in ("color", "background") if rule.get(name) not in (None, "inherit")}
            self.assertTrue(all(roles.values()), f"{selector}: a colour of its own")
            if "color" in roles:
                pairs.add((roles["color"][1], roles["background"][1] if "background" in roles
                           else "paper"))
        self.assertLessEqual({("ink", "paper"), ("soft", "paper"), ("blue", "paper")}, pairs)
        for colour, background in sorted(pairs):
            for side in (0, 1):
                self.assertGreaterEqual(
                    contrast(colour_of(colour, side), colour_of(background, side)),
                    LEAST_CONTRAST, f"{colour} on {background}")

    def test_texts_of_the_figures_can_be_read_in_light_and_dark(self):
        faults = {}
        for where, figure, texts in every_figure():
            fills = list(fills_of(figure))
            for text, box in texts:
                for side, scheme in enumerate(("light", "dark")):
                    colour = colour_of(role_of(text.get_color()), side)
                    least = min(contrast(colour, under)
                                for under in behind(text, box, fills, side))
                    if least < LEAST_CONTRAST:
                        faults[f"{where}, {scheme}: {role_of(text.get_color())} "
                               f"{text.get_text()!r}"] = round(least, 2)
        self.assertEqual(faults, {}, "\n".join(f"{k} {v}" for k, v in faults.items()))


# ---- room ----------------------------------------------------------------------------------------

class RoomTest(unittest.TestCase):
    def test_texts_are_large_enough_within_their_figure_and_apart(self):
        faults = {where: [said for said in faults_of(texts, figure.bbox.padded(1))
                          if not (where.startswith(GRIDS) and said.endswith(" is small"))]
                  for where, figure, texts in every_figure()}
        self.assertEqual({where: said for where, said in faults.items() if said}, {})

    def test_texts_at_fault_are_noticed(self):
        figure = drawing.new_figure(200, 100)
        for x, text, size in ((0.1, "under", 12), (0.15, "over", 12), (0.5, "tiny", 9),
                              (0.95, "outside", 12)):
            drawing.place(figure, 0, 0, 200, 100).annotate(text, (x, 0.5), size=size)
        for axes in figure.axes:
            axes.set_axis_off()
        self.assertEqual(faults_of(texts_of(figure), figure.bbox),
                         ["over is over under", "tiny is small", "outside is cut"])


# ---- labels -------------------------------------------------------------------------------------

# What is said of a mark and is no name of it.
STATES = re.compile(r"refuses all|serves nothing|(not )?closed at depth .*|alone: model .*")


def labels_of(figure):
    """(axes, heading above, text) of every text of the panels that names something"""
    for axes in figure.axes:
        heading = ""
        for text in axes.texts:
            words = text.get_text()
            if not re.match(r"[^\W\d_]", words) or STATES.fullmatch(words):
                continue
            yield axes, heading, words
            if text.get_weight() == "bold":
                heading = words


class LabelTest(unittest.TestCase):
    def test_no_two_marks_of_a_panel_bear_the_same_label(self):
        for where, figure, _ in every_figure():
            labels = Counter(labels_of(figure))
            twice = [label[1:] for label, times in labels.items() if times > 1]
            self.assertEqual(twice, [], where)
