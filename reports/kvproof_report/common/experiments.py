# SPDX-License-Identifier: Apache-2.0
"""What the results of an experiment carry: which parameters and metrics, of which kinds.

Each figure says so of the experiments that it draws. Reading a result file checks it against that,
so that a figure never meets a value that it cannot draw; results of any other experiment are kept
and shown as a plain table.
"""

import re
from dataclasses import dataclass
from typing import Any, Callable, Iterable, NamedTuple


class Kind(NamedTuple):
    """A kind of values."""
    expected: str    # the name of the kind in a message
    holds: Callable[[Any], bool]  # whether a value is of this kind
    examples: tuple[Any, ...]  # three values of this kind, for the tests


def one_of(names: Iterable[str]) -> Kind:
    names = tuple(names)
    return Kind("one of " + ", ".join(names), lambda value: value in names, (names * 3)[:3])


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Up to here every whole number is a double, with which figures compute.
LARGEST, LARGEST_TEXT = 2 ** 53, "2^53"

TEXT = Kind("a text", lambda value: isinstance(value, str) and value != "", ("a", "b", "c"))
COUNT = Kind(f"a whole number of 0 or more, at most {LARGEST_TEXT}",
             lambda value: is_whole(value) and 0 <= value <= LARGEST, (0, 1, 2))
SIZE = Kind(f"a whole number above 0, at most {LARGEST_TEXT}",
            lambda value: is_whole(value) and 0 < value <= LARGEST, (1, 2, 4))
POSITIVE = Kind(f"a number above 0, at most {LARGEST_TEXT}",
                lambda value: is_number(value) and 0 < value <= LARGEST, (1, 2, 4))
AMOUNT = Kind(f"a number of 0 or more, at most {LARGEST_TEXT}",
              lambda value: is_number(value) and 0 <= value <= LARGEST, (0, 0.5, 8))
SHARE = Kind("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1,
             (0, 0.5, 1))
NUMBER = Kind(f"a number from -{LARGEST_TEXT} to {LARGEST_TEXT}",
              lambda value: is_number(value) and abs(value) <= LARGEST, (-1, 0, 0.5))

STORAGES = {
    "contiguous_max_length": "contiguous, max length",
    "contiguous_power_of_two": "contiguous, power of two",
    "contiguous_oracle": "contiguous, oracle",
    "contiguous_grow_and_copy": "contiguous, grow and copy",
    "paged": "paged",
    "paged_shared": "paged, shared prefix",
}
STORAGE = one_of(STORAGES)

LAYOUT = one_of(("nhd", "hnd"))

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
FATE = one_of(FATES)

VERDICT = one_of(("better", "worse", "same", "cannot tell"))


@dataclass(frozen=True)
class Experiment:
    parameters: dict[str, Kind]
    metrics: dict[str, Kind]
    optional: dict[str, Kind]  # metrics that are checked where present
    # of (parameter, what is expected of it, test of all parameters together)
    agrees: tuple[tuple[str, str, Callable[[dict[str, Any]], bool]], ...] = ()
    most: int = 100_000  # a page can show at most so many results
    cites: bool = False  # the sources of the results are publications, not traces
    most_names: int = 32  # a page can show at most so many different texts of one parameter


# The time and the memory of each part of a report; run_file.py writes them.
REPORT = {
    "report_part": Experiment(
        {"part": TEXT},
        {"seconds": AMOUNT, "cpu_seconds": AMOUNT, "peak_rss_bytes": COUNT},
        {"exit_code": COUNT}, most=100,
        most_names=100),
}


def words(name: str) -> str:
    """A key as words: 'ns_per_block' -> 'ns per block'."""
    return re.sub(r"[_\s]+", " ", name).strip()
