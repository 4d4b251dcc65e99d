#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof events`: judges recorded streams of KV cache events."""

import argparse
import importlib.util
import json
import os
import pathlib
import sys

from judge import LAWS, Judge
from recording import Recording
from router import radix_tree
from wire import Bad, batch_of, lines, packed_values

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "engines"))
from places import Absent, environment  # noqa: E402
DYNAMO = "1.6.1"


def put(path, judge):
    """Puts a file before the judge. @return that its end is torn, in words. Throws Bad, OSError."""
    judge.begin()
    torn, recording = [], Recording(judge)
    with open(path, "rb") as file:
        packed = file.peek(1)[:1] not in (b"{", b"[", b"")
        for where, value in packed_values(file.read(), path, torn) if packed else lines(
                file, path, torn):
            if isinstance(value, dict) and {"kvproof_trace", "op"} & {*value}:
                recording.line(value, where)
            else:
                judge.batch(*batch_of(value, where), where)
    return torn


def to_mirror(wanted):
    """Goes on in the environment that has Dynamo. @param wanted None: if it was made before
    @return whether Dynamo is here. Throws Absent."""
    if wanted is False or importlib.util.find_spec("dynamo"):
        return wanted is not False
    folder = HERE.parents[2] / "build" / "engines"
    if not wanted and not (folder / f"dynamo-{DYNAMO}" / "ready").exists():
        return False
    folder.mkdir(parents=True, exist_ok=True)
    there = environment(str(folder), f"dynamo-{DYNAMO}", [f"ai-dynamo-runtime=={DYNAMO}"])
    python = os.path.join(there, "bin", "python")
    return os.execv(python, [python, "-B", *sys.argv])


def show(judge, known, torn, mirrored):
    for law, what in LAWS.items():
        state = "no say" if not judge.asked[law] else "holds" if not judge.found[law] else (
            "known" if law in known else "BROKEN")
        print(f"{law:10}{state:8}{judge.found[law]:6} of {judge.asked[law]:<9}{what}")
    for finding in judge.findings:
        print(f"{finding['where']}: {finding['law']}: {finding['what']}")
    print(*torn, sep="\n", end="\n" * bool(torn))
    counts = judge.counts
    print(f"{counts['events']} events: {counts['gaps']} leave out blocks, {counts['copies']} take "
          f"one of several of a hash; the router's rules cut {counts['cut']} lookups\n"
          + (f"mirrored by Dynamo {DYNAMO}" if mirrored else "the mirror did not speak"))


def document(judge, verdict, mirrored):
    def result(experiment, parameters, metrics):
        return {"experiment": experiment, "parameters": parameters, "metrics": {
            name: {"value": value, "unit": "count"} for name, value in metrics.items()}}
    return {"schema": 1, "environment": {"command": " ".join(["kvproof events", *sys.argv[1:]])},
            "results": [result("events", {"verdict": verdict, "mirror": mirrored}, judge.counts),
                        *(result("events_law", {"law": law, "name": name}, {
                            "asked": judge.asked[law], "found": judge.found[law]})
                          for law, name in LAWS.items())], "findings": judge.findings}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"kvproof events: {message} (see: kvproof events --help)\n")


def parse():
    parser = Parser(
        "kvproof events", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Judges recorded KV cache events: vLLM's batches as msgpack or as JSON lines,\n"
        "or recordings of operations with all states in full.",
        epilog="Example: kvproof events properties/foreign/events/sound.jsonl\n\n"
        "Exit codes: 0 holds, 1 broken, 2 usage, unreadable input or unwritable output,\n"
        "3 nothing to judge, 77 no mirror could be had.")
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument("--mirror", action=argparse.BooleanOptionalAction,
                        help=f"the RadixTree of Dynamo {DYNAMO} follows, too, and is downloaded; "
                        "default: if it is here")
    parser.add_argument("--unique", action="store_true", help="a hash has one block at most")
    parser.add_argument("--known", metavar="LAW", action="append", choices=[*LAWS], default=[],
                        help="that this one is broken is expected, repeatable")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse()
    if options.check_options:
        return 0
    try:
        mirrored, torn = to_mirror(options.mirror), []
        judge = Judge(radix_tree() if mirrored else None, options.unique)
        for path in options.files:
            torn += put(path, judge)
        new = {*+judge.found} - {*options.known}
        code = 1 if new else 0 if judge.counts["events"] else 3
        verdict = {0: "holds", 1: "BROKEN", 3: "nothing to judge"}[code]
        show(judge, options.known, torn, mirrored)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(json.dumps(document(judge, verdict, mirrored)) + "\n")
        print(verdict)
        return code
    except (Absent, Bad, ImportError, OSError, RecursionError) as error:
        where = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        print(f"kvproof events: {where}", file=sys.stderr)
        return 77 if isinstance(error, (Absent, ImportError)) else 2


if __name__ == "__main__":
    sys.exit(main())
