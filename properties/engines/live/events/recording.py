# SPDX-License-Identifier: Apache-2.0
"""Reads the events of a recording (properties/sources/traces/format.md) with all states in full,
and judges
them beside what it shows of the pool. The name of a block's content is the key that it shows."""

from wire import Event

from kvproof_support.files import InputError


class Recording:
    def __init__(self, judge):
        self.judge = judge

    def line(self, line, where):
        """Throws InputError."""
        try:
            if "kvproof_trace" in line:
                self.judge.begin()
                self.unit, self.groups = (line["config"][key] for key in (
                    "hash_block_size", "groups"))
                self.judge.sizes = {(None, group): kind["block_size"]
                                    for group, kind in enumerate(self.groups)}
                self.keys, self.ends = {}, {}  # by block, group and tokens; the tokens of a key
                self.moves = {}  # requests, by the names of their transfers
                self.hashes = {}  # of requests before the operation: one may publish as it ends
            elif line.get("events") is not None and "hashes" in line["state"]:
                self.operation(line, line["state"], where)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InputError(f"{where}: line: expected one of the trace format "
                      f"({type(error).__name__}: {error})") from error

    def operation(self, line, state, where):
        if line["op"] in ("swap_in", "swap_out"):
            self.moves[line["transfer"]] = line["req"]
        for event in line["events"]:
            for each in self.translated(event, line, state, where):
                self.judge.event(each)
        self.hashes = state["hashes"]
        told = {(group, key): copies for (_, group, _), held in self.judge.held.items()
                for key, copies in held.items() if copies}
        shown = {(group, key): len(blocks) for group, key, blocks in state["index"]}
        self.keys = {(block, group, self.ends.get(key)): key  # which may have moved to a copy
                     for group, key, blocks in state["index"] for block in blocks}
        self.judge.ask("residency", told == shown, where, lambda: ", ".join(
            f"group {each[0]} key {each[1]}: {told.get(each, 0)} told, {shown.get(each, 0)} shown"
            for each in sorted({*told} | {*shown}, key=str) if told.get(each) != shown.get(each)))
        for group, kind in enumerate(self.groups):
            if self.main(group):
                step = kind["block_size"] // self.unit
                for keys in state["hashes"].values():
                    self.judge.look_up(Event("lookup", where, group=group), [
                        (key, key) for key in keys[step - 1::step]],
                        lambda key, group=group: (group, key) in shown)

    def main(self, group):
        return self.groups[group]["kind"] in ("full", "mla")

    def translated(self, event, line, state, where):
        """@return an event as the wire has it; one a block, where those between have their keys
        already, by a fork or since they came back from the host"""
        if event["type"] == "cleared":
            return [Event("cleared", where)]
        group = event["group"]
        common = where, None, group, "GPU"
        if event["type"] == "removed":
            return [Event("removed", *common, (self.keys.pop(
                (event["block"], group, event["prefix"]), f"of block {event['block']}"),))]
        start, end, size = event["from"], event["to"], self.groups[group]["block_size"]
        blocks, step = event["blocks"], max(size // self.unit, 1)
        if not blocks:
            return []  # which says nothing
        keys = (self.hashes | state["hashes"])[self.publisher(blocks, group, size, line, state)]
        names = [keys[prefix // self.unit - 1] for _, prefix in blocks]
        self.keys |= {(block, group, prefix): key for (block, prefix), key in zip(blocks, names)}
        self.ends |= {key: prefix for (_, prefix), key in zip(blocks, names)}
        held = self.judge.of(Event(*("", *common)))
        left = {*keys[start // self.unit + step - 1:end // self.unit:step]} - {*names}
        spans = [(start, end, names)]
        if self.main(group) and left and all(held[key] for key in left):
            spans = [(prefix - (prefix % size or size), prefix, [key])
                     for (_, prefix), key in zip(blocks, names)]
        return [Event("stored", *common, tuple(names), self.main(group),
                      keys[start // self.unit - 1] if start else None, tuple(names),
                      min(size, end - start), end - start)
                for start, end, names in spans]

    def publisher(self, blocks, group, size, line, state):
        """@return the request of an event: of those that the operation names, the one whose table
        has these blocks"""
        for name in line.get("reqs", ()):
            table = state["tables"].get(name, [[]] * (group + 1))[group]
            if all(table[(end - 1) // size:][:1] == [block] for block, end in blocks):
                return name
        return line.get("req") or self.moves[line["transfer"]]
