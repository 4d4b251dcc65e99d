# SPDX-License-Identifier: Apache-2.0
"""vLLM's KVCacheManager, built from the header of a trace, and what a trace says of it afterwards.

An event of vLLM's names keys. Which block it means, and how many tokens a key covers, is remembered
here; vLLM itself decides what is announced, and when.
"""

import functools
import inspect
import math
from types import SimpleNamespace

# By the kind of a layer group: its specification, and what that takes from the header, if it is
# there.
SPECS = {"full": ("FullAttentionSpec", {}), "mla": ("MLAAttentionSpec", {}),
         "rswa": ("RSWASpec", {"rswa_window": "window"}), "ring": ("CircularBufferSpec", {}),
         "sliding_window": ("SlidingWindowSpec", {"sliding_window": "window"}),
         "chunked_local": ("ChunkedLocalAttentionSpec", {"attention_chunk_size": "chunk"}),
         "mamba": ("MambaSpec", {"mamba_cache_mode": "mode",
                                 "num_speculative_blocks": "speculative_blocks",
                                 "num_prefill_checkpoint_blocks": "checkpoints",
                                 "prefill_checkpoint_alignment": "checkpoint_alignment"})}


# By the name of an operation, or of what it can be asked: the method, and an argument of it.
OPERATIONS = {"recycle": ("remove_skipped_blocks", "request_id"), "evict": ("evict_blocks", ""),
              "common_prefix": ("get_num_common_prefix_blocks", "running_request_id"),
              "step": ("new_step_starts", "")}
ABILITIES = {
    "external": ("allocate_slots", "num_external_computed_tokens"),
    "reserved": ("allocate_slots", "reserved_blocks"),
    "full_sequence_must_fit": ("allocate_slots", "full_sequence_must_fit"),
    "delay_cache": ("allocate_slots", "delay_cache_blocks"),
    "max_tokens": ("get_computed_blocks", "max_cache_hit_length"),
    "watermark": ("__init__", "watermark")}
RETENTION = "prefix_cache_retention_interval"


def parameters(function):
    return inspect.signature(function).parameters


def accepted(function, **named):
    """Calls with those of the arguments that this version knows."""
    known = parameters(function)
    return function(**{name: value for name, value in named.items() if name in known})


def lacking(table):
    """@return what of a table this version has not"""
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    return [name for name, (method, argument) in table.items()
            if not hasattr(KVCacheManager, method)
            or argument and argument not in parameters(getattr(KVCacheManager, method))]


def hash_function():
    try:
        from vllm.utils import hashing
    except ImportError:  # before 0.12
        from vllm import utils as hashing
    return hashing.sha256


def block_hasher(config):
    """@return what makes the keys of a request; None without a prefix cache"""
    from vllm.v1.core import kv_cache_utils
    sha256 = hash_function()
    kv_cache_utils.init_none_hash(sha256)
    lookahead = [config["hash_lookahead"]] if config.get("hash_lookahead") else []
    hasher = kv_cache_utils.get_request_block_hasher(config["hash_block_size"], sha256, *lookahead)
    return hasher if config["enable_caching"] else None


def touch(pool, blocks):
    grouped = "tuple" in str(parameters(pool.touch)["blocks"].annotation)  # before 0.14
    pool.touch((blocks,) if grouped else blocks)


def why_not_kind(group):
    """@return why this version has no such layers; empty if it has"""
    from vllm.v1 import kv_cache_interface as interface
    name, fields = SPECS.get(group["kind"], ("", ()))
    if not hasattr(interface, name):
        return group["kind"]
    known = parameters(getattr(interface, name))
    return ", ".join(f"{group['kind']} with {argument}" for argument, field in fields.items()
                     if field in group and argument not in known)


def has_lookahead_keys():
    """@return whether keys may cover tokens behind their block; only then can a marked group do
    without dropping, and the manager is told which it is"""
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    return "num_hash_lookahead_tokens" in parameters(KVCacheManager)


def lacks(config):
    """@return what a configuration asks for that this version has not, each as some words"""
    from vllm.v1 import kv_cache_interface as interface
    if config.get("hash_lookahead") and not has_lookahead_keys():
        yield "hash_lookahead"
    if config.get("retention_interval") is not None and (
            RETENTION not in parameters(interface.KVCacheConfig)):
        yield "retention_interval"
    yield from filter(None, map(why_not_kind, config["groups"]))


def drops(config):
    """@return whether the groups that are marked drop the last block of a hit"""
    if not has_lookahead_keys():
        return config.get("use_eagle", False)  # marked groups drop by themselves
    marked = any(group.get("eagle") for group in config["groups"])
    return (marked or config.get("use_eagle", False)) and not config.get("hash_lookahead")


def build(config, events):
    import torch
    from vllm.v1 import kv_cache_interface as interface
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    if "hash_block_size" not in parameters(KVCacheManager) and any(
            group["block_size"] != config["hash_block_size"] for group in config["groups"]):
        raise ValueError("keys of whole blocks only")
    groups, in_flight = [], config.get("max_in_flight_tokens")
    for group in config["groups"]:
        name, fields = SPECS[group["kind"]]
        spec = accepted(getattr(interface, name), block_size=group["block_size"], num_kv_heads=1,
                        head_size=1, dtype=torch.float32, shapes=((1,),), dtypes=(torch.float32,),
                        **{argument: group[field] for argument, field in fields.items()
                           if field in group})
        groups.append(accepted(interface.KVCacheGroupSpec, layer_names=[f"layer {len(groups)}"],
                               kv_cache_spec=spec, is_eagle_group=group.get("eagle", False)))
    retention = config.get("retention_interval")
    policy = {} if retention is None else {RETENTION: retention}
    return accepted(
        KVCacheManager,
        kv_cache_config=interface.KVCacheConfig(config["num_blocks"], [], groups, **policy),
        num_hash_lookahead_tokens=config.get("hash_lookahead", 0),
        max_model_len=config["max_model_len"], hash_block_size=config["hash_block_size"],
        scheduler_block_size=math.lcm(*(group["block_size"] for group in config["groups"])),
        max_num_batched_tokens=in_flight, max_in_flight_tokens=in_flight,
        watermark=config.get("watermark", 0.0), use_eagle=drops(config),
        enable_caching=config["enable_caching"], enable_kv_cache_events=events)


def request_of(o, extra, around, hasher):
    """@return a request as the operation `arrive` has it"""
    from vllm.v1.request import Request
    mm = [SimpleNamespace(identifier=around.place(item), mm_position=SimpleNamespace(**item))
          for item in extra.get("mm", [])]
    name = extra.get("lora")
    lora = name and SimpleNamespace(
        lora_name=name, name=name, adapter_id=1, lora_path=extra.get("lora_path", ""),
        lora_int_id=int.from_bytes(name.encode(), "big"))
    skips = o.get("skip_lookup", False)
    sampling = SimpleNamespace(max_tokens=1, extra_args=None, structured_outputs=None,
                               skip_reading_prefix_cache=skips,
                               prompt_logprobs=1 if skips else None)  # of old, that skips it
    return accepted(
        Request, request_id=o["req"], prompt_token_ids=o["tokens"], mm_features=mm,
        sampling_params=sampling, pooling_params=None, eos_token_id=None, block_hasher=hasher,
        cache_salt=around.salt(extra.get("salt")), lora_request=lora or None)


def waiting_copies(manager):
    """@return of each group the copies that wait for the end of this step, as pairs of blocks"""
    return [list(getattr(group, "_pending_cow_copies", ()))  # none before 0.26
            for group in manager.coordinator.single_type_managers]


def end_copies(manager):
    """The scheduler takes the copies of a step at its end, group by group, and gives back both ends
    in that order."""
    if hasattr(manager, "take_kv_cache_block_copies"):
        _, held = manager.take_kv_cache_block_copies()
        manager.block_pool.free_blocks(held)


def set_standing(request, o):
    from vllm.v1.request import RequestStatus
    request.status = RequestStatus[o["status"].upper()]
    request.num_in_flight_tokens = o.get("in_flight", 0)


def look_up(manager, request, o):
    """A bound that is given takes the place of that before the last token."""
    most = request.num_tokens - 1
    return accepted(functools.partial(manager.get_computed_blocks, request),
                    max_cache_hit_length=min(o.get("max_tokens", most), most))


def ids(blocks):
    return [block.block_id for block in blocks]


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
            "index": [[group_of(key), fingerprint(key[:-4]), held] for key, held in index.items()],
            "tokens": each(lambda r: r.num_tokens),
            "computed": each(lambda r: r.num_computed_tokens),
            "boundary": each(lambda r: getattr(r, "shared_prefix_boundary", 0)),  # for a scheduler
            "hashes": each(lambda r: [fingerprint(h) for h in r.block_hashes]),
            "tables": per_group(lambda group, name: ids(group.req_to_blocks.get(name, ()))),
            "progress": per_group(lambda group, name: group.num_cached_block.get(name))}

    def take_events(self, req):
        """@return the events since the last call; None where they do not say of which group"""
        events = self.manager.take_events()
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
