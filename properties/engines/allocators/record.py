#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what a program answers to the operations of the traces in a file.

    properties/engines/allocators/record.py TRACES NAME COMMAND... | gzip -9n >RECORDING

NAME becomes the headers' recorded_from. What the traces say was answered before is ignored. Of the
state, the pool is written without its keys, whose values are the allocator's own, and the tables of
the request that the operation names.
"""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

POOL = ("free", "keys", "usage", "queue", "ref", "cached")
ROOT = pathlib.Path(__file__).resolve().parents[3]
VECTORS = ROOT / "properties" / "sources" / "traces" / "vectors"
REPLAY = os.path.join(os.environ.get("KVPROOF_BIN") or ROOT / "build" / "release" / "bin",
                      "kvproof-replay")


def read(path):
    """The lines of a file of traces, or of a packed folder by kvproof-replay, with newlines."""
    if not os.path.isdir(path):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as lines:
            return list(lines)
    with tempfile.TemporaryDirectory() as folder:
        unpacked = os.path.join(folder, "unpacked")
        subprocess.run([REPLAY, f"--unpack={unpacked}", path], check=True, capture_output=True)
        return [line for file in sorted(pathlib.Path(unpacked).rglob("*.jsonl"))
                for line in read(str(file))]


def of_installed(python):
    """@return the release of vLLM that an interpreter has, and the recording of it: a file or a
    folder; empty where there is none"""
    ask = "from importlib.metadata import version; print(version('vllm'))"
    said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    release = said.stdout.strip()
    return release, next(map(str, VECTORS.glob(f"recorded-vllm-{release}*")), "") if release else ""


def recorded(operation, answer):
    """The line of an operation with what was answered to it."""
    if answer.get("unsupported"):
        raise ValueError(f"{operation['op']} is not supported")
    if answer["out"] is not None or operation["op"] in ("allocate", "take"):
        operation["out"] = answer["out"]
    state, req = answer["state"], operation.get("req")
    operation["state"] = {field: state[field] for field in POOL}
    for field in ("tables", "progress"):
        operation["state"][field] = {req: state[field][req]} if req in state[field] else {}
    return operation | ({"events": answer["events"]} if answer.get("events") else {})


def record(lines, name, command):
    """The lines of the recording. Those of a check have no ends of traces."""
    traces = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as subject:
        for line in map(json.loads, lines):
            if line.get("op") == "end":
                continue
            said = {key: line[key] for key in line if key not in ("out", "events", "state")}
            print(json.dumps(said), file=subject.stdin, flush=True)
            answer = json.loads(subject.stdout.readline())
            if "op" in said:
                traces[-1].append(recorded(said, answer))
            elif answer.get("unsupported"):
                raise ValueError(answer.get("reason", "the header is not supported"))
            else:
                traces.append([said | {"recorded_from": name}])
    ended = [[*trace, {"op": "end", "ops": len(trace) - 1}] for trace in traces]
    return [json.dumps(said, separators=(",", ":")) + "\n" for trace in ended for said in trace]


def main():
    if "--help" in sys.argv[1:4] or len(sys.argv) <= 3:
        print(__doc__, file=sys.stdout if "--help" in sys.argv else sys.stderr)
        sys.exit(0 if "--help" in sys.argv else 2)
    path, name, *command = sys.argv[1:]
    sys.stdout.writelines(record(read(path), name, command))


if __name__ == "__main__":
    main()
