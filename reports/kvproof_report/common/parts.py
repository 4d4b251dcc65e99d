# SPDX-License-Identifier: Apache-2.0
"""The list of the parts of a report: what is measured, by which program, and how long that takes.

A part writes one result file, named after it. A new part is one row here; what the page shows of
it is a module in figures/, without which the results become a plain table.
"""

from dataclasses import dataclass

MODES = ("smoke", "default", "thorough", "full")


@dataclass(frozen=True)
class Part:
    name: str
    program: str      # kvproof-<program>
    arguments: dict[str, list[str]]  # of each mode; a mode that is not here leaves this part out
    seconds: dict[str, int]  # of each mode on two cores, about; with traces: for each of them
    traces: bool = False    # whether --trace goes to it
    experiments: tuple[str, ...] = ()  # those of its results; none given: one, named as the part
    downloads: bool = False  # whether the launcher runs it, and only with --yes: it downloads

    def expected_seconds(self, mode: str, num_traces: int) -> int:
        return self.seconds[mode] * (1 + num_traces if self.traces else 1)


def study(name: str, smoke: int, default: int, traces: bool = False,
          experiments: tuple[str, ...] = (), modes: tuple[str, ...] = MODES) -> Part:
    """Counts do not depend on how long one looks, so every run of it but the smoke is the same."""
    return Part(name, "study", {mode: [name, "--smoke"] if mode == "smoke" else [name]
                                for mode in modes},
                {mode: smoke if mode == "smoke" else default for mode in modes}, traces,
                experiments)


# How long each run looks at every case.
LOOKS = {"smoke": ["--smoke"], "default": ["--min-seconds-per-case=0.02", "--fewest-rounds=5"],
         "thorough": [], "full": ["--min-seconds-per-case=1"]}


def bench(name: str, first_look: str, smoke: int, default: int, thorough: int, full: int) -> Part:
    """A first look, the default, takes the cases that this regular expression finds."""
    return Part(name, "bench", {
        mode: ["--filter=^" + (first_look if mode == "default" else name)] + LOOKS[mode]
        for mode in MODES},
        {"smoke": smoke, "default": default, "thorough": thorough, "full": full})


# The exit codes with which check and selftest say what they found: results are there all the same.
VIOLATED, CANNOT_TELL = 1, 3


def check(name: str, experiment: str, seconds: dict[str, int], program: str = "check",
          **arguments: list[str]) -> Part:
    return Part(name, program, arguments, seconds, experiments=(experiment,))


# The parts that read traces come first, so that an unreadable trace is known at once.
PARTS = (
    study("live_memory", 1, 4, traces=True),
    study("prefix_hit_rate", 1, 1, traces=True),
    study("eviction", 1, 6, traces=True),
    study("retention", 1, 9, traces=True, modes=("smoke", "thorough", "full")),
    study("serving", 1, 1, traces=True, experiments=("serving_run", "serving_over_time")),
    study("waste_against_block_size", 1, 1, traces=True),
    study("memory_of_one_request", 1, 1),
    study("utilisation", 1, 1),
    study("memory_of_models", 1, 1),
    study("published", 2, 12, modes=("smoke", "thorough", "full")),
    # With fewer operations some of what is promised is not seen, and check cannot tell.
    check("check", "check_law", {"smoke": 2, "default": 3, "thorough": 3, "full": 30},
          smoke=["--operations=1500"], default=["--operations=2000"],
          thorough=["--operations=2000"], full=[]),
    check("mutants", "mutant", {"full": 130}, "selftest", full=["--mutants"]),
    check("liars", "liar", {"full": 110}, "selftest", full=["--liars"]),
    check("exhaustive", "exhaustive", {"full": 460}, full=["--exhaustive"]),
    # No report makes them, for that takes a network; the page shows what those verbs have left.
    Part("engines", "engines", {}, {}, experiments=("engine_law",)),
    Part("history", "engines", {}, {}, experiments=("engine_history",)),
    Part("live", "live", {}, {}, experiments=("live_law",)),
    Part("live_history", "live", {}, {}, experiments=("live_history",)),
    bench("life_cycle", "life_cycle/(xxh3|sha256|hybrid)_64k$", 3, 10, 52, 100),
    bench("decode_step", "decode_step", 1, 15, 15, 15),  # about 25 s more where vLLM is installed
    bench("pool_operation", "pool_operation/.*(num_blocks:(1024|65536)/|"
          "(take_release|lookup_hit)/num_blocks:1048576/batch:(16|64)/)", 2, 6, 40, 150),
    bench("paged_decode", "paged_decode/bf16/.*(block:(1|16|64|256)/shuffled/context:8192/"
          "batch:4/ratio:4/threads:1|context:(1024/batch:32|32768))", 2, 10, 60, 150),
    bench("movement", "movement/(.*/nhd|.*_blocks|slot_mapping)/threads:1", 2, 9, 50, 90),
    Part("serving_cost", "bench",
         {"smoke": ["--filter=^serving_cost", "--smoke"],
          "default": ["--filter=^serving_cost/10{4,6}$"],
          "thorough": ["--filter=^serving_cost/10{4,7}$"],  # the largest case alone takes 20 s
          "full": ["--filter=^serving_cost"]},
         {"smoke": 1, "default": 1, "thorough": 6, "full": 30}),
    Part("peers", "bench", {mode: ["--peers"] for mode in ("thorough", "full")},
         {"thorough": 720, "full": 720}, experiments=("peers_kernels", "peers_allocators"),
         downloads=True),
)
PAGE_SECONDS = 8


def parts_of(mode: str, downloads: bool = False) -> list[Part]:
    return [part for part in PARTS
            if mode in part.arguments and (downloads or not part.downloads)]


def experiments_of(name: str) -> tuple[str, ...]:
    """The experiments of the part of that name, or the one of that name; else none."""
    found = {part.name: part.experiments or (part.name,) for part in PARTS}
    every = [experiment for experiments in found.values() for experiment in experiments]
    return found.get(name) or tuple(experiment for experiment in every if experiment == name)
