#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof live --scheduler=vllm`: drives vLLM's own scheduler, has its runs judged, and
says which of the faults that are seeded into copies of it are detected."""

import collections
import itertools
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
import time

import seeded
import world

from kvproof_support import (
    environments, files, known, options as command_line, results, verb)
from kvproof_support.environments import Absent
from kvproof_support.patches import overlay
from kvproof_support.progress import Progress
from kvproof_support.tasks import Task, runner

HERE = pathlib.Path(__file__).resolve().parent
RELEASE = "0.33.0"
NEEDS = ("msgspec", "cbor2", "pyzmq", "typing_extensions", "numpy", "xxhash")
CORES = os.cpu_count()
LONGEST = 3000  # steps of one run
CALLED = shlex.quote(os.environ.get("KVPROOF_CALLED", "./kvproof"))


class Unjudged(Exception):
    """A run came to no verdict; the text says why."""


class Driver:
    """Starts runs of vLLM and of copies of it, and has them judged."""

    def __init__(self, folder, copies):
        """@param folder of the environments, and of runs that are kept
        @param copies a folder of this process alone, since another may have the same seeds"""
        self.folder, self.copies = folder, copies
        self.laws, self.unjudged = {}, []
        shared = environments.environment(folder, "live", NEEDS)
        shared = environments.environment(folder, f"vllm-v1-{RELEASE}", [f"vllm=={RELEASE}"],
                                          "--no-deps", beside=shared)
        self.python = os.path.join(shared, "bin", "python")
        self.original = os.path.join(environments.site_packages(shared), "vllm")

    def copy(self, name, changes):
        """@return the paths that stand before all others: of a copy of vLLM, and of our runner"""
        top = os.path.join(self.copies, name)
        ours = [each for each in changes if each.group == "runner"]
        theirs = [each for each in changes if each.group != "runner"]
        overlay(self.original, os.path.join(top, "vllm"), theirs)
        overlay(str(HERE), os.path.join(top, "runner"), ours)
        return (top, os.path.join(top, "runner") if ours else str(HERE))

    def run(self, case, seed, steps, copy=(str(HERE),), keep=None, asserts=True):
        """@param asserts whether vLLM's own assertions are in force
        @return what was judged of a run; without findings, and noted, if nothing was"""
        out = {"case": case, "seed": seed, "asked": steps}
        try:
            return self.judged(case, seed, steps, copy, keep, asserts) | out
        except (Unjudged, OSError) as error:
            self.unjudged.append(out | {"copy": name_of(copy), "why": str(error)})
            return out | {"steps": 0, "requests": 0, "evaluated": {}, "findings": [],
                          "why": str(error)}

    def judged(self, case, seed, steps, copy, keep, asserts):
        compiled = self.folder if copy == (str(HERE),) else self.copies
        settings = {"PYTHONPATH": os.pathsep.join(copy),
                    "PYTHONPYCACHEPREFIX": os.path.join(compiled, "pycache")}
        with tempfile.TemporaryDirectory(dir=self.copies) as work:
            path, verdict = keep or os.path.join(work, "run.jsonl"), os.path.join(work, "json")
            do(work, (0,), self.python, *["-O"] * (not asserts), "-c", "import drive; drive.main()",
               f"--case={case}", f"--seed={seed}", f"--steps={steps}", f"--output={path}",
               environment=settings)
            try:
                rows = do(work, (0, 1), results.program("live"), path, f"--json={verdict}",
                          result=verdict).rows()
                (run,) = results.of(rows, "live_run")
            except (Unjudged, OSError, ValueError) as error:
                kept = keep or self.kept(case, seed, name_of(copy))
                if not keep:
                    shutil.copyfile(path, kept)
                raise Unjudged(str(error).replace(path, os.path.relpath(kept))) from None
        laws = {row["parameters"]["law"]: row for row in results.of(rows, "live_law")}
        self.laws = {law: row["parameters"] for law, row in laws.items()}
        return {"steps": results.value(run, "steps"), "requests": results.value(run, "requests"),
                "evaluated": {law: results.value(row, "evaluated") for law, row in laws.items()},
                "findings": [row["parameters"] for row in results.of(rows, "live_finding")]}

    def kept(self, case, seed, *words):
        """@return where the recording of a run is kept"""
        return os.path.join(self.folder, "-".join([case, str(seed), *words]) + ".jsonl")


def name_of(copy):
    return "vllm" if copy == (str(HERE),) else pathlib.Path(copy[0]).name


def do(folder, allowed, *command, **more):
    """Runs a command in a folder. @return how it ended. Throws Unjudged."""
    ended = runner().one(Task(command[0], command, log=os.path.join(folder, "errors"),
                              output=os.devnull, folder=folder, **more))
    if ended.exit_code not in allowed:
        raise Unjudged(f"{os.path.basename(command[0])}: {ended.last_line()}")
    return ended


def dealt(cases, seed, steps):
    """@return jobs (case, seed, steps), which have so many steps together, over many cases"""
    each = max(LONGEST // 3, min(LONGEST, -(-steps // len(cases))))
    jobs = -(-steps // each)
    return [(cases[i * max(len(cases) // jobs, 1) % len(cases)], seed + i // len(cases),
             min(each, steps - i * each)) for i in range(jobs)]


def first(run):
    return run["findings"][0]["law"]


class Campaign:
    """A sound run, what it found, and which seeded faults are detected."""

    def __init__(self, driver, options):
        self.driver, self.options, self.progress = driver, options, Progress()
        self.users, self.own = known.read(*options.known), known.read(known.OWN)
        self.mended = driver.copy("mended", seeded.mends())
        self.runs, self.known, self.new, self.faults = [], {}, [], []
        self.seconds = 0.0

    def say(self, text):
        self.progress.say(f"kvproof live: {text}")

    def sound(self):
        """Runs the release as it is."""
        jobs = dealt(self.options.case, self.options.seed, self.options.steps)
        start = time.monotonic()
        for done, run in enumerate(runner().each(
                lambda job: self.driver.run(*job), jobs, CORES), 1):
            if "why" not in run:
                self.runs.append(run)
            self.say(f"{done} of {len(jobs)} runs")
        self.seconds = time.monotonic() - start

    def explain(self):
        """A finding is known if the mends of the defects that have an advisory make it go away, and
        it comes back without one of them; or if the user says so."""
        found = [run for run in self.runs if run["findings"] and not self.told(run)]
        after = runner().each(lambda run: self.driver.run(
            run["case"], run["seed"], run["asked"], self.mended), found, CORES)
        kinds = {}
        for mended, run in zip(after, found):
            if mended["findings"]:
                self.keep(mended, self.mended)
            elif "why" in mended:
                self.keep(run, (str(HERE),))
            else:
                kinds.setdefault((run["case"], first(run)), []).append(run)
        every = runner().each(self.pages_of, [runs[0] for runs in kinds.values()], CORES)
        for pages, runs in zip(every, kinds.values()):
            if pages:
                for run in runs:
                    self.note(run, pages)
            else:  # the run is another one with the mends, and that may be all
                self.keep(runs[0], (str(HERE),))
            self.say(f"{len(self.known)} of {len(kinds)} kinds of findings explained")

    def told(self, run):
        """@return whether a file of the user explains the first finding of a run, which is noted"""
        row = self.users.match("vllm", RELEASE, first(run), run["findings"][0]["reason"],
                               run["case"])
        if row:
            self.note(run, [row.page or row.id])
        return row is not None

    def note(self, run, pages):
        """Notes a known finding."""
        self.known.setdefault((run["case"], first(run)), (run, pages, []))[2].append(run)

    def keep(self, run, copy):
        """Notes a new finding, and keeps the run that shows it."""
        run["kept"] = self.driver.kept(run["case"], run["seed"])
        self.driver.run(run["case"], run["seed"], run["asked"], copy, run["kept"])
        self.new.append(run)

    def pages_of(self, run):
        """@return the advisories without whose mends the run still finds something"""
        return [page for page in seeded.MENDS if self.driver.run(
            run["case"], run["seed"], run["asked"],
            self.driver.copy(f"but-{page}-{run['case']}", seeded.mends(page)))["findings"]]

    def detect(self, item):
        """@return the row of a fault"""
        number, fault = item
        # With that mend a session keeps no blocks while it waits, and these faults are about them.
        page = "vllm-run-sessions-starve" if "sessions" in fault.cases else None
        copy = self.driver.copy(f"fault-{number}", [*seeded.mends(page), fault.change])
        steps, most, heard, law = 0, self.options.steps // 10, set(), ""
        for case, seed in ((case, seed) for seed in itertools.count(self.options.seed)
                           for case in fault.cases.split()):
            run = self.driver.run(case, seed, min(1000, max(most - steps, 50)), copy,
                                  asserts=False)  # so that it is the laws that detect
            steps += run["asked"] if "why" in run else run["steps"]
            if run["findings"] and first(run) in fault.laws:
                law = first(run)
            heard.update(first(run) for _ in run["findings"][:1])
            if law or steps >= most:
                break
        other = f"not by its law, but by {', '.join(sorted(heard))}" if heard and not law else ""
        return results.row("live_fault", {
            "engine": f"vllm {RELEASE}", "fault": fault.what, "report": fault.report, "law": law,
            "reason": other}, {"detected": int(bool(law)), "steps": steps})

    def try_faults(self):
        rows = list(enumerate(seeded.FAULTS))
        for row in runner().each(self.detect, rows, CORES):
            self.faults.append(row)
            self.say(f"{len(self.faults)} of {len(rows)} faults")

    def evaluated(self):
        """@return how often each law was evaluated"""
        return {law: sum(run["evaluated"][law] for run in self.runs) for law in self.driver.laws}


def repeat(run):
    return (f"{CALLED} live --scheduler=vllm --case={run['case']} --seed={run['seed']} "
            f"--steps={run['asked']} --no-seeded")


def findings_of(campaign):
    """@return a row for each kind of known findings, for each run with a new one, and for each run
    that could not be judged"""
    def row(experiment, run, verdict, reason, metrics, **more):
        return results.row(experiment, {
            "engine": f"vllm {RELEASE}", "case": run["case"], "seed": run["seed"],
            "steps": run["asked"], "verdict": verdict, "reason": reason, "repeat": repeat(run)} |
            more, metrics)

    def finding(run, verdict, runs, **more):
        said = run["findings"][0]
        return row("live_finding", run, verdict, said["reason"], {"runs": runs}, **{
            name: said[name] for name in ("law", "name", "sentence")}, **more)
    out = []
    for run, pages, runs in campaign.known.values():
        listed = map(campaign.own.of_page, pages)
        out.append(finding(run, "known", len(runs), page=" ".join(pages), known=" ".join(
            each.id if each else page for each, page in zip(listed, pages))))
    out += [finding(run, "broken", 1, file=os.path.relpath(run["kept"]),
                    line=run["findings"][0]["event"]) for run in campaign.new]
    whose = {f"fault-{n}": f"where {fault.what}: " for n, fault in enumerate(seeded.FAULTS)}
    for run in sorted(campaign.driver.unjudged,
                      key=lambda run: (run["case"], run["seed"], run["copy"])):
        again = {} if run["copy"] == name_of((str(HERE),)) else {  # with all others
            "repeat": f"{CALLED} live {shlex.join(sys.argv[1:])}"}
        out.append(row("live_unjudged", run, "cannot_tell", whose.get(run["copy"], "") + run["why"],
                       {}, copy=run["copy"], **again))
    return out


def rows_of(campaign):
    steps, evaluated = sum(run["steps"] for run in campaign.runs), campaign.evaluated()
    detected = [row for row in campaign.faults if results.value(row, "detected")]
    engine = {"engine": f"vllm {RELEASE}"}
    rows = [results.row("live_run", engine | {
        "verdict": "broken" if campaign.new else "cannot_tell" if campaign.driver.unjudged else
        "holds", "reason": ""}, {
            "steps": steps, "requests": sum(run["requests"] for run in campaign.runs),
            "runs": len(campaign.runs), "cases": len({run["case"] for run in campaign.runs}),
            "findings_new": len(campaign.new), "findings_known": len({
                page for _, pages, _ in campaign.known.values() for page in pages}),
            "laws_evaluated": sum(times > 0 for times in evaluated.values()),
            "seeded": len(campaign.faults), "detected": len(detected),
            "steps_per_second": results.metric(round(steps / campaign.seconds, 1), "1/s")})]
    firsts = collections.Counter(row["parameters"]["law"] for row in detected)
    new = collections.Counter(map(first, campaign.new))
    told = collections.Counter()
    for (_, law), (_, _, runs) in campaign.known.items():
        told[law] += len(runs)
    for law, times in evaluated.items():
        verdict = ("broken" if new[law] else "known" if told[law] else "holds" if times else
                   "not_evaluated")
        rows.append(results.row("live_law", engine | {
            "law": law, "name": campaign.driver.laws[law]["name"], "verdict": verdict,
            "reason": ""}, {"evaluated": times, "faults": firsts[law], "known": told[law],
                            "new": new[law]}))
    rows += [*findings_of(campaign), *campaign.faults, *campaign.users.stale()]
    return sorted(rows, key=lambda row: row["experiment"])


def parse():
    names = [each.name for each in world.CASES]
    parser = command_line.Parser(
        "kvproof live --scheduler=vllm", "kvproof live --scheduler=vllm --steps=20000 --seed=7",
        "0 no finding without an advisory, 1 a new one, 2 usage, unwritable output or a run that "
        "could not be judged, 77 no vLLM could be had, 130 stopped. Faults that are not detected "
        "are only listed",
        description="Drives vLLM's own scheduler with a worker that is none, and judges its runs.")
    parser.add_argument("--scheduler", choices=["vllm"], required=True, help="whose scheduler")
    parser.add_argument("--steps", metavar="N", type=command_line.whole(50), default=100000,
                        help="of the run without faults, default 100000; a fault gets N/10")
    parser.add_argument("--seed", metavar="N", type=command_line.whole(0, 2 ** 64 - 1), default=1)
    parser.add_argument("--case", metavar="NAME", action="append", choices=names,
                        help=f"only this one, repeatable: {', '.join(names)}")
    parser.add_argument("--no-seeded", action="store_true", help="leave the seeded faults out")
    parser.judges()
    options = parser.read()
    options.case = options.case or names
    return options


def main():
    options = parse()
    campaign = Campaign(Driver(environments.folder(), runner().work), options)
    try:
        campaign.sound()
        campaign.explain()
        if not options.no_seeded:
            campaign.try_faults()
    except (Absent, OSError) as error:
        raise files.InputError(str(error)) from None
    finally:
        campaign.progress.clear()
    results.finish(rows_of(campaign), "live", options, seed=options.seed)
    return 1 if campaign.new else 2 if campaign.driver.unjudged else 0


if __name__ == "__main__":
    sys.exit(verb.run("kvproof live", main))
