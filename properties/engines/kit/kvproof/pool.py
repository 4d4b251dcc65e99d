# SPDX-License-Identifier: Apache-2.0
"""Stores of blocks that know no requests: take, touch, drop, publish, find. The kit keeps the
tables of requests as an engine would."""

from kvproof.engine import EngineAdapter, needed
from kvproof.requests import chain


class PoolAdapter(EngineAdapter):
    """Define build, take, touch, drop, publish and find; and what it shows besides tables.

    A block that was taken or touched has one reference more, a dropped one has one less.
    """

    abilities = {"chunks": True, "drafts": True, "skip_lookup": True}

    @needed()
    def take(self, count):
        """Returns so many blocks that nobody held; None for a shortage."""

    @needed()
    def touch(self, blocks):
        """Holds blocks that find() has answered."""

    @needed()
    def drop(self, blocks):
        """Gives blocks back, the last of a table first."""

    @needed()
    def publish(self, block, key):
        """Has a block carry this content from now on."""

    @needed()
    def find(self, key):
        """Returns the block of that content, or None."""

    # ---- requests -------------------------------------------------------------------------------

    def table(self, r):
        return r.own

    def hashes(self, r):
        return chain(r.tokens, self.size, sorted(r.extra.items(), key=str))

    def lookup(self, r):
        found = []
        for key in self.hashes(r)[:max(len(r.tokens) - 1, 0) // self.size] if self.caching else []:
            block = self.find(key)
            if block is None:
                break
            found.append(block)
        return found

    def hold(self, r, hit):
        self.touch(hit)
        r.own = list(hit)
        return len(hit) * self.size

    def grow(self, r, end):
        new = self.take(max(-(-end // self.size) - len(r.own), 0))
        if new is None:
            return False
        r.own = r.own + list(new)
        return True

    def advance(self, r):
        for block, key in zip(r.own, self.hashes(r)[:r.computed // self.size]):
            if self.caching and self.find(key) is None:
                self.publish(block, key)

    def release(self, r):
        self.drop(r.own[::-1])
