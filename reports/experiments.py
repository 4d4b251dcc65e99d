# SPDX-License-Identifier: Apache-2.0
"""THE LIST of experiments that the page knows: which parameters and metrics each result carries.

Reading a result file checks it against this list, so that a figure never meets a value it cannot
draw. An experiment that is not listed is kept and shown as a plain table.
"""

import re
from dataclasses import dataclass

# Kinds of values: (what a message calls it, test).
TEXT = ("a text", lambda value: isinstance(value, str) and value != "")
COUNT = ("a whole number of 0 or more",
         lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0)
POSITIVE = ("a number above 0", lambda value: is_number(value) and value > 0)
AMOUNT = ("a number of 0 or more", lambda value: is_number(value) and value >= 0)
SHARE = ("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1)

STORAGES = {
    "contiguous_max_length": "contiguous, max length",
    "contiguous_power_of_two": "contiguous, power of two",
    "contiguous_oracle": "contiguous, oracle",
    "contiguous_grow_and_copy": "contiguous, grow and copy",
    "paged": "paged",
    "paged_shared": "paged, shared prefix",
}
STORAGE = ("one of " + ", ".join(STORAGES), lambda value: value in STORAGES)

LAYOUT = ("nhd or hnd", lambda value: value in ("nhd", "hnd"))

# What became of a seeded bug.
FATES = {
    "expected": "expected law",
    "other_law": "another law",
    "model": "model only",
    "content": "content only",
    "crash": "crash",
    "hang": "hang",
    "survived": "survived",
}
FATE = ("one of " + ", ".join(FATES), lambda value: value in FATES)


VERDICTS = ("better", "worse", "same", "cannot tell")
VERDICT = ("one of " + ", ".join(VERDICTS), lambda value: value in VERDICTS)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Experiment:
    parameters: dict  # name -> kind
    metrics: dict     # name -> kind
    optional: dict    # metric name -> kind, checked where present
    agrees: tuple = ()  # of (parameter, what it must be, test of all parameters)
    most: int = 100_000  # results that one page can show
    cites: bool = False  # its sources are publications, not traces
    most_names: int = 32  # different texts of one parameter that one page can show


EXPERIMENTS = {
    "memory_of_one_request": Experiment(
        {"storage": STORAGE, "tokens": COUNT, "block_size": POSITIVE,
         "bytes_per_token": POSITIVE, "max_length": POSITIVE},
        {"allocated_bytes": AMOUNT, "used_bytes": AMOUNT}, {}),
    "memory_of_models": Experiment(
        {"model": TEXT, "cache": TEXT, "tokens": POSITIVE, "block_size": POSITIVE,
         "context_tokens": POSITIVE},
        {"allocated_bytes": POSITIVE, "live_bytes": POSITIVE}, {}, most=4000),
    "utilisation": Experiment(
        {"storage": STORAGE, "requests": POSITIVE},
        {"allocated_bytes": POSITIVE, "used_bytes": AMOUNT, "utilisation": SHARE},
        {"saving_factor": POSITIVE}, most=32),
    "waste_against_block_size": Experiment(
        {"block_size": POSITIVE, "workload": TEXT},
        {"mean_waste_tokens": AMOUNT, "waste_share": SHARE,
         "table_entries_per_request": POSITIVE}, {}),
    "live_memory": Experiment(
        {"source": TEXT, "storage": STORAGE, "seconds": AMOUNT, "max_length": POSITIVE},
        {"live_tokens": AMOUNT, "reserved_tokens": AMOUNT},
        {"external_fragmentation": SHARE, "moved_tokens": AMOUNT}),
    # What a run of live_memory came to: the table below its figure.
    "live_memory_run": Experiment({"source": TEXT, "storage": STORAGE}, {}, {}),
    "prefix_hit_rate": Experiment(
        {"source": TEXT, "block_size": POSITIVE},
        {"hit_rate_tokens": SHARE}, {"hit_rate_blocks": SHARE, "evictions": AMOUNT}),
    "eviction": Experiment(
        {"source": TEXT, "policy": TEXT, "capacity_blocks": POSITIVE, "block_size": POSITIVE},
        {"hit_rate_blocks": SHARE}, {"hit_rate_tokens": SHARE, "evictions": AMOUNT}, most=1000),
    "serving_run": Experiment(
        {"source": TEXT, "storage": STORAGE, "model": TEXT, "block_size": POSITIVE,
         "clients": POSITIVE},
        {"requests": COUNT, "refused": COUNT, "preemptions": COUNT, "capacity_blocks": POSITIVE,
         "simulated_seconds": AMOUNT, "running_mean": AMOUNT, "output_tokens_per_second": AMOUNT,
         "first_token_seconds_p50": AMOUNT, "first_token_seconds_p99": AMOUNT,
         "hit_rate_tokens": SHARE}, {}, most=200),
    "serving_over_time": Experiment(
        {"source": TEXT, "storage": STORAGE, "seconds": AMOUNT},
        {"tokens_in_memory": AMOUNT, "partial_tail": AMOUNT, "reserved": AMOUNT,
         "stranded": AMOUNT, "free": AMOUNT}, {}),
    "serving_cost": Experiment(
        {"blocks": POSITIVE, "pool_blocks": POSITIVE},
        {"ns_per_block": POSITIVE, "seconds": AMOUNT}, {}, most=100),
    "published": Experiment(
        {"claim": TEXT, "source": TEXT, "series": TEXT, "at": TEXT},
        {"here": AMOUNT}, {"published": AMOUNT}, most=200, cites=True),
    "pool_operation": Experiment(
        {"operation": TEXT, "num_blocks": POSITIVE},
        {"ns_per_block": POSITIVE},
        {"call_p50": POSITIVE, "call_p99": POSITIVE, "call_worst": POSITIVE}, most=1000),
    "mutant": Experiment(
        {"id": TEXT, "family": TEXT, "family_name": TEXT, "where": TEXT, "configuration": TEXT,
         "expected_law": TEXT, "laws": TEXT, "fate": FATE},
        {"operations_to_kill": COUNT, "seconds_to_kill": AMOUNT, "trace_operations": COUNT,
         "model_operations": COUNT, "content_operations": COUNT}, {},
        agrees=(("laws", "the expected law among them, as the fate says",
                 lambda p: p["fate"] != "expected" or p["expected_law"] in p["laws"].split()),
                ("laws", "a law, as the fate says",
                 lambda p: p["fate"] != "other_law" or p["laws"] != "-")),
        most=500, most_names=500),
    "mutants": Experiment({}, {"not_applicable": COUNT, "seconds": AMOUNT}, {}, most=1),
    "exhaustive": Experiment(
        {"space": TEXT},
        {"states": POSITIVE, "edges": COUNT, "depth": COUNT, "closed": SHARE, "seconds": AMOUNT,
         "bytes_per_state": AMOUNT, "collision_probability": AMOUNT}, {}, most=32),
    # The searches together, which the table repeats.
    "exhaustive_total": Experiment({}, {}, {}),
    "check_law": Experiment(
        {"subject": TEXT, "law": TEXT, "name": TEXT, "verdict": TEXT},
        {"checked": COUNT, "suspended": COUNT}, {}, most=1000, most_names=100),
    # What a report itself took; run_file.py writes it.
    "report_part": Experiment(
        {"part": TEXT},
        {"seconds": AMOUNT, "cpu_seconds": AMOUNT, "peak_rss_bytes": COUNT}, {}, most=100,
        most_names=100),
    "gate_measure": Experiment(
        {"workload": TEXT, "measure": TEXT, "verdict": VERDICT},
        {"base": AMOUNT, "head": AMOUNT, "change_percent": ("a number", is_number),
         "threshold_percent": AMOUNT}, {}, most=200),
    # The times of both builds, behind the counts.
    "gate_time": Experiment(
        {"workload": TEXT, "verdict": VERDICT},
        {"change_percent": ("a number", is_number), "threshold_percent": AMOUNT}, {}, most=32),
    "paged_decode": Experiment(
        {"type": TEXT, "layout": LAYOUT, "block_size": POSITIVE, "order": TEXT,
         "context": POSITIVE, "batch": POSITIVE, "ratio": POSITIVE, "threads": POSITIVE,
         "implementation": TEXT},
        {"gb_per_second": POSITIVE, "fraction_of_read_ceiling": POSITIVE,
         "fraction_of_gather_ceiling": POSITIVE, "paged_over_contiguous": POSITIVE,
         "contiguous_fraction_of_read_ceiling": POSITIVE}, {}, most=500, most_names=500),
    "movement": Experiment(
        {"operation": TEXT, "type": TEXT, "cache_type": TEXT, "layout": LAYOUT,
         "threads": POSITIVE, "implementation": TEXT},
        {"ns_per_call": POSITIVE},
        {"fraction_of_copy_ceiling": POSITIVE, "ns_per_token": POSITIVE}, most=500,
        most_names=500),
    "life_cycle": Experiment(
        {}, {"ns_per_block": POSITIVE},
        {"instructions_per_block": POSITIVE, "bytes_per_block": POSITIVE,
         "ns_per_decode_token": POSITIVE}, most=32),
}

# A part of a report whose results are not named as it is.
EXPERIMENTS_OF = {"serving": ("serving_run", "serving_over_time")}


def words(name):
    """A key as words: 'ns_per_block' -> 'ns per block'."""
    return re.sub(r"[_\s]+", " ", name).strip()
