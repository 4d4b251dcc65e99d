# SPDX-License-Identifier: Apache-2.0
"""A task of a campaign: what names it, which command it is, and what its result file holds.

An exact task writes the same bytes wherever it runs. Of what its program writes, the environment
and the metrics of CLOCKS are left out, for they tell the machine.
"""

import hashlib
import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kvproof_support import tasks
from kvproof_support.files import InputError
from kvproof_support.results import CHECKOUT, CLOCKS

ENGINES, FUZZ = (CHECKOUT / "properties" / name for name in ("engines", "sources/fuzz"))
# Options with which a check depends on how fast another's allocator or the machine is.
TIMED = ("--subject-command", "--beside-command", "--deep")


@dataclass(frozen=True)
class Kind:
    words: tuple  # a program of the build, or a script, and what makes it do this
    exact: bool = True


KINDS = {
    "check": Kind(("kvproof-check",)),
    "exhaustive": Kind(("kvproof-check",)),
    "liars": Kind(("kvproof-selftest", "--liars")),
    "mutants": Kind(("kvproof-selftest", "--mutants")),
    "simulation": Kind(("kvproof-replay", "--simulate")),
    "study": Kind(("kvproof-study",)),
    "scheduler": Kind((str(ENGINES / "scheduler" / "run.py"), "--scheduler=vllm")),
    # What hangs is told from what is slow by a clock.
    "mutation-score": Kind((str(CHECKOUT / "kvproof"), "selftest", "--mutation-score"),
                           exact=False),  # builds a program that no other verb has
    "engines": Kind((str(ENGINES / "allocators" / "run.py"),), exact=False),
    "live": Kind((str(ENGINES / "live" / "run.py"),), exact=False),
    "gate": Kind(("kvproof-gate",), exact=False),
    "fuzz": Kind((str(FUZZ / "run.sh"), str(CHECKOUT / "build" / "fuzz"), "--jobs=1"),
                 exact=False),
}


def digest_of(path):
    """@return the digest of a file, or of the names and contents of a folder"""
    digest = hashlib.sha256()
    path = Path(path)
    try:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if not file.is_dir():
                digest.update(f"{file.relative_to(path)}\0".encode() + file.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return digest.hexdigest()


@dataclass(frozen=True)
class Task:
    kind: str
    options: tuple
    seed: int | None
    inputs: tuple  # of (path beside the plan, digest): they lie in the folder of the run, too
    cost_core_seconds: float
    memory_gib: float

    def name(self, program):
        """@param program {"version":..., "commit":...}: of the sources, since two machines make
        different binaries of the same ones"""
        what = [self.kind, self.options, self.seed, self.inputs, sorted(program.items())]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]

    @property
    def exact(self):
        foreign = any(option.startswith(TIMED) or
                      re.match(r"--(subject|beside)=.*(/|\.so$)", option)
                      for option in self.options)
        return KINDS[self.kind].exact and not foreign

    def command(self, programs):
        """@param programs the folder of the build's programs"""
        words = list(KINDS[self.kind].words)
        if words[0].endswith(".py"):
            words = ["python3", "-B", *words]
        elif words[0].endswith(".sh"):
            words = ["sh", *words]
        else:
            words[0] = str(Path(programs) / words[0])
        return [*words, *self.options, *[f"--seed={self.seed}"] * (self.seed is not None)]


# ---- what a program leaves behind ---------------------------------------------------------------

ALIVE = ("survived", "not_met", "cannot_tell")  # fates of mutants that nothing has noticed


def shape_of(trace):
    """@return the operations of a trace, in their order, or another file's name: what tells one
    finding from another"""
    if trace.suffix != ".jsonl":
        return trace.name
    with open(trace, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return ", ".join(row["op"] for row in rows if "op" in row)


def mutants_of(results):
    """@return the findings of a mutation score: mutants that live, or whose excuse is refuted"""
    for row in results:
        what = row["parameters"]
        if row["experiment"] == "operator_mutant" and (
                (what["fate"] in ALIVE) != bool(what["equivalent"])):
            yield {"law": "mutation-score", "shape": what["id"],
                   "reason": "{file}, {function}: {class}, {change}: {text}: {fate}".format(**what),
                   "repeat": f"kvproof selftest --mutation-score --only={what['id']}"}


def findings_of(task, name, work, last, code, rows):
    """@return the findings of a run, and the files that belong to each"""
    found, files = [], {}
    for row in rows:
        what = row["parameters"]
        if row["experiment"] not in ("check_finding", "fuzz_finding") or not what.get("file"):
            continue
        file, fuzzed = work / what["file"], row["experiment"] == "fuzz_finding"
        kept = f"findings/{name}-{file.name}" if fuzzed else f"findings/{name}-{len(found) + 1}"
        if file.suffix == ".jsonl":
            kept = kept.removesuffix(".jsonl") + ".jsonl"
        files[kept] = file
        found.append({"law": what["law"], "reason": what["reason"], "file": kept,
                      "shape": what.get("shape") or shape_of(file),
                      "repeat": what["repeat"].replace(what["file"], kept)})
        if what.get("lens"):
            found[-1]["lens"] = kept.removesuffix(".jsonl") + ".html"
            files[found[-1]["lens"]] = work / what["lens"]
    if target := target_of(task):
        for file in sorted((work / target).glob("corpus/*")):  # the corpus that goes out
            files[f"corpus/{target}/{file.name}"] = file
    if task.kind == "mutation-score":
        found += mutants_of(rows)
    if code == 1 and not found:  # the program says it in its own words
        words = [task.kind, *task.options] + [f"--seed={task.seed}"] * (task.seed is not None)
        found.append({"law": task.kind, "shape": " ".join(task.options), "reason": last,
                      "repeat": "as the task is: " + " ".join(words)})
    return found, files


def target_of(task):
    """@return the target of a fuzzing task, as its option names it; empty for other tasks"""
    named = [option[9:] for option in task.options if option.startswith("--target=")]
    return named[0] if task.kind == "fuzz" and named else ""


def execute(task, name, programs, folder, runner):
    """Runs a task in a folder of its own. Throws tasks.Stopped.

    @return (exit code, its last line, the result as text, the files of its findings as bytes,
    core-seconds); a result is worth keeping for the codes 0, 1, 3
    """
    with tempfile.TemporaryDirectory(dir=runner.work) as made:
        work = Path(made)
        out = work / "results.json"
        for path, _ in task.inputs:
            if task.kind == "fuzz":  # the corpus that comes in
                shutil.copytree(folder / path, work / target_of(task) / "corpus",
                                dirs_exist_ok=True)
                continue
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).symlink_to((folder / path).absolute())
        ended = runner.one(tasks.Task(
            name, (*task.command(programs), f"--json={out}"), str(out), str(work / "said"),
            folder=made, environment={"KVPROOF_BIN": str(programs), "KVPROOF_FUZZ_WORK": made,
                                      "KVPROOF_CALLED": "kvproof"}))  # exact: it names no machine
        code, last = ended.exit_code, ended.last_line("no output")
        if code not in (0, 1, 3):
            return code, last, "", {}, 0
        rows = ended.rows()
        for row in rows if task.exact else []:
            row["metrics"] = {key: metric for key, metric in row["metrics"].items()
                              if key not in CLOCKS}
        findings, files = findings_of(task, name, work, last, code, rows)
        document = {"kvproof_result": 1, "task": name, "kind": task.kind, "exit_code": code,
                    "findings": findings, "results": rows}
        files = {path: file.read_bytes() for path, file in files.items()}
        return (code, last, json.dumps(document, sort_keys=True) + "\n", files,
                ended.cpu_seconds)
