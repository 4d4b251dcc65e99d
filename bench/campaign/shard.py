# SPDX-License-Identifier: Apache-2.0
"""A shard does its part of a plan in a folder that all shards share.

plan.json is the plan, results/NAME.json the result of each complete task, findings/ what their
findings are replayed with, corpus/ what fuzzing came by, and costs/ has a file of each process
with what its tasks cost and where, of which no result depends.
"""

import contextlib
import json
import os
import platform
import sys
import threading
from collections import Counter
from pathlib import Path

from plan import deal, program_here, read_plan
from task import InputError, digest_of, execute

from kvproof_support.files import said_of, write
from kvproof_support.tasks import Runner

# The index of a shard and the count of shards, as engines tell them; Kubernetes tells no count.
ENGINES = (("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"),
           ("BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT"),
           ("JOB_COMPLETION_INDEX", ""))


def place_of(shard, shards, environment, plan):
    """@param shard "3/64" or None @param shards their count or None
    @return (index, count, whether somebody said so)"""
    said, index, count = f"--shard={shard}", *(shard or "").partition("/")[::2]
    if not shard:
        said, index, count = next(
            ((f"{variable}={environment[variable]}", environment[variable],
              str(shards or environment.get(of) or plan.shards))
             for variable, of in ENGINES if variable in environment), ("", "0", "1"))
        if shards and not said:
            raise InputError("--shards: expected an index, as --shard=0/64 or from an engine: "
                      + ", ".join(variable for variable, _ in ENGINES))
    if not (index.isdecimal() and count.isdecimal() and int(index) < int(count) < 10 ** 7):
        raise InputError(f"{said}: expected an index from 0 and below the count of shards, {count}")
    return int(index), int(count), bool(said)


def write_same(path, content):
    """Writes a file that is not there yet; one that is there must equal it."""
    if not path.exists():
        write(path, content)
    elif path.read_bytes() != content:
        raise InputError(f"{path}: expected the bytes that this run of the same exact task gave")


def keep_plan(plan, folder):
    """Lays the plan and its inputs into the folder of its results, from where shards take them.
    Refuses a folder that has another one."""
    path = Path(folder, "plan.json")
    if path.exists():
        with contextlib.suppress(OSError):
            if path.read_bytes() == plan.text.encode():
                return  # another shard has laid it there; to parse it again would take time
        there = read_plan(path)
        if there.text != plan.text:
            raise InputError(f"{path}: expected the tasks of {plan.name}, found other tasks of "
                      f"{there.name}: each file of tasks has a folder of its own")
        return
    for name in {name for task in plan.tasks.values() for name, _ in task.inputs}:
        source = Path(plan.folder, name)
        for file in source.rglob("*") if source.is_dir() else [source]:
            if file.is_file():
                write(Path(folder, "inputs", file.relative_to(plan.folder)), file.read_bytes())
    write(path, plan.text.encode())


class Shard:
    """Runs tasks, some at a time, and keeps their results."""

    def __init__(self, plan, folder, programs):
        self.plan, self.folder, self.programs = plan, Path(folder), programs
        self.inputs = self.folder / "inputs"
        self.runner, self.lock = Runner(), threading.Lock()
        self.costs = self.folder / "costs" / f"{platform.node()}-{os.getpid()}.jsonl"
        self.machine = {"host": platform.node(), "cores": os.cpu_count()}

    def path(self, name):
        return self.folder / "results" / f"{name}.json"

    def do(self, name):
        """@return the exit code of the task; 2 and 77 mean that it has no result"""
        task = self.plan.tasks[name]
        for path, digest in task.inputs:
            if digest_of(self.inputs / path) != digest:
                raise InputError(f"{self.inputs / path}: expected the content of which the file of "
                                 "tasks has the digest")
        code, last, result, files, seconds = execute(task, name, self.programs, self.inputs,
                                                     self.runner)
        if not result:
            print(f"kvproof campaign: {name} has no result: {task.kind} {' '.join(task.options)} "
                  f"ended with {code}: {last}", file=sys.stderr)
            return code if code == 2 else 77
        for path, content in files.items():
            write(self.folder / path, content)
        self.add_cost({"task": name, "core_seconds": round(seconds, 6), **self.machine})
        (write_same if task.exact else write)(self.path(name), result.encode())
        return code

    def add_cost(self, row):
        with said_of(self.costs), self.lock:
            self.costs.parent.mkdir(parents=True, exist_ok=True)
            with open(self.costs, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def run(self, names, jobs):
        """@return how many tasks ended with which code"""
        cores = sorted(os.sched_getaffinity(0))
        numbers = iter(range(jobs))

        def settle():  # a core for each job, so that a task's threads do not ask for all of them
            if jobs > 1:
                os.sched_setaffinity(0, {cores[next(numbers) % len(cores)]})

        with self.runner:
            return Counter(self.runner.each(self.do, names, jobs, settle))


def run(options, programs, environment):
    """@return of the tasks that were missing: 1 a finding, 2 one that its program refuses, 3 no
    result or no verdict, else 0"""
    plan = read_plan(options.plan)
    index, count, told = place_of(options.shard, options.shards, environment, plan)
    here = program_here()
    if plan.program != here:
        raise InputError(f"{options.plan}: program: expected that of {programs}, version "
                  f"{here['version']} of commit {here['commit']}")
    keep_plan(plan, options.output)
    shard = Shard(plan, options.output, programs)
    names = deal(plan.only(options.only), count)[index][1]
    missing = [name for name in names if not shard.path(name).exists()]
    codes = shard.run(missing, options.jobs or (1 if told else len(os.sched_getaffinity(0))))
    without = codes[2] + codes[77]
    print(f"shard {index}/{count} of {plan.name}: {len(names)} tasks, "
          f"{len(names) - len(missing)} were complete, {len(missing) - without} are now, "
          f"{without} have no result")
    return next((code for at, code in ((2, 2), (77, 3), (1, 1), (3, 3)) if codes[at]), 0)
