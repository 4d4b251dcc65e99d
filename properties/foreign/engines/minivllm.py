#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MinivLLM's BlockManager, driven as its Scheduler drives it: a prompt is admitted whole, and content
is published when its block is allocated or filled."""

import os

from kvproof import EngineAdapter
from stand_in import bare_package, checkout

FOLDER = checkout("myvllm")
bare_package("myvllm", os.path.join(FOLDER, "src", "myvllm"))
bare_package("myvllm.engine", os.path.join(FOLDER, "src", "myvllm", "engine"))
from myvllm.engine.block_manager import BlockManager  # noqa: E402
from myvllm.engine.sequence import Sequence  # noqa: E402


class MinivLlm(EngineAdapter):
    operations = "arrive append advance allocate free finish"
    traits = {"duplicates": "newest_keeps", "reserves": "prompt", "lookup": "within_allocate"}
    abilities = {"caching": [True], "chunks": False}
    one_by_one = True

    def build(self):
        Sequence.block_size = self.size
        self.pool = BlockManager(self.usable, self.size)

    def admit(self, r, end, hit):
        sequence = Sequence(r.tokens)
        if not self.pool.can_allocate(sequence):
            return None
        r.own = sequence
        self.pool.allocate(r.own)
        return r.own.num_cached_tokens

    def append(self, r, tokens):
        if r.own:
            r.own.append_token(*tokens)

    def grow(self, r, end):
        if not self.pool.can_append(r.own):
            return False
        self.pool.append(r.own)
        return True

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
            keys.append(self.pool.compute_hash(r.tokens[end - self.size:end],
                                               keys[-1] if keys else -1))
        return keys

    def progress(self, r):
        return r.own and r.granted // self.size


if __name__ == "__main__":
    MinivLlm().serve()
