# SPDX-License-Identifier: Apache-2.0
"""Reads result files (schema 1), plain or as .gz, and says in one line what is wrong with one that
it cannot use.
"""

import glob
import gzip
import json
import math
import os
import re
import zlib
from dataclasses import dataclass, field

from experiments import is_number, words

LARGEST_FILE_BYTES = 64 << 20  # unpacked


class InputError(Exception):
    """Input cannot be used; the text names the file, the field and what was expected."""


@dataclass(frozen=True)
class Metric:
    value: float
    unit: str
    low: float   # minimum of the repetitions; the value itself if the file states no minimum
    high: float

    @property
    def has_spread(self):
        return self.low != self.high


@dataclass(frozen=True)
class Result:
    experiment: str
    parameters: dict
    metrics: dict
    source: str  # plain_name of the file

    def value(self, name):
        return self.metrics[name].value

    def __getitem__(self, name):
        return self.parameters[name]

    def get(self, name, otherwise=None):
        return self.parameters.get(name, otherwise)


@dataclass(frozen=True)
class ResultFile:
    name: str  # plain_name of its path
    environment: dict
    results: list


@dataclass
class Results:
    """Every result of every file, in an order that does not depend on the order of the files."""

    files: list = field(default_factory=list)

    def of(self, experiment):
        return [result for file in self.files for result in file.results
                if result.experiment == experiment]

    def experiments(self):
        return sorted({result.experiment for file in self.files for result in file.results})

    def sources(self, experiment):
        return sorted({result.source for result in self.of(experiment)})

    def environments(self):
        """The files' environments, without repetition."""
        seen = []
        for file in self.files:
            if file.environment not in seen:
                seen.append(file.environment)
        return seen


def plain_name(path):
    """Without the folder and .gz: packed results are the same results."""
    return os.path.basename(path).removesuffix(".gz")


def paths_in(folder):
    """The result files of a folder."""
    return sorted(glob.glob(os.path.join(glob.escape(folder), "*.json"))
                  + glob.glob(os.path.join(glob.escape(folder), "*.json.gz")))


def load(paths, experiments):
    """@param experiments: name -> Experiment, what the results of that name must hold"""
    files = [load_file(path, experiments) for path in paths]
    check_cases(files, paths, experiments)
    name_sources(files, experiments)
    return Results(sorted(files, key=lambda file: file.name))


def check_cases(files, paths, experiments):
    """Requires one result for each case in all files, and no more cases than a page can show."""
    seen, names, counts = {}, {}, {}
    for file, path in zip(files, paths):
        for index, row in enumerate(file.results):
            where = f"{path}: results[{index}]"
            case = (row.experiment, json.dumps(row.parameters, sort_keys=True))
            if case in seen:
                raise InputError(f"{where}: expected one result per case; "
                                 f"{seen[case]} has this one too")
            seen[case] = path
            counts[row.experiment] = counts.get(row.experiment, 0) + 1
            known = experiments.get(row.experiment)
            if known and counts[row.experiment] > known.most:
                raise InputError(f"{where}: expected at most {known.most} results "
                                 f"of {row.experiment}")
            for name, value in row.parameters.items():
                if isinstance(value, str):
                    values = names.setdefault((row.experiment, name), set())
                    values.add(value)
                    if known and len(values) > known.most_names:
                        raise InputError(f"{where}.parameters.{name}: expected at most "
                                         f"{known.most_names} different ones")


def name_sources(files, experiments):
    """Names traces by their file without folder and endings, unless two would get the same name."""
    fields = [(row.parameters, name) for file in files for row in file.results
              if not (row.experiment in experiments and experiments[row.experiment].cites)
              for name in ("source", "workload") if isinstance(row.get(name), str)]
    names = {source: re.sub(r"(\.(zst|jsonl|json|csv))+$", "", os.path.basename(source)) or source
             for source in {parameters[name] for parameters, name in fields}}
    for parameters, field_name in fields:
        name = names[parameters[field_name]]
        if list(names.values()).count(name) == 1:
            parameters[field_name] = words(name)


def load_file(path, experiments):
    document = parse(path)

    def wrong(where, expected):
        return InputError(f"{path}: {where}: expected {expected}")

    if not isinstance(document, dict):
        raise wrong("the document", "an object with schema, environment and results")
    if document.get("schema") != 1 or isinstance(document.get("schema"), bool):
        raise wrong("schema", "1")
    environment = document.get("environment")
    if not isinstance(environment, dict):
        raise wrong("environment", "an object")
    for name, value in environment.items():
        if is_number(value) and not is_finite(value):
            raise wrong(f"environment.{name}", "a finite number")
    rows = document.get("results")
    if not isinstance(rows, list):
        raise wrong("results", "a list")
    name = plain_name(path)
    return ResultFile(name, environment, [
        read_result(row, name, f"results[{index}]", wrong, experiments)
        for index, row in enumerate(rows)])


def parse(path):
    def no_constant(text):
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
        return json.loads(data.decode("utf-8"), parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno}, column {error.colno}: "
                         f"expected JSON ({error.msg})") from None
    except RecursionError:
        raise InputError(f"{path}: the document: expected less nesting") from None
    except ValueError as error:  # not UTF-8, NaN, a number of thousands of digits
        raise InputError(f"{path}: the document: expected JSON ({error})") from None


def read_result(row, source, where, wrong, experiments):
    if not isinstance(row, dict):
        raise wrong(where, "an object")
    experiment = row.get("experiment")
    if not isinstance(experiment, str) or not experiment:
        raise wrong(f"{where}.experiment", "a name")
    parameters = row.get("parameters")
    if not isinstance(parameters, dict):
        raise wrong(f"{where}.parameters", "an object")
    for name, value in parameters.items():
        if not (value is None or isinstance(value, (str, bool)) or is_finite(value)):
            raise wrong(f"{where}.parameters.{name}", "a text, a finite number or a truth value")
    metrics = row.get("metrics")
    if not isinstance(metrics, dict):
        raise wrong(f"{where}.metrics", "an object")
    result = Result(experiment, parameters, {
        name: read_metric(metric, f"{where}.metrics.{name}", wrong)
        for name, metric in metrics.items()}, source)
    check(result, experiments.get(experiment), where, wrong)
    return result


def read_metric(metric, where, wrong):
    if not isinstance(metric, dict):
        raise wrong(where, "an object with value and unit")
    if not is_finite(metric.get("value")):
        raise wrong(f"{where}.value", "a finite number")
    if not isinstance(metric.get("unit"), str):
        raise wrong(f"{where}.unit", "a text")
    for bound in ("min", "max"):
        if metric.get(bound) is not None and not is_finite(metric[bound]):
            raise wrong(f"{where}.{bound}", "a finite number")
    value = metric["value"]
    low = value if metric.get("min") is None else metric["min"]
    high = value if metric.get("max") is None else metric["max"]
    if low > high:
        raise wrong(f"{where}.min", f"at most the max, {high}")
    return Metric(value, metric["unit"], low, high)


def is_finite(value):
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:  # an integer beyond any double
        return False


def check(result, experiment, where, wrong):
    """Requires of the result what the figures of its experiment rely on."""
    if experiment is None:
        return
    for name, kind in experiment.parameters.items():
        if not kind.holds(result.parameters.get(name)):
            raise wrong(f"{where}.parameters.{name}", kind.expected)
    for name, expected, holds in experiment.agrees:
        if not holds(result.parameters):
            raise wrong(f"{where}.parameters.{name}", expected)
    for name in experiment.metrics:
        if name not in result.metrics:
            raise wrong(f"{where}.metrics.{name}", "this metric")
    for name, kind in (experiment.metrics | experiment.optional).items():
        if name in result.metrics and not kind.holds(result.metrics[name].value):
            raise wrong(f"{where}.metrics.{name}.value", kind.expected)
