#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records our recordings of vLLM again, with the vLLM that is installed, and compares.

KVPROOF_VLLM_PYTHON names the interpreter that has it; default: this one. Exits 77 with a reason
where there is no vLLM, or one of another release. What needs none is tested before that.
"""

import json
import os
import sys

from record import REPLAY, of_installed, read, record

HERE = os.path.dirname(os.path.abspath(__file__))
HEADER = {"kvproof_trace": 1, "recorded_from": "nobody", "config": {"groups": []}}
FAKE = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    known = asked.get("op") != "fork" and not {"out", "events", "state"} & set(asked)
    pool = dict.fromkeys(("free", "keys", "usage", "queue", "ref", "cached"), 7)
    tables = {"tables": {"a": [[1]], "b": [[2]]}, "progress": {"a": [1], "b": [2]}, "key": 3}
    answer = {"out": asked.get("n"), "events": [], "state": pool | tables}
    print(json.dumps(answer if known else {"unsupported": True}), flush=True)
"""


def lines(*operations):
    every = [HEADER, *operations, {"op": "end", "ops": len(operations)}]
    return [json.dumps(line) + "\n" for line in every]


def the_recorder_writes_what_is_answered():
    fake = [sys.executable, "-c", FAKE]
    asked = lines({"op": "append", "req": "a", "tokens": [1], "out": 5, "state": {}},
                  {"op": "take", "n": 4, "events": [1]}, {"op": "step"})
    header, append, take, step, end = map(json.loads, record(asked, "somebody", fake))
    assert header["recorded_from"] == "somebody", header
    assert "out" not in append and "out" not in step and take["out"] == 4, (append, take, step)
    assert append["state"]["tables"] == {"a": [[1]]} and append["state"]["progress"] == {"a": [1]}
    assert take["state"]["tables"] == {} and take["state"]["queue"] == 7, take
    assert "key" not in append["state"] and "events" not in append, append
    assert end == {"op": "end", "ops": 3}, end
    try:
        record(lines({"op": "fork", "req": "a", "child": "b"}), "somebody", fake)
    except ValueError:
        return
    raise AssertionError("an operation that is not supported was recorded")


def main():
    the_recorder_writes_what_is_answered()
    python = os.environ.get("KVPROOF_VLLM_PYTHON") or sys.executable
    version, path = of_installed(python)
    if not version:
        print(f"skipped: {python} has no vLLM (KVPROOF_VLLM_PYTHON names one that has)")
        return 77
    if not path or os.path.isdir(path) and not os.path.exists(REPLAY):
        print(f"skipped: vLLM {version} is installed; " + (
            f"there is no {REPLAY}" if path else "nothing of it is recorded"))
        return 77
    expected = read(path)
    adapter = [python, "-B", os.path.join(HERE, "vllm_adapter.py")]
    found = record(expected, f"vllm {version}", adapter)
    for number, (want, have) in enumerate(zip(expected, found), start=1):
        if want != have:
            print(f"{path}:{number}: recorded {want}vLLM {version} answers {have}")
            return 1
    print(f"vLLM {version}: {len(expected)} lines, all as recorded")
    return 0 if len(found) == len(expected) else 1


if __name__ == "__main__":
    sys.exit(main())
