#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws one figure of the page by itself, from result files:

    python3 reports/draw_figure.py plan.json --figure=memory-of-models --output=models.png

The ending of --output says how: .png or .svg. Exit codes: 0 drawn, 2 usage or a file that cannot be
used, 77 matplotlib is not installed.
"""

import argparse
import io
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from make_page import write  # noqa: E402
from result_files import InputError, load  # noqa: E402


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"draw_figure: {message} (see: draw_figure.py --help)\n")


def say(message):
    print(f"draw_figure: {message}", file=sys.stderr)


def main(arguments):
    parser = Parser(prog="draw_figure.py", allow_abbrev=False,
                    description="Draws one figure from result files.")
    parser.add_argument("files", metavar="FILE.json", nargs="+", help="result files (schema 1)")
    parser.add_argument("--figure", metavar="NAME", required=True, help="its anchor on the page")
    parser.add_argument("--output", metavar="FILE", required=True, help="a .png or .svg")
    options = parser.parse_args(arguments)
    ending = os.path.splitext(options.output)[1].lower()
    if ending not in (".png", ".svg"):
        parser.error(f"{options.output}: expected a name that ends in .png or .svg")
    try:
        from figures import EXPERIMENTS, PLOTS, drawing, svg
        from figures.plot import rows_of
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        say("matplotlib is not installed (Debian: python3-matplotlib)")
        return 77
    try:
        results = load(options.files, EXPERIMENTS)
    except InputError as error:
        say(error)
        return 2
    plot = next((plot for plot in PLOTS if plot.key == options.figure), None)
    if plot is None:
        parser.error(f"--figure={options.figure}: expected one of "
                     + ", ".join(plot.key for plot in PLOTS))
    rows = rows_of(plot, results)
    if not rows:
        say(f"{options.files[0]}: expected results of {plot.experiment}")
        return 2
    drawing.use_style()
    stream = io.BytesIO()
    figure = plot.draw(rows, drawing.WIDE)
    if ending == ".png":
        svg.to_png(figure, stream)
    else:
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    try:
        write(options.output, stream.getvalue())
    except OSError as error:
        say(f"{options.output}: cannot be written: {error.strerror}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
