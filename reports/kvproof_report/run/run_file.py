# SPDX-License-Identifier: Apache-2.0
"""DIR/run.json: the options of a run, and the time and memory of each part; also a result file."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from typing import Iterable

from kvproof_report.common.result_files import Result, load_file
from kvproof_support.files import InputError, readable
from kvproof_support.files import write
from kvproof_support.tasks import Ended, Task

NAME = "run.json"
EXPERIMENT = "report_part"


class UnlikeRun(Exception):
    """The run cannot go on from the files in the folder; the text says why."""


def digest_of(programs: Iterable[str], folder: str) -> str:
    """A text that differs between any two builds of these programs, even of one commit."""
    digest = hashlib.sha256()
    for name in sorted(programs):
        try:
            with open(os.path.join(folder, name), "rb") as stream:
                digest.update(name.encode() + hashlib.sha256(stream.read()).digest())
        except OSError:
            digest.update(name.encode() + b"is not built")
    return digest.hexdigest()[:16]


def options_text(mode: str, traces: list[str]) -> str:
    """The options that the results depend on, with the name and size of each trace."""
    names = [f"{os.path.basename(path)} of {os.path.getsize(path)} bytes" for path in traces]
    return ", ".join([mode, *names])


def exit_code_of(row: Result) -> int:
    return int(row.value("exit_code")) if "exit_code" in row.metrics else 0


class RunFile:
    def __init__(self, folder: str, command: str, options: str, programs: str):
        self.path = os.path.join(folder, NAME)
        self.environment = {
            "command": readable(command), "options": readable(options), "programs": programs,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
        self.parts: dict[str, Ended] = {}

    def go_on(self) -> None:
        """Takes over what an earlier run measured. Throws UnlikeRun."""
        try:
            earlier = load_file(self.path)
        except InputError as error:
            raise UnlikeRun(f"{error}; --resume goes on from an interrupted run") from None
        for name, what in (("options", "options"), ("programs", "build")):
            was, now = earlier.environment.get(name), self.environment[name]
            if was != now:
                raise UnlikeRun(f"{self.path}: --resume needs the same {what}: "
                                f"expected {was}, found {now}")
        self.environment["date"] = earlier.environment.get("date", self.environment["date"])
        for row in earlier.results:
            if row.experiment == EXPERIMENT:
                self.parts[row["part"]] = Ended(
                    Task(row["part"]), exit_code_of(row), row.value("seconds"),
                    row.value("cpu_seconds"), int(row.value("peak_rss_bytes")))

    def add(self, part: Ended) -> None:
        self.parts[part.task.name] = part
        self.save()

    def save(self) -> None:
        results = [{"experiment": EXPERIMENT, "parameters": {"part": part},
                    "metrics": {"seconds": {"value": round(taken.seconds, 2), "unit": "s"},
                                "cpu_seconds": {"value": round(taken.cpu_seconds, 2), "unit": "s"},
                                "peak_rss_bytes": {"value": taken.peak_rss_bytes,
                                                   "unit": "bytes"},
                                "exit_code": {"value": taken.exit_code, "unit": "count"}}}
                   for part, taken in self.parts.items()]
        document = {"schema": 1, "environment": self.environment, "results": results}
        write(self.path, (json.dumps(document, indent=1) + "\n").encode("utf-8"))

    def exit_codes(self) -> set[int]:
        return {taken.exit_code for taken in self.parts.values()}

    def largest(self) -> tuple[str, int] | None:
        """(part, peak bytes) of the part that held the most memory; None if no part has run."""
        if not self.parts:
            return None
        part = max(self.parts, key=lambda name: self.parts[name].peak_rss_bytes)
        return part, self.parts[part].peak_rss_bytes
