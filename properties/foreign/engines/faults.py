# SPDX-License-Identifier: Apache-2.0
"""THE LIST of faults that are seeded into copies of the engines, for `kvproof check` to notice.

A fault replaces a few words of one file of the engine; they occur there once. The words are an
anchor, no copy of the engine.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    what: str
    file: str
    old: str
    new: str


RADIX, COMMON = "srt/mem_cache/radix_cache.py", "srt/mem_cache/common.py"
PAGED, TOKENS = "srt/mem_cache/allocator/paged.py", "srt/mem_cache/allocator/token.py"
SGLANG = [
    Fault("a lock counts twice", RADIX,
          "            node.lock_ref += 1", "            node.lock_ref += 2"),
    Fault("a lock is never given back", RADIX,
          "            node.lock_ref -= 1", "            pass"),
    Fault("a checkpoint keeps the lock before it", RADIX,
          "        self.unlock(req.lock)", "        pass"),
    Fault("a checkpoint leaves the row at the duplicate", RADIX,
          "(req.kv.req_pool_idx, slice(req.kv.cache_protected_len",
          "(0, slice(req.kv.cache_protected_len"),
    Fault("pages of the tree are given back as duplicates", RADIX,
          "kv_indices[req.kv.cache_protected_len : result.prefix_len]",
          "kv_indices[0 : result.prefix_len]"),
    Fault("duplicates are not given back", RADIX,
          "kv_indices[req.kv.cache_protected_len : result.prefix_len]", "kv_indices[:0]"),
    Fault("a locked leaf can be evicted", RADIX,
          "        if node.evicted or node.lock_ref > 0:", "        if node.evicted:"),
    Fault("what is evicted is not given back", RADIX,
          "            self.token_to_kv_pool_allocator.free_segment(x.value, start_pos=0)",
          "            pass"),
    Fault("what is evicted stays in the tree", RADIX,
          "            self._delete_leaf(x)", "            pass"),
    Fault("the upper half of a split node is not locked", RADIX,
          "new_node.lock_ref = child.lock_ref", "new_node.lock_ref = 0"),
    Fault("a child is hit whole, whatever part of it matches", RADIX,
          "prefix_len = child.key.match(key, page_size=self.page_size)",
          "prefix_len = len(child.key)"),
    Fault("a new node holds its pages in reverse", RADIX,
          "new_node.value = value.clone()", "new_node.value = value.flip(0)"),
    Fault("the upper half of a split node has the pages of the lower", RADIX,
          "new_node.value = child.value[:split_len].clone()",
          "new_node.value = child.value[-split_len:].clone()"),
    Fault("a new node counts twice as evictable", RADIX,
          "            self.evictable_size_ += len(key)\n"
          "            self._update_leaf_status(node)",
          "            self.evictable_size_ += 2 * len(key)\n"
          "            self._update_leaf_status(node)"),
    Fault("the last page of an extension stays free", PAGED,
          "num_new_pages:]\n        return out_indices\n\n    def alloc_decode",
          "max(num_new_pages - 1, 0):]\n        return out_indices\n\n    def alloc_decode"),
    Fault("of a segment the first page alone is given back", PAGED,
          "        reps = free_index[::ps]", "        reps = free_index[::ps][:1]"),
    Fault("a token is given back twice", TOKENS,
          "self.free_pages = torch.cat((self.free_pages, free_index))",
          "self.free_pages = torch.cat((self.free_pages, free_index, free_index))"),
    Fault("the tail of a finished request is not given back", COMMON,
          "[(req.kv.cache_protected_len, owned_kv_len)]", "[(owned_kv_len, owned_kv_len)]"),
    Fault("a finished request keeps its lock", COMMON,
          "    tree_cache.unlock(req.lock)", "    pass"),
]

TRIE, LEAVES = "pytorch/paging/block_trie/trie.py", "pytorch/paging/block_trie/kv_lifecycle.py"
BLOCKS = "pytorch/paging/block_manager/base_block_manager.py"
LMDEPLOY = [
    Fault("the tree holds no reference", TRIE,
          "child.attach_to(node)\n                ref_blocks.append(child.block_id)",
          "child.attach_to(node)"),
    Fault("a hit holds no reference", TRIE,
          "add_ref_count(matched_block_ids, 1)", "add_ref_count(matched_block_ids, 0)"),
    Fault("a hit holds two references", TRIE,
          "add_ref_count(matched_block_ids, 1)", "add_ref_count(matched_block_ids, 2)"),
    Fault("a duplicate is not given back", TRIE,
          "                    free_blocks.append(block_id)", "                    pass"),
    Fault("a table keeps the duplicate that is given back", TRIE,
          "                    logical_blocks[block_idx] = child.block_id",
          "                    pass"),
    Fault("the block that replaces a duplicate is not held", TRIE,
          "logical_blocks[block_idx] = child.block_id\n"
          "                    ref_blocks.append(child.block_id)",
          "logical_blocks[block_idx] = child.block_id"),
    Fault("one of the evicted blocks is not given back", LEAVES,
          "self.allocator.free(np.array(evicted_blocks))",
          "self.allocator.free(np.array(evicted_blocks[1:], dtype=int))"),
    Fault("an evicted leaf stays in the tree", LEAVES,
          "            leaf.detach_leaf()", "            pass"),
    Fault("a new block has two references", BLOCKS,
          "ref_count.put(blocks, 1)", "ref_count.put(blocks, 2)"),
    Fault("a block with one more holder is given back", BLOCKS,
          "blocks[ref_count == 0]", "blocks[ref_count <= 1]"),
    Fault("of the blocks given back the first one is lost", BLOCKS,
          "self._gpu_allocator.free(gpu_blocks)", "self._gpu_allocator.free(gpu_blocks[1:])"),
    Fault("one more is counted as free than is", BLOCKS,
          "            self._free_count += num_freed_blocks\n        return freed_blocks",
          "            self._free_count += num_freed_blocks + 1\n        return freed_blocks"),
    Fault("the free list is not moved on", BLOCKS,
          "            self._free_count -= num_blocks\n            return blocks\n",
          "            return blocks\n"),
    Fault("a request gets one block less than it needs",
          "pytorch/paging/block_manager/default_block_manager.py",
          "num_all_blocks - len(obj.logical_blocks)",
          "num_all_blocks - 1 - len(obj.logical_blocks)"),
    Fault("a request that ends gives nothing back", "pytorch/paging/seq_states/states.py",
          "            self._block_manager.free(seq)", "            pass"),
]

CACHED, NAIVE = "core/block/prefix_caching_block.py", "core/block/naive_block.py"
VLLM_V0 = [
    Fault("a hit counts twice", CACHED,
          "        refcount = self._refcounter.incr(block_id)\n        if refcount == 1:",
          "        self._refcounter.incr(block_id)\n"
          "        refcount = self._refcounter.incr(block_id) - 1\n        if refcount == 1:"),
    Fault("a block that is hit can still be evicted", CACHED,
          "                self.evictor.remove(block_id)", "                pass"),
    Fault("a cached block that nobody holds is lost", CACHED,
          "        self.evictor.add(block_id, block.content_hash, block.num_tokens_total,\n"
          "                         self._block_tracker[block_id].last_accessed)\n", ""),
    Fault("an evicted block keeps its key", CACHED,
          "        self._cached_blocks.pop(content_hash_to_evict)", "        pass"),
    Fault("a duplicate is not given back", CACHED,
          "        # Reuse the cached content hash\n"
          "        self._decr_refcount_hashless_block(block)",
          ""),
    Fault("a duplicate takes the key", CACHED,
          "        if block.content_hash not in self._cached_blocks:\n            # No cached",
          "        if True:\n            # No cached"),
    Fault("no copy before a write", CACHED,
          "        if self._cow_tracker.is_appendable(block):", "        if True:"),
    Fault("a copied block is still held", CACHED,
          "        self._free_block_id(block)\n        trg_block_id", "        trg_block_id"),
    Fault("a fork holds nothing", CACHED,
          "refcount = self._refcounter.incr(block_id)\n            assert refcount != 1",
          "refcount = self._refcounter.get(block_id)\n            assert refcount != 0"),
    Fault("a key does not depend on the blocks before", CACHED,
          "hash((is_first_block, prev_block_hash,", "hash((is_first_block,"),
    Fault("what is not computed yet is hit", CACHED,
          "            return self.block_is_computed(cached_block_id)", "            return True"),
    Fault("evictable blocks do not count as free", CACHED,
          "        ) + self.evictor.num_blocks", "        )"),
    Fault("a block is free twice", NAIVE,
          "            self._free_block_indices.appendleft(block_id)",
          "            self._free_block_indices.extendleft((block_id, block_id))"),
    Fault("the last block of a request is not given back", "core/block/block_table.py",
          "        for block in self.blocks:\n            self._allocator.free(block)",
          "        for block in self.blocks[:-1]:\n            self._allocator.free(block)"),
    Fault("a request that ends gives nothing back", "core/block_manager.py",
          "        self.block_tables[seq_id].free()\n", ""),
    Fault("slots are granted that are not there", "core/block_manager.py",
          "        return num_touched_blocks <= num_free_gpu_blocks", "        return True"),
]

POOL, TABLES = "v1/core/block_pool.py", "v1/core/single_type_kv_cache_manager.py"
VLLM_V1 = [
    Fault("a hit counts twice", POOL,
          "block.ref_cnt += 1\n            if self.metrics_collector:\n"
          "                self.metrics_collector.on_block_acc",
          "block.ref_cnt += 2\n            if self.metrics_collector:\n"
          "                self.metrics_collector.on_block_acc"),
    Fault("a block that is hit stays in the free queue", POOL,
          "                self.free_block_queue.remove(block)", "                pass"),
    Fault("whoever gives a block back takes it from all", POOL,
          "            block.ref_cnt -= 1", "            block.ref_cnt = 0"),
    Fault("a block that is handed out keeps its key", POOL,
          "                self._maybe_evict_cached_block(block)\n                assert",
          "                assert"),
    Fault("cached blocks are evicted before empty ones", POOL,
          "self.free_block_queue.append_n(blocks_with_hash)",
          "self.free_block_queue.prepend_n(blocks_with_hash)"),
    Fault("a request that ends leaves its progress", TABLES,
          "        self.num_cached_block.pop(request_id, None)", "        pass"),
    Fault("the last token is hit", "v1/core/kv_cache_manager.py",
          "max_cache_hit_length = request.num_tokens - 1",
          "max_cache_hit_length = request.num_tokens"),
]

MANAGER = "nanovllm/engine/block_manager.py"
NANO_VLLM = [
    Fault("a block that is handed out stays in the index", MANAGER,
          "            del self.hash_to_block_id[block.hash]", "            pass"),
    Fault("a block that is handed out keeps its key", MANAGER,
          "        block.reset()", "        block.ref_count = 1"),
    Fault("a shared hit is not counted", MANAGER,
          "                block.ref_count += 1", "                pass"),
    Fault("a revived block stays free", MANAGER,
          "                self.free_block_ids.remove(block_id)", "                pass"),
    Fault("whoever gives a block back takes it from all", MANAGER,
          "            block.ref_count -= 1", "            block.ref_count = 0"),
    Fault("the last token is hit", MANAGER,
          "        for i in range(seq.num_blocks - 1):", "        for i in range(seq.num_blocks):"),
    Fault("one block too few is asked for", MANAGER,
          "        if len(self.free_block_ids) < num_new_blocks:",
          "        if len(self.free_block_ids) < num_new_blocks - 1:"),
    Fault("a block that is not full is published", MANAGER,
          "        end = (seq.num_cached_tokens + seq.num_scheduled_tokens) // self.block_size",
          "        end = -(-(seq.num_cached_tokens + seq.num_scheduled_tokens) // "
          "self.block_size)"),
    Fault("a key does not depend on the blocks before", MANAGER,
          ".hash if start > 0 else -1", ".hash if start < 0 else -1"),
    Fault("a new block comes one token late", MANAGER,
          "        if len(seq) % self.block_size == 1:\n            seq.",
          "        if len(seq) % self.block_size == 2 % self.block_size:\n            seq."),
    Fault("the first block of a request is given back first", MANAGER,
          "        for block_id in reversed(seq.block_table):",
          "        for block_id in seq.block_table:"),
]

TREE, CACHE = "python/minisgl/kvcache/radix_cache.py", "python/minisgl/scheduler/cache.py"
MINI_SGLANG = [
    Fault("a lock counts twice", TREE,
          "                node.ref_count += 1", "                node.ref_count += 2"),
    Fault("a lock is never given back", TREE,
          "                node.ref_count -= 1", "                pass"),
    Fault("what is evicted stays in the tree", TREE,
          "            del parent.children[self.key_fn(node._key)]", "            pass"),
    Fault("the upper half of a split node is not locked", TREE,
          "new_node.ref_count = self.ref_count", "new_node.ref_count = 0"),
    Fault("a child is hit whole, whatever part of it matches", TREE,
          "match_len = node.get_match_len(input_ids[prefix_len:])", "match_len = node.length"),
    Fault("a request keeps the lock before it is published", CACHE,
          "        self.unlock(old_handle)", "        pass"),
    Fault("duplicates are not given back", CACHE,
          "        self._free(page_indices[old_handle.cached_len : cached_len])", "        pass"),
    Fault("the first page of a tail is not given back", CACHE,
          "page_indices[new_handle.cached_len :]",
          "page_indices[new_handle.cached_len + self.page_size :]"),
    Fault("what is published is not locked", CACHE,
          "            self.lock(new_handle)", "            pass"),
    Fault("the last page that is handed out stays free", CACHE,
          "self.free_slots = self.free_slots[needed_pages:]",
          "self.free_slots = self.free_slots[needed_pages - 1 :]"),
    Fault("a page is free twice", CACHE,
          "torch.cat([self.free_slots, indices[:: self.page_size]])",
          "torch.cat([self.free_slots, indices[:: self.page_size], indices[:: self.page_size]])"),
]
