#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws one figure of the page by itself, from result files:

    python3 reports/draw_figure.py memory_of_models.json --figure=memory-of-models --output=a.png

The ending of --output says how: .png or .svg.
"""

import io
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import stopping  # noqa: E402  before all that takes its time

if __name__ == "__main__":
    stopping.end_at_once()

from result_files import InputError, load  # noqa: E402
from script import Parser, guarded, write  # noqa: E402


def draw(options, parser):
    from figures import EXPERIMENTS, PLOTS, drawing, svg
    from figures.plot import rows_of
    results = load(options.files, EXPERIMENTS)
    plot = next((plot for plot in PLOTS if plot.key == options.figure), None)
    if plot is None:
        parser.error(f"--figure={options.figure}: expected one of "
                     + ", ".join(plot.key for plot in PLOTS))
    rows = rows_of(plot, results)
    if not rows:
        raise InputError(f"{options.files[0]}: expected results of {plot.experiment}")
    drawing.use_style()
    stream = io.BytesIO()
    figure = plot.draw(rows, drawing.WIDE)
    if options.output.lower().endswith(".png"):
        svg.to_png(figure, stream)
    else:
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    write(options.output, stream.getvalue())
    return 0


def main(arguments):
    parser = Parser(
        "draw_figure.py", description="Draws one figure from result files.",
        example="python3 reports/draw_figure.py reports/gallery/amd-epyc-zen3-2cpu/"
        "memory_of_models.json.gz --figure=memory-of-models --output=models.png",
        exit_codes="0 drawn, 2 usage, unreadable input or unwritable output, 77 matplotlib is not "
        "installed, 130 stopped")
    parser.add_argument("files", metavar="FILE.json", nargs="+", help="result files (schema 1)")
    parser.add_argument("--figure", metavar="NAME", required=True, help="its anchor on the page")
    parser.add_argument("--output", metavar="FILE", required=True, help="a .png or .svg")
    options = parser.parse_args(arguments)
    if not options.output.lower().endswith((".png", ".svg")):
        parser.error(f"{options.output}: expected a name that ends in .png or .svg")
    return guarded("draw_figure", lambda: draw(options, parser))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
