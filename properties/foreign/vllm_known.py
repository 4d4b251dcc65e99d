# SPDX-License-Identifier: Apache-2.0
"""What was found in releases of vLLM (vllm.md), and a way around each: calls that are not made and
configurations that are not built, so that it hides nothing else."""

from collections import Counter
from importlib.metadata import version

RELEASE = ".".join(version("vllm").split(".")[:2])
NEWER = RELEASE not in ("0.22", "0.24")  # than the profiles: one dense group, safety
ABSENT = {"common_prefix"} if NEWER else set()  # its answer is always 0
ABILITIES = {"groups": 1, "kinds": ["full", "mla"], "extra": False} if NEWER else {}


def salt_apart(salt):
    """A salt that no adapter is named like: their names are one key (vLLM issue 44701)."""
    return salt and "salt " + salt


def reason_not_to_build(config):
    groups = config["groups"]
    specs = [{**group, "eagle": None} for group in groups]
    if len(groups) > 1 and all(spec == specs[0] for spec in specs):
        return "vLLM puts alike layers into one group"
    fulls = {(group["kind"], group["block_size"]) for group in groups
             if group["kind"] in ("full", "mla")}
    if len(fulls) > 1:
        return "of two full groups the hit of the first alone is cut to what all groups have"
    for group in config["groups"]:
        if group["kind"] == "mamba" and group["eagle"]:
            return "vLLM issue 43559: a hit longer than what full attention lists"
        drafts = group["kind"] == "mamba" and group["mode"] != "align"
        if drafts and group["speculative_blocks"] and RELEASE != "0.22":
            return "0.24.0 keeps these states as 0.22 does, the profile (a newer main) does not"
    return None


def counts_mislead(groups, req):
    """Whether a holder is no request, or a request that was met holds nothing."""
    tables = [table for group in groups for table in group.req_to_blocks.values()]
    held = Counter(block.block_id for table in tables for block in table)
    mine = [block for group in groups for block in group.req_to_blocks.get(req, ())]
    beside = any(not block.is_null and block.ref_cnt != held[block.block_id] for block in mine)
    return beside or not mine or not all(tables)


def reason_not_to_allocate(config, groups, request, o):
    tokens = request.num_computed_tokens + o["new_tokens"]
    for group, manager in zip(config["groups"], groups):
        if group.get("mode") != "align":
            continue
        if o["external"]:
            return "vLLM PR 46892: takes a block more than it predicts"
        if tokens > config["max_model_len"]:
            return "the engine schedules nothing beyond the longest sequence"
        needed = -(-tokens // group["block_size"]) + group["speculative_blocks"]
        if RELEASE == "0.22" and needed < len(manager.req_to_blocks.get(o["req"], ())):
            return "vLLM issue 39271: asserts that later chunks need no fewer blocks"
    if not o["external"] or RELEASE != "0.22":
        return None
    if o["use_lookup"] and len(groups) > 1:
        return "vLLM issue 33775: takes a block that another group has hit"
    if any(group.get("window") == 1 for group in config["groups"]):
        return "0.22 loads what a window of one token does not read"
    return None


def reason_not_to_call(subject, request, o):
    groups = subject.manager.coordinator.single_type_managers
    if o["op"] == "allocate":
        return reason_not_to_allocate(subject.config, groups, request, o)
    if o["op"] == "common_prefix" and counts_mislead(groups, o["req"]):
        return "compares reference counts with the number of requests that were met"
    if o["op"] == "release" and RELEASE == "0.22" and len({*o["blocks"]}) < len(o["blocks"]):
        return "0.22 queues a block twice that is released twice in one call"
    return None
