#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nano-vllm's BlockManager, driven as its Scheduler drives it.

A prompt takes all its blocks when it is admitted, whatever chunk of it is computed first. Content
is published when it was computed (by early revisions, when it is allocated); a newer copy takes the
key.
"""

import inspect

from nano_family import NanoFamily
from stand_in import engine

engine("nanovllm", folder="")
from nanovllm.engine.block_manager import BlockManager  # noqa: E402
from nanovllm.engine.sequence import Sequence  # noqa: E402

LOOKS_FIRST = "num_cached_blocks" in inspect.signature(BlockManager.allocate).parameters


class NanoVllm(NanoFamily):
    traits = {"duplicates": "newest_keeps", "reserves": "prompt",
              "lookup": "separate" if LOOKS_FIRST else "within_allocate"}
    abilities = {"block_sizes": [2, 3, 4, 8, 16], "caching": [True], "chunks": LOOKS_FIRST}

    def build(self):
        Sequence.block_size = self.size
        self.pool = BlockManager(self.usable, self.size)

    def lookup(self, r):
        found = max(self.pool.can_allocate(Sequence(r.tokens)), 0)
        return [self.pool.hash_to_block_id[key] for key in self.hashes(r)[:found]]

    def admit(self, r, end, hit):
        sequence = Sequence(r.tokens)
        fits = self.pool.can_allocate(sequence)
        if fits is False or fits == -1:
            return None
        self.pool.allocate(sequence, *([len(hit)] if LOOKS_FIRST else []))
        r.own = sequence
        return sequence.num_cached_tokens

    def grow(self, r, end):
        if len(r.own) == r.own.num_prompt_tokens:
            return True  # a chunk of the prompt
        if not self.pool.can_append(r.own):
            return False
        self.pool.may_append(r.own)
        return True

    def advance(self, r):
        if LOOKS_FIRST:
            r.own.num_scheduled_tokens = r.computed - r.own.num_cached_tokens
            self.pool.hash_blocks(r.own)
            r.own.num_cached_tokens, r.own.num_scheduled_tokens = r.computed, 0

    def release(self, r):
        self.pool.deallocate(r.own)

    def free_blocks(self):
        return list(self.pool.free_block_ids)

    def blocks_by_hash(self):
        return self.pool.hash_to_block_id

    def hash_of(self, tokens, parent):
        return BlockManager.compute_hash(tokens, parent)

    def progress(self, r):
        return (r.own.num_cached_tokens if LOOKS_FIRST else r.granted) // self.size


if __name__ == "__main__":
    NanoVllm().serve()
