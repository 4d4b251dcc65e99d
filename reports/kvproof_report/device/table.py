# SPDX-License-Identifier: Apache-2.0
"""Prints the numbers that decide: of device_bench prefill, MLA and usual decodes, a line for each
implementation; of peers.py a line for each case.

Exit codes: 0 printed what there is, 2 usage or a file that cannot be used.
"""

import argparse
import sys
from typing import Any

from kvproof_report.common.kernel_cases import label_of
from kvproof_report.common.result_files import parse
from kvproof_support.files import InputError

USUAL = {"heads": 32, "head_size": 128, "block_size": 16, "layout": "nhd", "tables": "shuffled",
         "l2": "cold"}
SHOWN = {"read": "fraction_of_read_ceiling", "multiply": "fraction_of_multiply_ceiling",
         "paging": "paged_over_contiguous"}
OURS = {"device_paged_decode": "decode", "device_paged_prefill": "prefill",
        "device_mla_decode": "mla"}


def value(result: Any, name: str) -> float:
    """Of a metric; 0 where it was not measured."""
    found: float = result["metrics"].get(name, {"value": 0})["value"]
    return found


def begin_of(operation: str, case: dict[str, Any], implementation: str, result: Any) -> str:
    cycles = value(result, "cycles") / 1000
    return (f"{operation + ' ' + label_of(case):44} {implementation:12}"
            f" {value(result, 'time'):9.1f} us {f'{cycles:.0f} kcycles' if cycles else '':>16}")


def ours(results: list[Any]) -> list[str]:
    lines = []
    for result in results:
        row, operation = result["parameters"], OURS.get(result["experiment"])
        if operation is None or (operation == "decode" and any(
                row[name] != usual for name, usual in USUAL.items())):
            continue
        case = {**row, "operation": operation, "new": row.get("chunk"),
                "context": row.get("context") or row["chunk"] + row["prefix"]}
        if row.get("layout") == "hnd":
            operation += " hnd"
        lines.append(begin_of(operation, case, row["implementation"], result) + "".join(
            f"  {name} {value(result, metric):.3f}" for name, metric in SHOWN.items()
            if metric in result["metrics"]))
    return lines


def peers(results: list[Any]) -> list[str]:
    lines: dict[str, str] = {}
    for result in results:
        row = result["parameters"]
        if result["experiment"] != "device_peers":
            continue
        if "peer_time" in result["metrics"]:
            begin = lines.get(row["case"]) or begin_of(row["operation"], row,
                                                       row.get("our_form", "ours"), result)
            lines[row["case"]] = (f"{begin}  {value(result, 'ours_over_peer'):.3f} of {row['peer']}"
                                  f" ({value(result, 'peer_time'):.1f} us)")
    return list(lines.values())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="table.py", allow_abbrev=False, description=__doc__)
    parser.add_argument("file")
    try:
        results = parse(parser.parse_args(arguments).file)["results"]
    except InputError as error:
        print(f"table.py: {error}")
        return 2
    for line in ours(results) + peers(results):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
