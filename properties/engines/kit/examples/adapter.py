#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An example of a program that kvproof can check: a prefix-caching allocator and its adapter.

    kvproof check --subject-command='python3 adapter.py'
PrefixPool is the part that would be yours; Adapter turns lines of JSON into its calls."""
import json
import sys


class PrefixPool:
    """Blocks are reused in the order of their release; their content stays until then."""

    def __init__(self, num_blocks):
        self.free = dict.fromkeys(range(1, num_blocks))  # an ordered set, oldest first
        self.refs = [0] * num_blocks
        self.key_of, self.index = {}, {}  # block -> key, key -> block

    def grow(self, table, hit, length):
        """Begins a table with a hit and lets it grow: the new blocks, or None for a shortage."""
        count = max(length - len(table) - len(hit), 0)
        if count > len(self.free) - sum(self.refs[block] == 0 for block in hit):
            return None
        for block in hit:
            self.free.pop(block, None)
            self.refs[block] += 1
        new = list(self.free)[:count]
        for block in new:
            del self.free[block]
            self.refs[block] = 1
            self.index.pop(self.key_of.pop(block, None), None)
        table += hit + new
        return new

    def publish(self, table, keys):
        for block, key in zip(table, keys):
            if block not in self.key_of and key not in self.index:
                self.key_of[block], self.index[key] = key, block

    def release(self, table):
        while table:
            block = table.pop()
            self.refs[block] -= 1
            if self.refs[block] == 0:
                self.free[block] = None


class Adapter:
    def begin(self, config):
        group = config["groups"][0]
        if len(config["groups"]) != 1 or group["kind"] not in ("full", "mla") or group["eagle"]:
            return {"unsupported": True, "reason": "one group of full attention only"}
        self.caches, self.most, self.size = (config["enable_caching"], config["max_model_len"],
                                             group["block_size"])
        self.pool, self.requests = PrefixPool(config["num_blocks"]), {}
        return {"promises": "safety", "block_ids": True,
                "operations": "arrive append advance allocate free finish lookup".split()}

    def keys(self, r, num_tokens):
        """One key for each whole block, of all that decides its content."""
        ends = range(self.size, min(num_tokens, len(r["tokens"])) + 1, self.size)
        return [repr((r["extra"], r["tokens"][:end])) for end in ends] if self.caches else []

    def lookup(self, r):
        r["hit"] = []
        for key in [] if r["skip"] else self.keys(r, len(r["tokens"]) - 1):
            if key not in self.pool.index:
                break
            r["hit"].append(self.pool.index[key])
        return {"hit_tokens": len(r["hit"]) * self.size, "blocks": [r["hit"]]}

    def allocate(self, o, r):
        if o["external"] > 0:
            raise NotImplementedError("no connector")
        hit = r["hit"] if o["use_lookup"] else []
        end = min(r["computed"] + len(hit) * self.size + o["new_tokens"], self.most)
        held = len(r["table"]) + sum(self.pool.refs[block] > 0 for block in hit)
        whole = -(-len(r["tokens"]) // self.size) if o["full_sequence_must_fit"] else 0
        if whole - held > len(self.pool.free):
            return None
        new = self.pool.grow(r["table"], hit, -(-min(end + o["lookahead"], self.most) // self.size))
        if new is not None and not o["delay_cache"]:
            self.pool.publish(r["table"], self.keys(r, end))
        return None if new is None else {"blocks": [new]}

    def perform(self, o):
        if o["op"] == "arrive":
            self.requests[o["req"]] = {"tokens": [], "extra": o.get("extra"), "computed": 0,
                                       "skip": o.get("skip_lookup"), "hit": [], "table": []}
        r = self.requests[o["req"]]
        r["tokens"] += o.get("tokens", [])
        r["computed"] = o.get("computed", r["computed"])
        if o["op"] in ("free", "finish"):
            self.pool.release(r["table"])
            r["computed"] = 0
        if o["op"] == "finish":
            del self.requests[o["req"]]
        return (self.lookup(r) if o["op"] == "lookup" else
                self.allocate(o, r) if o["op"] == "allocate" else None)

    def answer(self, o):
        if "kvproof_trace" in o:
            return self.begin(o["config"])
        try:
            out, pool = self.perform(o), self.pool
        except NotImplementedError as error:
            return {"unsupported": True, "reason": str(error)}
        return {"out": out, "state": {
            "free": len(pool.free), "queue": list(pool.free),
            "ref": [[block, count] for block, count in enumerate(pool.refs) if count],
            "cached": [[block, 0] for block in sorted(pool.key_of)],
            "key": list(pool.key_of.items()),
            "tables": {name: [r["table"]] for name, r in self.requests.items()}}}


if __name__ == "__main__":
    adapter = Adapter()
    for line in sys.stdin:
        print(json.dumps(adapter.answer(json.loads(line))), flush=True)
