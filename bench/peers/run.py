#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof bench --peers`: other engines' kernels and allocators beside ours,
interleaved in the same rounds and on the same inputs."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.normpath(os.path.join(HERE, os.pardir, os.pardir))
sys.path.append(os.path.join(CHECKOUT, "properties", "foreign", "engines"))

import allocators  # noqa: E402
import kernels  # noqa: E402
from places import writable  # noqa: E402

# Each has NAME, SENTENCE, PEERS, cases(smoke), and measure(cases, options), which yields a row for
# each pair of a case and a peer as soon as it is known.
FAMILIES = (kernels, allocators)
EPILOG = """
Example: kvproof bench --peers --yes --json=peers.json

Exit codes: 0 measured, 2 usage or unwritable output, 77 no peer could be had, 130 stopped."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"kvproof bench --peers: {message} (see: kvproof bench --peers --help)\n")


def parse():
    parser = Parser("kvproof bench --peers", allow_abbrev=False, epilog=EPILOG, description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true", required=True)
    parser.add_argument("--list", action="store_true", help="print the cases and measure nothing")
    parser.add_argument("--filter", metavar="REGEX", default=".",
                        help="the cases whose names this regular expression finds")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    parser.add_argument("--checkout", metavar="DIR", help="holds the checkouts of peers that no "
                        "package has, as NAME-COMMIT")
    parser.add_argument("--smoke", action="store_true",
                        help="tiny sizes, only to see that everything works")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="of all inputs, default 1")
    parser.add_argument("--yes", action="store_true", help="download without asking")
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        options.wanted = re.compile(options.filter)
    except re.error as error:
        parser.error(f"--filter={options.filter}: expected a regular expression ({error})")
    if options.seed < 0:
        parser.error("argument --seed: expected a whole number from 0 on")
    if options.list and options.json:
        parser.error("--list and --json exclude each other")
    if options.json and not writable(options.json):
        parser.exit(2, f"kvproof bench --peers: --json={options.json}: cannot be written\n")
    options.work = [(family, [case for case in family.cases(options.smoke)
                              if options.wanted.search(case)]) for family in FAMILIES]
    if not any(cases for _, cases in options.work):
        parser.error(f"--filter={options.filter}: expected a regular expression that finds a case "
                     "of kvproof bench --peers --list")
    options.yes = options.yes or os.environ.get("KVPROOF_YES") == "yes"
    return options


def listed(work):
    return "\n\n".join("\n".join([f"# {family.NAME}, beside {', '.join(family.PEERS)}: "
                                  f"{family.SENTENCE}", *cases])
                       for family, cases in work if cases)


def environment_of(programs, seed):
    """@return what our programs say of themselves and of the machine"""
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "out.json")
        subprocess.run([os.path.join(programs, "kvproof-replay"), "--trace=chat", "--requests=1",
                        f"--json={path}"], check=True, stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as file:
            said = json.load(file)["environment"]
    return said | {"command": " ".join(["kvproof bench", *sys.argv[1:]]), "seed": seed}


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text and 'kvproof bench: '}{text}", end="", file=sys.stderr, flush=True)


def show(row):
    progress("")
    parameters, ratio = row["parameters"], row["metrics"].get("ours_over_peer")
    if not ratio:
        said = f"not comparable: {parameters['not_comparable']}"
    else:
        said = "{value:.3g} ({min:.3g} to {max:.3g}) of its time".format(**ratio)
        if "binds" in parameters:
            said += f"; {parameters['binds']}"
    print(f"{parameters['case']:<66} {parameters['peer']:<10} {said}", flush=True)


def measure(options):
    rows = []
    for family, cases in options.work:
        if not cases:
            continue
        total = len(cases) * len(family.PEERS)
        progress(f"{family.NAME}: 0 of {total}")
        for count, row in enumerate(family.measure(cases, options), 1):
            rows.append(row)
            show(row)
            progress(f"{family.NAME}: {count} of {total}")
    progress("")
    return rows


def main():
    options = parse()
    if options.check_options:
        return 0
    if options.list:
        print(listed(options.work))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.programs = os.environ.get("KVPROOF_BIN") or os.path.join(CHECKOUT, "build", "release",
                                                                     "bin")
    options.folder = os.path.join(CHECKOUT, "build", "engines")
    os.makedirs(options.folder, exist_ok=True)
    environment = environment_of(options.programs, options.seed)
    rows = measure(options)
    if options.json:
        written = options.json + ".part"
        with open(written, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, "environment": environment, "results": rows}, file)
        os.replace(written, options.json)
    return 0 if any(row["metrics"] for row in rows) else 77


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
