#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The block manager of vLLM V0, driven as its Scheduler drives it: whether a prompt fits, how much
of it is cached, its blocks; then slots for each token. What is preempted comes back as a new
sequence."""

import itertools
from types import SimpleNamespace

import torch  # noqa: F401
from kvproof import EngineAdapter
from stand_in import engine

engine("vllm")
from vllm.core.block.prefix_caching_block import PrefixCachingBlock  # noqa: E402
from vllm.core.block_manager import SelfAttnBlockSpaceManager  # noqa: E402
from vllm.core.interfaces import AllocStatus  # noqa: E402
from vllm.inputs import token_inputs  # noqa: E402
from vllm.sequence import Sequence, SequenceStatus  # noqa: E402
from vllm.utils import Device  # noqa: E402


def alone(sequence):
    """A group of one sequence."""
    return SimpleNamespace(get_seqs=lambda status=None: [sequence], request_id=sequence.seq_id,
                           is_encoder_decoder=lambda: False)


class VllmV0(EngineAdapter):
    operations = EngineAdapter.operations + " fork"
    traits = {"duplicates": "table_repointed", "reserves": "prompt", "lookup": "within_allocate"}
    abilities = {"caching": [True], "forks": "computed"}

    def build(self):
        self.manager = SelfAttnBlockSpaceManager(self.size, self.usable, 0, watermark=0,
                                                 enable_caching=True)
        self.pool = self.manager.block_allocator._allocators[Device.GPU]
        self.numbers, self.clock = itertools.count(), itertools.count(1)

    def admit(self, r, end, hit):
        sequence = Sequence(next(self.numbers), token_inputs(r.tokens), self.size)
        if self.manager.can_allocate(alone(sequence)) != AllocStatus.OK:
            return None
        r.own = sequence
        cached = self.manager.get_num_cached_tokens(r.own)
        self.manager.allocate(alone(r.own))
        self.step(r)
        return min(cached, (len(r.tokens) - 1) // self.size * self.size)

    def step(self, r):
        r.own.status = SequenceStatus.RUNNING
        self.manager.access_all_blocks_in_seq(r.own, next(self.clock))

    def append(self, r, tokens):
        for token in tokens:
            r.own.append_token_id(token, {token: SimpleNamespace(logprob=0)})

    def grow(self, r, end):
        if not self.manager.can_append_slots(alone(r.own), 0):
            return False
        copies = self.manager.append_slots(r.own, 0)  # of some the block that is cached was taken
        r.copies = [copy for copy in copies if copy[1] in self.table(r)]
        self.step(r)
        return True

    def advance(self, r):
        r.own.data.update_num_computed_tokens(r.computed - r.own.data.get_num_computed_tokens())
        self.manager.mark_blocks_as_computed(alone(r.own), r.computed)

    def release(self, r):
        self.manager.free(r.own)

    def fork(self, r, child):
        if r.holds:
            child.own = r.own.fork(next(self.numbers))
            self.manager.fork(r.own, child.own)
            self.manager.get_num_cached_tokens(child.own)

    def table(self, r):
        return self.manager.get_block_table(r.own)

    def free_blocks(self):
        return [*self.pool._hashless_allocator._free_block_indices, *self.pool.evictor.free_table]

    def num_free(self):
        return self.manager.get_num_free_gpu_blocks()

    def counts(self):
        return self.pool._refcounter._refcounts.items()

    def keys(self):
        return {block: key % 2**64 for key, block in self.pool._cached_blocks.items()}

    def index(self):
        return {key % 2**64: [block] for key, block in self.pool._cached_blocks.items()}

    def hashes(self, r):
        keys = []
        for end in range(self.size, len(r.tokens) + 1, self.size):
            keys.append(PrefixCachingBlock.hash_block_tokens(
                end == self.size, keys[-1] if keys else None, r.tokens[end - self.size:end]))
        return [key % 2**64 for key in keys]

    def progress(self, r):
        return r.granted // self.size


if __name__ == "__main__":
    VllmV0().serve()
