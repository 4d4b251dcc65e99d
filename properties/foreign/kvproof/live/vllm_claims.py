# SPDX-License-Identifier: Apache-2.0
"""What vLLM's prefix index claims: which block it names for the tokens of which request.

It claims while it schedules, before a step is given to the worker. So the claims are told behind
the step that they are about.
"""

from kvproof.live.hooks import around


class Claims:
    """Of the index of one pool."""

    def __init__(self, pool):
        self.pool, self.told, self.untold = pool, {}, []

    def publish(self, name, blocks, first, end, size, group):
        for number in range(first, end):
            block = blocks[number]
            if block.is_null or block.block_hash is None:  # it is not worth a key
                continue
            claim = {"tier": 0, "block": block.block_id, "group": group, "req": name,
                     "to": (number + 1) * size}
            self.told.setdefault(block.block_id, []).append(claim)
            self.untold.append({"op": "publish"} | claim)

    def withdraw(self, block):
        for claim in self.told.pop(block.block_id, ()):
            self.untold.append({"op": "unpublish"} | claim)

    def forget(self, name=None):
        """The index is empty, or the tokens of a request are others behind its last turn."""
        for block, claims in list(self.told.items()):
            self.told[block] = [claim for claim in claims if name and claim["req"] != name]

    def take(self):
        untold, self.untold = self.untold, []
        return untold


def wrap(every):
    """@param every the orders of the schedulers in this process"""
    from vllm.v1.core.block_pool import BlockPool

    def claims_of(pool):
        return next((o.claims for o in every if o.claims.pool is pool), None)

    def publishes(original, self, request, blocks, num_cached_blocks, num_full_blocks, block_size,
                  kv_cache_group_id, *values, **named):
        done = original(self, request, blocks, num_cached_blocks, num_full_blocks, block_size,
                        kv_cache_group_id, *values, **named)
        orders = next((o for o in every if o.claims.pool is self), None)
        if orders is not None and request.request_id in orders.names:
            orders.claims.publish(orders.names[request.request_id], blocks, num_cached_blocks,
                                  num_full_blocks, block_size, kv_cache_group_id)
        return done

    def withdraws(original, self, block, *values, **named):
        done = original(self, block, *values, **named)
        claims = claims_of(self)
        if done and claims is not None:
            claims.withdraw(block)
        return done

    around(BlockPool, "cache_full_blocks", publishes)
    removes = "_remove_cached_block_hashes"  # since keys are more than one
    around(BlockPool, removes if hasattr(BlockPool, removes) else "_maybe_evict_cached_block",
           withdraws)
