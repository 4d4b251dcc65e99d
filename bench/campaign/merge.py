# SPDX-License-Identifier: Apache-2.0
"""Puts the results of shards together: what was done, what was found, what is missing.

The file of --json holds exact results alone, so that its bytes do not depend on where, when and in
how many shards they were made. Whatever a machine or a clock has a part in goes to --costs.

Refuses: files that are none of this plan's results, and results of an exact task that differ.
"""

import json
import os
import re
import shlex
from argparse import Namespace
from collections import Counter, defaultdict
from pathlib import Path

from plan import read_json, read_plan
from task import InputError

from kvproof_support.files import write
from kvproof_support.results import finish, metric, row

# What the results of an experiment count, in which metrics.
COUNTED = {"check": ("operations", ["operations"]), "engines": ("operations", ["operations"]),
           "liar": ("operations", ["seldom_operations", "often_operations", "always_operations"]),
           "mutant": ("operations", ["operations_to_kill", "model_operations",
                                     "content_operations"]),
           "exhaustive": ("states", ["states"]), "fuzz": ("inputs", ["executions"]),
           "serving": ("requests", ["requests"]), "trace_replay": ("requests", ["requests"]),
           "live_run": ("steps", ["steps"])}
JUDGED = ("check_law", "check_run")  # what several tasks judge has the worst of their verdicts
# Sums of one run, which say nothing of a campaign: it has sums of its own.
SUMS = {"check", "liars", "mutants", "exhaustive_total"}
WORST_FIRST = ("broken", "known", "holds", "cannot_tell", "not_evaluated", "not_applicable")


class Merged:
    """The results of all folders, by task: one of an exact task, of others every one."""

    def __init__(self, folders):
        self.results, self.costs, kept = defaultdict(list), [], {}
        plans = [read_plan(Path(folder, "plan.json")) for folder in folders]
        self.plan, self.folders = plans[0], folders
        for folder, plan in zip(folders, plans):
            if plan.text != self.plan.text:
                raise InputError(f"{folder}/plan.json: expected the tasks of {folders[0]}, "
                          f"{self.plan.name}, found others, {plan.name}")
            for path in sorted(Path(folder, "results").glob("*.json")):
                self.add(path, kept)
            for path in sorted(Path(folder, "costs").glob("*.jsonl")):
                self.add_costs(path)
        self.missing = sorted(name for name in self.plan.tasks if name not in self.results)

    def add(self, path, kept):
        document = read_json(path)
        if not isinstance(document, dict) or document.get("kvproof_result") != 1:
            raise InputError(f"{path}: kvproof_result: expected 1, as in the result of a task")
        name = document.get("task")
        if name != path.stem or name not in self.plan.tasks:
            raise InputError(f"{path}: task: expected {path.stem}, of the tasks of "
                             f"{self.plan.name}")
        if not all(isinstance(document.get(field), list) for field in ("findings", "results")):
            raise InputError(f"{path}: expected lists of findings and results")
        other, kept[name] = kept.get(name), path
        if other and other.read_bytes() == path.read_bytes():
            return
        if other and self.plan.tasks[name].exact:
            raise InputError(f"{other} and {path} differ, and a task of {document['kind']} is "
                             "exact")
        self.results[name].append(document)

    def add_costs(self, path):
        try:
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()
                    if line.endswith("}")]  # what was cut off in a line is not known
            self.costs += [(row["task"], row["core_seconds"], row["host"], row["cores"])
                           for row in rows]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: expected rows of costs: {error}") from None

    def documents(self, exact):
        return [document for name in sorted(self.results) for document in self.results[name]
                if self.plan.tasks[name].exact == exact]

    def findings(self, exact):
        """@return one for each law and shape of a trace, and in how many tasks it was found"""
        distinct = {}
        for document in self.documents(exact):
            for finding in document["findings"]:
                key = finding["law"], finding["shape"]
                found = distinct.setdefault(key, dict(finding, verdict="broken", tasks=0,
                                                      task=document["task"]))
                found["tasks"] += 1
        return [distinct[key] for key in sorted(distinct)]

    def cores(self):
        """@return core-seconds by kind of task, work that was done twice counted twice"""
        spent = Counter()
        for name, seconds, *_ in self.costs:
            if name in self.plan.tasks:
                spent[self.plan.tasks[name].kind] += seconds
        return spent


# ---- results ------------------------------------------------------------------------------------

def counted(documents):
    """@return what the results of tasks count in all: operations, states, inputs"""
    sums = Counter()
    for document in documents:
        for each in document["results"]:
            what, metrics = COUNTED.get(each["experiment"], ("", []))
            for metric in metrics:
                sums[what] += each["metrics"].get(metric, {"value": 0})["value"]
    return dict(sums)


def summary(merged, exact):
    """@return a row of each kind of task, and one of each distinct finding"""
    rows, done = [], merged.documents(exact)
    for kind in sorted({task.kind for task in merged.plan.tasks.values() if task.exact == exact}):
        ours = [document for document in done if document["kind"] == kind]
        tasks = sum(task.kind == kind and task.exact == exact
                    for task in merged.plan.tasks.values())
        complete = len({document["task"] for document in ours})
        rows.append(row("campaign", {"plan": merged.plan.name, "kind": kind}, {
            "tasks": tasks, "complete": complete,
            "findings": sum(len(document["findings"]) for document in ours), **counted(ours)}))
    for finding in merged.findings(exact):
        rows.append(row("campaign_finding", {
            key: value[:1000] for key, value in finding.items() if key != "tasks"},
            {"tasks": finding["tasks"]}))
    return rows


def rank(result):
    verdict = result["parameters"].get("verdict")
    return WORST_FIRST.index(verdict) if verdict in WORST_FIRST else len(WORST_FIRST)


def together(documents):
    """@return the results of tasks as one run would have them: laws and configurations that several
    tasks checked are added up, and what else has the same parameters is told apart by its task"""
    cases = defaultdict(list)
    for document in documents:
        for result in document["results"]:
            if result["experiment"] in SUMS:
                continue
            which = {key: value for key, value in result["parameters"].items()
                     if result["experiment"] not in JUDGED or key not in ("verdict", "reason")}
            cases[result["experiment"], json.dumps(which, sort_keys=True)].append(
                (document["task"], result))
    for (experiment, _), rows in sorted(cases.items(), key=lambda case: case[0][0]):
        first = rows[0][1]
        if experiment in JUDGED:
            sums = Counter()
            for _, each in rows:
                sums.update({name: of["value"] for name, of in each["metrics"].items()})
            worst = min((each for _, each in rows), key=rank)
            yield row(experiment, worst["parameters"], sums)
        elif all(each == first for _, each in rows):
            yield first
        else:
            for task, each in rows:
                yield dict(each, parameters={**each["parameters"], "task": task})


def document_of(merged, results):
    """A result file: one result a line, as the programs write theirs."""
    environment = {**merged.plan.program, "plan": merged.plan.name,
                   "command": "kvproof campaign merge"}
    lines = ",\n".join(json.dumps(row, sort_keys=True) for row in results)
    return f'{{"schema":1,"environment":{json.dumps(environment)},"results":[\n{lines}\n]}}\n'


def costs_of(merged):
    hosts = defaultdict(lambda: [0, 0.0, 0])
    for _, seconds, host, cores in merged.costs:
        hosts[host] = [hosts[host][0] + 1, hosts[host][1] + seconds, cores]
    for kind, seconds in sorted(merged.cores().items()):
        planned = sum(task.cost_core_seconds for task in merged.plan.tasks.values()
                      if task.kind == kind)
        yield row("campaign_cost", {"kind": kind}, {"core_seconds": seconds,
                                                    "planned_core_seconds": planned})
    for host, (tasks, seconds, cores) in sorted(hosts.items()):
        yield row("campaign_machine", {"host": host}, {"tasks": tasks, "core_seconds": seconds,
                                                       "cores": cores})
    yield from summary(merged, exact=False)
    yield from together(merged.documents(exact=False))


# ---- what a terminal shows, and files for continuous integration --------------------------------

def tasks_of(merged):
    """@return a row of each task, with its verdict"""
    for name, task in sorted(merged.plan.tasks.items()):
        documents = merged.results.get(name, [])
        found = [found for document in documents for found in document["findings"]]
        verdict, reason = "holds", ""
        if found:
            verdict, reason = "broken", "; ".join(f"{each['law']}: {each['reason']}; "
                                                  f"{each['repeat']}" for each in found)
        elif any(document["exit_code"] == 3 for document in documents):
            verdict, reason = "cannot_tell", "no verdict"
        elif not documents:
            verdict, reason = "skipped", "no result"
        words = [*task.options, *[f"--seed={task.seed}"] * (task.seed is not None)]
        yield row("campaign_task", {"task": name, "kind": task.kind, "options": " ".join(words),
                                    "verdict": verdict, "reason": reason}, {})


def shown(merged):
    """@return the sums and the findings, as one can act on them here, and the tasks"""
    spent = merged.cores()
    called = shlex.quote(os.environ.get("KVPROOF_CALLED", "./kvproof"))
    for each in summary(merged, True) + summary(merged, False):
        said = each["parameters"]
        if each["experiment"] == "campaign":
            each["metrics"]["core_hours"] = metric(spent[said["kind"]] / 3600, "h")
        else:
            again = re.sub("^kvproof (?=replay |selftest )", called + " ", said["repeat"])
            said["repeat"] = in_folder(merged, again, shlex.quote)
            for field, written in (("file", str), ("lens", address_of)):
                if said.get(field):
                    said[field] = in_folder(merged, said[field], written)
        yield each
    yield from tasks_of(merged)


def show(merged, options):
    finish(shown(merged), "campaign", Namespace(junit=options.junit, sarif=options.sarif))
    if merged.missing:
        width = next(width for width in range(4, 17) if len(merged.plan.tasks) == len(
            {name[:width] for name in merged.plan.tasks}))
        print(f"missing: {len(merged.missing)} of {len(merged.plan.tasks)} tasks; run or submit "
              f"again with\n  --only={','.join(name[:width] for name in merged.missing)}")


def address_of(path):
    return Path(path).absolute().as_uri()


def in_folder(merged, text, written):
    """Where what is named findings/... lies: in the first of the folders that has it.
    @param written makes the text of its path"""
    before, found, name = text.partition("findings/")
    for folder in merged.folders:
        if found and Path(folder, found + name).exists():
            return before + written(str(Path(folder, found + name)))
    return text


def merge(options):
    """@return the exit code: 1 a finding, 3 something is missing or cannot be told, else 0"""
    merged = Merged(options.folders)
    outputs = ((options.json, lambda: document_of(merged, [
        *summary(merged, True), *together(merged.documents(True))])),
        (options.costs, lambda: document_of(merged, costs_of(merged))))
    for path, make in outputs:
        if path:
            write(path, make().encode())
    show(merged, options)
    documents = merged.documents(True) + merged.documents(False)
    if any(document["findings"] for document in documents):
        return 1
    unsure = any(document["exit_code"] == 3 for document in documents)
    return 3 if merged.missing or unsure else 0
