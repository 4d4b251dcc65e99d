# SPDX-License-Identifier: Apache-2.0
"""What the tests of the page and of its figures share."""

import contextlib
import copy
import io
import os
import re
from html.parser import HTMLParser

from matplotlib.backends.backend_agg import FigureCanvasAgg

from kvproof_report.common.result_files import load
from kvproof_report.draw import drawing
from kvproof_report.draw.plot import rows_of
from kvproof_report.page.programs import make_page
from kvproof_report.tests import sample_results
from kvproof_report.tests.support import FolderTest, read


def run(*arguments, program=make_page):
    """Runs a program in this process. @return (exit code, stderr)"""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = program(list(arguments))
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


class DocumentTest(FolderTest):
    """Puts result files into its folder, and a page of them."""

    def setUp(self):
        super().setUp()
        self.page_path = self.path("page.html")

    def write_all(self, *documents):
        return [self.write(f"{index}.json", document) for index, document in enumerate(documents)]

    def load(self, *documents):
        return load(self.write_all(*documents))

    def draw(self, *arguments):
        """@return (exit code, stderr, the page if there is one)"""
        code, said = run(*arguments, f"--output={self.page_path}")
        return code, said, read(self.page_path) if os.path.exists(self.page_path) else ""


class FigureTest(DocumentTest):
    """Draws figures from sample results, changed."""

    def setUp(self):
        super().setUp()
        drawing.use_style()

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
