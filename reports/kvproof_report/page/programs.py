# SPDX-License-Identifier: Apache-2.0
"""The programs that draw from result files: the page, one figure, the comparison of machines.

One line says which file cannot be used, where, and what was expected. matplotlib is imported where
something is drawn, so that help and errors of usage need none.
"""

import glob
import html
import os
import re
import sys
from argparse import ArgumentParser, Namespace

from kvproof_report.common.parts import PARTS, experiments_of
from kvproof_report.common.result_files import Results, load
from kvproof_support.files import InputError, readable
from kvproof_report.common.script import guarded
from kvproof_support.files import is_written_in_place, put, write, write_all
from kvproof_support.options import Parser

BAD = ("2 usage, unreadable input or unwritable output, 77 matplotlib is not installed, "
       "130 stopped")


# ---- the page -----------------------------------------------------------------------------------

def make_page(arguments: list[str]) -> int:
    parser = Parser(
        prog="make_page.py",
        description="Draws one self-contained page from result files.",
        example="python3 reports/make_page.py results/*.json --output=results/report.html",
        exit_codes="0 every figure is there, 1 the page is written but a figure lacks its "
        "results, " + BAD)
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
    return guarded("make_page", lambda: draw_page(options))


def absent_of(texts: list[str], parser: ArgumentParser) -> dict[str, str]:
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


def draw_page(options: Namespace) -> int:
    from kvproof_report.draw import drawing
    from kvproof_report.draw.plot import rows_of
    from kvproof_report.page.page import is_due, render
    from kvproof_report.page.sections import PLOTS
    results = load(options.files)
    drawing.use_style()
    page = render(results, options.absent, lenses_beside(options.output)).encode("utf-8")
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


def lenses_beside(page: str) -> list[tuple[str, str]]:
    """(file name, title) of what `kvproof lens` wrote as lens-NAME.html into the folder."""
    found = []
    for path in sorted(glob.glob(os.path.join(glob.escape(os.path.dirname(page)), "lens-*.html"))):
        with open(path, encoding="utf-8", errors="replace") as stream:
            title = re.search(r"<title>([^<]*)</title>", stream.read(4096))
        if title:
            found.append((os.path.basename(path), html.unescape(title[1])))
    return found


def pngs_of(results: Results, absent: dict[str, str], folder: str) -> dict[str, bytes]:
    """path -> the picture"""
    from kvproof_report.draw import drawing, svg
    from kvproof_report.draw.plot import rows_of
    from kvproof_report.page.sections import PLOTS
    return {os.path.join(folder, plot.key + ".png"): svg.to_png(plot.draw(rows, drawing.WIDE))
            for plot in PLOTS
            if (rows := rows_of(plot, results)) and plot.experiment not in absent}


# ---- one figure ---------------------------------------------------------------------------------

def draw_figure(arguments: list[str]) -> int:
    parser = Parser(
        "draw_figure.py", description="Draws one figure from result files.",
        example="python3 reports/draw_figure.py reports/gallery/amd-epyc-zen3-2cpu/"
        "memory_of_models.json.gz --figure=memory-of-models --output=models.png",
        exit_codes="0 drawn, " + BAD)
    parser.add_argument("files", metavar="FILE.json", nargs="+", help="result files (schema 1)")
    parser.add_argument("--figure", metavar="NAME", required=True, help="its anchor on the page")
    parser.add_argument("--output", metavar="FILE", required=True, help="a .png or .svg")
    options = parser.parse_args(arguments)
    if not options.output.lower().endswith((".png", ".svg")):
        parser.error(f"{options.output}: expected a name that ends in .png or .svg")
    return guarded("draw_figure", lambda: draw_alone(options, parser))


def draw_alone(options: Namespace, parser: ArgumentParser) -> int:
    from kvproof_report.draw import drawing, svg
    from kvproof_report.draw.plot import rows_of
    from kvproof_report.page.sections import PLOTS
    results = load(options.files)
    plot = next((plot for plot in PLOTS if plot.key == options.figure), None)
    if plot is None:
        parser.error(f"--figure={options.figure}: expected one of "
                     + ", ".join(plot.key for plot in PLOTS))
    rows = rows_of(plot, results)
    if not rows:
        raise InputError(f"{options.files[0]}: expected results of {plot.experiment}")
    drawing.use_style()
    figure = plot.draw(rows, drawing.WIDE)
    if options.output.lower().endswith(".png"):
        write(options.output, svg.to_png(figure))
    else:
        write(options.output, svg.as_file(figure))
    return 0


# ---- machines beside each other -----------------------------------------------------------------

def compare(arguments: list[str]) -> int:
    parser = Parser(
        "compare.py", description="Compares machines from their result files.",
        example="python3 reports/compare.py reports/gallery/*/ results",
        exit_codes="0 drawn, " + BAD)
    parser.add_argument("paths", metavar="PATH", nargs="+",
                        help="the result files of one machine: a folder, or one file")
    parser.add_argument("--output", metavar="FILE", default="compare.html",
                        help="the page (default: compare.html)")
    options = parser.parse_args(arguments)
    return guarded("compare", lambda: draw_machines(options))


def draw_machines(options: Namespace) -> int:
    from kvproof_report.draw import drawing
    from kvproof_report.page.compare import machines_of, render
    drawing.use_style()
    page = render(machines_of(options.paths), os.path.dirname(os.path.abspath(options.output)))
    write(options.output, page.encode("utf-8"))
    put(options.output)
    return 0
