# SPDX-License-Identifier: Apache-2.0
"""What the results of an experiment carry: which parameters and metrics, of which kinds.

bench/results/experiments.cpp lists that, and kvproof-describe prints it. Reading a result file
checks it against that, so that a figure never meets a value that it cannot draw; results of any
other experiment are kept and shown as a plain table. Where the programs are not built, rows are
checked for their form alone.
"""

import functools
import re
from dataclasses import dataclass
from typing import Any, Callable, Iterable, NamedTuple

from kvproof_support import results
from kvproof_support.files import InputError
from kvproof_support.verdicts import EXIT_CODES


class Kind(NamedTuple):
    """A kind of values."""
    expected: str    # the name of the kind in a message
    holds: Callable[[Any], bool]  # whether a value is of this kind


def one_of(names: Iterable[str]) -> Kind:
    names = tuple(names)
    return Kind("one of " + ", ".join(names), lambda value: value in names)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Up to here every whole number is a double, with which figures compute.
LARGEST, LARGEST_TEXT = 2 ** 53, "2^53"

KINDS = {
    "text": Kind("a text", lambda value: isinstance(value, str) and value != ""),
    "note": Kind("a text, or none", lambda value: value is None or isinstance(value, str)),
    "verdict": one_of(EXIT_CODES),
    "digits": Kind("a whole number in digits",
                   lambda value: isinstance(value, str) and value.isascii() and value.isdigit()),
    "count": Kind(f"a whole number of 0 or more, at most {LARGEST_TEXT}",
                  lambda value: is_whole(value) and 0 <= value <= LARGEST),
    "size": Kind(f"a whole number above 0, at most {LARGEST_TEXT}",
                 lambda value: is_whole(value) and 0 < value <= LARGEST),
    "positive": Kind(f"a number above 0, at most {LARGEST_TEXT}",
                     lambda value: is_number(value) and 0 < value <= LARGEST),
    "amount": Kind(f"a number of 0 or more, at most {LARGEST_TEXT}",
                   lambda value: is_number(value) and 0 <= value <= LARGEST),
    "share": Kind("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1),
    "number": Kind(f"a number from -{LARGEST_TEXT} to {LARGEST_TEXT}",
                   lambda value: is_number(value) and abs(value) <= LARGEST),
}

STORAGES = {
    "contiguous_max_length": "contiguous, max length",
    "contiguous_power_of_two": "contiguous, power of two",
    "contiguous_oracle": "contiguous, oracle",
    "contiguous_grow_and_copy": "contiguous, grow and copy",
    "paged": "paged",
    "paged_shared": "paged, shared prefix",
}

# What became of a seeded bug, and the words for it.
FATES = {
    "expected": "expected law",
    "other_law": "another law",
    "model": "model only",
    "content": "content only",
    "crash": "crash",
    "hang": "hang",
    "survived": "survived",
}


class Column(NamedTuple):
    kind: Kind
    unit: str       # of a metric; * is any
    optional: bool  # whether a row may lack it

    @staticmethod
    def of(said: dict[str, Any]) -> "Column":
        """@param said of a column by kvproof-describe"""
        words = said.get("words", [])
        kind = one_of(words) if said["kind"] == "word" else KINDS[said["kind"]]
        if words and said["kind"] != "word":
            numbers, listed = kind, one_of(words)
            kind = Kind(f"{numbers.expected}, or {listed.expected}",
                        lambda value: listed.holds(value) or numbers.holds(value))
        return Column(kind, said.get("unit", "*"), said.get("optional", False))


@dataclass(frozen=True)
class Experiment:
    parameters: dict[str, Column]
    metrics: dict[str, Column]
    most: int  # a page can show at most so many results
    most_names: int  # a page can show at most so many different texts of one parameter
    cites: bool  # the sources of the results are publications, not traces


@functools.cache
def experiments() -> dict[str, Experiment]:
    """@return what kvproof-describe says; nothing where it is not built"""
    try:
        listed = results.describe()["experiments"]
    except InputError:
        return {}
    return {name: Experiment(*({key: Column.of(value) for key, value in said[part].items()}
                               for part in ("parameters", "metrics")),
                             said["most"], said["most_names"], said["cites"])
            for name, said in listed.items()}


def words(name: str) -> str:
    """A key as words: 'ns_per_block' -> 'ns per block'."""
    return re.sub(r"[_\s]+", " ", name).strip()
