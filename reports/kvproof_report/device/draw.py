# SPDX-License-Identifier: Apache-2.0
"""Draws what device_bench or peers.py measured, a picture for each figure.

Exit codes: 0 drawn, 1 nothing to draw, 2 usage or a file that cannot be used, 77 matplotlib is not
installed.
"""

import argparse
import os
import sys

from kvproof_report.common.result_files import load_file
from kvproof_support.files import InputError


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="draw.py", allow_abbrev=False, description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--output", required=True)
    options = parser.parse_args(arguments)
    try:
        import matplotlib
    except ModuleNotFoundError:
        print("matplotlib is not installed (Debian: python3-matplotlib)")
        return 77
    matplotlib.use("Agg")

    from kvproof_report.device.figures import figures_of
    from kvproof_report.draw import drawing, svg
    drawing.use_style()
    try:
        data = load_file(options.file)
    except InputError as error:
        print(f"draw.py: {error}")
        return 2
    os.makedirs(options.output, exist_ok=True)
    drawn = []
    for name, figure in figures_of(data.results, data.environment["gpu_name"]):
        path = os.path.join(options.output, name + ".png")
        with open(path + ".part", "wb") as stream:
            stream.write(svg.to_png(figure))
        os.replace(path + ".part", path)
        drawn.append(name)
    print(", ".join(drawn) or "nothing to draw")
    return 0 if drawn else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
