# SPDX-License-Identifier: Apache-2.0
"""THE LIST of parts of a report: what is measured, by which program, and how long that takes.

A part writes one result file, named after it. Adding one is a row here; what the page shows of it
is a row in figures/__init__.py.
"""

from dataclasses import dataclass

MODES = ("smoke", "default", "full")


@dataclass(frozen=True)
class Part:
    name: str
    program: str      # kvproof-<program>
    arguments: dict   # mode -> what it is called with; a mode that lacks is one without this part
    seconds: dict     # mode -> about how long on two cores; with traces: again for each of them
    traces: bool = False  # whether --trace goes to it

    def expected_seconds(self, mode, num_traces):
        return self.seconds[mode] * (1 + num_traces if self.traces else 1)


def study(name, smoke, default, traces=False):
    """Counts, the same however long one looks: full is no more than default."""
    return Part(name, "study", {"smoke": [name, "--smoke"], "default": [name], "full": [name]},
                {"smoke": smoke, "default": default, "full": default}, traces)


def bench(name, smoke, default, full, modes=MODES):
    """Full looks longer at every case."""
    arguments = [f"--filter=^{name}"]
    return Part(name, "bench", {
        mode: arguments + {"smoke": ["--smoke"], "default": [], "full": FULL}[mode]
        for mode in modes}, {"smoke": smoke, "default": default, "full": full})


def check(name, seconds, **arguments):
    """Its result is drawn even where it found a violation: then most of all."""
    return Part(name, "check", arguments, seconds)


FULL = ["--min-seconds-per-case=1"]

# Those that read traces come first, so that an unreadable one is known at once.
PARTS = (
    study("live_memory", 1, 4, traces=True),
    study("prefix_hit_rate", 1, 1, traces=True),
    study("eviction", 1, 15, traces=True),
    study("serving", 1, 3, traces=True),
    study("waste_against_block_size", 1, 1, traces=True),
    study("memory_of_one_request", 1, 1),
    study("utilisation", 1, 1),
    study("memory_of_models", 1, 1),
    study("published", 2, 10),
    check("check", {"smoke": 1, "default": 6, "full": 30},
          smoke=["--operations=50"], default=["--operations=2000"], full=[]),
    check("mutants", {"full": 130}, full=["--mutants"]),
    check("exhaustive", {"full": 460}, full=["--exhaustive"]),
    bench("life_cycle", 3, 35, 100),
    bench("pool_operation", 2, 60, 150),
    bench("paged_decode", 2, 60, 150),
    bench("movement", 2, 30, 90),
    bench("serving_cost", 1, 30, 60),
)
PAGE_SECONDS = 8


def parts_of(mode):
    return [part for part in PARTS if mode in part.arguments]
