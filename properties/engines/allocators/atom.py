#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ATOM's BlockManager over its BlockPool, driven as its Scheduler drives it: a prompt takes its
blocks when it is admitted, and content is published when it was computed."""

from types import SimpleNamespace

from nano_family import NanoFamily
from stand_in import engine

engine("atom", folder="", bare=("", "distributed", "model_engine"))
from atom.model_engine.block_manager import BlockManager  # noqa: E402
from atom.model_engine.sequence import Sequence  # noqa: E402


class Atom(NanoFamily):
    traits = {"duplicates": "newest_keeps", "reserves": "prompt", "free_list": "set"}
    abilities = {"chunks": True}

    def build(self):
        self.manager = BlockManager(SimpleNamespace(
            kv_cache_block_size=self.size, num_kvcache_blocks=self.usable,
            decode_context_parallel_size=1, dcp_config=SimpleNamespace(interleave_size=1),
            enable_prefix_caching=self.caching))
        self.pool = self.manager.kv

    def lookup(self, r):
        found = self.manager.can_allocate(Sequence(r.tokens, self.size))
        return [self.pool.lookup(key) for key in self.hashes(r)[:max(found, 0)]]

    def admit(self, r, end, hit):
        sequence = Sequence(r.tokens, self.size)
        if self.manager.can_allocate(sequence) < 0:
            return None
        self.manager.allocate(sequence, len(hit))
        r.own = sequence
        return sequence.num_cached_tokens

    def grow(self, r, end):
        if len(r.own) == r.own.num_prompt_tokens:
            return True  # a chunk of the prompt
        if not self.manager.can_append(r.own):
            return False
        self.manager.may_append(r.own)
        return True

    def advance(self, r):
        if r.own.num_cached_tokens < r.own.num_prompt_tokens:
            self.manager.hash_blocks(r.own, r.computed - r.own.num_cached_tokens)
        else:
            self.manager.hash_decode_blocks(r.own, r.computed)
        r.own.num_cached_tokens = r.computed

    def release(self, r):
        self.manager.deallocate(r.own)

    def free_blocks(self):
        return sorted(self.pool._free)

    def num_free(self):
        return self.pool.num_free

    def blocks_by_hash(self):
        return self.pool._hash_to_block_id

    def hash_of(self, tokens, parent):
        return BlockManager.compute_hash(tokens, parent)

    def progress(self, r):
        return r.own.num_cached_tokens // self.size


if __name__ == "__main__":
    Atom().serve()
