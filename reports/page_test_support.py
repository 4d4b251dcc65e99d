# SPDX-License-Identifier: Apache-2.0
"""What the tests of the page share. A test that imports it ends with 77 without matplotlib."""

import contextlib
import copy
import io
import json
import os
import re
import sys
import tempfile
import unittest
from html.parser import HTMLParser

try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError:
    print("skipped: matplotlib is not installed (Debian: python3-matplotlib)")
    sys.exit(77)

from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402

import make_page  # noqa: E402
import sample_results  # noqa: E402
from figures import EXPERIMENTS, drawing  # noqa: E402
from figures.plot import rows_of  # noqa: E402
from result_files import load  # noqa: E402


def run(*arguments):
    """Runs make_page.py in this process. @return (exit code, stderr)"""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            code = make_page.main(list(arguments))
        except SystemExit as end:
            code = end.code
    return code, said.getvalue()


def texts_of(figure):
    """Every visible text with the box that it takes once it is drawn. [px]"""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = []
    for axes in figure.axes:
        ticks = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label]
        texts += [*axes.texts, *(ticks if axes.axison else [])]
    return [(text, text.get_window_extent(canvas.get_renderer()))
            for text in texts if text.get_visible() and text.get_text()]


def faults_of(texts, inside):
    """What is wrong with the texts of a figure whose box is `inside`."""
    faults = []
    for index, (text, box) in enumerate(texts):
        name = text.get_text()
        if not (inside.x0 <= box.x0 and box.x1 <= inside.x1 and
                inside.y0 <= box.y0 and box.y1 <= inside.y1):
            faults.append(f"{name} is cut")
        if text.get_fontsize() < 11:
            faults.append(f"{name} is small")
        for beside, other in texts[:index]:
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            down = min(box.y1, other.y1) - max(box.y0, other.y0)
            if across > 1 and down > 3:
                faults.append(f"{name} is over {beside.get_text()}")
    return faults


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


class Checker(HTMLParser):
    """Collects the ids and references of a page, and requires that every tag is closed."""

    VOID = {"meta", "link", "br", "hr", "img", "input"}

    def __init__(self):
        super().__init__()
        self.ids, self.references, self.sources, self.stack = [], set(), [], []
        self.links = []  # what a reader may follow; nothing of it is fetched before

    def handle_starttag(self, tag, attributes):
        self.note(tag, attributes)
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.note(tag, attributes)

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing")

    def note(self, tag, attributes):
        for name, value in attributes:
            value = value or ""
            if name == "id":
                self.ids.append(value)
            if tag == "a" and name == "href" and value.startswith("https://"):
                self.links.append(value)
            elif name in ("href", "xlink:href"):
                (self.references.add(value[1:]) if value.startswith("#") else
                 self.sources.append(value))
            if name in ("src", "srcset", "action"):
                self.sources.append(value)
            self.references.update(re.findall(r"url\(#([^)]+)\)", value))


class FigureTest(unittest.TestCase):
    """Draws figures from sample results, changed."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        drawing.use_style()

    def load(self, *documents):
        paths = []
        for index, document in enumerate(documents):
            paths.append(os.path.join(self.folder, f"{index}.json"))
            with open(paths[-1], "w", encoding="utf-8") as stream:
                json.dump(document, stream)
        return load(paths, EXPERIMENTS)

    def samples(self, *names, keep=lambda row: True, change=lambda row: None):
        """The sample results of these names: those that are kept, changed."""
        documents = [sample_results.document(name) for name in names]
        for document in documents:
            document["results"] = [r for r in copy.deepcopy(document["results"]) if keep(r)]
            for row in document["results"]:
                change(row)
        return self.load(*documents)

    def finding(self, plot, results):
        return plot.finding(rows_of(plot, results))
