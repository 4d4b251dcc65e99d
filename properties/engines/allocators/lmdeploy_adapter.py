#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LMDeploy's paging Scheduler, with its BlockTrie and its block manager. A prompt is admitted whole
and published at once; a decode takes the block for the token that it will add. A request that is
preempted comes back as a new one."""

import torch
from kvproof import RadixAdapter
from stand_in import engine

engine("lmdeploy", bare=())
from lmdeploy.pytorch.config import CacheConfig, SchedulerConfig  # noqa: E402
from lmdeploy.pytorch.messages import SequenceMeta, UpdateTokenMode  # noqa: E402
from lmdeploy.pytorch.paging.scheduler import Scheduler  # noqa: E402
from lmdeploy.pytorch.strategies.ar.sequence import ARSequenceStrategy  # noqa: E402


class LmDeploy(RadixAdapter):
    traits = {"duplicates": "table_repointed", "refusal": "may_evict", "free_list": "set",
              "lookup": "within_allocate"}
    one_by_one = whole_steps = True

    def build(self):
        self.scheduler = Scheduler(
            SchedulerConfig(1 << 20, 1 << 20), CacheConfig(
                1 << 20, self.size, 0, self.usable, max_prefill_token_num=1 << 20,
                enable_prefix_caching=self.caching, cudagraph_capture_batch_sizes=[1]),
            SequenceMeta(self.size, strategy=ARSequenceStrategy()))
        self.manager, self.sessions = self.scheduler.block_manager, 0
        self.allocator = self.manager.allocator

    def admit(self, r, end, hit):
        self.sessions += 1
        sequence = self.scheduler.add_session(self.sessions).add_sequence(torch.tensor(r.tokens))
        running = self.scheduler.schedule(is_prefill=True).running
        if not running:
            self.scheduler.end_session(self.sessions)
            return None
        self.scheduler.activate_seqs(running)
        r.own = sequence
        return sequence.num_history_ids

    def grow(self, r, end):
        if not self.scheduler.eviction_helper.try_make_capacity_for(r.own, [], 1):
            return False
        self.scheduler.schedule_running([r.own], num_required_tokens=1, prealloc_size=1)
        mode = UpdateTokenMode.DECODE if r.own.num_new_tokens else UpdateTokenMode.PREFILL
        r.own.update_token_ids(torch.tensor(r.tokens[-1:]), mode=mode)
        return True

    def release(self, r):
        self.scheduler.end_session(r.own.session_id)

    def table(self, r):
        return self.manager.get_block_table(r.own).tolist()

    def roots(self):
        return self.scheduler.block_trie._roots.values()

    def shown(self, node):
        return (node.token_ids, self.allocator.get_physical_blocks([node.block_id]),
                self.allocator.get_ref_count(node.block_id) - 1)  # the tree's own

    def unused(self):
        pool = self.allocator.get_phy_allocator("gpu")
        return pool._free_blocks[pool._num_blocks - pool._free_count:].tolist()

    def counts(self):
        tree = self.keys()
        return [(block, int(self.allocator.get_ref_count(logical)) - (block in tree))
                  for logical in range(self.usable) if self.allocator.get_ref_count(logical)
                  for block in self.allocator.get_physical_blocks([logical])]

    def progress(self, r):
        cursor = r.own.prefix_cache.trie_cursor
        return cursor and cursor.prefix_len // self.size


if __name__ == "__main__":
    LmDeploy().serve()
