#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb `kvproof live --scheduler=vllm`: drives vLLM's own scheduler, has its runs judged, and
says which of the faults that are seeded into copies of it are detected."""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parents[2]
sys.path.append(str(HERE.parents[1] / "foreign" / "engines"))

import seeded  # noqa: E402
import world  # noqa: E402
from places import (  # noqa: E402
    Absent, environment, overlay, site_packages, writable)

RELEASE = "0.33.0"
NEEDS = ("msgspec", "cbor2", "pyzmq", "typing_extensions", "numpy", "xxhash")
LONGEST = 3000  # steps of one run
CALLED = shlex.quote(os.environ.get("KVPROOF_CALLED", "./kvproof"))


class Unjudged(Exception):
    """A run came to no verdict; the text says why."""


class Driver:
    """Starts runs of vLLM and of copies of it, and has them judged."""

    def __init__(self, judge, folder, copies):
        """@param folder of the environments, and of runs that are kept
        @param copies a folder of this process alone, since another may have the same seeds"""
        self.judge, self.folder, self.copies = judge, folder, copies
        self.environment, self.laws = {}, {}
        self.unjudged = []
        self.running, self.stopped = set(), False
        shared = environment(folder, "live", NEEDS)
        shared = environment(folder, f"vllm-v1-{RELEASE}", [f"vllm=={RELEASE}"], "--no-deps",
                             beside=shared)
        self.python = os.path.join(shared, "bin", "python")
        self.original = os.path.join(site_packages(shared), "vllm")

    def copy(self, name, changes):
        """@return the paths that stand before all others: of a copy of vLLM, and of our runner"""
        top = os.path.join(self.copies, name)
        ours = [each._replace(file=each.file.removeprefix("runner/"))
                for each in changes if each.file.startswith("runner/")]
        theirs = [each for each in changes if not each.file.startswith("runner/")]
        overlay(self.original, os.path.join(top, "vllm"), theirs)
        overlay(str(HERE), os.path.join(top, "runner"), ours)
        return (top, os.path.join(top, "runner") if ours else str(HERE))

    def run(self, case, seed, steps, copy=(str(HERE),), keep=None, asserts=True):
        """@param asserts whether vLLM's own assertions are in force
        @return the verdict on a run, as `kvproof live --json` writes it; without findings, and
        noted, if there is none"""
        out = {"case": case, "seed": seed, "asked": steps}
        try:
            return self.judged(case, seed, steps, copy, keep, asserts) | out
        except (Unjudged, OSError) as error:
            self.unjudged.append(out | {"copy": pathlib.Path(copy[0]).name, "why": str(error)})
            return out | {"steps": 0, "requests": 0, "spoke": {}, "findings": [], "why": str(error)}

    def judged(self, case, seed, steps, copy, keep, asserts):
        compiled = self.folder if copy == (str(HERE),) else self.copies
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(copy),
                   PYTHONPYCACHEPREFIX=os.path.join(compiled, "pycache"))
        with tempfile.TemporaryDirectory(dir=self.copies) as work:
            path, verdict = keep or os.path.join(work, "run.jsonl"), os.path.join(work, "json")
            self.do([self.python, *["-O"] * (not asserts), "-c", "import drive; drive.main()",
                     f"--case={case}", f"--seed={seed}", f"--steps={steps}", f"--output={path}"],
                    (0,), env, work)
            try:
                self.do([self.judge, path, f"--json={verdict}"], (0, 1), None, work)
                with open(verdict, encoding="utf-8") as file:
                    told = json.load(file)
                (out,) = told["runs"]
            except (Unjudged, OSError, ValueError) as error:
                kept = keep or self.kept(case, seed, pathlib.Path(copy[0]).name)
                if not keep:
                    shutil.copyfile(path, kept)
                raise Unjudged(str(error).replace(path, os.path.relpath(kept))) from None
        self.environment = told["environment"]
        self.laws = {law["law"]: law for law in told["laws"]}
        return out

    def kept(self, case, seed, *words):
        """@return where the recording of a run is kept"""
        return os.path.join(self.folder, "-".join([case, str(seed), *words]) + ".jsonl")

    def do(self, command, allowed, env, folder):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              errors="replace", env=env, cwd=folder) as process:
            self.running.add(process)
            if self.stopped:
                process.kill()
            errors = process.communicate()[1]
            self.running.discard(process)
        if self.stopped:
            raise concurrent.futures.CancelledError
        if process.returncode not in allowed:
            words = errors.strip().splitlines() or [f"it ended with {process.returncode}"]
            raise Unjudged(f"{os.path.basename(command[0])}: {words[-1]}")

    def stop(self):
        """Ends what runs; nothing begins any more."""
        self.stopped = True
        for process in list(self.running):
            process.kill()


def dealt(cases, seed, steps):
    """@return jobs (case, seed, steps), which have so many steps together, over many cases"""
    each = max(LONGEST // 3, min(LONGEST, -(-steps // len(cases))))
    jobs = -(-steps // each)
    return [(cases[i * max(len(cases) // jobs, 1) % len(cases)], seed + i // len(cases),
             min(each, steps - i * each)) for i in range(jobs)]


def first(verdict):
    return verdict["findings"][0]["law"]


class Campaign:
    """A sound run, what it found, and which seeded faults are detected."""

    def __init__(self, driver, options):
        self.driver, self.options = driver, options
        self.mended = driver.copy("mended", seeded.mends())
        self.pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        self.runs, self.known, self.new, self.noticed, self.missed = [], {}, [], [], []
        self.firsts = collections.Counter()  # law -> faults that it was the first to report
        self.seconds = 0.0

    def sound(self):
        """Runs the release as it is."""
        jobs = dealt(self.options.case, self.options.seed, self.options.steps)
        start = time.monotonic()
        for done, run in enumerate(self.pool.map(lambda job: self.driver.run(*job), jobs), 1):
            if "why" not in run:
                self.runs.append(run)
            progress(f"{done} of {len(jobs)} runs")
        self.seconds = time.monotonic() - start

    def explain(self):
        """A finding is known if the mends of the defects that have an advisory make it go away, and
        it comes back without one of them."""
        found = [run for run in self.runs if run["findings"]]
        jobs = [(run["case"], run["seed"], run["asked"]) for run in found]
        after = self.pool.map(lambda job: self.driver.run(*job, self.mended), jobs)
        kinds = {}
        for run, mended in zip(found, after):
            if mended["findings"]:
                self.keep(mended, self.mended)
            elif "why" in mended:
                self.keep(run, (str(HERE),))
            else:
                kinds.setdefault((run["case"], first(run)), []).append(run)
        for (kind, runs), pages in zip(kinds.items(), self.pool.map(
                self.pages_of, [runs[0] for runs in kinds.values()])):
            if pages:
                self.known[kind] = len(runs), pages
            else:  # the run is another one with the mends, and that may be all
                self.keep(runs[0], (str(HERE),))
            progress(f"{len(self.known)} of {len(kinds)} kinds of findings explained")

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

    def notice(self, item):
        """@return whether this fault is detected, and by what"""
        number, fault = item
        # With that mend a session keeps no blocks while it waits, and these faults are about them.
        page = "vllm-run-sessions-starve" if "sessions" in fault.cases else None
        copy = self.driver.copy(f"fault-{number}", [*seeded.mends(page), fault.change])
        steps, most, heard = 0, self.options.steps // 10, set()
        for seed in itertools.count(self.options.seed):
            for case in fault.cases.split():
                run = self.driver.run(case, seed, min(1000, max(most - steps, 50)), copy,
                                      asserts=False)  # so that it is the laws that notice
                steps += run["asked"] if "why" in run else run["steps"]
                if run["findings"] and first(run) in fault.laws:
                    self.firsts[first(run)] += 1
                    return fault, True, f"{first(run)} in {steps} steps"
                heard.update(first(run) for _ in run["findings"][:1])
                if steps >= most:
                    return fault, False, f"not by its law, but by {sorted(heard)}" if heard else ""

    def faults(self):
        rows = list(enumerate(seeded.FAULTS))
        for fault, noticed, how in self.pool.map(self.notice, rows):
            (self.noticed if noticed else self.missed).append((fault, how))
            progress(f"{len(self.noticed) + len(self.missed)} of {len(rows)} faults")

    def stop(self):
        """Ends all runs, before their folders are removed."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        self.driver.stop()
        self.pool.shutdown(cancel_futures=True)

    def spoke(self):
        """@return how often each law was evaluated"""
        return {law: sum(run["spoke"][law] for run in self.runs) for law in self.driver.laws}


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[Kkvproof live: {text}", end="", file=sys.stderr, flush=True)


def show(campaign):
    progress("")
    steps, spoke = sum(run["steps"] for run in campaign.runs), campaign.spoke()
    print(f"vllm {RELEASE}, its own schedulers: {steps} steps in {len(campaign.runs)} runs of "
          f"{len({run['case'] for run in campaign.runs})} cases, seed {campaign.options.seed}, "
          f"{steps / campaign.seconds:.0f} steps per second")
    print("  ".join(["evaluated:", *(f"{law} {times}" for law, times in spoke.items())]))
    for (case, law), (runs, pages) in campaign.known.items():
        print(f"known: {law} in {runs} runs of {case}: {' '.join(pages)}")
    for run in campaign.new:
        finding = run["findings"][0]
        print(f"NEW: {first(run)} in {run['case']}: {finding['what']}\n"
              f"  law: {campaign.driver.laws[first(run)]['sentence']}\n"
              f"  repeat: {repeat(run)}\n"
              f"  judge: {CALLED} live {shlex.quote(os.path.relpath(run['kept']))}")
    if campaign.noticed or campaign.missed:
        print(f"faults detected: {len(campaign.noticed)} of "
              f"{len(campaign.noticed) + len(campaign.missed)}")
    for fault, how in campaign.missed:
        print(f"not detected: {fault.what}{': ' + how if how else ''}")
    whose = {f"fault-{n}": f"where {fault.what}, " for n, fault in enumerate(seeded.FAULTS)}
    for run in campaign.driver.unjudged:  # what runs in a copy is repeated with all others
        copy = run["copy"] != HERE.name
        print(f"NOT JUDGED: {whose.get(run['copy'], '')}{run['case']}, seed {run['seed']}: "
              f"{run['why']}\n  repeat: "
              f"{CALLED + ' live ' + shlex.join(sys.argv[1:]) if copy else repeat(run)}")


def repeat(run):
    return (f"{CALLED} live --scheduler=vllm --case={run['case']} --seed={run['seed']} "
            f"--steps={run['asked']} --no-seeded")


def count(value, unit="count"):
    return {"value": value, "unit": unit}


def document(campaign):
    """@return the results, whose figures stand at the top, too, for scripts"""
    steps, spoke = sum(run["steps"] for run in campaign.runs), campaign.spoke()
    figures = {
        "steps": steps, "requests": sum(run["requests"] for run in campaign.runs),
        "runs": len(campaign.runs), "findings_new": len(campaign.new),
        "findings_known": len({page for _, pages in campaign.known.values() for page in pages}),
        "laws_spoke": sum(times > 0 for times in spoke.values()),
        "seeded": len(campaign.noticed) + len(campaign.missed), "noticed": len(campaign.noticed),
        "steps_per_second": round(steps / campaign.seconds, 1)}
    engine = {"engine": f"vllm {RELEASE}"}
    units = {"steps_per_second": "1/s"}
    results = [{"experiment": "live_run", "parameters": engine, "metrics": {
        name: count(value, units.get(name, "count")) for name, value in figures.items()}}]
    for law, times in spoke.items():
        known = sum(runs for (_, by), (runs, _) in campaign.known.items() if by == law)
        results.append({"experiment": "live_law", "parameters": engine | {
            "law": law, "name": campaign.driver.laws[law]["name"]}, "metrics": {
                "spoke": count(times), "faults": count(campaign.firsts[law]),
                "known": count(known),
                "new": count(sum(first(run) == law for run in campaign.new))}})
    return figures | {
        "schema": 1, "results": results,
        "environment": campaign.driver.environment | {
            "command": " ".join(["kvproof live", *sys.argv[1:]]), "seed": campaign.options.seed},
        "known": [{"case": case, "law": law, "runs": runs, "pages": pages}
                  for (case, law), (runs, pages) in campaign.known.items()],
        "new": [{"case": run["case"], "seed": run["seed"], "steps": run["asked"],
                 "finding": run["findings"][0]} for run in campaign.new],
        "unjudged": campaign.driver.unjudged,
        "faults": [{"what": fault.what, "report": fault.report, "noticed": noticed, "how": how}
                   for noticed, rows in ((True, campaign.noticed), (False, campaign.missed))
                   for fault, how in rows]}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"kvproof live: {message} (see: kvproof live --scheduler=vllm --help)\n")


def parse():
    names = [each.name for each in world.CASES]
    parser = Parser(
        "kvproof live --scheduler=vllm", allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Drives vLLM's own scheduler with a worker that is none, and judges its runs.",
        epilog="Example: kvproof live --scheduler=vllm --steps=20000 --seed=7\n\n"
        "Exit codes: 0 no finding without an advisory, 1 a new one, 2 usage, unwritable output\n"
        "or a run that could not be judged, 77 no vLLM could be had, 130 stopped. Faults that are\n"
        "not detected are only listed.")
    parser.add_argument("--scheduler", choices=["vllm"], required=True, help="whose scheduler")
    parser.add_argument("--steps", metavar="N", type=int, default=100000,
                        help="of the run without faults, default 100000; a fault gets N/10")
    parser.add_argument("--seed", metavar="N", type=int, default=1)
    parser.add_argument("--case", metavar="NAME", action="append", choices=names,
                        help=f"only this one, repeatable: {', '.join(names)}")
    parser.add_argument("--no-seeded", action="store_true", help="leave the seeded faults out")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.case = options.case or names
    for name, least in (("seed", 0), ("steps", 50)):
        if getattr(options, name) < least:
            parser.error(f"argument --{name}: expected a whole number from {least} on")
    return options


def main():
    options = parse()
    if options.check_options:
        return 0
    folder = os.path.join(CHECKOUT, "build", "engines")
    os.makedirs(folder, exist_ok=True)
    programs = os.environ.get("KVPROOF_BIN") or os.path.join(CHECKOUT, "build", "release", "bin")
    if options.json and not writable(options.json):
        print(f"kvproof live: --json={options.json}: cannot be written", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="kvproof-live-") as copies:
        try:
            campaign = Campaign(
                Driver(os.path.join(programs, "kvproof-live"), folder, copies), options)
        except Absent as error:
            print(f"kvproof live: skipped: vllm {RELEASE}: {error}", file=sys.stderr)
            return 77
        try:
            campaign.sound()
            campaign.explain()
            if not options.no_seeded:
                campaign.faults()
        except (Absent, OSError) as error:
            print(f"kvproof live: {error}", file=sys.stderr)
            return 2
        finally:
            campaign.stop()
    campaign.driver.unjudged.sort(key=lambda run: (run["case"], run["seed"], run["copy"]))
    show(campaign)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(document(campaign)) + "\n")
    return 1 if campaign.new else 2 if campaign.driver.unjudged else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
