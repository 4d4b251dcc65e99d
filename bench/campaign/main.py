#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof campaign`: a file of tasks, run in shards on one machine or on many."""

import argparse
import os
import sys

from built_in import BUILT_IN, built_in
from merge import merge
from plan import read_plan
from shard import run
from submit import ENGINES, submit
from task import CHECKOUT, InputError

from kvproof_support import stopping
from kvproof_support.files import OutputError, write
from kvproof_support.options import Parser, whole
from kvproof_support.tasks import Stopped

EXAMPLE = """kvproof campaign tasks --built-in=smoke --output=tasks.json
         kvproof campaign run tasks.json --output=results/smoke
         kvproof campaign merge results/smoke --json=results/smoke.json
"""
CODES = ("0 holds, 1 a finding, 2 usage, unreadable input or unwritable output, 3 something is "
         "missing or cannot be told, 130 stopped")


# What the options are, and which parts of the verb take them.
OPTIONS = {
    "--built-in": {"choices": list(BUILT_IN), "required": True},
    "--output": {"metavar": "PATH", "required": True, "help": "tasks: the file that is "
                 "written; run, submit: the folder of the results, which all shards share"},
    "--only": {"metavar": "NAMES", "help": "these tasks alone, as merge names what is missing"},
    "--shard": {"metavar": "I/N", "help": "index from 0, and number, as 3/64; default: as "
                "Slurm, Buildkite or Kubernetes says, else everything"},
    "--shards": {"metavar": "N", "type": whole(1, 10 ** 7),
                 "help": "their number, instead of that in the file of tasks"},
    "--jobs": {"metavar": "N", "type": whole(1, 10 ** 7),
               "help": "tasks at a time, each on a core of its own; default: 1 of a shard, else "
               "one per core"},
    "--engine": {"choices": list(ENGINES), "required": True, "help": "what schedules the shards"},
    "--dry-run": {"action": "store_true", "help": "print the file that would be "
                  "submitted, and write nothing"},
    "--yes": {"action": "store_true", "help": "agree to the downloads of tasks that start whole "
              "engines"},
    "--image": {"metavar": "NAME", "default": "kvproof-campaign", "help": "of Kubernetes"},
    "--claim": {"metavar": "NAME", "default": "kvproof", "help": "of Kubernetes, for the folder"},
    "--json": {"metavar": "FILE", "help": "exact results alone: the same bytes from any shards"},
    "--costs": {"metavar": "FILE", "help": "core-hours, machines and sampled results"},
    "--junit": {"metavar": "FILE", "help": "a case of each task, for continuous integration"},
    "--sarif": {"metavar": "FILE", "help": "the findings, for continuous integration"},
    "plan": {"metavar": "TASKS", "help": "a file of tasks, as tasks writes it, or your own"},
    "folders": {"metavar": "DIR", "nargs": "+", "help": "what run was given as --output"},
}
PARTS = {"tasks": ("write the tasks of a built-in campaign to a file",
                   "--built-in --output --shards"),
         "run": ("run the tasks of a file, or one shard of them",
                 "plan --output --shard --shards --jobs --only --yes"),
         "submit": ("hand the tasks of a file to a cluster",
                    "plan --engine --output --shards --only --dry-run --image --claim"),
         "merge": ("put the results of shards together", "folders --json --costs --junit --sarif")}


def parser_of():
    parser = Parser("kvproof campaign", EXAMPLE, CODES)
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    parts = parser.add_subparsers(dest="part", required=True,
                                  parser_class=lambda **words: Parser(example="", exit_codes="",
                                                                      **words))
    parser.description = "Runs files of tasks in shards, on one machine or on many.\n\n"
    for part, (words, options) in PARTS.items():
        each = parts.add_parser(part, help=words, description=words)
        each.epilog = None
        for name in options.split():
            each.add_argument(name, **OPTIONS[name])
        parser.description += each.format_help().replace("usage: ", "") + "\n"
    return parser


def main():
    stopping.end_at_once()
    options = parser_of().parse_args()
    if options.check_options:
        return 0
    programs = os.environ.get("KVPROOF_BIN") or str(CHECKOUT / "build" / "release" / "bin")
    try:
        if options.part == "merge":
            return merge(options)
        if options.part == "run":
            if options.yes:  # the launcher takes it away, and says so in this way
                os.environ["KVPROOF_YES"] = "yes"
            return run(options, programs, os.environ)
        if options.part == "submit":
            return submit(options, read_plan(options.plan), programs)
        plan = built_in(options.built_in, options.shards)
        write(options.output, plan.text.encode())
        seconds = sum(task.cost_core_seconds for task in plan.tasks.values())
        cost = (f"{seconds / 3600:.1f} core-hours" if seconds >= 360 else
                f"{seconds:.0f} s of a core")
        print(f"{options.output}: {len(plan.tasks)} tasks, about {cost} in all, in {plan.shards} "
              "shards")
        if "changes" in plan.program["commit"]:
            print("kvproof campaign: the sources have changes that no commit names: results of two "
                  "such trees cannot be told apart", file=sys.stderr)
        return 0
    except Stopped:
        return stopping.STOPPED
    except (InputError, OutputError) as error:
        print(f"kvproof campaign: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
