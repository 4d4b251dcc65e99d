# SPDX-License-Identifier: Apache-2.0
"""The figure of what peers.py measured: our time over each peer's, a row for each case and peer."""

from typing import Any

from kvproof_report.common.kernel_cases import GROUPS, label_of
from kvproof_report.common.result_files import Metric

WIDTH, TOP = 760, 66  # [px]


def rows_of(results: list[Any], looks: dict[str, tuple[str, bool]]) -> list[Any]:
    """Rows as dot_rows.py draws them."""
    rows: list[Any] = []
    for operation, title in GROUPS.items():
        named: str | None = title
        for result in results:
            row, found = result["parameters"], result["metrics"]["ours_over_peer"]
            if row["operation"] == operation:
                metric = Metric(found["value"], "ratio", found.get("min", found["value"]),
                                found.get("max", found["value"]))
                rows.append((named, f"{label_of(row)}: {row['peer']}",
                             [(metric, looks[row["peer"]])]))
                named = None
    return rows


def figure_of(results: list[Any], card: str) -> Any:
    """@param results those that have a ratio"""
    from kvproof_report.draw import drawing as d  # imports matplotlib, which may not be there
    from kvproof_report.draw.dot_rows import draw_rows, height_of
    rows = rows_of(results, {"PyTorch": (d.VERMILLION, True), "cuDNN": (d.GREEN, True),
                             "FlashInfer": (d.BLUE, False)})
    most = max(dots[0][0].value for _, _, dots in rows)
    figure = d.new_figure(WIDTH, TOP + height_of(rows) + 50)
    figure.patch.set_visible(True)
    head = d.canvas(figure, 0, 0, WIDTH, TOP)
    peers = dict.fromkeys(f"{result['parameters']['peer']} {result['parameters']['peer_version']}"
                          for result in results)
    d.write(head, f"kvproof's CUDA kernels beside {', '.join(peers)}", (8, 20), (0, 0),
            weight="bold")
    for y, text in ((40, f"{card}, bf16, heads of 128, 32 for queries and 8 for K and V, blocks of "
                         "16 in random order, if a row names no other;"),
                    (57, "sequences × tokens of each. The fastest form of each; interleaved in the "
                         "same rounds, nothing in L2; median and range.")):
        d.write(head, text, (8, y), (0, 0), d.SOFT)
    draw_rows(figure, rows, TOP, WIDTH, 0, max(1.25, 1.05 * most),
              "time of kvproof over time of the peer (left of the line: kvproof is faster)",
              right=165)
    return figure
