# SPDX-License-Identifier: Apache-2.0
"""Reads result files (schema 1), plain or as .gz, and says in one line what is wrong with one that
it cannot use.
"""

from __future__ import annotations

import glob
import gzip
import json
import os
import re
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable

from kvproof_report.common.experiments import Experiment, experiments, is_number, words
from kvproof_support import earlier
from kvproof_support.files import UNPRINTABLE, InputError, readable

LARGEST_FILE_BYTES = 64 << 20  # unpacked
# What any figure and any table can show.
LARGEST, SMALLEST = 2 ** 64, 1e-100
NUMBER = f"a finite number, at most 2^64 in size, and at least {SMALLEST:g} if it is not 0"
LONGEST_TEXT, LONGEST_COMMAND, MOST_NAMES = 1000, 100_000, 200
SIMPLE = "a text of at most {} printable characters, " + NUMBER + ", or a truth value"


@dataclass(frozen=True)
class Metric:
    value: float
    unit: str
    low: float   # minimum of the repetitions; the value itself if the file states no minimum
    high: float

    @property
    def has_spread(self) -> bool:
        return self.low != self.high


FIELDS = {"value": "value", "min": "low", "max": "high"}  # of a metric in a file -> here
Wrong = Callable[[str, str], InputError]  # where, what was expected -> what to raise


@dataclass(frozen=True)
class Result:
    experiment: str
    parameters: dict[str, Any]
    metrics: dict[str, Metric]
    source: str  # plain_name of the file

    def value(self, name: str) -> float:
        return self.metrics[name].value

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.parameters.get(name, otherwise)


@dataclass(frozen=True)
class ResultFile:
    name: str  # plain_name of its path
    environment: dict[str, Any]
    results: list[Result]


@dataclass
class Results:
    """Every result of every file, in an order that does not depend on the order of the files."""

    files: list[ResultFile] = field(default_factory=list)

    def of(self, experiment: str) -> list[Result]:
        return [result for file in self.files for result in file.results
                if result.experiment == experiment]

    def experiments(self) -> list[str]:
        return sorted({result.experiment for file in self.files for result in file.results})

    def environments(self) -> list[dict[str, Any]]:
        """The files' environments, without repetition."""
        seen = []
        for file in self.files:
            if file.environment not in seen:
                seen.append(file.environment)
        return seen


def plain_name(path: str) -> str:
    """Without the folder and .gz: packed results are the same results."""
    return readable(os.path.basename(path).removesuffix(".gz"))


def paths_in(folder: str) -> list[str]:
    """The result files of a folder."""
    return sorted(glob.glob(os.path.join(glob.escape(folder), "*.json"))
                  + glob.glob(os.path.join(glob.escape(folder), "*.json.gz")))


def load(paths: list[str]) -> Results:
    files = [load_file(path) for path in paths]
    check_cases(files, paths)
    name_sources(files)
    return Results(sorted(files, key=lambda file: file.name))


def check_cases(files: list[ResultFile], paths: list[str]) -> None:
    """Requires one result for each case in all files, and no more cases than a page can show."""
    seen: dict[tuple[str, str], str] = {}  # case -> path
    names: dict[tuple[str, str], set[str]] = {}
    found: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for file, path in zip(files, paths):
        for index, row in enumerate(file.results):
            where = f"{path}: results[{index}]"
            case = (row.experiment, json.dumps(row.parameters, sort_keys=True))
            if case in seen:
                raise InputError(f"{where}: expected one result per case; "
                                 f"{seen[case]} has this one too")
            seen[case] = path
            counts[row.experiment] += 1
            known = experiments().get(row.experiment)
            if known and counts[row.experiment] > known.most:
                raise InputError(f"{where}: expected at most {known.most} results "
                                 f"of {row.experiment}")
            known_names = found.setdefault(row.experiment, set())
            known_names.update(row.parameters, row.metrics)
            if len(known_names) > MOST_NAMES:
                raise InputError(f"{where}: expected at most {MOST_NAMES} different names of "
                                 f"parameters and metrics of {row.experiment}")
            for name, value in row.parameters.items():
                if isinstance(value, str):
                    values = names.setdefault((row.experiment, name), set())
                    values.add(value)
                    if known and len(values) > known.most_names:
                        raise InputError(f"{where}.parameters.{name}: expected at most "
                                         f"{known.most_names} different ones")


def name_sources(files: list[ResultFile]) -> None:
    """Names traces by their file without folder and endings, unless two would get the same name."""
    fields = [(row.parameters, name) for file in files for row in file.results
              if not (row.experiment in experiments() and experiments()[row.experiment].cites)
              for name in ("source", "workload") if isinstance(row.get(name), str)]
    names = {source: re.sub(r"(\.(zst|jsonl|json|csv))+$", "", os.path.basename(source)) or source
             for source in {parameters[name] for parameters, name in fields}}
    uses = Counter(names.values())
    for parameters, field_name in fields:
        name = names[parameters[field_name]]
        if uses[name] == 1:
            parameters[field_name] = words(name)


def load_file(path: str) -> ResultFile:
    document = parse(path)

    def wrong(where: str, expected: str) -> InputError:
        return InputError(f"{path}: {where[:200]}: expected {expected}")

    if not isinstance(document, dict):
        raise wrong("the document", "an object with schema, environment and results")
    if document.get("schema") != 1 or isinstance(document.get("schema"), bool):
        raise wrong("schema", "1")
    environment = document.get("environment")
    if not isinstance(environment, dict):
        raise wrong("environment", "an object")
    check_names(environment, "environment", wrong)
    for name, value in environment.items():
        if not is_simple(value, LONGEST_COMMAND):
            raise wrong(f"environment.{name}", SIMPLE.format(LONGEST_COMMAND))
    rows = document.get("results")
    if not isinstance(rows, list):
        raise wrong("results", "a list")
    name = plain_name(path)
    return ResultFile(name, environment, [
        read_result(row, name, f"results[{index}]", wrong)
        for index, row in enumerate(rows)])


def parse(path: str) -> Any:
    def no_constant(text: str) -> None:
        raise ValueError(f"{text} is not a number of JSON")

    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as stream:
            data = stream.read(LARGEST_FILE_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: the file: expected gzip ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_FILE_BYTES:
        raise InputError(f"{path}: the file: expected at most {LARGEST_FILE_BYTES >> 20} MiB")
    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=no_constant)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line}: expected UTF-8") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno}, column {error.colno}: "
                         f"expected JSON ({error.msg})") from None
    except RecursionError:
        raise InputError(f"{path}: the document: expected less nesting") from None
    except ValueError as error:  # NaN, a number of thousands of digits
        raise InputError(f"{path}: the document: expected JSON ({error})") from None


def read_result(row: Any, source: str, where: str, wrong: Wrong) -> Result:
    if not isinstance(row, dict):
        raise wrong(where, "an object")
    get: Callable[[str], Any] = row.get
    experiment, parameters, metrics = map(get, ("experiment", "parameters", "metrics"))
    if not is_name(experiment):
        raise wrong(f"{where}.experiment", "a name")
    check_names(parameters, f"{where}.parameters", wrong)
    for name, value in parameters.items():
        if not is_simple(value):
            raise wrong(f"{where}.parameters.{name}", SIMPLE.format(LONGEST_TEXT))
    check_names(metrics, f"{where}.metrics", wrong)
    row = earlier.present(row)
    result = Result(experiment, row["parameters"], {
        name: read_metric(metric, f"{where}.metrics.{name}", wrong)
        for name, metric in row["metrics"].items()}, source)
    check(result, experiments().get(experiment), where, wrong)
    return result


def read_metric(metric: Any, where: str, wrong: Wrong) -> Metric:
    if not isinstance(metric, dict):
        raise wrong(where, "an object with value and unit")
    if not is_in_range(metric.get("value")):
        raise wrong(f"{where}.value", NUMBER)
    if not isinstance(metric.get("unit"), str) or not is_simple(metric["unit"]):
        raise wrong(f"{where}.unit", "a text")
    for bound in ("min", "max"):
        if metric.get(bound) is not None and not is_in_range(metric[bound]):
            raise wrong(f"{where}.{bound}", NUMBER)
    value = metric["value"]
    low = value if metric.get("min") is None else metric["min"]
    high = value if metric.get("max") is None else metric["max"]
    if low > high:
        raise wrong(f"{where}.min", f"at most the max, {high}")
    return Metric(value, metric["unit"], low, high)


def check_names(named: Any, where: str, wrong: Wrong) -> None:
    """Requires an object whose names can be read."""
    if not isinstance(named, dict):
        raise wrong(where, "an object")
    for name in named:
        if not is_name(name):
            raise wrong(f"{where}.{name}", "a name of printable characters")


def is_name(value: Any) -> bool:
    return (isinstance(value, str) and is_simple(value) and value.isprintable()
            and value.strip() != "")


def is_simple(value: Any, longest: int = LONGEST_TEXT) -> bool:
    """Whether it is a text, a number or a truth value that a page can show, or nothing."""
    if isinstance(value, str):
        return len(value) <= longest and not UNPRINTABLE.search(value)
    return value is None or isinstance(value, bool) or is_in_range(value)


def is_in_range(value: Any) -> bool:
    return is_number(value) and (value == 0 or SMALLEST <= abs(value) <= LARGEST)


def check(result: Result, experiment: Experiment | None, where: str, wrong: Wrong) -> None:
    """Requires of the result what the figures of its experiment rely on."""
    if experiment is None:
        return
    for name, column in experiment.parameters.items():
        if not column.kind.holds(result.parameters.get(name)):
            raise wrong(f"{where}.parameters.{name}", column.kind.expected)
    for name, column in experiment.metrics.items():
        metric = result.metrics.get(name)
        if metric is None and not column.optional:
            raise wrong(f"{where}.metrics.{name}", "this metric")
        for field_name in ("value", "min", "max") if metric else ():
            if not column.kind.holds(getattr(metric, FIELDS[field_name])):
                raise wrong(f"{where}.metrics.{name}.{field_name}", column.kind.expected)
        if metric and column.unit not in ("*", metric.unit):
            raise wrong(f"{where}.metrics.{name}.unit", column.unit)
