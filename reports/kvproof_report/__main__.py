# SPDX-License-Identifier: Apache-2.0
"""The programs, python3 -m kvproof_report PROGRAM ARGUMENT...; reports/PROGRAM.py calls each, too.
"""

import os
import sys
from importlib import import_module

from kvproof_support import stopping

PROGRAMS = {"make_page": "page.programs", "draw_figure": "page.programs",
            "compare": "page.programs", "report": "run.run"}


def start(name: str) -> None:
    """Ends the process with the exit code of the program."""
    stopping.end_at_once()  # before the imports, which take their time
    program = getattr(import_module(f"kvproof_report.{PROGRAMS[name]}"), name)
    sys.exit(program(sys.argv[1:]))


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        sys.exit("expected one of " + ", ".join(PROGRAMS))
    # As if the script had been called, so that another interpreter can be given the same words.
    name = sys.argv[1]
    sys.argv[:2] = [os.path.join(os.path.dirname(os.path.dirname(__file__)), f"{name}.py")]
    start(name)
