# SPDX-License-Identifier: Apache-2.0
"""Makes a result file (schema 1) of the lines that device_bench or peers.py (which writes JSON)
printed, whole or cut off.

Exit codes: 0 written, 1 no line could be used, 2 usage.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import subprocess
import sys
from typing import Any

QUERIES = ("name", "compute_cap", "driver_version", "memory.total", "clocks.sm", "clocks.mem",
           "clocks.max.sm", "clocks.max.mem", "power.limit", "temperature.gpu", "ecc.mode.current")


def value_of(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def result_of(line: str) -> dict[str, Any] | None:
    """One result, or None for a line that is not whole."""
    if line.startswith("{") and line.endswith("\n"):
        result: dict[str, Any] = json.loads(line)
        return result
    parts = line.rstrip("\n").split("\t")
    if not line.endswith("\n") or len(parts) != 3:
        return None
    metrics: dict[str, Any] = {}
    for part in parts[2].split(" "):
        name, _, rest = part.partition("=")
        value, unit, low, high = rest.split(",")
        numbers = [float(value), float(low), float(high)]
        if not all(map(math.isfinite, numbers)):
            return None
        metrics[name] = {"value": numbers[0], "unit": unit}
        if numbers[1] != numbers[2]:
            metrics[name].update(min=numbers[1], max=numbers[2])
    parameters = dict(part.split("=", 1) for part in parts[1].split(" "))
    return {"experiment": parts[0],
            "parameters": {name: value_of(value) for name, value in parameters.items()},
            "metrics": metrics}


def first_line(*command: str) -> str:
    """The last line that a program prints; "unknown" if it prints nothing."""
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return text.strip().splitlines()[-1].strip() if text.strip() else "unknown"


def environment_of(options: argparse.Namespace) -> dict[str, Any]:
    found = first_line("nvidia-smi", "--query-gpu=" + ",".join(QUERIES), "--format=csv,noheader")
    values = [value.strip() for value in found.split(",")]
    if len(values) != len(QUERIES):
        values = ["unknown"] * len(QUERIES)
    gpu = {"gpu_" + name.replace(".", "_"): value for name, value in zip(QUERIES, values)}
    return {"commit": options.commit, "program": options.program, **gpu,
            "toolkit": first_line(options.nvcc, "--version"), "architecture": options.architecture,
            "kernel": platform.platform(), "smoke": options.smoke,
            "complete": options.complete == "yes",
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="results.py", allow_abbrev=False, description=__doc__)
    parser.add_argument("lines")
    parser.add_argument("--output", required=True)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--architecture", default="unknown")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--program", default="device_bench")
    parser.add_argument("--complete", choices=("yes", "no"), default="yes")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(arguments)
    with open(options.lines, encoding="utf-8") as file:
        lines = file.readlines()
    results = []
    for number, line in enumerate(lines, 1):
        try:
            result = result_of(line)
        except ValueError:
            result = None
        if result is None:
            print(f"results.py: line {number} is not whole", file=sys.stderr)
        else:
            results.append(result)
    if not results:
        print("no result", file=sys.stderr)
        return 1
    body = ",\n".join(json.dumps(result) for result in results)
    text = (f'{{"schema":1,"environment":{json.dumps(environment_of(options))},"results":[\n'
            f"{body}\n]}}\n")
    temporary = f"{options.output}.part-{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, options.output)
    print(f"{len(results)} results in {os.path.basename(options.output)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
