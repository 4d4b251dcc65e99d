#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each configuration of vLLM's scheduler writes a run of 200 steps in the alphabet, with all events
that it promises, and the same bytes again, in another process, too.

Exit code 77 where vLLM 0.33.0 is missing."""

import importlib.metadata
import json
import os
import subprocess
import sys

ALWAYS = "request tokens dispatch run retire hit publish unpublish finish abort quiet"
MEMBERS = {
    "request": {"req", "tokens"}, "tokens": {"req", "append"}, "dispatch": {"step", "rows"},
    "run": {"step"}, "retire": {"step", "sampled", "discarded"}, "hit": {"req", "tokens"},
    "publish": {"tier", "block", "group", "req", "to"}, "preempt": {"req"}, "reset": {"tiers"},
    "start": {"transfer", "kind", "group"}, "move": {"transfer", "pairs"},
    "settle": {"transfer", "outcome"}, "end": {"free", "unfinished"}, "raised": {"what"}}


def written(case, steps=200, seed=3):
    lines = []
    drive.record(case, steps, seed, lines.append)
    return lines


def check(case):
    lines = written(case)
    assert lines == written(case), f"{case.name}: other bytes with the same seed"
    header, *events = map(json.loads, lines)
    assert header["kvproof_run"] == 1 and header["depth"] == case.options.depth
    seen = {event["op"] for event in events}
    for event in events:
        lacks = MEMBERS.get(event["op"], set()) - set(event)
        assert not lacks, f"{case.name}: {event} lacks {lacks}"
    missing = set(f"{ALWAYS} {case.promised}".split()) - seen
    assert not missing, f"{case.name}: never {missing}"
    assert events[-1]["op"] == "end", f"{case.name}: {events[-1]}"
    order(case, events)
    return len(lines)


def check_process():
    """Sets of names have another order in each process, and the driver must not show it."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "drive.py")
    command = [sys.executable, "-B", path, "--case=both", "--steps=200", "--seed=3"]
    out = subprocess.run(command, env=dict(os.environ, PYTHONHASHSEED="7"), check=True,
                         capture_output=True, text=True).stdout
    case = next(each for each in world.CASES if each.name == "both")
    assert out == "".join(written(case)), "other bytes in another process"


def order(case, events):
    """Steps are given, run and are answered in order, and no more of them than the depth at once;
    what is named was said before."""
    given = ran = answered = 0
    transfers, requests = set(), set()
    for event in events:
        op = event["op"]
        if op == "dispatch":
            assert event["step"] == given and given - answered < case.options.depth
            assert requests.issuperset(row["req"] for row in event["rows"])
            given += 1
        elif op == "run":
            assert event["step"] == ran < given
            ran += 1
        elif op == "retire":
            assert event["step"] == answered < ran
            answered += 1
        elif op == "request":
            requests.add(event["req"])
        elif op == "start":
            assert event["transfer"] not in transfers
            assert event.get("after", -1) < given
            transfers.add(event["transfer"])
        elif op in ("move", "settle"):
            assert event["transfer"] in transfers
    assert given == ran == answered


def python():
    """@return the interpreter that has vLLM"""
    return os.environ.get("KVPROOF_VLLM_PYTHON", sys.executable)


if __name__ == "__main__":
    if python() != sys.executable:
        os.execv(python(), [python(), "-B", *sys.argv])
    try:
        found = importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != "0.33.0":
        print(f"skipped: vLLM 0.33.0 is not installed here ({found})")
        sys.exit(77)
    import drive
    import vllm_modules
    import world
    vllm_modules.install()
    check_process()
    print(f"{len(world.CASES)} configurations, {sum(map(check, world.CASES))} lines")
