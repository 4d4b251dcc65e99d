# SPDX-License-Identifier: Apache-2.0
"""Faults for vLLM V1 0.33.0; those of 0.24.0 are in faults.py."""

from faults import POOL, TABLES, Fault, VLLM_V1

MANAGER, GROUPS = "v1/core/kv_cache_manager.py", "v1/core/kv_cache_coordinator.py"
SAME = ("a hit counts twice", "a block that is hit stays in the free queue",
        "a block that is handed out keeps its key", "a request that ends leaves its progress")
VLLM_33 = [
    *(fault for fault in VLLM_V1 if fault.what in SAME),
    Fault("whoever gives a block back takes it from all", POOL,
          "block.ref_cnt -= 1\n            if block.ref_cnt == 0:\n                if",
          "block.ref_cnt = 0\n            if block.ref_cnt == 0:\n                if"),
    Fault("cached blocks are evicted before empty ones", POOL,
          "append_n(blocks_to_evict_last)", "prepend_n(blocks_to_evict_last)"),
    Fault("a reset leaves the index", POOL,
          "        self.cached_block_hash_to_block = BlockHashToBlockMap()\n"
          "        self.cached_block_hashes_by_block.clear()", ""),
    Fault("the last token is hit", MANAGER,
          "max_cache_hit_length = request.num_tokens - 1\n        computed",
          "max_cache_hit_length = request.num_tokens\n        computed"),
    Fault("what is in flight is given back", MANAGER,
          "max(0, total_computed_tokens - request.num_in_flight_tokens),",
          "total_computed_tokens,"),
    Fault("what is promised to others is granted", MANAGER,
          "self.block_pool.get_num_free_blocks() - reserved_blocks",
          "self.block_pool.get_num_free_blocks()"),
    Fault("the rows of an encoder grow with the tokens", GROUPS,
          "                num_encoder_tokens\n                if isinstance",
          "                num_tokens\n                if isinstance"),
    Fault("a chunk begins one token late", TABLES,
          "num_computed_tokens // self.attention_chunk_size\n",
          "(num_computed_tokens + 1) // self.attention_chunk_size\n"),
    Fault("a state is given back a step sooner", TABLES,
          "        return num_computed_tokens - 1", "        return num_computed_tokens"),
    Fault("a ring is claimed anew", TABLES,
          "        return 0 if self.req_to_blocks.get(request_id) else 1", "        return 1"),
]
