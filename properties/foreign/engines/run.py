#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof engines`: checks the engines of the list, and says what of the faults that are
seeded into copies of them is detected."""

import argparse
import concurrent.futures
import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

from history import differs, history, known, print_grid, print_known
from places import CHECKOUT, Absent, place_of, program
from rows import ROWS

START_SECONDS = 600  # that an engine may take to start: it takes 35, and many times that under load
HERE = os.path.dirname(os.path.abspath(__file__))
EVENTS = os.path.normpath(os.path.join(HERE, os.pardir, "events"))
COUNTS = ("laws_spoke", "configurations", "operations", "findings_new", "findings_known", "worded")


@dataclass
class Outcome:
    row: object
    skipped: str = ""
    verdict: str = ""
    broken: str = ""
    seconds: float = 0
    counts: dict = field(default_factory=dict)
    laws: list = field(default_factory=list)  # results of law_results
    noticed: list = field(default_factory=list)  # what each of these faults does
    missed: list = field(default_factory=list)


HEADER = {"kvproof_trace": 1, "profile": "vllm-0.24", "config": {
    "num_blocks": 9, "enable_caching": True, "max_model_len": 64, "hash_block_size": 4,
    "groups": [{"kind": "full", "block_size": 4, "eagle": False}]}}


def said_otherwise(place):
    """@return what an adapter says of itself that the list does not; empty if it says the same.
    What ends without an answer, the check will tell."""
    command = place.subject(HERE).partition("=")[2]
    try:
        said = subprocess.run(["sh", "-c", command], input=json.dumps(HEADER) + "\n", text=True,
                              capture_output=True, check=False, timeout=60).stdout
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

    def __init__(self, program, options, work):
        self.program, self.options, self.work, self.environment = program, options, work, {}

    def run(self, place, name, *more):
        """@return exit code, the results of the check, its output"""
        path = os.path.join(self.work, f"{name}.json")
        command = [self.program, place.subject(HERE), f"--json={path}", *place.options,
                   *self.options, *more]
        if place.row.source != "own":  # a program, which may take long to start
            command.append(f"--start-limit-seconds={START_SECONDS}")
        if place.row.known:
            known = os.path.join(self.work, f"{place.row.name}-{place.row.revision}.known.jsonl")
            with open(known, "w", encoding="utf-8") as file:
                for finding, reason, link in place.row.known:
                    row = {"finding": finding, "reason": reason, "link": link}
                    print(json.dumps(row), file=file)
            command.append(f"--known={known}")
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False, cwd=self.work)
        results = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            self.environment = self.environment or document["environment"]
            results = document["results"]
        return done.returncode, results, done.stdout

    def check(self, place, *more):
        row = place.row
        code, results, output = self.run(place, f"{row.name}-{row.revision}", *more)
        result = next((r for r in results if r["experiment"] == "check"),
                      {"parameters": {}, "metrics": {}})
        metrics = result["metrics"]
        out = Outcome(row, broken=str(result["parameters"].get("broken", "")),
                      laws=law_results(row, results))
        out.verdict = {0: "holds", 1: "VIOLATED", 3: "cannot tell"}.get(code, "not checked")
        if code not in (0, 1, 3):
            out.skipped = last_line(output)
        out.counts = {name: int(metrics.get(name, {"value": 0})["value"]) for name in COUNTS}
        out.seconds = metrics.get("seconds", {"value": 0})["value"]
        with open(os.path.join(self.work, f"{row.name}-{row.revision}.txt"), "w",
                  encoding="utf-8") as file:
            file.write(output)
        return out

    def notices(self, place, number, fault):
        """@return what the fault does, whether it was noticed, why that could not be found out"""
        try:
            changed = place.with_fault(number, fault)
        except Absent as error:
            stop(f"{place.row.name} {place.row.revision}: {error}")
        code, _, output = self.run(changed, f"{place.row.name}-{place.row.revision}-{number}",
                                   "--findings=1", "--shrink-seconds=0")
        if code in (0, 1, 3):
            return fault.what, code == 1, ""
        return fault.what, False, f", for its check ended with {code}: {last_line(output)}"


def listen(row, options, checker):
    """Records a check of an engine, and has its events judged. @return the exit code"""
    name = f"{row.name} {row.revision}"
    try:
        place = place_of(row, options.folder, options.checkout)
    except Absent as error:
        print(f"skipped: {name}: {error}")
        return 77
    print(f"kvproof engines: events of {name}", file=sys.stderr, flush=True)
    command = (f"'{checker.program}' --serve={row.origin}" if row.source == "own" else
               place.subject(HERE).partition("=")[2])
    with tempfile.TemporaryDirectory(dir=checker.work) as folder:
        recorder = shlex.join([sys.executable, "-B", os.path.join(EVENTS, "record.py"), folder,
                               command])
        place.subject = lambda _: f"--subject-command={recorder}"
        code, _, output = checker.run(place, "events")
        if code not in (0, 1, 3):
            print(f"not checked: {name}: {last_line(output)}")
            return 2
        print(f"{name}:", flush=True)
        return subprocess.run([
            sys.executable, "-B", os.path.join(EVENTS, "run.py"), "--mirror",
            *(f"--known={law}" for law in row.events), *glob.glob(os.path.join(folder, "*"))],
            check=False).returncode


def last_line(output):
    return (output.strip().splitlines() or ["no output"])[-1]


def examine(row, options, checker):
    name = f"{row.name} {row.revision}"
    try:
        place = place_of(row, options.folder, options.checkout)
        beside = [place_of(other, options.folder, options.checkout) for other in ROWS
                  if row.beside and (other.name, other.revision) == (row.name, row.beside)]
    except Absent as error:
        return Outcome(row, skipped=str(error))
    if row.source != "own" and row.abilities is not None and (other := said_otherwise(place)):
        return Outcome(row, verdict="not checked", skipped=other)
    print(f"kvproof engines: {name}", file=sys.stderr, flush=True)
    outcome = checker.check(place, *(
        "--beside-command=" + other.subject(HERE).partition("=")[2] for other in beside))
    if outcome.verdict != "holds":
        return outcome  # what is noticed in a copy would be what is wrong without a fault, too
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for what, noticed, why in pool.map(lambda item: checker.notices(place, *item),
                                           enumerate(row.seeded)):
            (outcome.noticed if noticed else outcome.missed).append(what + why)
    return outcome


def aligned(lines):
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def table(outcomes):
    lines = [("engine", "revision", "verdict", "laws", "configurations", "operations", "new",
              "known", "exempted", "faults detected")]
    for o in outcomes:
        if not o.verdict or o.verdict == "not checked":
            continue
        seeded = len(o.noticed) + len(o.missed)
        lines.append((o.row.name, o.row.revision, o.verdict, *map(str, (o.counts[name] for name in (
            "laws_spoke", "configurations", "operations", "findings_new", "findings_known",
            "worded"))), f"{len(o.noticed)} of {seeded}" if seeded else "-"))
    aligned(lines)
    for o in outcomes:
        if o.skipped:
            print(f"skipped: {o.row.name} {o.row.revision}: {o.skipped}")
        if o.broken:
            print(f"broken: {o.row.name} {o.row.revision}: {o.broken}")
        for fault in o.missed:
            print(f"not detected: {o.row.name} {o.row.revision}: {fault}")


def state_of(law):
    """@return what became of a law, by its result in a check, and why"""
    verdict = law["parameters"]["verdict"]
    if verdict.startswith("holds"):
        return ("worded" if law["metrics"]["worded"]["value"] else "holds",
                verdict.partition("; ")[2] or "-")
    return {"BROKEN": "broken", "broken, as is known": "known"}.get(verdict, "silent"), verdict


def why_of(findings):
    """@return a state, and what the first of the new ones says, else the first of all"""
    new = [finding for finding in findings if not finding["known"]]
    first = (new or findings)[0]
    said = first["text"] if new else f"{first['known']} {first['link']}".strip()
    return "broken" if new else "known", said[:300]


def law_results(row, results):
    """@return a result of each law, then of each kind of finding that is about none (a crash)"""
    findings = {}  # by law or kind
    for result in results:
        if result["experiment"] == "check_finding" and not result["parameters"].get("behind"):
            for name in result["parameters"]["finding"].split("+"):
                findings.setdefault(name, []).append(result["parameters"])
    out = []

    def add(law, name, state, why, metrics):
        out.append({"experiment": "engine_law",
                    "parameters": {"engine": row.name, "revision": row.revision,
                                   "source": row.source, "law": law, "name": name,
                                   "state": state, "why": why},
                    "metrics": {metric: metrics[metric] for metric in ("checked", "worded")
                                if metric in metrics}})

    for result in results:
        if result["experiment"] == "check_law":
            law, name = (result["parameters"][key] for key in ("law", "name"))
            state, why = state_of(result)
            if found := findings.pop(law, None):
                why = why_of(found)[1]
            add(law, name, state, why, result["metrics"])
    for kind, found in findings.items():
        add(kind, "no law", *why_of(found), {})
    return out


def document(outcomes, environment, more=()):
    results = [*more]
    for o in outcomes:
        if not o.counts or o.verdict == "not checked":
            continue
        counts = o.counts | {"seeded": len(o.noticed) + len(o.missed), "noticed": len(o.noticed)}
        results.append({
            "experiment": "engines",
            "parameters": {"engine": o.row.name, "revision": o.row.revision,
                           "source": o.row.source, "verdict": o.verdict, "broken": o.broken},
            "metrics": {name: {"value": value, "unit": "count"} for name, value in counts.items()}
            | {"seconds": {"value": o.seconds, "unit": "s"}}})
    results += [law for o in outcomes if o.verdict != "not checked" for law in o.laws]
    command = " ".join(["kvproof engines", *sys.argv[1:]])
    return {"schema": 1, "environment": environment | {"command": command}, "results": results}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"kvproof engines: {message} (see: kvproof engines --help)\n")


def parse():
    names = sorted({row.name for row in ROWS})
    parser = Parser(
        "kvproof engines", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Checks the allocators of other engines, and of kvproof, against every law.",
        epilog="Example: kvproof engines --engine=nano-vllm --checkout=..\n\n"
        "Exit codes: 0 no new finding, 1 a new one, 2 usage or unwritable output, 77 no engine\n"
        "could be had, 130 stopped.")
    parser.add_argument("--engine", metavar="NAME", action="append", choices=names, default=[],
                        help=f"only this one, repeatable: {', '.join(names)}")
    parser.add_argument("--checkout", metavar="DIR", help="where checkouts are: DIR/<repository>-"
                        "<commit>, or DIR itself")
    parser.add_argument("--list", action="store_true", help="instead: print the engines, where "
                        "they come from, what they do otherwise, what they can be asked")
    parser.add_argument("--events", action="store_true", help="instead: have KV cache events "
                        "judged, and put into Dynamo's index")
    parser.add_argument("--history", action="store_true", help="instead: releases of vLLM V1, and "
                        "which defect lives in which")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    parser.add_argument("--seed", metavar="N", type=int, help="of the checks, default 1")
    parser.add_argument("--operations", metavar="N", type=int,
                        help="at least so many per configuration, default as of check")
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name, least in (("seed", 0), ("operations", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            parser.error(f"argument --{name}: expected a whole number from {least} on")
    if options.events and (options.history or options.json):
        parser.error("--events goes with neither --history nor --json")
    return options


def stop(text):
    """Ends with the exit code of what could not be done; 1 is a finding."""
    print(f"kvproof engines: {text}", file=sys.stderr, flush=True)
    sys.exit(2)


def write(path, content):
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(content) + "\n")
    except OSError as error:
        stop(f"--json={path}: cannot be written: {error.strerror}")


def main():
    options = parse()
    if options.check_options:
        return 0
    rows = [row for row in ROWS if not options.engine or row.name in options.engine]
    if options.list:
        aligned([("engine", "revision", "source", "origin", "traits", "abilities"), *(
            (row.name, row.revision, row.source, row.origin, *row.says()) for row in rows
            if row.source != "own")])
        return 0
    options.folder = os.path.join(CHECKOUT, "build", "engines")
    os.makedirs(options.folder, exist_ok=True)
    passed = [f"--{name}={value}" for name in ("seed", "operations")
              if (value := getattr(options, name)) is not None]
    defects = []
    with tempfile.TemporaryDirectory() as work:
        checker = Checker(program("kvproof-check"), passed, work)
        if options.events:
            codes = {listen(row, options, checker) for row in rows if row.events is not None}
            return next((code for code in (1, 2, 3, 0) if code in codes), 77)
        if options.history:
            outcomes, defects = history(options, checker, examine)
        else:
            outcomes = [examine(row, options, checker) for row in rows]
            defects = known(outcomes, options, checker)
    table(outcomes)
    (print_grid if options.history else print_known)(defects)
    if options.json:
        more = defects if options.history else ()
        write(options.json, document(outcomes, checker.environment, more))
    checked = [o for o in outcomes if o.verdict not in ("", "not checked")]
    if any(o.verdict == "not checked" for o in outcomes):
        return 2
    if not checked:
        return 77
    return 1 if any(o.verdict == "VIOLATED" for o in checked) or any(map(differs, defects)) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
