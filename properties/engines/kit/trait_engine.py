# SPDX-License-Identifier: Apache-2.0
"""A small prefix-caching engine over the kit that does one thing otherwise, and may abuse that:
each trait must exempt what it is about, and nothing else.

    trait_engine.py TRAIT=VALUE [declare] [abuse]
"""

import sys

from kvproof import PoolAdapter
from kvproof.requests import chain


class Engine(PoolAdapter):
    def __init__(self, way, declares, abuses):
        (self.trait, self.value), self.abuses = way.split("="), abuses
        self.traits = {self.trait: self.value} if declares else {}
        if self.does("token"):
            self.abilities = self.abilities | {"block_sizes": [1]}
        # What was found may have lost its key since.
        self.always_hits = self.value in ("newest_keeps", "free_first", "partial")

    def does(self, value):
        return self.value == value

    def build(self):
        self.free, self.refs = dict.fromkeys(range(self.usable)), [0] * self.usable
        self.key_of, self.where, self.calls = {}, {}, 0

    def touch(self, blocks):
        for block in blocks:
            self.free.pop(block, None)
            self.refs[block] += 1

    def drop(self, blocks):
        for block in blocks:
            self.refs[block] -= 1
            if self.refs[block] == 0:
                self.free[block] = None
                if self.does("free_first") and block in self.key_of:
                    self.name(block)

    def take(self, count):
        if count > len(self.free):
            keyed = [b for b in self.key_of if (self.refs[b] > 0) == self.abuses]
            if self.does("may_evict") and keyed:
                self.forget(keyed[0])
            return None
        blocks = list(self.free)[:count]
        for block in blocks:
            self.forget(block)
        self.touch(blocks)
        return blocks

    def forget(self, block):
        copies = self.where.get(key := self.key_of.pop(block, None), {})
        copies.pop(block, None)
        if not copies:
            self.where.pop(key, None)

    def publish(self, block, key):
        self.key_of[block] = key
        self.where.setdefault(key, {})[block] = None

    def name(self, block):
        """The index names the last copy that became free, and the last one that was published."""
        live = [b for b in self.where.get(self.key_of[block], {}) if self.refs[b] > 0]
        named = live[-1:] + [block] if self.abuses else [block] + live[-1:]
        self.where[self.key_of[block]] = dict.fromkeys(named)

    def find(self, key):
        return next(iter(self.where.get(key, {})), None)

    def hashes(self, r):
        if not self.does("partial"):
            return super().hashes(r)
        return chain(r.tokens, 1, sorted(r.extra.items(), key=str))

    def lookup(self, r):
        if not self.does("partial"):
            found = super().lookup(r)
            more = bool(self.does("token") and self.abuses and found)
            return {"blocks": found, "tokens": len(found) * self.size + more}
        keys, found, end = self.hashes(r)[:max(len(r.tokens) - 1, 0)], [], 0
        while self.caching and end % self.size == 0:  # a whole block, or the longest part of one
            ends = range(min(end + self.size, len(keys)), end, -1)
            longest = next((end for end in ends if self.find(keys[end - 1]) is not None), None)
            if longest is None:
                break
            found.append(self.find(keys[longest - 1]))
            end = longest
        return {"blocks": found, "tokens": end}

    def publish_part(self, r):
        """Each block has the key of the tokens that were computed in it."""
        r.reached = max(r.reached, r.computed)
        for i, block in enumerate(r.own[:-(-r.reached // self.size)]):
            key = self.hashes(r)[min((i + 1) * self.size, r.reached) - 1]
            if self.key_of.get(block) != key:
                self.forget(block)
                self.publish(block, key)
        r.published = r.reached // self.size

    def advance(self, r):
        if self.does("partial"):
            return self.publish_part(r) if self.caching else None
        whole = r.computed // self.size if self.caching else 0
        for i, key in enumerate(self.hashes(r)[:whole]):
            block, known = r.own[i], self.find(key)
            if block in self.key_of:
                continue
            if known is None or self.trait != "duplicates":
                self.publish(block, key)
            elif self.does("free_first"):
                self.publish(block, key)
                free = [b for b in self.where[key] if self.refs[b] == 0]
                self.where[key] = dict.fromkeys(free + [block])
            elif self.does("newest_keeps"):
                self.forget(known)
                self.publish(block, key)
                if self.abuses:
                    self.forget(r.own[0])
            elif self.does("table_repointed"):
                others = [b for b in self.key_of if b not in (known, block, *r.own)]
                r.own[i] = others[0] if self.abuses and others else known
                self.touch([r.own[i]])
                self.drop([block])
            elif self.abuses:  # oldest_keeps: no copy has it
                self.forget(known)
        r.published = max(r.published, whole)

    def tokens_of(self, r, hit):
        return r.hit["tokens"] if hit and self.does("partial") else len(hit) * self.size

    def admit(self, r, end, hit):
        found = super().admit(r, end, hit)
        return found - self.size if hit is None and found and self.abuses else found

    def hold(self, r, hit):
        if hit is None:
            r.hit = self.lookup(r) if r.tokens and not r.skip_lookup else {"blocks": []}
            hit = r.hit["blocks"]
        super().hold(r, hit)
        found = r.reached = self.tokens_of(r, hit)
        r.published = found // self.size
        return found

    def grow(self, r, end):
        inside = not r.room and r.hit and r.own == r.hit["blocks"] and (
            self.tokens_of(r, r.own) % self.size > 0)
        if inside and self.refs[r.own[-1]] > 1 and not self.abuses:
            if len(self.free) < 1 + -(-end // self.size) - len(r.own):
                return False
            new = self.take(1)
            r.copies = [(r.own[-1], new[0])]
            self.drop([r.own[-1]])
            r.own[-1] = new[0]
        beyond = self.size if self.abuses else 0
        return super().grow(r, max(end, len(r.tokens) + beyond) if self.does("prompt") else end)

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

    def progress(self, r):
        return r.published or None


if __name__ == "__main__":
    Engine(sys.argv[1], "declare" in sys.argv, "abuse" in sys.argv).serve()
