# SPDX-License-Identifier: Apache-2.0
"""A plan is data: a name, the program, how many shards, and tasks. It is read here, and written.

Refuses: what is no plan, in one line that names the file, the field and what was expected.
"""

import heapq
import json
import os
from dataclasses import dataclass
from pathlib import Path

from task import KINDS, InputError, Task, digest_of

from kvproof_support.results import describe


MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Plan:
    name: str
    program: dict   # {"version":..., "commit":...}
    shards: int     # unless told otherwise
    tasks: dict     # name -> Task
    folder: str     # where its inputs are

    @property
    def text(self):
        """The bytes of the plan: equal plans have equal ones."""
        rows = [{"name": name, "kind": task.kind, "options": task.options, "seed": task.seed,
                 "inputs": dict(task.inputs), "cost_core_seconds": task.cost_core_seconds,
                 "memory_gib": task.memory_gib} for name, task in sorted(self.tasks.items())]
        head = {"kvproof_plan": 1, "name": self.name, "program": self.program,
                "shards": self.shards}
        return (json.dumps(head)[:-1] + ', "tasks": [\n' + ",\n".join(map(json.dumps, rows)) +
                "\n]}\n")

    def only(self, names):
        """@param names beginnings of names joined by commas, or None for all tasks"""
        if not names:
            return dict(self.tasks)
        chosen = {}
        for start in names.split(","):
            found = [name for name in self.tasks if start and name.startswith(start)]
            if len(found) != 1:
                raise InputError(f"--only={start}: expected the beginning of one task's name, "
                          f"found {len(found)}")
            chosen[found[0]] = self.tasks[found[0]]
        return chosen


def deal(tasks, shards):
    """The longest task first, each to the shard with the least so far; equals by their names.
    @return for each shard (core-seconds, [names])"""
    hands = [(0.0, shard, []) for shard in range(shards)]
    for name in sorted(tasks, key=lambda name: (-tasks[name].cost_core_seconds, name)):
        load, shard, names = heapq.heappop(hands)
        names.append(name)
        heapq.heappush(hands, (load + tasks[name].cost_core_seconds, shard, names))
    return [(load, names) for load, _, names in sorted(hands, key=lambda hand: hand[1])]


def program_here():
    """@return what the programs of the build say of their sources"""
    return {field: describe()["environment"][field] for field in ("version", "commit")}


# ---- reading ------------------------------------------------------------------------------------

def read_json(path):
    try:
        with open(path, "rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise InputError(f"{path}: expected at most {MOST_BYTES >> 20} MiB")
        value = json.loads(text.decode())
        json.dumps(value, ensure_ascii=False).encode()  # not half a character
        return value
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno}: expected JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected JSON ({str(error)[:80]})") from None


def is_number(value, least, whole=False):
    return (isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
            and least <= value < 2 ** 53)


def is_texts(value):
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


# field of a task -> what holds of it, what it is where it is left out, what was expected
FIELDS = {
    "kind": (lambda v: isinstance(v, str) and v in KINDS, "", "one of " + ", ".join(KINDS)),
    "options": (is_texts, [], "a list of texts"),
    "seed": (lambda v: v is None or is_number(v, 0, True), None, "a whole number, or null"),
    "seeds": (lambda v: isinstance(v, list) and len(v) == 2 and v[0] <= v[1] and
              all(is_number(each, 0, True) for each in v), [0, 0], "the first and the last seed"),
    "inputs": (lambda v: is_texts(list(v.items() and v.values()) if isinstance(v, dict) else v),
               [], "a list of paths, or an object of digests by path"),
    "cost_core_seconds": (lambda v: is_number(v, 1e-6), 60, "a number of seconds above 0"),
    "memory_gib": (lambda v: is_number(v, 1e-3), 1, "a number of GiB above 0"),
    "name": (lambda v: isinstance(v, str), "", "a text"),
}


def tasks_of(row, where, folder):
    """@return the tasks of a row of a plan: several, where it names several seeds"""
    def wrong(field, expected):
        return InputError(f"{where}{field}: expected {expected}, found "
                          f"{json.dumps(row.get(field))[:80]}")

    if not isinstance(row, dict):
        raise InputError(f"{where[:-1]}: expected an object")
    for field in set(row) - set(FIELDS):
        raise InputError(f"{where}{field}: expected no such field, but one of " + ", ".join(FIELDS))
    values = {}
    for field, (holds, otherwise, expected) in FIELDS.items():
        values[field] = row.get(field, otherwise)
        if not holds(values[field]):
            raise wrong(field, expected)
    inputs = values["inputs"]
    for path in inputs:
        if not path or Path(path).is_absolute() or ".." in Path(path).parts:
            raise wrong("inputs", "paths beside the plan or below it")
    if isinstance(inputs, list):
        inputs = {path: digest_of(Path(folder, path)) for path in inputs}
    seeds = [values["seed"]]
    if "seeds" in row:
        seeds = range(values["seeds"][0], values["seeds"][1] + 1)
    return [Task(values["kind"], tuple(values["options"]), seed, tuple(sorted(inputs.items())),
                 values["cost_core_seconds"], values["memory_gib"]) for seed in seeds]


def read_plan(path):
    """@return a plan; one that names no program has that of this build"""
    document = read_json(path)
    if not isinstance(document, dict) or document.get("kvproof_plan") != 1:
        raise InputError(f"{path}: kvproof_plan: expected 1, as in a file of kvproof campaign "
                         "tasks")
    name, program, shards, rows = (document.get(key, otherwise) for key, otherwise in (
        ("name", Path(path).stem), ("program", None), ("shards", 1), ("tasks", None)))
    program = program or program_here()
    for field, holds, expected in (
            ("name", isinstance(name, str) and name.replace("-", "").isalnum(),
             "letters, digits and hyphens"),
            ("program", isinstance(program, dict) and set(program) == {"version", "commit"},
             "version and commit"),
            ("shards", is_number(shards, 1, True), "a whole number from 1"),
            ("tasks", isinstance(rows, list) and rows, "a list of tasks")):
        if not holds:
            raise InputError(f"{path}: {field}: expected {expected}")
    tasks = {}
    for index, row in enumerate(rows):
        for task in tasks_of(row, f"{path}: tasks[{index}].", os.path.dirname(path)):
            key = task.name(program)
            if row.get("name", key) != key:
                raise InputError(f"{path}: tasks[{index}].name: expected {key}, found "
                                 f"{row['name']}: what defines the task was changed")
            tasks[key] = task
    return Plan(name, program, shards, tasks, os.path.dirname(path) or ".")
