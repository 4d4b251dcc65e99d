# SPDX-License-Identifier: Apache-2.0
"""Faults in SGLang's UnifiedRadixCache. The Rust core is a library of its wheel, in which no words
can be replaced: its row has those of the glue, which both cores share."""

from faults import COMMON, PAGED, SGLANG, TOKENS, Fault

CACHE = "srt/mem_cache/unified_radix_cache.py"
CORE = "srt/mem_cache/unified_cache/unified_tree_core.py"
FULL = "srt/mem_cache/unified_cache/components/full.py"
GLUE = [fault for fault in SGLANG if fault.file in (COMMON, PAGED, TOKENS)] + [
    Fault("a checkpoint keeps the lock before it", CACHE,
          "        self.unlock(req.lock)", "        pass"),
    Fault("a checkpoint locks what was locked before it", CACHE,
          "        req.lock = self.lock(\n            new_last_node",
          "        req.lock = self.lock(\n            req.last_node"),
    Fault("a checkpoint leaves the row at the duplicate", CACHE,
          "(req.kv.req_pool_idx, slice(req.kv.cache_protected_len, len(new_indices)))",
          "(0, slice(req.kv.cache_protected_len, len(new_indices)))"),
    Fault("a checkpoint does not note how far it went", CACHE,
          "        req.kv.cache_protected_len = len(new_indices)", "        pass"),
    Fault("what is evicted is not given back", CACHE,
          "        try:\n            self._drain_device_frees(device_frees)",
          "        try:\n            pass"),
    Fault("of a duplicate the first page alone is given back", CACHE,
          "                self.token_to_kv_pool_allocator.free_segment(indices, start_pos=0)",
          "                self.token_to_kv_pool_allocator.free_segment(\n"
          "                    indices[:self.page_size], start_pos=0)"),
    Fault("a prompt that is split off is given back", CACHE,
          "prev_prefix_len=len(prompt_key),", "prev_prefix_len=0,"),
    Fault("a reset leaves the tree", CACHE, "        self.tree_core.reset()\n", ""),
]
PYTHON = GLUE + [
    Fault("a lock counts twice", FULL,
          "            cd.lock_ref += 1\n            self.tree_core.evictable_device_leaves",
          "            cd.lock_ref += 2\n            self.tree_core.evictable_device_leaves"),
    Fault("a lock is never given back", FULL,
          "            cd.lock_ref -= 1\n            if cd.lock_ref == 0:",
          "            if cd.lock_ref == 0:"),
    Fault("the upper half of a split node is not locked", FULL,
          "new_parent.component_data[ct].lock_ref = child.component_data[ct].lock_ref",
          "new_parent.component_data[ct].lock_ref = 0"),
    Fault("the upper half of a split node has the pages of the lower", FULL,
          "child_cd.value[:split_len].clone()", "child_cd.value[-split_len:].clone()"),
    Fault("a locked leaf can be evicted", CORE,
          "        if any(cd.lock_ref > 0 for cd in node.component_data):\n"
          "            return False\n        if any(\n            child.component_data[ct].value",
          "        if any(\n            child.component_data[ct].value"),
    Fault("the pages of an evicted node are lost", FULL,
          "            device_frees[self.component_type].append(cd.value)\n", ""),
    Fault("what is evicted stays in the tree", CORE,
          "        self._remove_leaf_from_parent(node)\n        self._update_evictable_leaf_sets(",
          "        self._update_evictable_leaf_sets("),
    Fault("a new node holds its pages in reverse", CORE,
          "value = value.clone()\n        parent.children",
          "value = value.flip(0)\n        parent.children"),
    Fault("a child is hit whole, whatever part of it matches", CORE,
          "prefix_len = child.key.match_at(key, key_offset, page_size=self.page_size)",
          "prefix_len = len(child.key)"),
    Fault("duplicates are not given back", CORE,
          "dup = value_slice[dup_start:consumed_from]", "dup = value_slice[:0]"),
    Fault("pages of the tree are given back as duplicates", CORE,
          "max(0, state.params.prev_prefix_len - state.total_prefix_length)", "0"),
    Fault("the halves of a split node have each other's keys", CORE,
          "new_node.hash_value, child.hash_value = split_node_hash_value(",
          "child.hash_value, new_node.hash_value = split_node_hash_value("),
    Fault("an eviction is not announced", CORE,
          "        self.kv_events.record_remove(node, medium=medium)\n        for comp",
          "        for comp"),
    Fault("a new node is not announced", CORE,
          "        self.kv_events.record_store(new_node, session_id=session_id)\n", ""),
]

LOCKS = "srt/mem_cache/unified_cache/components/swa.py"
SLOTS = "srt/mem_cache/allocator/swa.py"
WINDOW = [
    Fault("a lock of a window counts twice", LOCKS,
          "                comp.lock_ref = ref + 1", "                comp.lock_ref = ref + 2"),
    Fault("a lock of a window is never given back", LOCKS,
          "                comp.lock_ref = ref - 1", "                pass"),
    Fault("the upper half of a split window is not locked", LOCKS,
          "].lock_ref = child.component_data[", "].lock_ref = 0 and child.component_data["),
    Fault("a slot keeps the window that it gives back", SLOTS,
          "        self.clear_full_to_swa_mapping(mapping_indices)\n        return swa_pages\n\n"
          "    def _free_swa_pages_cuda",
          "        return swa_pages\n\n    def _free_swa_pages_cuda"),
    Fault("the slots of an evicted window are lost", LOCKS,
          "device_frees[self.component_type].append(", "[].append("),
    Fault("a hit needs no window", LOCKS,
          'return state["len"] >= sliding_window_size', "return True"),
    Fault("where a window is recovered, the page before it is lost", LOCKS,
          "        cache_actions.append(FreeDeviceKVFullOnly([old_full]))\n", ""),
    Fault("a lock that is given up early reaches the root", LOCKS,
          'if swa_uuid_for_lock and cd.metadata.get("uuid") == swa_uuid_for_lock:',
          "if False:"),
    Fault("slots that slid out of a window are lost", SLOTS,
          "        self.swa_attn_allocator.free_page_ids(swa_pages)\n", "        pass\n"),
    Fault("a window's slots are given back while they are read", COMMON,
          "evict_threshold = pre_len - ceil_align(", "evict_threshold = pre_len + ceil_align("),
]
