#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the page from result files:

    python3 reports/make_page.py DIR/*.json --output=DIR/report.html

One line says which file cannot be used, where, and what was expected.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import stopping  # noqa: E402  before all that takes its time

if __name__ == "__main__":
    stopping.end_at_once()

from parts import PARTS, experiments_of  # noqa: E402
from result_files import load, readable  # noqa: E402
from script import Parser, guarded, is_written_in_place, write_all  # noqa: E402


def parse_arguments(arguments):
    parser = Parser(
        prog="make_page.py",
        description="Draws one self-contained page from result files.",
        example="python3 reports/make_page.py results/*.json --output=results/report.html",
        exit_codes="0 every figure is there, 1 the page is written but a figure lacks its "
        "results, 2 usage, unreadable input or unwritable output, 77 matplotlib is not installed, "
        "130 stopped")
    parser.add_argument("files", metavar="FILE.json", nargs="*", help="result files (schema 1)")
    parser.add_argument("--output", metavar="FILE", default="report.html",
                        help="the page (default: report.html)")
    parser.add_argument("--png", action="store_true",
                        help="also write each figure to figures/NAME.png beside the page")
    parser.add_argument("--absent", metavar="PART=REASON", action="append", default=[],
                        help="why a part has no results; may be repeated")
    options = parser.parse_args(arguments)
    if not options.files and not options.absent:
        parser.error("expected at least one result file")
    if options.png and is_written_in_place(options.output):
        parser.error(f"--png writes beside the page: expected a file as --output, "
                     f"found {options.output}")
    options.absent = absent_of(options.absent, parser)
    return options


def absent_of(texts, parser):
    """experiment -> why it has no results; @param texts: PART=REASON, or EXPERIMENT=REASON"""
    absent = {}
    for text in texts:
        part, _, reason = readable(text).partition("=")
        if not experiments_of(part):
            parser.error(f"--absent={part}: expected one of "
                         + ", ".join(part.name for part in PARTS))
        if not reason:
            parser.error(f"--absent={text}: expected PART=REASON")
        absent.update(dict.fromkeys(experiments_of(part), reason))
    return absent


def pngs_of(results, absent, folder):
    """path -> bytes"""
    import io
    from figures import PLOTS, drawing, svg
    from figures.plot import rows_of
    pngs = {}
    for plot in PLOTS:
        rows = rows_of(plot, results)
        if rows and plot.experiment not in absent:
            stream = io.BytesIO()
            svg.to_png(plot.draw(rows, drawing.WIDE), stream)
            pngs[os.path.join(folder, plot.key + ".png")] = stream.getvalue()
    return pngs


def draw(options):
    from figures import EXPERIMENTS, PLOTS, drawing
    from figures.plot import rows_of
    from page import is_due, render
    results = load(options.files, EXPERIMENTS)
    drawing.use_style()
    page = render(results, options.absent).encode("utf-8")
    folder = os.path.join(os.path.dirname(options.output), "figures")
    pngs = pngs_of(results, options.absent, folder) if options.png else {}
    write_all({**pngs, options.output: page})
    missing = list(dict.fromkeys(
        plot.experiment for plot in PLOTS
        if is_due(plot, results, options.absent) and
        (not rows_of(plot, results) or plot.experiment in options.absent)))
    if missing:
        print(f"make_page: the page lacks {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


def main(arguments):
    options = parse_arguments(arguments)
    return guarded("make_page", lambda: draw(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
