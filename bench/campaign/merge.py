# SPDX-License-Identifier: Apache-2.0
"""Puts the results of shards together: what was done, what was found, what is missing.

The file of --json holds exact results alone, so that its bytes do not depend on where, when and in
how many shards they were made. Whatever a machine or a clock has a part in goes to --costs.

Refuses: files that are none of this plan's results, and results of an exact task that differ.
"""

import html
import json
import os
import re
import shlex
from collections import Counter, defaultdict
from pathlib import Path

from plan import read_json, read_plan
from task import InputError

from kvproof_support.files import write

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
                found = distinct.setdefault(key, dict(finding, task=document["task"], tasks=0))
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
        for row in document["results"]:
            what, metrics = COUNTED.get(row["experiment"], ("", []))
            for metric in metrics:
                sums[what] += row["metrics"].get(metric, {"value": 0})["value"]
    return dict(sums)


def result(experiment, parameters, **metrics):
    return {"experiment": experiment, "parameters": parameters,
            "metrics": {name: {"value": value, "unit": "count"}
                        for name, value in metrics.items()}}


def summary(merged, exact):
    """@return a row of each kind of task, and one of each distinct finding"""
    rows, done = [], merged.documents(exact)
    for kind in sorted({task.kind for task in merged.plan.tasks.values() if task.exact == exact}):
        ours = [document for document in done if document["kind"] == kind]
        tasks = sum(task.kind == kind and task.exact == exact
                    for task in merged.plan.tasks.values())
        complete = len({document["task"] for document in ours})
        rows.append(result("campaign", {"plan": merged.plan.name, "kind": kind}, tasks=tasks,
                           complete=complete,
                           findings=sum(len(document["findings"]) for document in ours),
                           **counted(ours)))
    for finding in merged.findings(exact):
        rows.append(result("campaign_finding", {
            key: value[:1000] if isinstance(value, str) else value
            for key, value in finding.items() if key != "tasks"}, tasks=finding["tasks"]))
    return rows


def rank(row):
    verdict = row["parameters"].get("verdict")
    return WORST_FIRST.index(verdict) if verdict in WORST_FIRST else len(WORST_FIRST)


def together(documents):
    """@return the results of tasks as one run would have them: laws and configurations that several
    tasks checked are added up, and what else has the same parameters is told apart by its task"""
    cases = defaultdict(list)
    for document in documents:
        for row in document["results"]:
            if row["experiment"] in SUMS:
                continue
            which = {key: value for key, value in row["parameters"].items()
                     if row["experiment"] not in JUDGED or key not in ("verdict", "reason")}
            cases[row["experiment"], json.dumps(which, sort_keys=True)].append(
                (document["task"], row))
    for (experiment, _), rows in sorted(cases.items(), key=lambda case: case[0][0]):
        first = rows[0][1]
        if experiment in JUDGED:
            sums = Counter()
            for _, row in rows:
                sums.update({name: metric["value"] for name, metric in row["metrics"].items()})
            worst = min((row for _, row in rows), key=rank)
            yield result(experiment, worst["parameters"], **sums)
        elif all(row == first for _, row in rows):
            yield first
        else:
            for task, row in rows:
                yield dict(row, parameters={**row["parameters"], "task": task})


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
        yield result("campaign_cost", {"kind": kind}, core_seconds=seconds,
                     planned_core_seconds=planned)
    for host, (tasks, seconds, cores) in sorted(hosts.items()):
        yield result("campaign_machine", {"host": host}, tasks=tasks, core_seconds=seconds,
                     cores=cores)
    yield from summary(merged, exact=False)
    yield from together(merged.documents(exact=False))


def junit_of(merged):
    """One case a task, as continuous integration reads them."""
    cases = []
    for name, task in sorted(merged.plan.tasks.items()):
        inner = "<skipped message=\"no result\"/>" if name in merged.missing else ""
        for document in merged.results.get(name, []):
            for found in document["findings"]:
                message = f"{found['law']}: {found['text']}; {found['replay']}"
                inner += f'<failure message="{html.escape(message)}"/>'
            if document["exit_code"] == 3:
                inner += "<error message=\"it cannot tell\"/>"
        title = " ".join([*task.options, *[f"--seed={task.seed}"] * (task.seed is not None)])
        cases.append(f'  <testcase classname="campaign.{task.kind}" name="{html.escape(title)}">'
                     f"{inner}</testcase>\n")
    text = "".join(cases)
    numbers = "".join(f'{name}="{sum(f"<{word}" in case for case in cases)}" ' for name, word in (
        ("tests", "testcase"), ("failures", "failure"), ("errors", "error"),
        ("skipped", "skipped")))
    return ('<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<testsuite {numbers}name="{merged.plan.name}">\n{text}</testsuite>\n')


# ---- in words -----------------------------------------------------------------------------------

def show(merged):
    spent = merged.cores()
    for row in summary(merged, True) + summary(merged, False):
        said, counts = row["parameters"], {k: m["value"] for k, m in row["metrics"].items()}
        if row["experiment"] == "campaign":
            rest = ", ".join(f"{counts[name]:,} {name}" for name in counts
                             if name not in ("tasks", "complete"))
            print(f"{said['kind']:<15}{counts['complete']} of {counts['tasks']} tasks, {rest}, "
                  f"{spent[said['kind']] / 3600:.3f} core-hours")
        else:
            again = re.sub("(^| )kvproof (?=replay |selftest )", lambda found:
                           found[1] + shlex.quote(os.environ.get("KVPROOF_CALLED", "./kvproof"))
                           + " ", said["replay"])
            print(f"FOUND {said['law']} in {counts['tasks']} tasks: {said['text']}\n"
                  f"  {said['shape']}\n  run it again: {in_folder(merged, again, shlex.quote)}")
            if "lens" in said:
                print(f"  look at it: {in_folder(merged, said['lens'], address_of)}")
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
        (options.costs, lambda: document_of(merged, costs_of(merged))),
        (options.junit, lambda: junit_of(merged)))
    for path, make in outputs:
        if path:
            write(path, make().encode())
    show(merged)
    documents = merged.documents(True) + merged.documents(False)
    if any(document["findings"] for document in documents):
        return 1
    unsure = any(document["exit_code"] == 3 for document in documents)
    return 3 if merged.missing or unsure else 0
