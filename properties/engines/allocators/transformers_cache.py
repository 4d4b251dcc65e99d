#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PagedAttentionCache of transformers' continuous batching, called in the order of its
scheduler: sectors that are free come back, a prefix is matched, tokens are stored (and where they
do not fit, all cached blocks go first), then a step is computed and what it completed is hashed.
Its tensors hold the tokens and their positions, in a code of its own for each layer and head."""

import torch
from kvproof import EngineAdapter
from transformers import ContinuousBatchingConfig, LlamaConfig
from transformers.generation.continuous_batching import cache, distributed, requests
from transformers.generation.continuous_batching.cache_allocators import cache_allocator

LAYERS, HEADS, STRIDE = 2, 2, 100  # between the codes of two values


class Transformers(EngineAdapter):
    promises, operations = "hits", EngineAdapter.operations + " fork reset"
    traits = {"duplicates": "table_repointed", "refusal": "may_evict", "free_list": "set"}
    abilities = {"chunks": True, "forks": "computed"}
    one_by_one = whole_steps = always_hits = True

    def build(self):
        width = 1 if self.usable % 4 == 0 else 4  # a sector has up to 4 blocks, or 1
        self.cache = cache.PagedAttentionCache(
            LlamaConfig(num_hidden_layers=LAYERS, num_attention_heads=HEADS, head_dim=width),
            ContinuousBatchingConfig(
                page_size=self.size, num_blocks=self.usable, max_batch_tokens=64,
                max_memory_percent=0.9, allow_block_sharing=self.caching),
            "cpu", distributed.DistributedHelper(None, None), torch.int32)
        self.codes = torch.arange(LAYERS * HEADS * width).int().view(LAYERS, 1, HEADS, width)
        (self.group,), self.pool = self.cache.cache_allocators.values(), self.cache.pool
        self.ledger, self.first_block = self.group.ledger, 2 * self.group.blocks_per_sector

    def lookup(self, r):
        return self.group.match_prefix_blocks(r.tokens) if self.caching else []

    def hold(self, r, hit):
        r.own = requests.RequestState(r.name, r.tokens[:])
        r.own.position_offset = self.cache.search_prefix_match(r.name, r.tokens)
        return r.own.position_offset

    def grow(self, r, end):
        more = end - r.own.position_offset
        self.pool.try_to_free_sectors()
        while not self.cache.can_store_request_tokens(r.own, more):
            if not self.cache.evict_cached_blocks():
                return False
            self.pool.try_to_free_sectors()
        r.own.complete = self.cache.count_new_complete_blocks(r.own, more)
        return True

    def advance(self, r):
        past, r.own.position_offset = r.own.position_offset, r.computed
        r.own.generated_tokens = r.tokens[len(r.own.initial_tokens):]
        index = torch.tensor(self.group.get_write_indices(r.name, past, r.computed - past))
        values = torch.tensor([r.tokens[past:r.computed], [*range(past, r.computed)]]).int()
        for layer, code in enumerate(self.codes):
            coded = values.view(2, -1, 1, 1) * STRIDE + code
            self.group.update(*coded, layer, index[:0], index)
        self.cache.mark_complete_blocks(r.own, r.own.complete)

    def contents(self, r):
        index = torch.tensor(self.group.get_read_indices(r.name, r.computed, 0), dtype=torch.long)
        found = torch.cat([
            torch.stack(self.group.update(code[:0], code[:0], layer, index, index[:0]), 1) - code
            for layer, code in enumerate(self.codes)], 2).flatten(2)
        alike = (found == found[..., :1]).all(-1) & (found[..., 0] % STRIDE == 0)
        return torch.where(alike, found[..., 0] // STRIDE, -1).tolist()

    def release(self, r):
        self.cache.free_blocks(r.name)

    def fork(self, r, child):
        if r.holds:
            pairs = {self.group.layer_type: ([], [])}
            self.pool.try_to_free_sectors()
            if not self.cache.prepare_fork_request(r.own, [child.name], pairs):
                self.decline("a child that does not fit begins anew")
            self.cache.perform_cache_copy(pairs)
            child.own = r.own.fork(child.name)
            child.copies = [*zip(*pairs[self.group.layer_type])]

    def reset(self):
        return not self.group.block_table and self.cache.reset() is None

    def table(self, r):
        return self.group.block_table.get(r.name, ())

    def free_blocks(self):
        per, trees = self.group.blocks_per_sector, self.pool._free_blocks[0].trees.values()
        return [*self.ledger.cached_blocks, *sum(trees, []), *(
            sector * per + at for sector in self.pool.free_sectors for at in range(per))]

    def num_free(self):
        free = self.cache.compute_free_capacity(relative=False)
        return len(self.ledger.cached_blocks) + free // self.group.bytes_per_block

    def counts(self):  # whatever is not free has an owner, which is not written down
        owned = {*range(self.first_block, self.first_block + self.usable)} - {*self.free_blocks()}
        return [(block, self.ledger.shared_ref_counts.get(block, 1)) for block in owned]

    def keys(self):
        return self.ledger.block_to_hash

    def progress(self, r):
        return [block in self.keys() for block in (*self.table(r), None)].index(False)

    def index(self):
        return {key: [block] for key, block in self.ledger.hash_to_block.items()}

    def hashes(self, r):
        key, ends = None, range(self.size, len(r.tokens) + 1, self.size)
        return [key := cache_allocator.compute_block_hash(key, r.tokens[end - self.size:end])
                for end in ends]


if __name__ == "__main__":
    Transformers().serve()
