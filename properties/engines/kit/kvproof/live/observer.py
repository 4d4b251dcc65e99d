# SPDX-License-Identifier: Apache-2.0
"""What a trace says of a vLLM KVCacheManager: its state, and its events.

An event of vLLM's names keys. Which block it means, and how many tokens a key covers, is remembered
here; vLLM itself decides what is announced, and when.
"""

# By the kind of a layer group: its specification, and what that takes from the header, if it is
# there.
SPECS = {"full": ("FullAttentionSpec", {}), "mla": ("MLAAttentionSpec", {}),
         "rswa": ("RSWASpec", {"rswa_window": "window"}), "ring": ("CircularBufferSpec", {}),
         "cross": ("CrossAttentionSpec", {}),
         "sliding_window": ("SlidingWindowSpec", {"sliding_window": "window"}),
         "chunked_local": ("ChunkedLocalAttentionSpec", {"attention_chunk_size": "chunk"}),
         "mamba": ("MambaSpec", {"mamba_cache_mode": "mode",
                                 "num_speculative_blocks": "speculative_blocks",
                                 "num_prefill_checkpoint_blocks": "checkpoints",
                                 "prefill_checkpoint_alignment": "checkpoint_alignment"})}


def ids(blocks):
    return [block.block_id for block in blocks]


def waiting_copies(manager):
    """@return of each group the copies that wait for the end of this step, as pairs of blocks"""
    return [list(getattr(group, "_pending_cow_copies", ()))  # none before 0.26
            for group in manager.coordinator.single_type_managers]


def copying(manager):
    """@return the blocks that are held until these copies have run"""
    return [block for group in waiting_copies(manager) for pair in group for block in ids(pair)]


def events_name_groups():
    from vllm.distributed.kv_events import BlockStored
    return "group_idx" in BlockStored.__struct_fields__


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


# Methods of the pool that announce what becomes of one block: of these alone.
NAMING = ("_maybe_evict_cached_block", "_remove_cached_block_hashes", "_emit_block_removed_events",
          "cache_partial_block")


class Observer:
    def __init__(self, manager, config):
        self.manager, self.pool = manager, manager.block_pool
        self.tells = self.pool.enable_kv_cache_events and (
            events_name_groups() or len(config["groups"]) == 1)
        self.groups = manager.coordinator.single_type_managers
        self.unit = config["hash_block_size"]
        self.sizes = [group["block_size"] for group in config["groups"]]
        self.prefix_tokens = {None: 0}  # of a key
        self.block = None  # for which the pool was called last
        self.meant = {}  # the block of an event, by the identity of the event
        self.queue, self.seen = None, 0  # events of the pool's queue that were told
        for name in NAMING:
            if hasattr(self.pool, name):
                setattr(self.pool, name, self.followed(getattr(self.pool, name)))

    def followed(self, method):
        """@return a method of the pool, by which the events that it makes are remembered to mean
        the block it was called for; where it was called for none, that of the call before"""
        def called(*values, **named):
            before = len(self.pool.kv_event_queue)
            given = (v for v in (*values, *named.values()) if hasattr(v, "block_id"))
            block = self.block = next(given, self.block)
            done = method(*values, **named)
            for event in self.pool.kv_event_queue[before:]:
                self.meant.setdefault(id(event), block.block_id)
            return done
        return called

    def learn_keys(self, request):
        """The key of a coarse block joins those of its units (0.22), or is that of the last one."""
        fine = request.block_hashes
        for step in {size // self.unit for size in (self.unit, *self.sizes)}:
            for end in range(step, len(fine) + 1, step):
                for key in (fine[end - 1], b"".join(fine[end - step:end])):
                    self.prefix_tokens[key] = end * self.unit

    def is_full(self, block):
        """@return whether a key says that all tokens of the block are written"""
        if block.block_hash is None:
            return False
        size = self.sizes[group_of(block.block_hash)]
        return self.prefix_tokens[block.block_hash[:-4]] % size == 0

    def further_keys(self):
        """@return by the id of a block what it carries beside its first key (since 0.24)"""
        return getattr(self.pool, "cached_block_hashes_by_block", {})

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
            "tail": [[block, fingerprint(key[:-4])]
                     for block, keys in sorted(self.further_keys().items()) for key in keys],
            "copying": copying(self.manager),
            "index": [[group_of(key), fingerprint(key[:-4]), held] for key, held in index.items()],
            "tokens": each(lambda r: r.num_tokens),
            "computed": each(lambda r: r.num_computed_tokens),
            "boundary": each(lambda r: getattr(r, "shared_prefix_boundary", 0)),  # for a scheduler
            "hashes": each(lambda r: [fingerprint(h) for h in r.block_hashes]),
            "tables": per_group(lambda group, name: ids(group.req_to_blocks.get(name, ()))),
            "progress": per_group(lambda group, name: group.num_cached_block.get(name))}

    def take_events(self, req):
        """@return the events since the last call; None where they do not say of which group"""
        return self.say(self.manager.take_events(), req)

    def new_events(self, request, keep):
        """@param keep the events stay in the pool, whose owner takes them later
        @return those since the last call"""
        queue = self.pool.kv_event_queue
        if queue is not self.queue:  # the one before was taken
            self.queue, self.seen = queue, 0
        new = queue[self.seen:]
        if not keep:
            queue.clear()
        self.seen = len(queue)
        if request and new:
            self.learn_keys(request)
        return self.say(new, request and request.request_id)

    def say(self, events, req):
        told = [self.event(event, req) for event in events] if self.tells else None
        self.meant.clear()
        return told

    def event(self, event, req):
        kind = type(event).__name__
        if kind == "AllBlocksCleared":
            return {"type": "cleared"}
        group = getattr(event, "group_idx", 0)
        ends = [self.prefix_tokens[key] for key in event.block_hashes]
        if kind == "BlockRemoved":
            return {"type": "removed", "group": group, "block": self.meant[id(event)],
                    "prefix": ends[0]}
        table = self.groups[group].req_to_blocks[req]
        start = self.prefix_tokens[event.parent_block_hash]
        blocks = [[self.meant.get(id(event)) or table[(end - 1) // self.sizes[group]].block_id, end]
                  for end in ends]
        return {"type": "stored", "group": group, "from": start,
                "to": start + len(event.token_ids), "blocks": blocks}
