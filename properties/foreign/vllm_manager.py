# SPDX-License-Identifier: Apache-2.0
"""vLLM's KVCacheManager, built from the header of a trace, and what a trace says of it afterwards.

An event of vLLM's names keys. Which block it means, and how many tokens a key covers, is remembered
here; vLLM itself decides what is announced, and when.
"""

import inspect
import math

# By the kind of a layer group: its specification, and what that takes from the header.
SPECS = {"full": ("FullAttentionSpec", {}), "mla": ("MLAAttentionSpec", {}),
         "sliding_window": ("SlidingWindowSpec", {"sliding_window": "window"}),
         "chunked_local": ("ChunkedLocalAttentionSpec", {"attention_chunk_size": "chunk"}),
         "mamba": ("MambaSpec", {"mamba_cache_mode": "mode",
                                 "num_speculative_blocks": "speculative_blocks"})}


def accepted(function, **named):
    """Calls with those of the arguments that this version knows."""
    known = inspect.signature(function).parameters
    return function(**{name: value for name, value in named.items() if name in known})


def build(config):
    import torch
    from vllm.v1 import kv_cache_interface as interface
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    groups, in_flight = [], config.get("max_in_flight_tokens")
    for group in config["groups"]:
        name, fields = SPECS[group["kind"]]
        spec = accepted(getattr(interface, name), block_size=group["block_size"], num_kv_heads=1,
                        head_size=1, dtype=torch.float32, shapes=((1,),), dtypes=(torch.float32,),
                        **{argument: group[field] for argument, field in fields.items()})
        groups.append(interface.KVCacheGroupSpec([f"layer {len(groups)}"], spec,
                                                 is_eagle_group=group.get("eagle", False)))
    return accepted(
        KVCacheManager, kv_cache_config=interface.KVCacheConfig(config["num_blocks"], [], groups),
        max_model_len=config["max_model_len"], hash_block_size=config["hash_block_size"],
        scheduler_block_size=math.lcm(*(group["block_size"] for group in config["groups"])),
        max_num_batched_tokens=in_flight, max_in_flight_tokens=in_flight,
        watermark=config.get("watermark", 0.0), use_eagle=config.get("use_eagle", False),
        enable_caching=config["enable_caching"], enable_kv_cache_events=True)


def ids(blocks):
    return [block.block_id for block in blocks]


def group_of(key):
    return int.from_bytes(key[-4:], "big")


def fingerprint(content):
    """Of the last unit's hash, in which the whole prefix is chained."""
    return int.from_bytes(content[-8:], "big")


def walk(first, link, most):
    """The ids from an end of the queue on; of a queue that is no list any more, a few too many."""
    block = getattr(first, link)
    for _ in range(most):
        if block is None or block.block_id < 0:  # the other end
            return
        yield block.block_id
        block = getattr(block, link)


class Observer:
    def __init__(self, manager, config):
        self.manager, self.pool = manager, manager.block_pool
        self.groups = manager.coordinator.single_type_managers
        self.unit = config["hash_block_size"]
        self.sizes = [group["block_size"] for group in config["groups"]]
        self.prefix_tokens = {None: 0}  # of a key
        self.evicted = {}  # the block of an event, by the identity of the event
        evict = self.pool._maybe_evict_cached_block

        def evict_and_remember(block):
            before, done = len(self.pool.kv_event_queue), evict(block)
            self.evicted |= {id(e): block.block_id for e in self.pool.kv_event_queue[before:]}
            return done

        self.pool._maybe_evict_cached_block = evict_and_remember

    def learn_keys(self, request):
        """The key of a coarse block joins those of its units (0.22), or is that of the last one."""
        fine = request.block_hashes
        for step in {size // self.unit for size in (self.unit, *self.sizes)}:
            for end in range(step, len(fine) + 1, step):
                for key in (fine[end - 1], b"".join(fine[end - step:end])):
                    self.prefix_tokens[key] = end * self.unit

    def state(self, requests):
        queue, blocks = self.pool.free_block_queue, self.pool.blocks
        index = {key: list(held) if isinstance(held, dict) else ids([held])
                 for key, held in self.pool.cached_block_hash_to_block._cache.items()}

        def each(describe):
            return {name: describe(request) for name, request in requests.items()}

        def per_group(describe):
            return {name: [describe(group, name) for group in self.groups] for name in requests}
        return {
            "free": queue.num_free_blocks, "keys": len(index), "usage": self.manager.usage,
            "queue": [*walk(queue.fake_free_list_head, "next_free_block", len(blocks))],
            "queue_backward": [*walk(queue.fake_free_list_tail, "prev_free_block", len(blocks))],
            "linked": ids(b for b in blocks if b.prev_free_block or b.next_free_block),
            "ref": [[b.block_id, b.ref_cnt] for b in blocks[1:] if b.ref_cnt],
            "cached": sorted({(b, group_of(key)) for key, held in index.items() for b in held}),
            "key": [[b.block_id, fingerprint(key), self.prefix_tokens[key]] for b in blocks
                    if b.block_hash is not None for key in [b.block_hash[:-4]]],
            "index": [[group_of(key), fingerprint(key[:-4]), held] for key, held in index.items()],
            "tokens": each(lambda r: r.num_tokens),
            "computed": each(lambda r: r.num_computed_tokens),
            "hashes": each(lambda r: [fingerprint(h) for h in r.block_hashes]),
            "tables": per_group(lambda group, name: ids(group.req_to_blocks.get(name, ()))),
            "progress": per_group(lambda group, name: group.num_cached_block.get(name))}

    def take_events(self, req):
        events = [self.event(event, req) for event in self.manager.take_events()]
        self.evicted.clear()
        return events

    def event(self, event, req):
        kind = type(event).__name__
        if kind == "AllBlocksCleared":
            return {"type": "cleared"}
        group, ends = event.group_idx, [self.prefix_tokens[key] for key in event.block_hashes]
        if kind == "BlockRemoved":
            return {"type": "removed", "group": group, "block": self.evicted[id(event)],
                    "prefix": ends[0]}
        table = self.groups[group].req_to_blocks[req]
        start = self.prefix_tokens[event.parent_block_hash]
        blocks = [[table[(end - 1) // self.sizes[group]].block_id, end] for end in ends]
        return {"type": "stored", "group": group, "from": start,
                "to": start + len(event.token_ids), "blocks": blocks}
