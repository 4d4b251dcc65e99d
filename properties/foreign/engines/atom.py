#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ATOM's BlockManager over its BlockPool, driven as its Scheduler drives it: a prompt takes its blocks
when it is admitted, and content is published when it was computed."""

import os
from types import SimpleNamespace

from kvproof import EngineAdapter
from stand_in import absent, bare_package, checkout

FOLDER = checkout("atom")
for package in ("", ".distributed", ".model_engine"):
    bare_package("atom" + package, os.path.join(FOLDER, "atom", *package.split(".")))
absent("atom.config")
from atom.model_engine.block_manager import BlockManager  # noqa: E402
from atom.model_engine.sequence import Sequence  # noqa: E402


class Atom(EngineAdapter):
    traits = {"duplicates": "newest_keeps", "reserves": "prompt"}
    abilities = {"chunks": True, "skip_lookup": False}
    one_by_one = True

    def build(self):
        self.manager = BlockManager(SimpleNamespace(
            kv_cache_block_size=self.size, num_kvcache_blocks=self.usable,
            decode_context_parallel_size=1, dcp_config=SimpleNamespace(interleave_size=1),
            enable_prefix_caching=self.caching))
        self.pool = self.manager.kv

    def lookup(self, r):
        if not self.caching or not r.tokens:
            return []
        found = max(self.manager.can_allocate(Sequence(r.tokens, self.size)), 0)
        return [self.pool.lookup(key) for key in self.hashes(r)[:found]]

    def admit(self, r, end, hit):
        sequence = Sequence(r.tokens, self.size)
        if self.manager.can_allocate(sequence) < 0:
            return None
        r.own = sequence
        self.manager.allocate(r.own, len(hit))
        return r.own.num_cached_tokens

    def append(self, r, tokens):
        if r.own:
            r.own.append_token(*tokens)

    def grow(self, r, end):
        if end < len(r.own):
            return True  # a chunk of the prompt
        if not self.manager.can_append(r.own, 1):
            return False
        self.manager.may_append(r.own, 1)
        return True

    def advance(self, r):
        if r.own.num_cached_tokens < r.own.num_prompt_tokens:
            self.manager.hash_blocks(r.own, r.computed - r.own.num_cached_tokens)
        else:
            self.manager.hash_decode_blocks(r.own, r.computed)
        r.own.num_cached_tokens = r.computed

    def release(self, r):
        self.manager.deallocate(r.own)
        r.own = None

    def table(self, r):
        return list(r.own.block_table) if r.own else []

    def free_blocks(self):
        return sorted(self.pool._free)

    def num_free(self):
        return self.pool.num_free

    def counts(self):
        return [(block.block_id, block.ref_count) for block in self.pool.blocks if block.ref_count]

    def keys(self):
        return {block.block_id: block.hash for block in self.pool.blocks if block.hash != -1}

    def index(self):
        return {key: [block] for key, block in self.pool._hash_to_block_id.items()}

    def hashes(self, r):
        keys = []
        for end in range(self.size, len(r.tokens) + 1, self.size):
            keys.append(BlockManager.compute_hash(r.tokens[end - self.size:end],
                                                  keys[-1] if keys else -1))
        return keys

    def progress(self, r):
        return r.own and r.own.num_cached_tokens // self.size


if __name__ == "__main__":
    Atom().serve()
