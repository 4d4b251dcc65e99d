# SPDX-License-Identifier: Apache-2.0
"""What the engines have in common whose block manager descends from nano-vllm's: sequences with a
table, blocks with a count and a hash, and one block for each hash."""

from kvproof import EngineAdapter


class NanoFamily(EngineAdapter):
    """Define build, which makes self.pool, admit, grow and release; blocks_by_hash, hash_of."""

    one_by_one = whole_steps = always_hits = True

    def append(self, r, tokens):
        r.own.append_token(*tokens)

    def table(self, r):
        return r.own.block_table

    def counts(self):
        return [(block.block_id, block.ref_count) for block in self.pool.blocks]

    def keys(self):
        return {block.block_id: block.hash for block in self.pool.blocks if block.hash != -1}

    def index(self):
        return {key: [block] for key, block in self.blocks_by_hash().items()}

    def hashes(self, r):
        keys = [-1]
        for end in range(self.size, len(r.tokens) + 1, self.size):
            keys.append(self.hash_of(r.tokens[end - self.size:end], keys[-1]))
        return keys[1:]
