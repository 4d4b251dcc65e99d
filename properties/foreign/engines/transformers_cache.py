#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PagedAttentionCache of transformers' continuous batching, called in the order of its
scheduler: sectors that are free come back, a prefix is matched, tokens are stored (and where they
do not fit, all cached blocks go first), then a step is computed and what it completed is hashed."""

import torch
from kvproof import EngineAdapter
from transformers import ContinuousBatchingConfig, LlamaConfig
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.cache_allocators.cache_allocator import (
    compute_block_hash)
from transformers.generation.continuous_batching.distributed import DistributedHelper
from transformers.generation.continuous_batching.requests import RequestState

LAYERS, HEADS, STRIDE = 2, 2, 100  # between the codes of two values
NOWHERE = torch.empty(0, dtype=torch.long)


class Transformers(EngineAdapter):
    promises = "hits"
    operations = EngineAdapter.operations + " fork reset"
    traits = {"duplicates": "table_repointed", "refusal": "may_evict", "free_list": "set"}
    abilities = {"chunks": True, "forks": "computed"}
    one_by_one = whole_steps = always_hits = True

    def build(self):
        self.width = 1 if self.usable % 4 == 0 else 4  # a sector has up to 4 blocks, or 1
        model = LlamaConfig(num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                            head_dim=self.width)
        self.cache = PagedAttentionCache(
            model, ContinuousBatchingConfig(
                page_size=self.size, num_blocks=self.usable, max_batch_tokens=64,
                max_memory_percent=0.9, allow_block_sharing=self.caching),
            "cpu", DistributedHelper(None, None), torch.int32)
        (self.group,), self.pool = self.cache.cache_allocators.values(), self.cache.pool
        self.planes = torch.arange(1, 1 + LAYERS * HEADS * self.width).view(LAYERS, HEADS, -1)
        self.ledger, self.first_block = self.group.ledger, 2 * self.group.blocks_per_sector

    def lookup(self, r):
        return self.group.match_prefix_blocks(r.tokens) if self.caching else []

    def hold(self, r, hit):
        r.own = RequestState(r.name, r.tokens[:])
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

    def append(self, r, tokens):
        r.own.generated_tokens += tokens

    def advance(self, r):
        past, r.own.position_offset = r.own.position_offset, r.computed
        index = self.group.get_write_indices(r.name, past, r.computed - past)
        for plane, layer in zip(self.planes, range(LAYERS)):
            tokens, places = (torch.tensor(values).view(-1, 1, 1) * STRIDE + plane for values in (
                r.tokens[past:r.computed], range(past, r.computed)))
            self.group.update(tokens.int(), places.int(), layer, NOWHERE, torch.tensor(index))
        self.cache.mark_complete_blocks(r.own, r.own.complete)

    def contents(self, r):
        index = torch.tensor(self.group.get_read_indices(r.name, r.computed, 0)).long()
        none = torch.empty(0, HEADS, self.width, dtype=torch.int32)
        read = [torch.stack(self.group.update(none, none, layer, index, NOWHERE), 1) - plane
                for plane, layer in zip(self.planes, range(LAYERS))] if r.computed else []
        found = torch.cat(read, 2).flatten(2) if read else none
        return [[int(value[0]) // STRIDE if (value == value[0]).all() else -1 for value in pair]
                for pair in found]

    def release(self, r):
        self.cache.free_blocks(r.name)

    def fork(self, r, child):
        if r.holds:
            self.pool.try_to_free_sectors()
            pairs = {self.group.layer_type: ([], [])}
            if not self.cache.prepare_fork_request(r.own, [child.name], pairs):
                self.decline("a child that does not fit begins anew")
            self.cache.perform_cache_copy(pairs)
            child.own = r.own.fork(child.name)
            child.copies = [*zip(*pairs[self.group.layer_type])]

    def do_reset(self, *_):
        if self.group.block_table:
            return False
        self.cache.reset()
        return True

    def table(self, r):
        return self.group.block_table.get(r.name, ())

    def free_blocks(self):
        per, trees = self.group.blocks_per_sector, self.pool._free_blocks[0].trees.values()
        return [*self.ledger.cached_blocks, *(block for tree in trees for block in tree),
                *(sector * per + at for sector in self.pool.free_sectors for at in range(per))]

    def num_free(self):
        return len(self.ledger.cached_blocks) + self.pool.count_free_blocks(0) + (
            self.pool.num_free_sectors * self.group.blocks_per_sector)

    def counts(self):  # whatever is not free has an owner, which is not written down
        every = range(self.first_block, self.first_block + self.usable)
        return [(block, self.ledger.shared_ref_counts.get(block, 1))
                for block in {*every} - {*self.free_blocks()}]

    def keys(self):
        return self.ledger.block_to_hash

    def index(self):
        return {key: [block] for key, block in self.ledger.hash_to_block.items()}

    def hashes(self, r):
        keys = [None]
        for end in range(self.size, len(r.tokens) + 1, self.size):
            keys.append(compute_block_hash(keys[-1], r.tokens[end - self.size:end]))
        return keys[1:]


if __name__ == "__main__":
    Transformers().serve()
