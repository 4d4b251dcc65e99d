# SPDX-License-Identifier: Apache-2.0
"""Small result files for the tests: computed by formulas where a test knows the numbers, else real
ones of the gallery."""

import gzip
import json
import math
import os

from kvproof_report.tests.support import GALLERY

REPORT = "https://a.example/1"  # where the one defect that was reported is reported

BLOCK = 16

ENVIRONMENT = {
    "version": "0.1.0", "commit": "0123456789abcdef", "compiler": "gcc 12.2.0",
    "build_type": "Release", "flags": "-O3", "cpu": "Sample CPU", "cores": 2,
    "cache_l1d_bytes": 32768, "cache_l3_bytes": "unknown", "memory_bytes": 8 << 30,
    "date": "2026-01-02T03:04:05Z", "seed": 6,
}


def result(experiment, parameters, **metrics):
    """A metric is (value, unit), (value, unit, min, max), or a number alone: a count."""
    return {"experiment": experiment, "parameters": parameters, "metrics": {
        name: dict(zip(("value", "unit", "min", "max"),
                       metric if isinstance(metric, tuple) else (metric, "count")))
        for name, metric in metrics.items()}}


def live_memory():
    factors = {"contiguous_max_length": 20, "contiguous_power_of_two": 1.4,
               "contiguous_oracle": 1.2, "contiguous_grow_and_copy": 1, "paged": 1.02}
    for source in ("chat", "/data/azure_code.csv.zst"):
        for step in range(50):
            alive = round(10_000 * (1 + math.sin(step / 8)) + 100)
            for storage, factor in factors.items():
                metrics = {"live_tokens": (alive, "tokens"),
                           "reserved_tokens": (round(alive * factor), "tokens")}
                if storage != "paged":
                    metrics["external_fragmentation"] = (step / 100, "ratio")
                    metrics["moved_tokens"] = (step * 10, "tokens")
                yield result("live_memory", {"source": source, "storage": storage,
                                             "seconds": step * 20.0, "max_length": 8192},
                             **metrics)
        yield result("live_memory_run", {"source": source, "storage": "paged"},
                     requests=1234, capacity_tokens=(65_432, "tokens"))


SERVING_STORAGES = {"contiguous_max_length": 10, "contiguous_power_of_two": 20,
                    "contiguous_oracle": 25, "contiguous_grow_and_copy": 24, "paged": 40,
                    "paged_shared": 80}
SERVING_BLOCKS = 1000


def serving():
    """Pages run 4 times as many requests as max-length buffers, which refuse the whole trace."""
    for source in ("mooncake_conversation_trace.jsonl.zst", "chat"):
        for storage, running in SERVING_STORAGES.items():
            none = source != "chat" and storage == "contiguous_max_length"
            parameters = {"source": source, "storage": storage, "card": "h100",
                          "model": "llama-3-8b", "block_size": BLOCK, "clients": 256}
            yield result("serving_run", parameters, **serving_run(0 if none else running, none))
            for step in range(0 if none else 40):
                yield result("serving_over_time", {**parameters, "seconds": step * 2.5},
                             **serving_moment(storage, running, step))


def serving_run(running, none):
    return {"requests": 2000, "refused": 2000 if none else 0,
            "preemptions": running * 3, "capacity_blocks": (SERVING_BLOCKS, "blocks"),
            "simulated_seconds": (0 if none else 100, "s"), "running_mean": running,
            "output_tokens_per_second": (running * 60, "tokens/s"),
            "first_token_seconds_p50": (200 / running if running else 0, "s"),
            "first_token_seconds_p99": (260 / running if running else 0, "s"),
            "hit_rate_tokens": (0, "ratio")}


def serving_moment(storage, running, step):
    """Each running request fills 1 % of the memory with tokens; the storage decides on the rest."""
    whole = SERVING_BLOCKS * BLOCK
    tokens = whole * running // 100
    paged = storage.startswith("paged")
    tail, reserved = (whole // 100, 0) if paged else (0, (whole - tokens) // 2)
    free = whole - tokens - tail - reserved
    return {"tokens_in_memory": (tokens, "tokens"), "partial_tail": (tail, "tokens"),
            "reserved": (reserved, "tokens"), "free": (free, "tokens"),
            "stranded": (free if step % 2 else 0, "tokens")}


def decode_step():
    """Three calls take twice the time of one, 90 instructions for 45; Python 100 and 500 times the
    time of one call. The larger batch costs a quarter more."""
    for live, slower in ((1024, 1.25), (128, 1)):
        for calls, factor in (("three", 2), ("one", 1)):
            ns = 10.0 * factor * slower
            python = {} if calls == "three" else {
                f"{engine}_{metric}": value for engine, times in (("textbook", 100), ("vllm", 500))
                for metric, value in (
                    ("ns_per_token", (ns * times, "ns", ns * times * 0.9, ns * times * 1.2)),
                    ("times_as_long", (times, "ratio", times * 0.9, times * 1.2)))}
            yield result("decode_step", {"case": f"{calls}_{live}", "calls": calls,
                                         "live_requests": live, "block_size": BLOCK},
                         ns_per_token=(ns, "ns", ns - 1, ns + 3),
                         hash_alone_ns_per_token=(0.5, "ns", 0.45, 0.6), **python,
                         instructions_per_token=(45 * factor, "instructions"),
                         hash_alone_instructions_per_token=(8, "instructions"))


def mutant_row(name, family, where, expected, laws, fate, operations, trace, model, content):
    return result("mutant", {"id": name, "family": family, "family_name": f"the ways of {family}",
                             "where": where, "configuration": "full", "expected_law": expected,
                             "laws": laws, "fate": fate}, operations_to_kill=operations,
                  trace_operations=trace, seconds_to_kill=(operations / 1e5, "s"),
                  model_operations=model, content_operations=content)


def mutant():
    """30 faults and 10 patches: 36 by the expected law, 1 by another, 1 by the model, 1 by a crash,
    and 1 that survives; 2 reports do not apply."""
    odd = {7: ("other_law", "I9 C5"), 13: ("model", "-"), 19: ("crash", "-"), 23: ("survived", "-")}
    patched = ("bench/serving/source_0.h", "optimized/source_1.h", "optimized/source_2.h")
    for n in range(40):
        where = "reference/source.h" if n < 30 else patched[n % 3]
        expected = f"I{1 + n % 12}"
        fate, laws = odd.get(n, ("expected", f"{expected} C2" if n % 4 == 0 else expected))
        lives, by_law = fate == "survived", fate in ("expected", "other_law")
        yield mutant_row(f"B{n:03}", f"A{1 + n % 11}" if n < 30 else "patch", where, expected, laws,
                         fate, 0 if lives else 3 * (n + 1) ** 2, 1 + n % 11 if by_law else 0,
                         0 if lives else n + 1, n if n % 2 and not lives else 0)
    yield result("mutants", {}, total=40, killed=39, by_expected_law=36, not_applicable=2,
                 median_trace_operations=6, longest_trace_operations=11, seconds=(12.5, "s"))


def exhaustive():
    """One space that is closed and one that was cut off."""
    for space, states, closed in (("full_chunks", 20_000, 1), ("three", 3_000_000, 0)):
        yield result("exhaustive", {"space": space, "verdict": "holds" if closed else
                                    "cannot_tell"}, states=states, edges=states * 30, depth=17,
                     closed=closed, seconds=(states / 4e5, "s"), bytes_per_state=(61.5, "bytes"),
                     collision_probability=(states * states * 1.5e-39, "ratio"))
    yield result("exhaustive_total", {}, states=3_020_000, edges=90_600_000, closed=0,
                 seconds=(7.55, "s"), collision_probability=(1.35e-26, "ratio"))


def check_law():
    for subject, most in (("naive", 5_000), ("half", 900_000)):
        for n in range(1, 13):
            idle = subject == "half" and n == 9
            yield result("check_law", {
                "subject": subject, "law": f"I{n}", "name": f"the rule of {n}",
                "verdict": "not_applicable" if idle else "holds",
                "reason": "it shows no index" if idle else ""},
                evaluated=0 if idle else most // n, suspended=n)


def gate_measure():
    """One workload is unchanged; in the other, records grew by 133 % and the time tells nothing."""
    for workload, measure, base, head, verdict in (
            ("decode", "instructions per block", 2000, 2000, "same"),
            ("decode", "heap bytes per block", 48, 48, "same"),
            ("eviction", "instructions per block", 400, 380, "better"),
            ("eviction", "heap bytes per block", 48, 112, "worse")):
        yield result("gate_measure", {"workload": workload, "measure": measure, "verdict": verdict},
                     base=base, head=head, change_percent=(100 * (head - base) / base, "percent"),
                     threshold_percent=(1, "percent"))
    yield result("gate_time", {"workload": "eviction", "verdict": "cannot_tell"}, pairs=20,
                 change_percent=(2.5, "percent", -4, 9), threshold_percent=(3, "percent"))


def engine_law():
    """Of three revisions one is held to half of the laws, one breaks what is known, one more."""
    states = {("ours", "1.0"): {}, ("theirs", "abc1234"): {2: "exempted", 4: "known"},
              ("theirs", "def5678"): {2: "exempted", 3: "broken", 4: "known"}}
    for nth, ((engine, revision), unusual) in enumerate(states.items()):
        for law in range(1, 13):
            state = unusual.get(law, "not_applicable" if law % 2 < nth else "holds")
            why = {"not_applicable": "it promises safety, not policy",
                   "known": "a block stays in the index, issue 1",
                   "broken": f"I{law} law {law}: block 5 is free and held"}.get(state, "")
            yield result("engine_law", {"engine": engine, "revision": revision, "source": "pypi",
                                        "law": f"I{law}", "name": f"law {law}", "reason": why,
                                        "verdict": "holds" if state == "exempted" else state},
                         evaluated=0 if state == "not_applicable" else 9000 // law,
                         exempted=40 if state == "exempted" else 0)
    yield result("engine_law", {"engine": "theirs", "revision": "def5678", "source": "pypi",
                                "law": "content", "name": "no law", "verdict": "broken",
                                "reason": "block 5 holds the content of two requests"})
    for nth, ((engine, revision), unusual) in enumerate(states.items()):
        yield result("engines", {"engine": engine, "revision": revision, "source": "pypi",
                                 "verdict": "broken" if nth == 2 else "holds", "broken": ""},
                     seeded=10 * (nth == 0), detected=9 * (nth == 0))


def engine_history():
    """Of three defects one is gone, one lives on, one cannot be met."""
    states = {"old": ("known", "known", "holds"), "new": ("holds", "known", "known"),
              "other": ("not_evaluated",) * 3}
    for nth, revision in enumerate(("1.0", "1.1", "2.0")):
        for defect, lived in states.items():
            why = {"known": "I9: block 5 is in no index", "holds": "",
                   "not_evaluated": "no call that could meet it can be made"}[lived[nth]]
            yield result("engine_history", {
                "engine": "theirs", "revision": revision, "source": "pypi", "defect": defect,
                "what": f"the {defect} defect",
                "link": REPORT if defect == "old" else "-",
                "verdict": lived[nth], "expected": "no", "reason": why},
                met=0 if defect == "other" else 40 + nth, operations=4000)


def live_law():
    """Of eight laws one was never evaluated, one noticed nothing, two found what is known."""
    for n in range(1, 9):
        yield result("live_law", {"engine": "vllm 1.0", "law": f"S{n}", "name": f"rule of {n}"},
                     evaluated=0 if n == 6 else 12_345_678 // n ** 3,
                     faults=0 if n in (5, 6) else n, known=(0, 40, 3)[n] if n < 3 else 0, new=0)
    yield result("live_run", {"engine": "vllm 1.0"}, steps=1_177_032, requests=90_000, runs=1_200,
                 findings_new=0, findings_known=7, laws_evaluated=7, seeded=30, detected=25,
                 steps_per_second=(2500.5, "1/s"))


def live_history():
    """Of three releases one did not start; of three laws one is new in the last, one never
    evaluated."""
    for version, states in (("1.0", ("skipped",) * 3),
                            ("1.1", ("holds", "known", "not_evaluated")),
                            ("2.0", ("holds", "broken", "not_evaluated"))):
        for n, state in enumerate(states, 1):
            yield result("live_history", {
                "engine": "theirs-cpu", "version": version, "model": "full", "mode": "sync",
                "law": f"S{n}", "what": f"S{n} law {n}", "verdict": state,
                "reason": {"skipped": "ImportError: no module", "known": "a-page",
                           "broken": "r1 reads position 5"}.get(
                               state, "it died" if version == "1.1" else "")},
                evaluated=0 if state in ("skipped", "not_evaluated") else 900 // n,
                findings=int(state in ("known", "broken")))


def campaign():
    """Of two kinds one is complete; of the other a task is missing, and two found the same."""
    for kind, complete, findings, what in (("check", 12, 0, {"operations": 1_200_000}),
                                           ("mutants", 3, 2, {"states": 40, "inputs": 7})):
        yield result("campaign", {"plan": "smoke", "kind": kind}, complete=complete,
                     tasks=12 if kind == "check" else 4, findings=findings, **what)
    yield result("campaign_finding", {"law": "I4", "reason": "block 5 is free and held", "shape":
                                      "arrive allocate free", "repeat": "kvproof replay f.jsonl"},
                 tasks=2)


# Of the gallery: what no formula makes, by the file that it is in.
KEPT = {name: name for name in (
    "memory_of_one_request", "memory_of_models", "utilisation", "life_cycle", "eviction",
    "waste_against_block_size", "prefix_hit_rate", "retention", "serving_cost", "pool_operation",
    "movement", "paged_decode", "published")} | {
        "liar": "liars", "peers_kernels": "peers", "peers_allocators": "peers"}
MADE = {maker.__name__: maker for maker in (
    live_memory, serving, decode_step, mutant, exhaustive, check_law, gate_measure, engine_law,
    engine_history, live_law, live_history, campaign)}
NAMES = (*MADE, *KEPT)
# Those of kvproof check, gate, engines, live, campaign and bench --peers.
CHECKED = ("mutant", "liar", "exhaustive", "check_law", "gate_measure", "engine_law",
           "engine_history", "live_law", "live_history", "campaign", "peers_kernels",
           "peers_allocators")


def kept(name):
    path = os.path.join(GALLERY, "amd-epyc-zen3-2cpu", f"{KEPT[name]}.json.gz")
    with gzip.open(path, "rb") as stream:
        rows = json.load(stream)["results"]
    return [row for row in rows if row["experiment"] in (name, f"{name}s")
            and (name != "liar" or row["parameters"].get("operation") in (None, "evict"))]


def document(name):
    """The result file of one experiment."""
    command = f"/opt/kvproof/bin/kvproof-study {name} --json=/home/someone/{name}.json"
    return {"schema": 1, "environment": {**ENVIRONMENT, "command": command},
            "results": list(MADE[name]()) if name in MADE else kept(name)}


def write_all(folder, without=()):
    """Writes one file per experiment; returns their paths."""
    paths = []
    for name in NAMES:
        if name not in without:
            paths.append(os.path.join(folder, name + ".json"))
            with open(paths[-1], "w", encoding="utf-8") as stream:
                json.dump(document(name), stream)
    return paths
