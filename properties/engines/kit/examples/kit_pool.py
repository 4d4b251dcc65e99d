#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An example of an adapter in Python: a store of blocks over the package, which keeps its tables.

    PYTHONPATH=properties/engines/kit kvproof check --subject-command='python3 kit_pool.py'
"""

from kvproof import PoolAdapter


class LastOut(PoolAdapter):
    """A pool that hands out first what came back last."""

    def build(self):
        self.free, self.refs, self.key_of = [*range(self.usable)], {}, {}

    def take(self, count):
        if count > len(self.free):
            return None
        out, self.free = self.free[:count], self.free[count:]
        for block in out:
            self.refs[block] = 1
            self.key_of.pop(block, None)
        return out

    def touch(self, blocks):
        for block in blocks:
            self.refs[block] = self.refs.get(block, 0) + 1
            if block in self.free:
                self.free.remove(block)

    def drop(self, blocks):
        for block in blocks:
            self.refs[block] -= 1
            if self.refs[block] == 0:
                self.free.insert(0, block)

    def publish(self, block, key):
        self.key_of[block] = key

    def find(self, key):
        return next((block for block, held in self.key_of.items() if held == key), None)

    def free_blocks(self):
        return self.free

    def counts(self):
        return self.refs.items()

    def keys(self):
        return self.key_of

    def index(self):
        return {key: [block] for block, key in self.key_of.items()}


if __name__ == "__main__":
    LastOut().serve()
