#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MinivLLM's BlockManager, driven as its Scheduler drives it: a prompt is admitted whole, and
content is published when its block is allocated or filled."""

from nano_family import NanoFamily
from stand_in import engine

engine("myvllm", folder="src", bare=("", "engine"))
from myvllm.engine.block_manager import BlockManager  # noqa: E402
from myvllm.engine.sequence import Sequence  # noqa: E402


class MinivLlm(NanoFamily):
    traits = {"duplicates": "newest_keeps", "reserves": "prompt", "lookup": "within_allocate"}
    abilities = {"block_sizes": [2, 3, 4, 8, 16], "caching": [True]}

    def build(self):
        Sequence.block_size = self.size
        self.pool = BlockManager(self.usable, self.size)

    def admit(self, r, end, hit):
        sequence = Sequence(r.tokens)
        if not self.pool.can_allocate(sequence):
            return None
        self.pool.allocate(sequence)
        r.own = sequence
        return sequence.num_cached_tokens

    def grow(self, r, end):
        if not self.pool.can_append(r.own):
            return False
        self.pool.append(r.own)
        return True

    def release(self, r):
        self.pool.deallocate(r.own)

    def free_blocks(self):
        return list(self.pool.free_block_ids)

    def blocks_by_hash(self):
        return self.pool.hash_to_block_id

    def hash_of(self, tokens, parent):
        return self.pool.compute_hash(tokens, parent)

    def progress(self, r):
        return r.granted // self.size


if __name__ == "__main__":
    MinivLlm().serve()
