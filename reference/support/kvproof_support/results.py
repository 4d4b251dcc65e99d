# SPDX-License-Identifier: Apache-2.0
"""Result files as verbs in Python write them: rows of parameters and metrics.

A verb makes rows, writes them by `write_results` and has them printed by `show`, so that what is on
the screen is what is in the file.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterable, Mapping

from kvproof_support import files
from kvproof_support.files import InputError

CHECKOUT = Path(__file__).resolve().parents[3]
# Metrics that tell a clock or a machine, and the memory of a search, which its threads share.
CLOCKS = {"seconds", "wall_seconds", "seconds_to_kill", "operations_per_second",
          "steps_per_second", "peak_rss_bytes", "bytes_per_state"}
SCHEMA = 1
Row = dict[str, Any]


def program(name: str) -> str:
    """@return the path of a program of the build: kvproof-NAME"""
    build = CHECKOUT / "build" / "release" / "bin"
    return os.path.join(os.environ.get("KVPROOF_BIN") or str(build), f"kvproof-{name}")


def metric(value: float, unit: str = "count") -> dict[str, Any]:
    return {"value": value, "unit": unit}


def row(experiment: str, parameters: Mapping[str, Any], metrics: Mapping[str, Any]) -> Row:
    """@param metrics by name: a number is a count, else what metric() gives"""
    return {"experiment": experiment, "parameters": dict(parameters), "metrics": {
        name: value if isinstance(value, dict) else metric(value)
        for name, value in metrics.items()}}


def value(of: Row, name: str, otherwise: float = 0) -> float:
    """@return the value of a metric"""
    return of["metrics"].get(name, {"value": otherwise})["value"]


def of(rows: Iterable[Row], experiment: str) -> list[Row]:
    return [each for each in rows if each["experiment"] == experiment]


@functools.cache
def describe() -> dict[str, Any]:
    """@return what the programs say of this machine, their sources and the schema"""
    command = [program("describe"), "--json=/dev/stdout"]
    try:
        done = subprocess.run(command, check=True, capture_output=True)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise InputError(f"{command[0]}: does not run: {error}") from None


def document(rows: Iterable[Row], command: str, **more: Any) -> dict[str, Any]:
    """@param command the words of the user @param more of the environment, as its seed"""
    environment = describe()["environment"] | {"command": command} | more
    return {"schema": SCHEMA, "environment": environment, "results": list(rows)}


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """@return the rows of a result file that a program of ours has just written; none if it has
    not. (What a user names is read by kvproof_report.common.result_files.)"""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)["results"]
    except FileNotFoundError:
        return []


def command_line(verb: str) -> str:
    return shlex.join(["kvproof", *verb.split(), *sys.argv[1:]])


def finish(rows: Iterable[Row], verb: str, options: Any, **more: Any) -> None:
    """Prints the rows, and writes the files that were asked for by --json, --junit and --sarif.
    Throws OutputError."""
    whole = document(rows, command_line(verb), **more)
    text = (json.dumps(whole) + "\n").encode()
    with tempfile.TemporaryDirectory(prefix="kvproof-") as work:
        path = os.path.join(work, "rows.json")
        Path(path).write_bytes(text)
        words = [f"--{kind}={to}" for kind in ("junit", "sarif", "bmf")
                 if (to := getattr(options, kind, None))]
        sys.stdout.flush()
        done = subprocess.run([program("describe"), path, *words], check=False)
        if done.returncode:
            raise files.OutputError(f"kvproof-describe ended with {done.returncode}")
    if getattr(options, "json", None):
        files.write(options.json, text)
