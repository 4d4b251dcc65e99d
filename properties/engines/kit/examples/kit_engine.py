#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An example of an adapter in Python: an engine that keeps the tables of its requests itself, and
finds whole blocks of prompts until they are taken again.

    PYTHONPATH=properties/engines/kit kvproof check --subject-command='python3 kit_engine.py'
"""

from kvproof import EngineAdapter
from kvproof.requests import chain


class KitEngine(EngineAdapter):
    traits = {"duplicates": "oldest_keeps"}
    abilities = {"chunks": True}

    def build(self):
        self.free, self.holders = list(range(self.usable)), [0] * self.usable
        self.tables, self.key_of, self.block_of = {}, {}, {}

    def lookup(self, r):
        found = []
        for key in self.hashes(r)[:(len(r.tokens) - 1) // self.size]:
            if key not in self.block_of:
                break
            found.append(self.block_of[key])
        return found

    def hold(self, r, hit):
        self.tables[r.name] = list(hit)
        for block in hit:
            self.holders[block] += 1
            if block in self.free:
                self.free.remove(block)
        return len(hit) * self.size

    def grow(self, r, end):
        table = self.tables[r.name]
        new = -(-end // self.size) - len(table)
        if new > len(self.free):
            return False
        for _ in range(new):
            block = self.free.pop(0)
            self.block_of.pop(self.key_of.pop(block, None), None)
            self.holders[block] = 1
            table.append(block)
        return True

    def advance(self, r):
        keys = self.hashes(r)[:r.computed // self.size] if self.caching else []
        for block, key in zip(self.tables[r.name], keys):
            if key not in self.block_of:
                self.key_of[block], self.block_of[key] = key, block

    def release(self, r):
        for block in reversed(self.tables.pop(r.name)):
            self.holders[block] -= 1
            if self.holders[block] == 0:
                self.free.append(block)

    def table(self, r):
        return self.tables[r.name]

    def free_blocks(self):
        return self.free

    def counts(self):
        return enumerate(self.holders)

    def keys(self):
        return self.key_of

    def index(self):
        return {key: [block] for key, block in self.block_of.items()}

    def hashes(self, r):
        return chain(r.tokens, self.size)


if __name__ == "__main__":
    KitEngine().serve()
