#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SGLang's RadixCache over its allocators of tokens and of pages, driven as its Scheduler drives
them: a prompt is matched, locked, extended and, once computed, published; a decode adds a token;
what finishes is published, and what is retracted is not."""

from array import array
from types import SimpleNamespace

import torch
from kvproof import RadixAdapter, nothing
from stand_in import engine

engine("sglang")
from sglang.srt.managers import schedule_batch  # noqa: E402
from sglang.srt.mem_cache import allocation, common  # noqa: E402
from sglang.srt.mem_cache.allocator import paged, token  # noqa: E402
from sglang.srt.mem_cache.cache_init_params import CacheInitParams  # noqa: E402
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool  # noqa: E402
from sglang.srt.mem_cache.radix_cache import RadixCache  # noqa: E402

allocation.attention_backends = lambda: ("torch_native", "torch_native")
common.get_spec = lambda: SimpleNamespace(speculative_algorithm=None)
serving = SimpleNamespace(strip_thinking_cache=False)
common.get_serving = schedule_batch.get_serving = lambda: serving


class Sglang(RadixAdapter):
    traits = {"duplicates": "table_repointed", "free_list": "set", "refusal": "may_evict"}
    abilities = {"caching": [True], "chunks": True}
    capacity = {"requests": 64}
    one_by_one = whole_steps = always_hits = True
    first_block = 1

    def build(self):
        last = (torch.float32, "cpu", None, False)
        self.pool = (token.TokenToKVPoolAllocator(self.usable, *last) if self.size == 1 else
                     paged.PagedTokenToKVPoolAllocator(self.usable * self.size, self.size, *last))
        self.rows = ReqToTokenPool(64, self.config["max_model_len"] + self.size, "cpu", False)
        self.tree = RadixCache(CacheInitParams(False, self.rows, self.pool, self.size))

    def matched(self, r):
        request = schedule_batch.Req(r.name, "", array("q", r.tokens), nothing.kind("Sampling"))
        request.init_next_round_input(self.tree)
        return request

    def lookup(self, r):
        return self.pages(self.tree.prefix_device_indices(self.matched(r)))

    def batch(self, r, begin, end):
        """One of this request alone, as far as an allocation reads it."""
        length, row = torch.tensor([end]), torch.tensor([r.own.kv.req_pool_idx or 0])
        return SimpleNamespace(
            reqs=[r.own], device="cpu", req_to_token_pool=self.rows, tree_cache=self.tree,
            hisparse_coordinator=None, maybe_evict_swa=lambda: None, is_dllm=lambda: False,
            prefix_lens=[begin], extend_lens=[end - begin], extend_num_tokens=end - begin,
            seq_lens=length, seq_lens_cpu=length, req_pool_indices=row, req_pool_indices_cpu=row,
            model_config=SimpleNamespace(is_encoder_decoder=False))

    def hold(self, r, hit):
        r.own = self.matched(r)
        r.own.lock = self.tree.lock(r.own.last_node)
        r.own.kv.cache_protected_len = r.own.prefix_len
        return len(hit) * self.size

    def let_go(self, r):
        self.tree.unlock(r.own.lock)

    def append(self, r, tokens):
        r.own.output_ids.extend(tokens)

    def grow(self, r, end):
        held = max(r.granted, r.own.prefix_len)
        pages = -(-end // self.size) - -(-held // self.size)
        if not self.pool.check_decode_capacity(num_tokens=pages * self.size, tree_cache=self.tree):
            return False
        if end <= len(r.own.origin_input_ids):
            r.own.extend_end = end
            allocation.alloc_for_extend(self.batch(r, r.own.prefix_len, end))
        else:
            allocation.alloc_for_decode_default(self.batch(r, held, end - 1), 1)
        return True

    def advance(self, r):
        if r.computed <= len(r.own.origin_input_ids):
            common.checkpoint_kv_cache(r.own, self.tree)

    def release(self, r):
        common.release_kv_cache(r.own, self.tree, checkpoint=r.finished)

    def table(self, r):
        return self.pages(self.rows.req_to_token[r.own.kv.req_pool_idx][:r.granted])

    def shown(self, node):
        return node.key.token_ids, self.pages(node.value), node.lock_ref

    def progress(self, r):
        return r.own.kv.cache_protected_len // self.size

    def unused(self):
        return self.pool.get_all_free_pages().tolist()

    def num_free(self):
        return (self.pool.available_size() + self.tree.evictable_size()) // self.size


if __name__ == "__main__":
    Sglang().serve()
