#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof campaign`: a plan of tasks, run in shards on one machine or on many."""

import argparse
import os
import sys
from pathlib import Path

from built_in import BUILT_IN, built_in
from merge import merge
from plan import read_plan
from shard import run, write
from submit import ENGINES, submit
from task import CHECKOUT, Bad

EPILOG = """
Example: kvproof campaign plan --built-in=smoke --output=plan.json
         kvproof campaign run plan.json --output=results/smoke
         kvproof campaign merge results/smoke --json=results/smoke.json

Exit codes: 0 holds, 1 a finding, 2 usage, unreadable input or unwritable output, 3 something is
missing or cannot be told, 130 stopped."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"kvproof campaign: {message} (see: kvproof campaign --help)\n")


def whole(text):
    if not text.isdecimal() or not 0 < int(text) < 10 ** 7:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, found {text}")
    return int(text)


def parser_of():
    parser = Parser("kvproof campaign", allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    parts = parser.add_subparsers(dest="part", required=True, parser_class=Parser)

    def part(name, words):
        return parts.add_parser(name, help=words, description=words, allow_abbrev=False)

    def option(to, name, words, metavar="FILE", **more):
        to.add_argument(name, help=words, metavar=metavar, **more)

    plan = part("plan", "write a built-in plan")
    plan.add_argument("--built-in", required=True, choices=list(BUILT_IN))
    option(plan, "--output", "the plan", required=True)
    for name, words in (("run", "do a shard of a plan, or all of it"),
                        ("submit", "hand a plan to a cluster")):
        each = part(name, words)
        each.add_argument("plan", metavar="PLAN", help="a plan, built in or written by hand")
        option(each, "--output", "the folder of the results, which all shards share", "DIR",
               required=True)
        option(each, "--only", "of these tasks alone, as merge names those that are missing",
               "NAMES")
    run_, submit_ = parts.choices["run"], parts.choices["submit"]
    option(run_, "--shard", "index from 0, and count, as 3/64; default: as the engine says, else "
           "all", "I/N")
    option(run_, "--jobs", "tasks at a time, each on a core of its own; default: 1 of a shard, "
           "else one per core", "N", type=whole)
    submit_.add_argument("--engine", required=True, choices=list(ENGINES))
    submit_.add_argument("--dry-run", action="store_true", help="print the file alone")
    option(submit_, "--image", "of Kubernetes, default kvproof-campaign", "NAME",
           default="kvproof-campaign")
    option(submit_, "--claim", "of Kubernetes, for the shared folder, default kvproof", "NAME",
           default="kvproof")
    for each in (plan, run_, submit_):
        option(each, "--shards", "their count, where the plan's is not meant", "N", type=whole)
    merge_ = part("merge", "put the results of shards together")
    merge_.add_argument("folders", metavar="DIR", nargs="+", help="what run was given as --output")
    option(merge_, "--json", "exact results alone, for the report and for comparisons")
    option(merge_, "--costs", "core-hours, machines and sampled results")
    option(merge_, "--junit", "a case of each task, for continuous integration")
    parser.description = "Runs plans of tasks in shards, on one machine or on many.\n\n" + "".join(
        each.format_help().replace("usage: ", "") for each in parts.choices.values())
    parser.epilog = EPILOG
    return parser


def main():
    options = parser_of().parse_args()
    if options.check_options:
        return 0
    programs = os.environ.get("KVPROOF_BIN") or str(CHECKOUT / "build" / "release" / "bin")
    try:
        if options.part == "merge":
            return merge(options)
        if options.part == "run":
            return run(options, programs, os.environ)
        if options.part == "submit":
            return submit(options, read_plan(options.plan, programs), programs)
        plan = built_in(options.built_in, programs, options.shards)
        write(Path(options.output), plan.text.encode())
        hours = sum(task.cost_core_seconds for task in plan.tasks.values()) / 3600
        print(f"{options.output}: {len(plan.tasks)} tasks of {hours:.2f} core-hours in all, "
              f"{plan.shards} shards")
        if "changes" in plan.program["commit"]:
            print("kvproof campaign: the sources have changes that no commit names: results of two "
                  "such trees cannot be told apart", file=sys.stderr)
        return 0
    except Bad as error:
        print(f"kvproof campaign: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
