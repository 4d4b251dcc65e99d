# SPDX-License-Identifier: Apache-2.0
"""What the launcher calls for `kvproof plan --figure=PATH`: the plan, and the memory of every model
drawn from the result file that it writes.

    plan_figure.py <kvproof-plan> <its options and --figure=PATH>
"""

import os
import signal
import subprocess
import sys
import tempfile

from kvproof_support.options import Parser


def main(program, words):
    parser = Parser("kvproof plan", "kvproof plan --figure=plan.svg", "", add_help=False)
    parser.add_argument("--figure", required=True)
    parser.add_argument("--json")
    parser.add_argument("--list", action="store_true")
    asked, others = parser.parse_known_args(words)
    if not asked.figure.endswith((".png", ".svg")):
        parser.error("expected --figure=PATH that ends in .png or .svg")
    if asked.list:
        parser.error("--figure goes with --model and --memory-gib, not with --list")
    if asked.json and os.path.exists(asked.json) and not os.path.isfile(asked.json):
        parser.error(f"--figure is drawn from the file of --json: {asked.json} is none")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # what runs is ended, too
        signal.signal(number, lambda signal_of, _: sys.exit(128 + signal_of))
    with tempfile.TemporaryDirectory() as folder:
        results = asked.json or os.path.join(folder, "plan.json")
        code = subprocess.run([program, *others, f"--json={results}"], check=False).returncode
        if code not in (0, 1):  # 1: not one request fits, which can be drawn
            return code if code > 0 else 128 - code
        draw = os.path.join(os.path.dirname(__file__), "draw_figure.py")
        drawn = subprocess.run([sys.executable, draw, results, "--figure=memory-of-models",
                                f"--output={asked.figure}"], check=False).returncode
    if drawn == 0:
        print(f"figure: {asked.figure}")
    return drawn or code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
