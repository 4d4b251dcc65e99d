#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof bench --peers`: other engines' kernels and allocators beside ours,
interleaved in the same rounds and on the same inputs."""

import os
import re
import sys

import allocators
import kernels

from kvproof_support import environments, files, options as command_line, results, verb
from kvproof_support.progress import Progress

# Each has NAME, SENTENCE, PEERS, cases(smoke), and measure(cases, options), which yields a row for
# each pair of a case and a peer as soon as it is known.
FAMILIES = (kernels, allocators)


def parse():
    parser = command_line.Parser(
        "kvproof bench --peers", "kvproof bench --peers --yes --json=peers.json",
        "0 measured, 2 usage or unwritable output, 77 no peer could be had, 130 stopped",
        description=__doc__)
    parser.add_argument("--peers", action="store_true", required=True)
    parser.add_argument("--list", action="store_true", help="print the cases and measure nothing")
    parser.add_argument("--filter", metavar="REGEX", default=".",
                        help="the cases whose names this regular expression finds")
    parser.outputs("bmf")
    parser.add_argument("--checkout", metavar="DIR", help="holds the checkouts of peers that no "
                        "package has, as NAME-COMMIT")
    parser.add_argument("--smoke", action="store_true",
                        help="tiny sizes, only to see that everything works")
    parser.add_argument("--seed", metavar="N", type=command_line.whole(0), default=1,
                        help="of all inputs, default 1")
    parser.add_argument("--yes", action="store_true", help="download without asking")
    return parser.read(lambda options: check(parser, options))


def check(parser, options):
    try:
        options.wanted = re.compile(options.filter)
    except re.error as error:
        parser.error(f"--filter={options.filter}: expected a regular expression ({error})")
    if options.list and (options.json or options.bmf):
        parser.error("--list measures nothing that a file could have")
    options.work = [(family, [case for case in family.cases(options.smoke)
                              if options.wanted.search(case)]) for family in FAMILIES]
    if not any(cases for _, cases in options.work):
        parser.error(f"--filter={options.filter}: expected a regular expression that finds a case "
                     "of kvproof bench --peers --list")
    options.yes = options.yes or os.environ.get("KVPROOF_YES") == "yes"


def listed(work):
    return "\n\n".join("\n".join([f"# {family.NAME}, beside {', '.join(family.PEERS)}: "
                                  f"{family.SENTENCE}", *cases])
                       for family, cases in work if cases)


def measure(options):
    rows, progress = [], Progress(sys.stderr, 0, 0)
    for family, cases in options.work:
        if not cases:
            continue
        total = len(cases) * len(family.PEERS)
        progress.say(f"kvproof bench: {family.NAME}: 0 of {total}")
        for count, row in enumerate(family.measure(cases, options), 1):
            rows.append(row)
            progress.say(f"kvproof bench: {family.NAME}: {count} of {total}")
    progress.clear()
    return rows


def main():
    options = parse()
    if options.list:
        files.put(listed(options.work))
        return 0
    options.folder = environments.folder()
    rows = measure(options)
    results.finish(rows, "bench", options, seed=options.seed)
    return 0 if any(row["metrics"] for row in rows) else 77


if __name__ == "__main__":
    sys.exit(verb.run("kvproof bench --peers", main))
