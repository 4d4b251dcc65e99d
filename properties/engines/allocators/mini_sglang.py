#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mini-sglang's CacheManager over its radix tree, driven by its PrefillAdder and in the order of
its Scheduler: a step is computed, then the prompt is published, then the next step is prepared."""

import torch
from kvproof import RadixAdapter
from stand_in import engine, torch_without_device

engine("minisgl", folder="python", bare=("", "scheduler"),
       fast_compare_key=lambda a, b: next(
           (at for at, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b))))
torch_without_device()
from minisgl import core  # noqa: E402
from minisgl.scheduler.cache import CacheManager  # noqa: E402
from minisgl.scheduler.prefill import PrefillAdder  # noqa: E402
from minisgl.scheduler.table import TableManager  # noqa: E402
from minisgl.scheduler.utils import PendingReq  # noqa: E402

ROWS = 64


class MiniSglang(RadixAdapter):
    operations = "arrive append advance lookup allocate finish"
    traits = {"duplicates": "table_repointed", "free_list": "set"}
    abilities = {"caching": [True]}
    capacity = {"requests": ROWS}
    one_by_one = whole_steps = always_hits = True

    def build(self):
        core._GLOBAL_CTX = core.Context(self.size)
        width = (self.config["max_model_len"] // self.size + 2) * self.size
        rows = torch.zeros((ROWS, width), dtype=torch.int32)
        self.tables = TableManager(ROWS, rows)
        self.cache = CacheManager(self.usable, self.size, rows, "radix")
        self.tree = self.cache.prefix_cache

    def pending(self, r):
        return PendingReq(0, torch.tensor(r.tokens, dtype=torch.int32),
                          core.SamplingParams(max_tokens=1))

    def lookup(self, r):
        handle = self.cache.match_req(self.pending(r)).cuda_handle
        return self.pages(handle.get_matched_indices().tolist()) if handle.cached_len else []

    def admit(self, r, end, hit):
        r.own = PrefillAdder(1 << 30, 0, self.cache, self.tables).try_add_one(self.pending(r))
        if r.own is None:
            return None
        self.cache.allocate_paged([r.own])
        r.prompt = True
        return r.own.cached_len

    def append(self, r, tokens):
        r.own.max_device_len += 1
        r.own.append_host(torch.tensor(tokens, dtype=torch.int32))

    def grow(self, r, end):
        if end % self.size == 1 % self.size and self.cache.available_size < self.size:
            return False
        self.cache.allocate_paged([r.own])
        return True

    def advance(self, r):
        r.own.complete_one()
        if r.prompt:
            self.cache.cache_req(r.own, finished=False)
        r.prompt = False

    def release(self, r):
        self.tables.free(r.own.table_idx)
        self.cache.cache_req(r.own, finished=True)

    def table(self, r):
        return self.pages(self.cache.page_table[r.own.table_idx, :r.granted].tolist())

    def shown(self, node):
        return node._key, self.pages(node.value), node.ref_count

    def progress(self, r):
        return r.own.cache_handle.cached_len // self.size

    def unused(self):
        return [slot // self.size for slot in self.cache.free_slots.tolist()]

    def num_free(self):
        return self.cache.available_size // self.size


if __name__ == "__main__":
    MiniSglang().serve()
