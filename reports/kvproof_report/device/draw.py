# SPDX-License-Identifier: Apache-2.0
"""Draws what device_bench measured: decode by block size, prefill by new tokens, MLA by heads, and
reshape_and_cache by tokens; and what peers.py measured.

Exit codes: 0 drawn, 1 nothing to draw, 2 usage or a file that cannot be used, 77 matplotlib is not
installed.
"""

import argparse
import os
import sys
from typing import Any, Iterator

from kvproof_report.common.result_files import parse
from kvproof_support.files import InputError
from kvproof_report.device import draw_peers

BASE = {"implementation": "cuda/mma", "batch": 32, "context": 4096, "heads": 32, "kv_heads": 8,
        "head_size": 128, "cache_type": "bf16", "tables": "shuffled", "l2": "cold"}
PREFILL = {"batch": 1, "prefix": 4096, "block_size": 16, "layout": "nhd", "cache_type": "bf16"}
MLA = {"batch": 32, "context": 4096, "block_size": 16}
CEILINGS = (("of a read of as much", "fraction_of_read_ceiling"),
            ("of the matrix unit's pace", "fraction_of_multiply_ceiling"))

Points = list[tuple[float, float]]  # (x, value)
Line = tuple[str, Points]  # with its name


def series(results: list[Any], experiment: str, fixed: dict[str, Any], x: str,
           metric: str) -> Points:
    """The points (x, value) of those results of one experiment that have the fixed parameters."""
    points = []
    for result in results:
        parameters = result["parameters"]
        if (result["experiment"] == experiment and metric in result["metrics"]
                and all(parameters.get(name) == value for name, value in fixed.items())):
            points.append((parameters[x], result["metrics"][metric]["value"]))
    return sorted(points)


def implementations(results: list[Any], experiment: str) -> list[str]:
    return sorted({result["parameters"]["implementation"] for result in results
                   if result["experiment"] == experiment})


def figure_of(pyplot: Any, lines: list[Line], labels: tuple[str, str], title: str) -> Any:
    figure, axes = pyplot.subplots(figsize=(8, 4))
    for name, points in lines:
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=name)
    places = sorted({x for _, points in lines for x, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(places, labels=[f"{place:,}" for place in places])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.set_title(title, loc="left")
    axes.legend(frameon=False)
    figure.tight_layout()
    return figure


def figures_of(results: list[Any], card: str, pyplot: Any) -> Iterator[tuple[str, Any]]:
    decode = [(f"{layout.upper()}, {name}",
               series(results, "device_paged_decode", {**BASE, "layout": layout}, "block_size",
                      metric))
              for layout in ("nhd", "hnd")
              for name, metric in (("of a read of as much", "fraction_of_read_ceiling"),
                                   ("of copy bandwidth", "fraction_of_copy_bandwidth"))]
    reshape = [(f"{layout.upper()}, {implementation}",
                series(results, "device_reshape_and_cache",
                       {"layout": layout, "implementation": implementation, "l2": "cold"},
                       "tokens", "fraction_of_copy"))
               for layout in ("nhd", "hnd")
               for implementation in implementations(results, "device_reshape_and_cache")]
    prefill, mla = ([(f"{implementation}, {name}",
                      series(results, experiment, {**fixed, "implementation": implementation}, x,
                             metric))
                     for implementation in implementations(results, experiment)
                     for name, metric in CEILINGS]
                    for experiment, fixed, x in (("device_paged_prefill", PREFILL, "chunk"),
                                                 ("device_mla_decode", MLA, "heads")))
    for name, lines, labels, title in (
            ("device-decode", decode, ("block size [tokens]", "share"),
             f"Paged decode, bf16, 32 x 4,096 tokens, 32/8 heads of 128, shuffled: {card}"),
            ("device-prefill", prefill, ("new tokens", "share"),
             f"Paged prefill behind 4,096 tokens, bf16, 32/8 heads of 128, block 16: {card}"),
            ("device-mla", mla, ("query heads", "share"),
             f"MLA decode, 32 x 4,096 rows of 576, bf16, block 16: {card}"),
            ("device-reshape", reshape, ("tokens", "share of a copy of as much"),
             f"reshape_and_cache, bf16, 8 heads of 128, block 16: {card}")):
        lines = [line for line in lines if line[1]]
        if lines:
            yield name, figure_of(pyplot, lines, labels, title)
    peers = [result for result in results if "ours_over_peer" in result["metrics"]]
    if peers:
        yield "device-peers", draw_peers.figure_of(peers, card)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="draw.py", allow_abbrev=False, description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--output", required=True)
    options = parser.parse_args(arguments)
    try:
        import matplotlib
    except ModuleNotFoundError:
        print("matplotlib is not installed (Debian: python3-matplotlib)")
        return 77
    matplotlib.use("Agg")
    from matplotlib import pyplot

    from kvproof_report.draw.drawing import use_style
    use_style()
    try:
        data = parse(options.file)
    except InputError as error:
        print(f"draw.py: {error}")
        return 2
    os.makedirs(options.output, exist_ok=True)
    drawn = []
    for name, figure in figures_of(data["results"], data["environment"]["gpu_name"], pyplot):
        path = os.path.join(options.output, name + ".png")
        figure.savefig(path + ".part", format="png", dpi=144, metadata={"Software": None})
        os.replace(path + ".part", path)
        drawn.append(name)
    print(", ".join(drawn) or "nothing to draw")
    return 0 if drawn else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
