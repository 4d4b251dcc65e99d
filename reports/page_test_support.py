# SPDX-License-Identifier: Apache-2.0
"""What the tests of the page share. A test that imports it ends with 77 without matplotlib."""

import contextlib
import io
import re
import sys
from html.parser import HTMLParser

try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError:
    print("skipped: matplotlib is not installed (Debian: python3-matplotlib)")
    sys.exit(77)

from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402

import make_page  # noqa: E402


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
