#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nano-vllm's BlockManager, driven as its Scheduler drives it.

A prompt takes all its blocks when it is admitted, whatever chunk of it is computed first. Content
is published when it was computed; a newer copy takes the key.
"""

import inspect
import os

from kvproof import EngineAdapter
from stand_in import bare_package, checkout

bare_package("nanovllm", os.path.join(checkout("nanovllm"), "nanovllm"))
from nanovllm.engine.block_manager import BlockManager  # noqa: E402
from nanovllm.engine.sequence import Sequence  # noqa: E402

LOOKS_FIRST = "num_cached_blocks" in inspect.signature(BlockManager.allocate).parameters


class NanoVllm(EngineAdapter):
    traits = {"duplicates": "newest_keeps", "reserves": "prompt",
              "lookup": "separate" if LOOKS_FIRST else "within_allocate"}
    abilities = {"caching": [True], "chunks": LOOKS_FIRST}
    one_by_one = True

    def build(self):
        Sequence.block_size = self.size
        self.pool = BlockManager(self.usable, self.size)

    def lookup(self, r):
        found = self.hashes(r)[:max(self.pool.can_allocate(Sequence(r.tokens)), 0)]
        return [self.pool.hash_to_block_id[key] for key in found]

    def admit(self, r, end, hit):
        r.own = Sequence(r.tokens)
        fits = self.pool.can_allocate(r.own)
        if fits is False or fits == -1:
            r.own = None
            return None
        self.pool.allocate(r.own, *([] if hit is None else [len(hit)]))
        return r.own.num_cached_tokens

    def append(self, r, tokens):
        if r.own:
            r.own.append_token(*tokens)

    def grow(self, r, end):
        if end < len(r.own):
            return True  # a chunk of the prompt
        if not self.pool.can_append(r.own):
            return False
        self.pool.may_append(r.own)
        return True

    def advance(self, r):
        r.own.num_scheduled_tokens = r.computed - r.own.num_cached_tokens
        if LOOKS_FIRST:  # earlier revisions publish when they allocate
            self.pool.hash_blocks(r.own)
            r.own.num_cached_tokens, r.own.num_scheduled_tokens = r.computed, 0

    def release(self, r):
        self.pool.deallocate(r.own)
        r.own = None

    def table(self, r):
        return list(r.own.block_table) if r.own else []

    def free_blocks(self):
        return list(self.pool.free_block_ids)

    def counts(self):
        return [(block.block_id, block.ref_count) for block in self.pool.blocks if block.ref_count]

    def keys(self):
        return {block.block_id: block.hash for block in self.pool.blocks if block.hash != -1}

    def index(self):
        return {key: [block] for key, block in self.pool.hash_to_block_id.items()}

    def hashes(self, r):
        keys = []
        for end in range(self.size, len(r.tokens) + 1, self.size):
            keys.append(BlockManager.compute_hash(r.tokens[end - self.size:end],
                                                  keys[-1] if keys else -1))
        return keys

    def progress(self, r):
        published = r.own and (r.own.num_cached_tokens if LOOKS_FIRST else r.granted)
        return r.own and published // self.size


if __name__ == "__main__":
    NanoVllm().serve()
