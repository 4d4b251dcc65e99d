# SPDX-License-Identifier: Apache-2.0
"""A small prefix-caching engine over the kit that does one thing otherwise, and may abuse that:
each trait must word what it is about, and nothing else.

    trait_engine.py TRAIT=VALUE [declare] [abuse]
"""

import sys

from kvproof import EngineAdapter
from kvproof.requests import chain


class Engine(EngineAdapter):
    def __init__(self, way, declares, abuses):
        super().__init__()
        (self.trait, self.value), self.abuses = way.split("="), abuses
        self.traits = {self.trait: self.value} if declares else {}
        self.abilities = {"chunks": True, "drafts": True, "skip_lookup": True}
        if self.does("token"):
            self.abilities["block_sizes"] = [1]
        self.always_hits = self.does("newest_keeps")  # what was found may have lost its key since

    def does(self, value):
        return self.value == value

    def build(self):
        self.free, self.refs = dict.fromkeys(range(self.usable)), [0] * self.usable
        self.key_of, self.where, self.calls = {}, {}, 0

    def retain(self, block):
        self.free.pop(block, None)
        self.refs[block] += 1

    def drop(self, block):
        self.refs[block] -= 1
        if self.refs[block] == 0:
            self.free[block] = None

    def forget(self, block):
        copies = self.where.get(key := self.key_of.pop(block, None), {})
        copies.pop(block, None)
        if not copies:
            self.where.pop(key, None)

    def enter(self, block, key):
        self.key_of[block] = key
        self.where.setdefault(key, {})[block] = None

    def oldest(self, key):
        return next(iter(self.where.get(key, {})), None)

    def advance(self, r):
        whole = r.computed // self.size if self.caching else 0
        for i, key in enumerate(self.hashes(r)[:whole]):
            block, known = r.own[i], self.oldest(key)
            if block in self.key_of:
                continue
            if known is None or self.trait != "duplicates":
                self.enter(block, key)
            elif self.does("newest_keeps"):
                self.forget(known)
                self.enter(block, key)
                if self.abuses:
                    self.forget(r.own[0])
            elif self.does("table_repointed"):
                others = [b for b in self.key_of if b not in (known, block, *r.own)]
                r.own[i] = others[0] if self.abuses and others else known
                self.retain(r.own[i])
                self.drop(block)
            elif self.abuses:  # oldest_keeps: no copy has it
                self.forget(known)

        r.published = max(r.published, whole)

    def progress(self, r):
        return r.published or None

    def lookup(self, r):
        hit = []
        for key in self.hashes(r)[:(len(r.tokens) - 1) // self.size] if self.caching else []:
            if key not in self.where:
                break
            hit.append(self.oldest(key))
        return hit

    def do_lookup(self, o, r):
        out = super().do_lookup(o, r)
        out["hit_tokens"] += bool(self.does("token") and self.abuses and r.hit)
        return out

    def admit(self, r, end, hit):
        hit, r.own = self.found(r) if hit is None else hit, []
        r.published = len(hit)
        return len(hit) * self.size if self.grow(r, end, hit) else None

    def do_allocate(self, o, r):
        out = super().do_allocate(o, r)
        if out and "hit" in out and self.abuses:
            said = out["hit"][0][1:]
            out |= {"hit_tokens": len(said) * self.size, "hit": [said]}
        return out

    def grow(self, r, end, hit=()):
        if self.does("prompt"):
            end = max(end, len(r.tokens) + (self.size if self.abuses else 0))
        count = max(-(-end // self.size) - len(r.own) - len(hit), 0)
        if count > len(self.free) - sum(self.refs[block] == 0 for block in hit):
            held = {b for other in self.requests.values() for b in self.held(other)}
            keyed = [b for b in self.key_of if (b in held) == self.abuses]
            if self.does("may_evict") and keyed:
                self.forget(keyed[0])
            return False
        for block in hit:
            self.retain(block)
        r.own += hit
        for block in list(self.free)[:count]:
            self.forget(block)
            self.retain(block)
            r.own.append(block)
        return True

    def release(self, r):
        for block in reversed(r.own):
            self.drop(block)

    def table(self, r):
        return r.own

    def free_blocks(self):
        """In order; where it is a set, in another order each time, and abused without a block."""
        queue = list(self.free)
        if self.does("set") and queue:
            self.calls += 1
            at = self.calls % len(queue)
            queue = (queue[at:] + queue[:at])[1 if self.abuses else 0:]
        return queue

    def num_free(self):
        return len(self.free)

    def counts(self):
        return enumerate(self.refs)

    def keys(self):
        return self.key_of

    def index(self):
        return self.where

    def hashes(self, r):
        return chain(r.tokens, self.size)


if __name__ == "__main__":
    Engine(sys.argv[1], "declare" in sys.argv, "abuse" in sys.argv).serve()
