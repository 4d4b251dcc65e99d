# SPDX-License-Identifier: Apache-2.0
"""The figures of what device_bench measured: decode by block size, prefill by new tokens, MLA by
heads, and reshape_and_cache by tokens; and of what peers.py measured beside others."""

from typing import Iterator

from matplotlib.figure import Figure

from kvproof_report.common.kernel_cases import GROUPS, label_of
from kvproof_report.common.result_files import Result
from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row, grouped
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.numbers import count
from kvproof_report.draw.sheet import Words, sheet

BASE = {"implementation": "cuda/mma", "batch": 32, "context": 4096, "heads": 32, "kv_heads": 8,
        "head_size": 128, "cache_type": "bf16", "tables": "shuffled", "l2": "cold"}
READ, MULTIPLY = "fraction_of_read_ceiling", "fraction_of_multiply_ceiling"
NAMES = {READ: "of a read of as much", MULTIPLY: "of the matrix unit's pace",
         "fraction_of_copy_bandwidth": "of copy bandwidth", "fraction_of_copy": ""}
# A figure: its name, the experiment, the parameters that are fixed, x and its title, the metrics of
# its lines, and what it says besides.
FIGURES = (
    ("device-decode", "device_paged_decode", BASE, ("block_size", "block size [tokens]"),
     (READ, "fraction_of_copy_bandwidth"),
     "Paged decode, bf16, 32 × 4,096 tokens, 32/8 heads of 128, shuffled"),
    ("device-prefill", "device_paged_prefill",
     {"batch": 1, "prefix": 4096, "block_size": 16, "layout": "nhd", "cache_type": "bf16"},
     ("chunk", "new tokens"), (READ, MULTIPLY),
     "Paged prefill behind 4,096 tokens, bf16, 32/8 heads of 128, block 16"),
    ("device-mla", "device_mla_decode", {"batch": 32, "context": 4096, "block_size": 16},
     ("heads", "query heads"), (READ, MULTIPLY),
     "MLA decode, 32 × 4,096 rows of 576, bf16, block 16"),
    ("device-reshape", "device_reshape_and_cache", {"l2": "cold"}, ("tokens", "tokens"),
     ("fraction_of_copy",),
     "reshape_and_cache, bf16, 8 heads of 128, block 16; share of a copy of as much"))
PEER_COLOURS = {"PyTorch": d.VERMILLION, "cuDNN": d.GREEN, "FlashInfer": d.BLUE}


def figures_of(results: list[Result], card: str) -> Iterator[tuple[str, Figure]]:
    for name, experiment, fixed, (x, title), metrics, words in FIGURES:
        found: dict[str, list[tuple[float, float]]] = {}
        for r in sorted((r for r in results if r.experiment == experiment and
                         all(r.get(key) == value for key, value in fixed.items())),
                        key=lambda r: (r.get("layout", ""), r["implementation"], r[x])):
            varied = [r.get(key, "").upper() if key == "layout" else r[key]
                      for key in ("layout", "implementation") if key in r.parameters.keys() - fixed]
            for metric in metrics:
                if metric in r.metrics:
                    said = ", ".join(filter(None, (*varied, NAMES[metric])))
                    found.setdefault(said, []).append((r[x], r.value(metric)))
        if found:
            yield name, lines(found, title, f"{words}: {card}")
    compared = [r for r in results if "ours_over_peer" in r.metrics]
    if compared:
        yield "device-peers", peers(compared, card)


def lines(found: dict[str, list[tuple[float, float]]], title: str, words: str) -> Figure:
    """@param found: name -> points of each line"""
    series = [Series(name, look, points)
              for (name, points), look in zip(found.items(), d.SERIES_LOOK)]
    marks = sorted({x for points in found.values() for x, _ in points})
    return sheet(d.WIDE, [Words(words, d.INK, "bold"), Lines(
        "", Axis(title, 2, count, marks), Axis("share", span=[0]), series)])


def peers(results: list[Result], card: str) -> Figure:
    """Our time over each peer's, a row for each case and peer."""
    rows = {group: [
        Row(f"{label_of(r.parameters)}: {r['peer']}", [Dot(r.metrics["ours_over_peer"], colour,
                                                           hollow=colour != d.BLUE)])
        for r in results if r["operation"] == operation for colour in [PEER_COLOURS[r["peer"]]]]
        for operation, group in GROUPS.items()}
    names = dict.fromkeys(f"{r['peer']} {r['peer_version']}" for r in results)
    return sheet(d.WIDE, [
        Words(f"kvproof's CUDA kernels beside {', '.join(names)}", d.INK, "bold"),
        Words(f"{card}, bf16, heads of 128, 32 for queries and 8 for K and V, blocks of 16 in "
              "random order, if a row names no other; sequences × tokens of each. The fastest form "
              "of each; interleaved in the same rounds, nothing in L2; median and range."),
        Dots(grouped(rows), "time of kvproof over time of the peer (left of the line: kvproof is "
             "faster)", mark=1, spread=True)])
