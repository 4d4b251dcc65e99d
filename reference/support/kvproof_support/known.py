# SPDX-License-Identifier: Apache-2.0
"""The reader of files of known findings, of which properties/check/findings.h is the same in C++.

A line is one defect as one law sees it. A finding is known if a line applies to the engine and its
release, names all its laws, and has words that the finding says; numbers and signs do not count.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple

from kvproof_support import results
from kvproof_support.files import InputError

OWN = Path(__file__).resolve().parents[3] / "properties" / "engines" / "findings" / "known.jsonl"
MOST_BYTES = 16 << 20
NUMBERED = re.compile(r"\d{1,99}(\.\d{1,99})*")


class Row(NamedTuple):
    """An empty field demands nothing, but a row without a law is seen by no check."""

    id: str = ""
    engine: str = ""
    law: str = ""  # "I13", or "I13+I18": a finding of both or of one of them
    says: str = ""  # words of the finding
    first: str = ""  # the first and the last release that have it
    last: str = ""
    page: str = ""  # an advisory in the folder of the file, or the address of a report
    what: str = ""  # a sentence for people
    where: tuple[str, ...] = ()  # configurations, models or cases in which it is seen
    name: str = ""  # what an adapter goes around by this name is looked for, and not met by chance

    def lives_in(self, release: str) -> bool:
        """Releases of numbers are in order; any other must be the first or the last one itself."""
        bounds = [bound for bound in (self.first, self.last) if bound]
        if not bounds or release in bounds:
            return True
        return all(map(NUMBERED.fullmatch, (release, *bounds))) and (
            numbers(self.first or "0") <= numbers(release) <= numbers(self.last or release))

    def applies_to(self, engine: str, release: str) -> bool:
        return self.engine in ("", engine) and self.lives_in(release) and bool(
            self.law and not self.name)

    def explains(self, law: str, reason: str, where: str) -> bool:
        return ({*law.split("+")} <= {*self.law.split("+")} and words(self.says) in words(reason)
                and (not self.where or where in self.where))


def numbers(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def words(text: str) -> str:
    """The words of a text, each with a space before it and behind the last."""
    return " ".join(["", *re.findall("[A-Za-z]+", text), ""])


class Known:
    def __init__(self, rows: Iterable[Row] = ()):
        self.rows = list(rows)
        self.asked: set[Row] = set()
        self.matched: set[Row] = set()

    def of(self, engine: str, release: str) -> list[Row]:
        """@return what applies to an engine, which is asked for by that"""
        found = [row for row in self.rows if row.applies_to(engine, release)]
        self.asked.update(found)
        return found

    def match(self, engine: str, release: str, law: str, reason: str,
              where: str = "") -> Row | None:
        """@return the first row that explains a finding"""
        found = next((row for row in self.of(engine, release)
                      if row.explains(law, reason, where)), None)
        if found:
            self.matched.add(found)
        return found

    def unmatched(self) -> list[Row]:
        """@return what applied to an engine that was asked for, and explained nothing"""
        return [row for row in self.rows if row in self.asked - self.matched]

    def stale(self) -> list[results.Row]:
        """@return a row of results for each of these"""
        return [results.row("known", {
            "known": row.id, "law": row.law, "page": row.page, "what": row.what,
            "verdict": "not_evaluated", "reason": "no finding is explained by this entry"}, {})
            for row in self.unmatched()]

    def of_page(self, page: str) -> Row | None:
        """@return the first row of an advisory, also by its name without .md"""
        return next((row for row in self.rows if row.page.removesuffix(".md") ==
                     page.removesuffix(".md")), None)


def read(*paths: str | Path) -> Known:
    """@param paths the rows of the first one decide first. Throws InputError."""
    return Known(row for path in paths for row in read_rows(path))


def read_rows(path: str | Path) -> list[Row]:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {number}: expected UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise InputError(f"{path}: expected at most {MOST_BYTES >> 20} MiB")
    return [row_of(line, f"{path}: line {number}") for number, line in enumerate(lines, 1)
            if line.strip()]


def row_of(line: str, place: str) -> Row:
    try:
        said = json.loads(line)
        json.dumps(said, ensure_ascii=False).encode()  # not half a character
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise InputError(f"{place}: expected a JSON object, found {line.strip()[:60]}")
    said = {EARLIER.get(field, field): value for field, value in said.items()}
    for field in ("id", "law"):
        if said.get(field, "") == "" and (field == "id" or field not in said):
            raise InputError(f"{place}: field {field}: expected a value, found none")
    for field, value in said.items():
        if field not in Row._fields:
            raise InputError(f"{place}: field {field}: expected one of {', '.join(Row._fields)}")
        expected, fits = FIELDS.get(field, TEXT)
        if not fits(value):
            raise InputError(f"{place}: field {field}: expected {expected}, found "
                             f"{json.dumps(value)[:60]}")
    return Row(**said | {"where": tuple(said.get("where", ()))})


EARLIER = {"finding": "law", "reason": "id", "link": "page"}  # in 0.1.0
TEXT: tuple[str, Callable[[Any], bool]] = "a string", lambda value: isinstance(value, str)
FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "law": ("ids of laws joined by +", lambda value: isinstance(value, str) and bool(
        re.fullmatch(r"(\w+(\+\w+)*)?", value))),
    "where": ("an array of strings", lambda value: isinstance(value, list) and all(
        isinstance(each, str) for each in value))}


def write_rows(path: str | Path, rows: Iterable[Row]) -> None:
    """Writes rows for a check of the engine that they apply to, which it has not to be told."""
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            said = row._replace(engine="", first="", last="")._asdict()
            print(json.dumps({field: value for field, value in said.items() if value}), file=file)
