# SPDX-License-Identifier: Apache-2.0
"""The list of the parts of a report: what is measured, by which program, and how long that takes.

A part writes one result file, named after it. A new part is one row here; what the page shows of
it is a module in figures/, without which the results become a plain table.
"""

from dataclasses import dataclass

MODES = ("smoke", "default", "full")


@dataclass(frozen=True)
class Part:
    name: str
    program: str      # kvproof-<program>
    arguments: dict   # mode -> its arguments; a mode that is not here leaves this part out
    seconds: dict     # mode -> how long it takes on two cores, about; with traces: for each of them
    traces: bool = False    # whether --trace goes to it
    experiments: tuple = ()  # the experiments of its results; none given: one, named as the part

    def expected_seconds(self, mode, num_traces):
        return self.seconds[mode] * (1 + num_traces if self.traces else 1)


def study(name, smoke, default, traces=False, experiments=()):
    """Counts do not depend on how long one looks, so a full run of it is a default one."""
    return Part(name, "study", {"smoke": [name, "--smoke"], "default": [name], "full": [name]},
                {"smoke": smoke, "default": default, "full": default}, traces, experiments)


def bench(name, smoke, default, full, modes=MODES):
    """A full run looks longer at every case."""
    arguments = [f"--filter=^{name}"]
    return Part(name, "bench", {
        mode: arguments + {"smoke": ["--smoke"], "default": [], "full": FULL}[mode]
        for mode in modes}, {"smoke": smoke, "default": default, "full": full})


def check(name, experiment, seconds, **arguments):
    """Its results are drawn even where it found a violation: then most of all."""
    return Part(name, "check", arguments, seconds, experiments=(experiment,))


FULL = ["--min-seconds-per-case=1"]

# The parts that read traces come first, so that an unreadable trace is known at once.
PARTS = (
    study("live_memory", 1, 4, traces=True),
    study("prefix_hit_rate", 1, 1, traces=True),
    study("eviction", 1, 15, traces=True),
    study("serving", 1, 3, traces=True, experiments=("serving_run", "serving_over_time")),
    study("waste_against_block_size", 1, 1, traces=True),
    study("memory_of_one_request", 1, 1),
    study("utilisation", 1, 1),
    study("memory_of_models", 1, 1),
    study("published", 2, 12),
    check("check", "check_law", {"smoke": 1, "default": 6, "full": 30},
          smoke=["--operations=50"], default=["--operations=2000"], full=[]),
    check("mutants", "mutant", {"full": 130}, full=["--mutants"]),
    check("exhaustive", "exhaustive", {"full": 460}, full=["--exhaustive"]),
    bench("life_cycle", 3, 35, 100),
    bench("pool_operation", 2, 60, 150),
    bench("paged_decode", 2, 60, 150),
    bench("movement", 2, 50, 90),
    Part("serving_cost", "bench",
         {"smoke": ["--filter=^serving_cost", "--smoke"],
          "default": ["--filter=^serving_cost/10{4,7}$"],  # the largest case alone takes 20 s
          "full": ["--filter=^serving_cost"]},
         {"smoke": 1, "default": 6, "full": 30}),
)
PAGE_SECONDS = 8


def parts_of(mode):
    return [part for part in PARTS if mode in part.arguments]


def experiments_of(name):
    """The experiments of the part of that name; the name itself if no part has it."""
    return next((part.experiments for part in PARTS if part.name == name), ()) or (name,)
