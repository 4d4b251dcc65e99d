# SPDX-License-Identifier: Apache-2.0
"""Faults for the paged cache of transformers."""

from faults import Fault

BATCHING = "generation/continuous_batching/"
CACHE, SECTORS = BATCHING + "cache.py", BATCHING + "cache_allocators/cache_pool.py"
BLOCKS = BATCHING + "cache_allocators/cache_allocator.py"
FULL = BATCHING + "cache_allocators/full_attention.py"
TRANSFORMERS = [
    Fault("a key does not depend on the blocks before", BLOCKS,
          "    if parent_hash is not None:\n", "    if False:\n"),
    Fault("a revived block can still be evicted", BLOCKS,
          "            self.cached_blocks.pop(block_id)", "            pass"),
    Fault("a second holder is not counted", BLOCKS,
          "self.shared_ref_counts.get(block_id, 1) + 1", "self.shared_ref_counts.get(block_id, 1)"),
    Fault("a cached block that nobody holds is lost", BLOCKS,
          "                self.cached_blocks[block_id] = None\n", ""),
    Fault("the last token is hit", BLOCKS,
          "range((len(prompt_ids) - 1) // self.tokens_per_page)",
          "range(len(prompt_ids) // self.tokens_per_page)"),
    Fault("the block that replaces a duplicate is not held", BLOCKS,
          "                    self.ledger.acquire(identical_block)\n", ""),
    Fault("a table keeps the duplicate that is given back", BLOCKS,
          "                    block_table[i] = identical_block\n", ""),
    Fault("a block that is not computed yet is published", CACHE,
          "= (tokens_in_last_block + request_len) //",
          "= 1 + (tokens_in_last_block + request_len) //"),
    Fault("a fork shares the block that is still written", BLOCKS,
          "min(past_length // self.tokens_per_page,",
          "min(-(-past_length // self.tokens_per_page),"),
    Fault("a fork holds nothing", BLOCKS,
          "    self.ledger.acquire(block_id)\n        fresh", "    pass\n        fresh"),
    Fault("a copy goes the wrong way", BLOCKS,
          "index_copy_(0, dst, self._copy_view.index_select(0, src))",
          "index_copy_(0, src, self._copy_view.index_select(0, dst))"),
    Fault("a block is free twice", SECTORS, ".append(leaf)", ".extend((leaf, leaf))"),
    Fault("a sector with one block in use is free", SECTORS,
          "if len(tree) == self.elems_per_tree]", "if len(tree) >= self.elems_per_tree - 1]"),
    Fault("free blocks are not counted down", SECTORS, "        self._length -= num_leaves\n", ""),
    Fault("the first of the evicted blocks is not given back", CACHE,
          "self.pool.free_blocks(allocator.index, evicted_blocks)",
          "self.pool.free_blocks(allocator.index, evicted_blocks[1:])"),
    Fault("a reset forgets the free blocks alone", CACHE,
          "        self.free_all_requests(clear_ledgers=True)", "        self.free_all_requests()"),
    Fault("one block too few is taken", FULL,
          "total_length + self.tokens_per_page - 1", "total_length + self.tokens_per_page - 2"),
    Fault("the keys of the second layer lie in those of the first", FULL,
          "flattened_view[(2 * i + 0) * self", "flattened_view[0 * self"),
]
