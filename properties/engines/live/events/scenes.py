# SPDX-License-Identifier: Apache-2.0
"""Streams that the laws of a stream must report, by the ids that the laws have in the list
(properties/laws/laws.h), and by what is wrong with them."""

from types import SimpleNamespace


class Deaf(list):
    """Lines before a router that hears none of them."""

    tree = SimpleNamespace(apply_event=lambda *_: None, remove_worker=lambda _: None,
                           find_matches=lambda _: SimpleNamespace(scores={}))


def stored(names, parent=None, size=2, tokens=None, **more):
    return {"type": "BlockStored", "block_hashes": [*names], "parent_block_hash": parent,
            "token_ids": [ord(name) for name in names for _ in range(2)] if tokens is None
            else tokens, "block_size": size, **more}


def removed(names, **more):
    return {"type": "BlockRemoved", "block_hashes": [*names], **more}


def stream(*events, numbers=None):
    """@return a batch of each event, numbered one by one, but where the numbers are given"""
    return [{"seq": seq, "batch": [0, [event], None]}
            for seq, event in zip(numbers or range(len(events)), events)]


CLEARED = {"type": "AllBlocksCleared"}
SOUND = [stored("abc"), stored("d", "a"), removed("c"), stored("c", "b"), stored("a", medium="CPU"),
         removed("cb"), ["BlockStored", ["b"], "a", [98, 98], 2], CLEARED, stored("ab")]
RECORDING = [
    {"kvproof_trace": 1, "config": {"hash_block_size": 1, "groups": [
        {"kind": "full", "block_size": 1}]}},
    {"op": "decode", "reqs": ["a"], "events": [
        {"type": "stored", "group": 0, "from": 0, "to": 1, "blocks": [[1, 1]]}],
     "state": {"hashes": {"a": [7]}, "index": [[0, 7, [1]]], "tables": {"a": [[1]]}}}]

SCENES = {  # the lines of a file, each
    "sequence": {
        "a batch is lost": stream(*[CLEARED] * 2, numbers=(0, 2)),
        "a batch comes late": stream(*[CLEARED] * 3, numbers=(0, 2, 1)),
        "a batch comes twice": stream(*[CLEARED] * 2, numbers=(0, 0))},
    "size": {
        "three tokens behind blocks of two": stream(stored("ab"), stored("cd", "b", 3, [1] * 6))},
    "tokens": {"three tokens of two blocks": stream(stored("ab", tokens=[1, 2, 3]))},
    "parent": {
        "the first event names a parent": stream(SOUND[1]),
        "a parent that was cleared": stream(stored("ab"), CLEARED, stored("c", "b")),
        "a parent that nobody stored": stream(stored("a"), stored("b", "x"))},
    "tail": {"its parent was not stored": stream(stored("a"), stored("b", "x", 1, [1]))},
    "meaning": {
        "behind another parent": stream(stored("abc"), removed("c"), stored("c", "a")),
        "with other tokens": stream(stored("a"), removed("a"), stored("a", tokens=[5, 5]))},
    "twice": {
        "two blocks of one hash": stream(*SOUND[:1] * 2),
        "no event for a clear": stream(*SOUND[:7], SOUND[8])},
    "removed": {
        "it was removed already": stream(SOUND[0], *SOUND[2:3] * 2),
        "it comes later": stream(SOUND[2], SOUND[0]),
        "it was cleared": stream(stored("ab"), CLEARED, removed("b")),
        "it is on another medium": stream(stored("a"), removed("a", medium="CPU"))},
    "residency": {
        "an event for what the index does not have": [RECORDING[0], {
            **RECORDING[1], "state": {**RECORDING[1]["state"], "index": []}}],
        "no event for what it has": [RECORDING[0], {**RECORDING[1], "events": []}]},
    "lookup": {"a router that finds nothing": Deaf(stream(*SOUND))}}
