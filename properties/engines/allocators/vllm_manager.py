# SPDX-License-Identifier: Apache-2.0
"""vLLM's KVCacheManager, built from the header of a trace."""

import functools
import inspect
import math
from types import SimpleNamespace

from kvproof.live.observer import SPECS

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


def kinds():
    """@return the kinds of layers that this version has"""
    return [kind for kind in SPECS if not why_not_kind({"kind": kind})]


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
    bound = {"max_cache_hit_length": min(o["max_tokens"], request.num_tokens - 1)
             } if "max_tokens" in o else {}
    return accepted(functools.partial(manager.get_computed_blocks, request), **bound)
