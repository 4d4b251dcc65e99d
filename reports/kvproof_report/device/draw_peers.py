# SPDX-License-Identifier: Apache-2.0
"""Draws what peers.py measured: our time over each peer's, a row for each case and peer.

Exit codes: 0 drawn, 1 nothing to draw, 2 usage or a file that cannot be used, 77 matplotlib is not
installed.
"""

import argparse
import os
import sys
from typing import Any

from kvproof_report.common.result_files import InputError, load_file

WIDTH, TOP = 760, 66  # [px]
GROUPS = {"decode": "Decode: one new token a sequence",
          "prefill": "Prefill: new tokens behind cached ones",
          "mla": "MLA decode: rows of 512 + 64, read by all heads",
          "write": "Writing new tokens into the cache"}


def label_of(row: Any) -> str:
    """What tells a case from the others of its operation, and the peer."""
    text = f"{row['batch']:,} × {row['context']:,}"
    if row["operation"] == "prefill":
        text = f"{row['new']:,} behind {row['context'] - row['new']:,}"
    if row["operation"] == "mla" or row["heads"] != 32:
        text += f", {row['heads']} heads"
    if row["block_size"] != 16:
        text += f", blocks of {row['block_size']}"
    return text + (", fp8" if row["cache_type"] != "bf16" else "")


def rows_of(results: list[Any], looks: dict[str, tuple[str, bool]]) -> list[Any]:
    """Rows as dot_rows.py draws them, of the results that have a ratio."""
    rows: list[Any] = []
    for operation, title in GROUPS.items():
        named: str | None = title
        for row in results:
            if row["operation"] == operation and "ours_over_peer" in row.metrics:
                dot = (row.metrics["ours_over_peer"], looks[row["peer"]])
                rows.append((named, f"{label_of(row)}: {row['peer']}", [dot]))
                named = None
    return rows


def figure_of(results: list[Any], card: str) -> Any:
    from kvproof_report.draw import drawing as d
    from kvproof_report.draw.dot_rows import draw_rows, height_of
    rows = rows_of(results, {"PyTorch": (d.VERMILLION, True), "FlashInfer": (d.BLUE, False)})
    if not rows:
        return None
    most = max(dots[0][0].value for _, _, dots in rows)
    height = height_of(rows)
    figure = d.new_figure(WIDTH, TOP + height + 50)
    head = d.canvas(figure, 0, 0, WIDTH, TOP)
    versions = {row["peer"]: row["peer_version"] for row in results}
    peers = " and ".join(f"{peer} {version}" for peer, version in versions.items())
    d.write(head, f"kvproof's CUDA kernels beside {peers}", (8, 20), (0, 0), weight="bold")
    for y, text in ((40, f"{card}, bf16, heads of 128, 32 for queries and 8 for K and V, blocks of "
                         "16 in random order, if a row names no other;"),
                    (57, "sequences × tokens of each. The fastest form of each peer; in turns in "
                         "the same rounds, nothing in L2; median and range.")):
        d.write(head, text, (8, y), (0, 0), d.SOFT)
    draw_rows(figure, rows, TOP, WIDTH, 0, max(1.25, 1.05 * most),
              "time of kvproof over time of the peer (left of the line: kvproof is faster)",
              right=165)
    return figure


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="draw_peers.py", allow_abbrev=False, description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--output", required=True)
    options = parser.parse_args(arguments)
    try:
        from kvproof_report.draw.drawing import use_style
        from kvproof_report.draw.svg import to_png
    except ModuleNotFoundError:
        print("matplotlib is not installed (Debian: python3-matplotlib)")
        return 77
    use_style()
    try:
        data = load_file(options.file, {})
    except InputError as error:
        print(f"draw_peers.py: {error}")
        return 2
    figure = figure_of(data.results, data.environment.get("gpu_name", "unknown"))
    if figure is None:
        print("nothing to draw: no peer could be compared")
        return 1
    os.makedirs(options.output, exist_ok=True)
    path = os.path.join(options.output, "device-peers.png")
    with open(path + ".part", "wb") as file:
        file.write(to_png(figure))
    os.replace(path + ".part", path)
    print("device-peers")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
