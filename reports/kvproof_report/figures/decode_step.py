# SPDX-License-Identifier: Apache-2.0
"""A decode step of a batch: time and instructions of a token, by one call, by three, in Python."""

from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row, grouped
from kvproof_report.draw.numbers import count, digits, times
from kvproof_report.draw.plot import Plot, groups, plain_table
from kvproof_report.draw.sheet import Words, drawn

TIME, COUNTED = "ns_per_token", "instructions_per_token"
# call's name -> (label, colour); the floor is hollow.
CALLS = {"one": ("one call", d.BLUE), "three": ("three calls", d.GREEN)}
HASH = ("hash alone", d.VERMILLION)
PYTHON = {"textbook": ("textbook", d.AMBER), "vllm": ("vLLM", d.PINK)}
NOT_COUNTED = ("Instructions of a token: not counted here. That takes valgrind, and a run without "
               "--smoke.")


def batches(results):
    """live requests -> results, by ascending live requests; one call comes before three."""
    order = list(CALLS)
    return groups(sorted(results, key=lambda r: (r["live_requests"], order.index(r["calls"]))),
                  "live_requests")


def panel_rows(results, cases):
    """The rows of a panel. @param cases: results of one batch -> [((label, colour), metric)]"""
    return grouped({f"batch of {count(live)}": [
        Row(name[0], [Dot(metric, name[1], hollow=name == HASH)]) for name, metric in cases(batch)]
        for live, batch in batches(results).items()})


def times_of(batch):
    return ([(HASH, batch[0].metrics[f"hash_alone_{TIME}"])] +
            [(CALLS[r["calls"]], r.metrics[TIME]) for r in batch] +
            [((f"Python, {name}", colour), r.metrics[f"{engine}_{TIME}"])
             for engine, (name, colour) in PYTHON.items() for r in batch
             if f"{engine}_{TIME}" in r.metrics])


def counts_of(batch):
    counted = [r for r in batch if COUNTED in r.metrics and f"hash_alone_{COUNTED}" in r.metrics]
    return ([(HASH, r.metrics[f"hash_alone_{COUNTED}"]) for r in counted[:1]] +
            [(CALLS[r["calls"]], r.metrics[COUNTED]) for r in counted])


@drawn
def draw(results):
    counted = panel_rows(results, counts_of)
    return [Dots(panel_rows(results, times_of), "ns per token, log scale; line: 10 to 90 %",
                 log=True, spread=True),
            Dots(counted, "instructions per token") if counted else Words(NOT_COUNTED, d.INK)]


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    """Of the smallest batch alone."""
    live, batch = next(iter(batches(results).items()))
    text = f"A decode step of {count(live)} requests takes {' and '.join(map(cost_of, batch))}"
    python = [f"{times(batch[0].value(metric))} ({name})" for engine, (name, _) in PYTHON.items()
              for metric in [f"{engine}_times_as_long"] if metric in batch[0].metrics]
    return text + (f"; Python takes {' and '.join(python)} the time of one call" if python else "")


def cost_of(result):
    text = f"{digits(result.value(TIME))} ns a token by {CALLS[result['calls']][0]}"
    if COUNTED in result.metrics:
        text += f" ({digits(result.value(COUNTED))} instructions)"
    return text


PLOT = Plot(
    "decode-step", "decode_step", "kvproof bench --filter=decode_step", draw, finding,
    "Hollow is the hash alone, which no manager with these keys can save. What lies between it "
    "and a call is the cache manager; one call for the whole batch has to stand left of three for "
    "each request.",
    "Timed on one core, interleaved in one run: 64 whole steps of the batch with their block ends "
    "and hashes, on a warm pool of 65,536 blocks of 16 tokens in which every new block evicts one; "
    "shown is the median. One call and three come to the same tables. Python: 16 of these steps a "
    "round by the textbook allocator and, where KVPROOF_VLLM_PYTHON or python3 has it, by vLLM's "
    "KVCacheManager, without sampling and batching. Instructions by callgrind.",
    lambda results: plain_table([r for batch in batches(results).values() for r in batch]),
    optional=True, section="Allocator", place=15)
