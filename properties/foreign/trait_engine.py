# SPDX-License-Identifier: Apache-2.0
"""A small prefix-caching engine that does one thing otherwise, and may abuse that: each trait must
word what it is about, and nothing else.

    trait_engine.py TRAIT=VALUE [declare] [abuse]
"""

import json
import sys


class Engine:
    def __init__(self, way, declares, abuses):
        (self.trait, self.value), self.declares, self.abuses = way.split("="), declares, abuses
        self.calls = 0

    def does(self, value):
        return self.value == value

    def begin(self, config):
        group = config["groups"][0]
        full = len(config["groups"]) == 1 and group["kind"] in ("full", "mla")
        sizes = (1,) if self.does("token") else range(1, 1025)
        if not full or group["eagle"] or group["block_size"] not in sizes:
            return {"unsupported": True, "reason": "one group of full attention only"}
        self.size, self.most = group["block_size"], config["max_model_len"]
        self.caches, self.requests = config["enable_caching"], {}
        self.free = dict.fromkeys(range(1, config["num_blocks"]))
        self.refs = [0] * config["num_blocks"]
        self.key_of, self.index, self.numbers = {}, {}, {}
        promises = {"promises": "safety", "block_ids": True,
                    "operations": "arrive append advance allocate free finish lookup".split()}
        abilities = {"external": False, "extra": False, "full_sequence_must_fit": False,
                     "without_lookup": not self.does("within_allocate")}
        traits = {"traits": {self.trait: self.value}} if self.declares else {}
        return promises | traits | {"abilities": abilities}

    def keys(self, r, num_tokens):
        """One number for each whole block, of all that decides its content."""
        ends = range(self.size, min(num_tokens, len(r["tokens"])) + 1, self.size)
        texts = [repr((r["extra"], r["tokens"][:end])) for end in ends] if self.caches else []
        return [self.numbers.setdefault(text, len(self.numbers) + 1) for text in texts]

    def hold(self, block):
        self.free.pop(block, None)
        self.refs[block] += 1

    def let_go(self, block):
        self.refs[block] -= 1
        if self.refs[block] == 0:
            self.free[block] = None

    def forget(self, block):
        key = self.key_of.pop(block, None)
        copies = self.index.get(key, {})
        copies.pop(block, None)
        if not copies:
            self.index.pop(key, None)

    def enter(self, block, key):
        self.key_of[block] = key
        self.index.setdefault(key, {})[block] = None

    def oldest(self, key):
        return next(iter(self.index.get(key, {})), None)

    def take(self):
        block = next(iter(self.free))
        self.forget(block)
        self.hold(block)
        return block

    def publish(self, r, end):
        for i, key in enumerate(self.keys(r, end)):
            block, known = r["table"][i], self.oldest(key)
            if block in self.key_of:
                continue
            if known is None or self.trait != "duplicates":
                self.enter(block, key)
            elif self.does("newest_keeps"):
                self.forget(known)
                self.enter(block, key)
                if self.abuses:
                    self.forget(r["table"][0])
            elif self.does("table_repointed"):
                others = [b for b in self.key_of if b not in (known, block, *r["table"])]
                r["table"][i] = others[0] if self.abuses and others else known
                self.hold(r["table"][i])
                self.let_go(block)
            elif self.abuses:  # oldest_keeps: no copy has it
                self.forget(known)
        r["published"] = max(r["published"], len(self.keys(r, end)))

    def lookup(self, r):
        hit = []
        for key in [] if r["skip"] else self.keys(r, len(r["tokens"]) - 1):
            if key not in self.index:
                break
            hit.append(self.oldest(key))
        if self.does("token") and self.abuses and hit:
            return {"hit_tokens": len(hit) + 1, "blocks": [hit]}
        return {"hit_tokens": len(hit) * self.size, "blocks": [hit]}

    def refuse(self):
        if self.does("may_evict"):
            held = {b for r in self.requests.values() for b in r["table"]}
            keyed = [b for b in self.key_of if (b in held) == self.abuses]
            if keyed:
                self.forget(keyed[0])

    def allocate(self, o, r):
        within = self.does("within_allocate")
        if within:
            r["hit"] = self.lookup(r)["blocks"][0] if o["use_lookup"] else []
        hit = r["hit"] if o["use_lookup"] else []
        new = o["new_tokens"] - (len(hit) * self.size if within else 0)
        end = min(r["computed"] + len(hit) * self.size + new, self.most)
        slots = min(end + o["lookahead"], self.most)
        if self.does("prompt"):
            slots = max(slots, len(r["tokens"]) + (self.size if self.abuses else 0))
        count = max(-(-slots // self.size) - len(r["table"]) - len(hit), 0)
        if count > len(self.free) - sum(self.refs[block] == 0 for block in hit):
            return self.refuse()
        begun = len(r["table"]) + len(hit)
        for block in hit:
            self.hold(block)
        r["table"] += hit + [self.take() for _ in range(count)]
        r["published"] = max(r["published"], len(hit))
        if not o["delay_cache"]:
            self.publish(r, end)
        out = {"blocks": [r["table"][begun:]]}
        if within:
            said = hit[1:] if self.abuses else hit
            out |= {"hit_tokens": len(said) * self.size, "hit": [said]}
        return out

    def perform(self, o):
        if o["op"] == "arrive":
            self.requests[o["req"]] = {"tokens": [], "extra": o.get("extra"), "computed": 0,
                                       "skip": o.get("skip_lookup"), "hit": [], "table": [],
                                       "published": 0}
        r = self.requests[o["req"]]
        r["tokens"] += o.get("tokens", [])
        r["computed"] = o.get("computed", r["computed"])
        if o["op"] in ("free", "finish"):
            for block in reversed(r["table"]):
                self.let_go(block)
            r |= {"table": [], "computed": 0, "published": 0}
        if o["op"] == "finish":
            del self.requests[o["req"]]
        if o["op"] == "lookup":
            r["hit"] = (found := self.lookup(r))["blocks"][0]
            return found
        return self.allocate(o, r) if o["op"] == "allocate" else None

    def queue(self):
        """In order; where it is a set, in another order each time, and abused without a block."""
        queue = list(self.free)
        self.calls += 1
        if self.does("set") and queue:
            at = self.calls % len(queue)
            queue = queue[at:] + queue[:at]
            return queue[1:] if self.abuses else queue
        return queue

    def answer(self, o):
        if "kvproof_trace" in o:
            return self.begin(o["config"])
        out, tables = self.perform(o), {}
        for name, r in self.requests.items():
            tables[name] = [r["table"]]
        return {"out": out, "state": {
            "free": len(self.free), "queue": self.queue(), "tables": tables,
            "ref": [[block, count] for block, count in enumerate(self.refs) if count],
            "cached": [[block, 0] for block in sorted(self.key_of)],
            "key": [[block, key, 0] for block, key in self.key_of.items()],
            "index": [[0, key, [*copies]] for key, copies in self.index.items()],
            "hashes": {n: self.keys(r, len(r["tokens"])) for n, r in self.requests.items()},
            "progress": {n: [r["published"] or None] for n, r in self.requests.items()}}}


if __name__ == "__main__":
    engine = Engine(sys.argv[1], "declare" in sys.argv, "abuse" in sys.argv)
    for line in sys.stdin:
        print(json.dumps(engine.answer(json.loads(line))), flush=True)
