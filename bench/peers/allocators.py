# SPDX-License-Identifier: Apache-2.0
"""The family of the allocators: its cases, and the processes that take turns.

Each engine runs in the environment in which `kvproof engines` checks it, and is called as its
scheduler calls it: from Python, but ours and OpenVINO's from C++. So a ratio is of what a caller of
each waits.
"""

import contextlib
import os
import subprocess
from typing import NamedTuple

import pairs
from engines.allocators import rows
from engines.allocators.places import Absent, Compiled, Place

from kvproof_support.results import program
from kvproof_support.tasks import runner

HERE = os.path.dirname(os.path.abspath(__file__))
NAME, EXPERIMENT = "allocators", "peers_allocators"
SENTENCE = ("ns a block of 16 tokens (decode step: a token) of what a scheduler asks for; ours and "
            "OpenVINO's from C++, the others from Python")
HASHES = {"vLLM": "sha256", "SGLang": "none", "TVM": "none", "OpenVINO": "std::hash"}


class Shape(NamedTuple):
    blocks: int
    live: int  # requests at one time
    prefixes: int
    rounds: int


FULL, SMOKE = Shape(16_384, 64, 24, 11), Shape(2_048, 8, 4, 3)
PROMPT_BLOCKS, BLOCKS = 64, 80  # of a prompt, and with what is decoded


class Operation(NamedTuple):
    command: str  # of the lines that allocator_rounds.py describes
    sentence: str

    def count(self, shape):
        return {"life": shape.live, "steps": 64, "hit": 50}[self.command]

    def parts(self, shape):
        """@return what a time is divided by"""
        return self.count(shape) * {"life": BLOCKS, "steps": shape.live, "hit": PROMPT_BLOCKS}[
            self.command]


OPERATIONS = {
    "life cycle": Operation("life", "1,024 tokens, half of them found, then 256 in lockstep"),
    "decode step": Operation("steps", "a batch in lockstep, whose times are by token"),
    "hit": Operation("hit", "a prompt that is cached but for its last block")}


class Peer(NamedTuple):
    row: str  # of THE LIST of engines, with its revision
    size: str  # of what pip downloads
    cannot: dict = {}  # by operation: why it is not measured


class Program(Compiled):
    """An engine in C++: what answers the lines is compiled with it."""

    def put(self, path):
        self.argument = os.path.join(self.work, "allocator")
        if not os.path.exists(self.argument):
            self.compile(path, os.path.join(HERE, "openvino_allocator.cpp"), "-O2", "-DNDEBUG")


NO_PREFIXES = "it has no prefix cache: a prompt is computed anew, or forked from a running sequence"
PEERS = {
    "vLLM": Peer("vllm-v1 0.33.0", "0.5 GiB"),
    "SGLang": Peer("sglang-unified 0.5.23", "4 GiB"),
    "TVM": Peer("tvm 0.27.0.post1", "0.2 GiB", {"life cycle": NO_PREFIXES, "hit": NO_PREFIXES}),
    "OpenVINO": Peer("openvino-genai da1db86", "0.1 GiB")}


def all_cases(smoke):
    """@return name -> (operation, hash of ours)"""
    shape = SMOKE if smoke else FULL
    return {f"{operation}, {shape.live} requests, {shape.blocks} blocks, ours by {hash_name}":
            (operation, hash_name) for hash_name in ("sha256", "xxh3") for operation in OPERATIONS}


def cases(smoke):
    return list(all_cases(smoke))


class Process:
    """What answers the lines of allocator_rounds.py, until a stack of contexts ends. Throws Absent
    where it ends instead."""

    def __init__(self, stack, command, start, log):
        self.process = stack.enter_context(runner().open(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            encoding="utf-8"))
        self.log = log.name
        self.ask(start)

    def ask(self, line):
        """@return its answer, by name"""
        with contextlib.suppress(BrokenPipeError):
            print(line, file=self.process.stdin, flush=True)
        for said in self.process.stdout:
            words = said.split()
            if words and all("=" in word for word in words):  # libraries print things of their own
                return {key: int(value) for key, value in (word.split("=") for word in words)}
        runner().check()
        raise Absent(f"it ended with {self.process.wait()} at '{line}' ({self.log})")


def command_of(peer, options):
    """@return the command of its process. Throws Absent."""
    name, revision = PEERS[peer].row.split()
    (row,) = (row for row in rows.ROWS if (row.name, row.revision) == (name, revision))
    ready = os.path.join(options.folder, f"{name}-{revision}", "ready")
    if not options.yes and not os.path.exists(ready):
        raise Absent(f"about {PEERS[peer].size} would be downloaded from PyPI: --yes allows it")
    if row.adapter.endswith(".cpp"):
        return [Program(row, options.folder, options.checkout).argument]
    place = Place(row, options.folder, options.checkout)
    adapters = os.path.dirname(os.path.abspath(rows.__file__))
    return ["env", f"PYTHONPATH={os.pathsep.join((*place.paths, adapters))}", place.python, "-B",
            os.path.join(HERE, "allocator_rounds.py")]


def measure(wanted, options):
    """Yields a row for each pair of a case and a peer as soon as it is known."""
    shape = SMOKE if options.smoke else FULL
    numbers = f"{shape.blocks} {shape.live} {shape.prefixes} {options.seed}"
    chosen = {name: what for name, what in all_cases(options.smoke).items() if name in wanted}
    with open(os.path.join(options.folder, "peers-allocators.log"), "a", encoding="utf-8") as log:
        for peer in PEERS:
            with contextlib.ExitStack() as stack:
                theirs, reason = None, ""
                try:
                    theirs = Process(stack, command_of(peer, options), f"start {peer} {numbers}",
                                     log)
                except (Absent, OSError) as error:
                    reason = str(error)
                for hash_name in dict.fromkeys(hash_name for _, hash_name in chosen.values()):
                    yield from beside(peer, theirs, reason, hash_name, chosen, shape, numbers, log)


def beside(peer, theirs, reason, hash_name, chosen, shape, numbers, log):
    """Yields the rows of a peer beside ours with one hash."""
    with contextlib.ExitStack() as stack:
        ours = None
        for name, (operation, which) in chosen.items():
            if which != hash_name:
                continue
            said = {"peer_version": PEERS[peer].row.split()[1], "operation": operation,
                    "num_blocks": shape.blocks, "hash": hash_name, "peer_hash": HASHES[peer]}
            try:
                if why := reason or PEERS[peer].cannot.get(operation, ""):
                    raise Absent(why)
                ours = ours or Process(stack, [program("peer_allocator")],
                                       f"start {hash_name} {numbers}", log)
                yield rounds(name, peer, OPERATIONS[operation], shape, ours, theirs, said)
            except (Absent, OSError, ValueError) as error:  # ValueError: no words of key=number
                yield pairs.not_comparable(EXPERIMENT, name, peer, str(error), **said)


def rounds(name, peer, operation, shape, ours, theirs, said):
    """@return the row of a pair. Throws Absent where the two decide otherwise."""
    line, parts = f"{operation.command} {operation.count(shape)}", operation.parts(shape)
    sides = {"ours": ours, "theirs": theirs}
    found = {side: [] for side in sides}
    if operation.command == "life":  # before, other cases may have evicted what is shared
        for side in sides.values():
            side.ask(line)
    for order in pairs.turns(list(sides), shape.rounds):
        for side in order:
            found[side].append(sides[side].ask(line))
    for what in ("hits", "taken"):
        for our, their in zip(found["ours"], found["theirs"]):
            if our[what] != their[what]:
                raise Absent(f"it decides otherwise: {what} {their[what]}, ours {our[what]}")
    times = {side: [each["ns"] / parts for each in answers] for side, answers in found.items()}
    row = pairs.measured(EXPERIMENT, name, peer, times["ours"], times["theirs"], "ns", **said)
    if all(each.get("inner_ns") for each in found["theirs"]):
        inner, calls = ([each[what] / parts for each in found["theirs"]]
                        for what in ("inner_ns", "calls"))
        row["metrics"] |= {
            "peer_inner_time": pairs.metric(inner, "ns"),
            "peer_calls": pairs.metric(calls, "count"),
            "ours_over_peer_inner": pairs.metric(
                [a / b for a, b in zip(times["ours"], inner)], "ratio")}
    return row
