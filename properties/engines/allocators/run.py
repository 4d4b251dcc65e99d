#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof engines`: checks the engines of the list, and says what of the faults that are
seeded into copies of them is detected."""

import glob
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

from history import defects_of, history
from places import Absent, place_of
from rows import ROWS

from kvproof_support import environments, files, known, options as command_line, results, verb
from kvproof_support.tasks import Task, runner

START_SECONDS = 600  # that an engine may take to start: it takes 35, and many times that under load
CORES = os.cpu_count()
HERE = os.path.dirname(os.path.abspath(__file__))
EVENTS = os.path.normpath(os.path.join(HERE, os.pardir, "live", "events"))
COUNTS = ("laws_evaluated", "configurations", "operations", "findings_new", "findings_known",
          "exempted")
VERDICTS = {0: "holds", 1: "broken", 3: "cannot_tell"}  # of a check that came to an end


@dataclass
class Outcome:
    """What became of an engine: the exit code of its check, else 77 or 2, and its rows."""
    row: object
    code: int
    rows: list = field(default_factory=list)


HEADER = {"kvproof_trace": 1, "profile": "vllm-0.24", "config": {
    "num_blocks": 9, "enable_caching": True, "max_model_len": 64, "hash_block_size": 4,
    "groups": [{"kind": "full", "block_size": 4, "eagle": False}]}}


def said_otherwise(place):
    """@return what an adapter says of itself that the list does not; empty if it says the same.
    What ends without an answer, the check will tell."""
    command = place.subject(HERE).partition("=")[2]
    try:
        with runner().open(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True) as process:
            said, _ = process.communicate(json.dumps(HEADER) + "\n", timeout=60)
        answer = json.loads(said.partition("\n")[0])
    except (ValueError, subprocess.TimeoutExpired):
        return ""
    row = place.row
    return "; ".join(f"its adapter says {name} {json.dumps(answer.get(name, {}))}, the list "
                     f"{json.dumps(listed)}"
                     for name, listed in (("traits", row.traits), ("abilities", row.abilities))
                     if answer.get(name, {}) != listed)


class Checker:
    """Runs `kvproof check` on engines."""

    def __init__(self, options, work):
        self.users, self.own = known.read(*options.known), known.read(known.OWN)
        self.work, self.options = work, [f"--{name}={value}" for name in ("seed", "operations")
                                         if (value := getattr(options, name)) is not None]

    def run(self, place, name, *more):
        """@return how the check ended, and its rows"""
        path, row = os.path.join(self.work, name), place.row
        command = [results.program("check"), place.subject(HERE), f"--json={path}.json",
                   *place.options, *self.options, *more]
        if row.source != "own":  # a program, which may take long to start
            command.append(f"--start-limit-seconds={START_SECONDS}")
        ended = runner().one(Task(name, (*command, *self.known_of(row)), f"{path}.json",
                                  f"{path}.txt", folder=self.work))
        for each in results.of(ended.rows(), "check_finding"):
            self.users.match(row.name, row.revision, *(
                each["parameters"][name] for name in ("law", "reason", "where")))
        return ended, ended.rows()

    def known_of(self, row):
        """@return the option that names what is known of an engine, if something is"""
        path = os.path.join(self.work, f"{row.name}-{row.revision}.known.jsonl")
        found = self.users.of(row.name, row.revision) + self.own.of(row.name, row.revision)
        if found and not os.path.exists(path):  # else another check may be reading it
            known.write_rows(path, found)
        return [f"--known={path}"] if found else []

    def detects(self, place, number, fault):
        """@return the row of a fault"""
        row = place.row
        try:
            changed = place.with_fault(number, fault)
        except Absent as error:
            raise files.InputError(f"{row.name} {row.revision}: {error}") from None
        ended, _ = self.run(changed, f"{row.name}-{row.revision}-{number}", "--findings=1",
                            "--shrink-seconds=0")
        reason = "" if ended.exit_code in VERDICTS else (
            f"its check ended with {ended.exit_code}: {ended.last_line()}")
        return results.row("engine_fault", about(row) | {"fault": fault.what, "reason": reason},
                           {"detected": int(ended.exit_code == 1)})


def about(row):
    return {"engine": row.name, "revision": row.revision, "source": row.source}


def whole(row, verdict, reason, counts=(), seconds=0, faults=()):
    """@return the row of an engine"""
    found = dict.fromkeys(COUNTS, 0) | dict(counts)
    return results.row("engines", about(row) | {"verdict": verdict, "reason": reason}, found | {
        "seeded": len(faults), "detected": sum(results.value(each, "detected") for each in faults),
        "seconds": results.metric(seconds, "s")})


def of_findings(findings):
    """@return a verdict, and what the first of the new findings says, else the first of all"""
    new = [finding for finding in findings if not finding["known"]]
    first = (new or findings)[0]
    said = first["reason"] if new else f"{first['known']} {first.get('link', '')}".strip()
    return "broken" if new else "known", said[:300]


def laws_of(row, checked):
    """@return a row for each law, then for each kind of finding that is about none (a crash)"""
    findings = {}  # by law or kind
    for each in results.of(checked, "check_finding"):
        if not each["parameters"].get("behind"):
            for name in each["parameters"]["law"].split("+"):
                findings.setdefault(name, []).append(each["parameters"])
    out = []
    for each in results.of(checked, "check_law"):
        said = {name: each["parameters"].get(name, "") for name in (
            "law", "name", "verdict", "reason")}
        if found := findings.pop(said["law"], None):
            said["reason"] = of_findings(found)[1]
        out.append(results.row("engine_law", about(row) | said, {
            name: each["metrics"][name] for name in ("evaluated", "exempted")}))
    for kind, found in findings.items():
        verdict, reason = of_findings(found)
        out.append(results.row("engine_law", about(row) | {
            "law": kind, "name": "no law", "verdict": verdict, "reason": reason}, {}))
    return out


def examine(row, options, checker):
    """@return what became of an engine"""
    try:
        place = place_of(row, options.folder, options.checkout)
        beside = [place_of(other, options.folder, options.checkout) for other in ROWS
                  if row.beside and (other.name, other.revision) == (row.name, row.beside)]
    except Absent as error:
        return Outcome(row, 77, [whole(row, "skipped", str(error))])
    if row.source != "own" and row.abilities is not None and (other := said_otherwise(place)):
        return Outcome(row, 2, [whole(row, "skipped", other)])
    print(f"kvproof engines: {row.name} {row.revision}", file=sys.stderr, flush=True)
    ended, checked = checker.run(place, f"{row.name}-{row.revision}", *(
        "--beside-command=" + other.subject(HERE).partition("=")[2] for other in beside))
    if ended.exit_code not in VERDICTS:
        return Outcome(row, 2, [whole(row, "skipped", ended.last_line())])
    faults = []  # what is detected in a copy would be what is wrong without a fault, too
    if ended.exit_code == 0:
        faults = [*runner().each(lambda item: checker.detects(place, *item),
                                 enumerate(row.seeded), CORES)]
    (check,) = results.of(checked, "check")
    said = check["parameters"]
    return Outcome(row, ended.exit_code, [
        whole(row, VERDICTS[ended.exit_code], said["broken"] or said["reason"],
              {name: results.value(check, name) for name in COUNTS},
              results.value(check, "seconds"), faults), *laws_of(row, checked), *faults])


def listen(row, options, checker):
    """Records a check of an engine, and has its events judged. @return what became of it"""
    def without(code, reason):
        return Outcome(row, code, [results.row("events", about(row) | {
            "verdict": "skipped", "reason": reason}, {})])
    try:
        place = place_of(row, options.folder, options.checkout)
    except Absent as error:
        return without(77, str(error))
    print(f"kvproof engines: events of {row.name} {row.revision}", file=sys.stderr, flush=True)
    command = (f"'{results.program('check')}' --serve={row.origin}" if row.source == "own" else
               place.subject(HERE).partition("=")[2])
    with tempfile.TemporaryDirectory(dir=checker.work) as folder:
        os.environ["KVPROOF_RECORDINGS"] = folder
        place.subject = lambda _: f"--subject-command={command}"
        ended, _ = checker.run(place, "events")
        del os.environ["KVPROOF_RECORDINGS"]
        if ended.exit_code not in VERDICTS:
            return without(2, ended.last_line())
        path = os.path.join(checker.work, "judged")
        ended = runner().one(Task("events", (
            sys.executable, "-B", os.path.join(EVENTS, "run.py"), "--mirror",
            *checker.known_of(row), f"--json={path}.json", *glob.glob(os.path.join(folder, "*"))),
            f"{path}.json", f"{path}.txt"))
        if ended.exit_code not in VERDICTS:
            return without(77 if ended.exit_code == 77 else 2, ended.last_line())
        return Outcome(row, ended.exit_code, [each | {"parameters": about(row) | each["parameters"]}
                                              for each in ended.rows()])


def parse():
    names = sorted({row.name for row in ROWS})
    parser = command_line.Parser(
        "kvproof engines", "kvproof engines --engine=nano-vllm --checkout=..",
        "0 no new finding, 1 a new one, 2 usage or unwritable output, 77 no engine could be had, "
        "130 stopped",
        description="Checks the allocators of other engines, and of kvproof, against every law.")
    parser.add_argument("--engine", metavar="NAME", action="append", choices=names, default=[],
                        help=f"only this one, repeatable: {', '.join(names)}")
    parser.add_argument("--checkout", metavar="DIR", help="where checkouts are: DIR/<repository>-"
                        "<commit>, or DIR itself")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="instead: print the engines, where "
                         "they come from, what they do otherwise, what they can be asked")
    instead.add_argument("--events", action="store_true", help="instead: have KV cache events "
                         "judged, and put into Dynamo's index")
    instead.add_argument("--history", action="store_true", help="instead: releases of vLLM V1, and "
                         "which defect lives in which")
    parser.judges()
    parser.add_argument("--seed", metavar="N", type=command_line.whole(0),
                        help="of the checks, default 1")
    parser.add_argument("--operations", metavar="N", type=command_line.whole(1),
                        help="at least so many per configuration, default as of check")
    return parser.read()


def outcomes_of(rows, options, checker):
    """@return what became of each engine"""
    if options.events:
        return [listen(row, options, checker) for row in rows if row.events is not None]
    if options.history:
        return history(options, checker, examine)
    outcomes = [examine(row, options, checker) for row in rows]
    defects_of(outcomes, options, checker)
    return outcomes


def main():
    options = parse()
    rows = [row for row in ROWS if not options.engine or row.name in options.engine]
    if options.list:
        results.finish((results.row("engine_list", about(row) | dict(zip(
            ("origin", "traits", "abilities"), (row.origin, *row.says()))), {})
            for row in rows if row.source != "own"), "engines", options)
        return 0
    options.folder = environments.folder()
    checker = Checker(options, runner().work)
    outcomes = outcomes_of(rows, options, checker)
    found = [each for outcome in outcomes for each in outcome.rows] + checker.users.stale()
    results.finish(sorted(found, key=lambda each: each["experiment"]), "engines", options)
    codes = {outcome.code for outcome in outcomes}
    if options.events:
        return next((code for code in (1, 2, 3, 0) if code in codes), 77)
    if 2 in codes or codes <= {77}:
        return 2 if 2 in codes else 77
    return int(1 in codes or any(each["parameters"]["verdict"] == "broken" for name in (
        "engine_history", "engine_known") for each in results.of(found, name)))


if __name__ == "__main__":
    sys.exit(verb.run("kvproof engines", main))
