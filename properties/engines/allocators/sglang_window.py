#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SGLang's UnifiedRadixCache with a component of sliding windows beside that of full attention; see
sglang_unified.py. The pages of the windows are those of a second pool, for which the contract has
no words. So the tables are those of full attention, and the windows are checked here: those that a
request reads are there, and no page of theirs is used twice. Their pool is as large as the other,
so that it never causes a refusal; what else takes pages of it is played here."""

from sglang_unified import ComponentType, SglangUnified
from sglang_adapter import torch
from sglang.srt.layers.attention.dsv4 import unified_kv_gate
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import EvictParams
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

unified_kv_gate.is_unified_kv_triton = lambda: False
Pools = type("Pools", (SWAKVPool,), {"__init__": lambda self: None})  # both, without their bytes
WINDOW = 3  # tokens


class SglangWindow(SglangUnified):
    promises = "safety"  # a window that is gone ends a hit before its prefix does

    def build(self):
        super().build()
        slots = self.usable * self.size
        self.pool = SWATokenToKVPoolAllocator(
            slots, slots, self.size, torch.float32, "cpu", Pools(), False)
        self.full = self.pool.full_attn_allocator
        self.plant(ComponentType.FULL, ComponentType.SWA, sliding_window_size=WINDOW)

    def lookup(self, r):
        slots = self.tree.prefix_device_indices(self.matched(r))
        self.read(slots[-WINDOW:])
        return self.pages(slots)

    def grow(self, r, end):
        decoded = end - len(r.own.origin_input_ids)
        if decoded > 0:
            self.tree.evict_sliding_windows(r.own, end - 1)
        if decoded > WINDOW:
            self.tree.release_swa_prefix_lock(r.own)
        if end % 3 == 0:
            self.tree.evict(EvictParams(swa_num_tokens=self.size))
        return super().grow(r, end)

    def read(self, slots):
        windows = self.pool.translate_loc_from_full_to_swa(slots)
        assert (windows > 0).all(), f"of the slots {slots.tolist()} the windows {windows.tolist()}"

    def check(self):
        super().check()
        for r in self.requests.values():
            if r.holds:
                row = self.rows.req_to_token[r.own.kv.req_pool_idx]
                begin = max(r.computed, r.own.prefix_len) - WINDOW
                self.read(row[max(begin, 0):r.granted].long())
        slots = self.pool.full_to_swa_index_mapping[:-1]
        slots = slots[slots > 0].tolist()
        free = {*self.pool.swa_attn_allocator.get_all_free_pages().tolist()}
        assert len({*slots}) == len(slots), "two slots have one window"
        assert not free & {slot // self.size for slot in slots}, "a window is free"
        if self.idle():
            slots = self.pool.swa_available_size() + self.tree.swa_evictable_size()
            assert slots == self.usable * self.size, f"{slots} slots of windows are left"

    def events(self, operation):
        """A key that goes to another block, where a window was missing, is nothing that is told."""
        before, told = self.before, super().events(operation)
        gone = {event.get("block") for event in told}
        moved = [key for key, page in before.items()
                 if self.before.get(key, page) != page and page not in gone]
        return [*self.gone(moved, before), *(self.stored([key]) for key in moved), *told]


if __name__ == "__main__":
    SglangWindow().serve()
