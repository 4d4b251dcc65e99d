#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof events`: judges recorded streams of KV cache events."""

import argparse
import importlib.util
import os
import sys

from judge import Judge
from recording import Recording
from router import radix_tree
from wire import batch_of, lines, packed_values

from kvproof_support import environments, files, known, results, verb, verdicts
from kvproof_support import options as command_line

DYNAMO = "1.6.1"


def put(path, judge):
    """Puts a file before the judge. @return that its end is torn, in words. Throws InputError,
    OSError."""
    judge.begin()
    torn, recording, before = [], Recording(judge), len(judge.findings)
    with open(path, "rb") as file:
        packed = file.peek(1)[:1] not in (b"{", b"[", b"")
        for where, value in packed_values(file.read(), path, torn) if packed else lines(
                file, path, torn):
            if isinstance(value, dict) and {"kvproof_trace", "op"} & {*value}:
                recording.line(value, where)
            else:
                judge.batch(*batch_of(value, where), where)
    for finding in judge.findings[before:]:
        finding["file"] = path
        if not packed:
            finding["line"] = int(finding["where"].removeprefix(f"{path}:").partition(":")[0])
    return torn


def to_mirror(wanted):
    """Goes on in the environment that has Dynamo. @param wanted None: if it was made before
    @return whether Dynamo is here. Throws Absent."""
    if wanted is False or importlib.util.find_spec("dynamo"):
        return wanted is not False
    name = f"dynamo-{DYNAMO}"
    if not wanted and not (environments.ENGINES / name / "ready").exists():
        return False
    there = environments.environment(environments.folder(), name,
                                     [f"ai-dynamo-runtime=={DYNAMO}"])
    python = os.path.join(there, "bin", "python")
    return os.execv(python, [python, "-B", *sys.argv])


def rows_of(judge, torn, mirrored, told):
    """@return the rows of all files: the stream, its laws, and the first findings of each law
    @param told what is known"""
    findings, laws = [], []
    sentences = {law["id"]: law["sentence"] for law in results.describe()["laws"]
                 if law["judges"] == "events"}
    for finding in judge.findings:
        match = told.match("", "", finding["law"], finding["reason"])
        findings.append(results.row("events_finding", {
            "verdict": "known" if match else "broken", "known": match.id if match else "",
            "name": sentences[finding["law"]], **finding}, {}))
    for law, name in sentences.items():
        of_law = {each["parameters"]["verdict"] for each in findings
                  if each["parameters"]["law"] == law}
        laws.append(results.row("events_law", {
            "law": law, "name": name, "verdict": next(
                (each for each in ("broken", "known") if each in of_law),
                "holds" if judge.asked[law] else "not_evaluated"), "reason": ""},
            {"evaluated": judge.asked[law], "found": judge.found[law]}))
    broken = any(each["parameters"]["verdict"] == "broken" for each in laws)
    verdict = "broken" if broken else "holds" if judge.counts["events"] else "cannot_tell"
    reasons = torn + ["there is no event to judge"] * (verdict == "cannot_tell")
    stream = results.row("events", {
        "verdict": verdict, "reason": "; ".join(reasons),
        "mirror": f"Dynamo {DYNAMO}" if mirrored else ""}, {
            name: judge.counts[name] for name in ("events", "gaps", "copies", "cut")})
    return [*laws, *findings, *told.stale(), stream]


def parse():
    parser = command_line.Parser(
        "kvproof events", "kvproof events properties/engines/live/events/sound.jsonl",
        "0 holds, 1 broken, 2 usage, unreadable input or unwritable output, 3 nothing to judge, "
        "77 no mirror could be had",
        description="Judges recorded KV cache events: vLLM's batches as msgpack or as JSON lines,\n"
        "or recordings of operations with all states in full.")
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument("--mirror", action=argparse.BooleanOptionalAction,
                        help=f"the RadixTree of Dynamo {DYNAMO} follows, too, and is downloaded; "
                        "default: if it is here")
    parser.add_argument("--unique", action="store_true", help="a hash has one block at most")
    parser.judges()
    return parser.read()


def main():
    options = parse()
    try:
        told = known.read(*options.known)
        mirrored, torn = to_mirror(options.mirror), []
        judge = Judge(radix_tree() if mirrored else None, options.unique)
        for path in options.files:
            torn += put(path, judge)
    except RecursionError as error:
        raise files.InputError(str(error)) from None
    except OSError as error:
        raise files.InputError(f"{error.filename}: {error.strerror}") from None
    except ImportError as error:
        raise environments.Absent(str(error)) from None
    rows = rows_of(judge, torn, mirrored, told)
    results.finish(rows, "events", options)
    return verdicts.EXIT_CODES[rows[-1]["parameters"]["verdict"]]


if __name__ == "__main__":
    sys.exit(verb.run("kvproof events", main))
