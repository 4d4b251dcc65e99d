# SPDX-License-Identifier: Apache-2.0
"""Ways around what was found in releases of vLLM (vllm.md): calls that are not made and
configurations that are not built, so that it hides nothing else. What has a row of that name in
findings/known.jsonl takes its reason from there, and its releases unless more may have it."""

import math
from collections import Counter
from importlib.metadata import version
from typing import Callable, NamedTuple

from kvproof_support import known

RELEASE = ".".join(version("vllm").split(".")[:2])
PROFILED = RELEASE in ("0.22", "0.24", "0.33")  # a profile describes them block for block
# Those of which it is known what they have; in others whatever is known is gone around.
CHECKED = ("0.11", "0.13", "0.15", "0.18", "0.20", "0.22", "0.24", "0.27", "0.30", "0.33")
BEFORE_33 = CHECKED[:-1]
NEWER = [*map(int, RELEASE.split("."))] > [0, 24]
ABSENT = {"common_prefix"} if NEWER else set()  # its answer is always 0


def abilities(profile):
    """@param profile whether it is promised; newer releases do otherwise than that of the laws"""
    if NEWER and not profile:
        return {"groups": 1, "kinds": ["full", "mla"], "eagle": False}
    return {} if PROFILED else {"eagle": False}


FOUND = {row.name: row for row in known.read(known.OWN).rows if row.name}


class Way(NamedTuple):
    """A way around something that is known."""

    name: str
    meets: Callable  # whether a configuration, or a call, meets it
    releases: tuple = ()  # those of CHECKED that have it, or may have it; empty: as of its row
    why: str = ""  # empty: as of its row

    @property
    def reason(self):
        row = FOUND.get(self.name)
        return self.why or f"{row.id}: {row.what}"


def releases_of(name):
    """@return those of CHECKED in which a row of the file says that a defect is"""
    first, last = (CHECKED.index(bound.rpartition(".")[0])
                   for bound in (FOUND[name].first, FOUND[name].last))
    return CHECKED[first:last + 1]


def of_full_attention(group):
    return group["kind"] in ("full", "mla")


REFUSED = math.inf  # in place of the end of a grant
READS_ALL = ("full", "mla", "rswa")


def alike_groups(config):
    groups = config["groups"]
    specs = [{**group, "eagle": None} for group in groups]
    return len(groups) > 1 and all(spec == specs[0] for spec in specs)


def two_full_groups(config):
    return len({(group["kind"], group["block_size"])
                for group in filter(of_full_attention, config["groups"])}) > 1


def mamba_behind_drafts(config):
    return any(group["kind"] == "mamba" and group.get("eagle") for group in config["groups"])


def kept_states(config):
    return any(group["kind"] == "mamba" and group["mode"] != "align"
               and group["speculative_blocks"] and not group.get("eagle")
               for group in config["groups"])


CONFIGURATIONS = (
    Way("alike", alike_groups, BEFORE_33, "vLLM puts alike layers into one group"),
    Way("two-full", two_full_groups, BEFORE_33),
    Way("43559", mamba_behind_drafts, BEFORE_33),
    Way("align-state",
        lambda config: any(group.get("mode") == "align" for group in config["groups"])),
    Way("25431", lambda config: any(group.get("chunk") for group in config["groups"])),
    Way("states", kept_states, (*CHECKED[2:5], "0.24"),
        "0.24.0 keeps these states as 0.22 does, the profile (a newer main) does not"))


def aligned(subject, o):
    """The managers of states at the ends of blocks, and their groups in the configuration."""
    return [(group, manager) for group, manager in zip(subject.config["groups"], subject.groups)
            if o["op"] == "allocate" and group.get("mode") == "align"]


def end_of(request, o):
    return request.num_computed_tokens + o["new_tokens"]


def beyond_the_longest(subject, request, o):
    return aligned(subject, o) and end_of(request, o) > subject.config["max_model_len"]


def fewer_blocks(subject, request, o):
    return any(-(-end_of(request, o) // group["block_size"]) + group["speculative_blocks"]
               < len(manager.req_to_blocks.get(o["req"], ()))
               for group, manager in aligned(subject, o))


def external(o):
    return o["op"] == "allocate" and o["external"]


def hardly_enough(subject, request, o):
    """Whether there may be fewer free blocks than all tokens, states and copies would take."""
    tokens = max(end_of(request, o) + o["external"] + o["lookahead"], request.num_tokens)
    tokens += subject.hits.get(o["req"], (None, 0))[1]
    spare = subject.manager.watermark_blocks if hasattr(subject.manager, "watermark_blocks") else 0
    return subject.pool.get_num_free_blocks() - spare - o["reserved"] < sum(
        -(-tokens // group["block_size"]) + group.get("speculative_blocks", 0) + 2
        for group in subject.config["groups"])


def has_window_of_one(subject):
    return any(group.get("window") == 1 for group in subject.config["groups"])


def published_later(subject, request, o):
    """Whether a block may be recycled before it is published."""
    later = o["op"] == "allocate" and (
        o["delay_cache"] or end_of(request, o) > request.num_tokens)
    return later and any(
        group.get("window") or group.get("chunk") for group in subject.config["groups"])


def less_than_is_published(subject, request, o):
    if o["op"] not in ("allocate", "cache"):
        return False
    hit = subject.hits.get(o["req"], (None, 0))[1] if o.get("use_lookup") else 0
    end = o["computed"] if o["op"] == "cache" else min(
        end_of(request, o) + hit, request.num_tokens)
    return any(end // manager.block_size < manager.num_cached_block.get(o["req"], 0)
               for manager in subject.groups)


def beyond_the_keys(subject, request, o):
    """Whether a lookup goes on behind the last key, where no group bounds it that stops there."""
    if o["op"] != "lookup" or any(group["kind"] in READS_ALL for group in subject.config["groups"]):
        return False
    return (request.num_tokens - 1) // subject.config["hash_block_size"] > len(
        request.block_hashes)


def checkpointing(subject):
    return [manager for group, manager in zip(subject.config["groups"], subject.groups)
            if group.get("checkpoints")]


def checkpoint_of_another_call(subject, request, o):
    """Whether more tokens are published than are told, or what a refusal has reserved."""
    return o["op"] == "cache" and any(
        subject.ends.get(o["req"]) == REFUSED
        or manager._checkpoints.get(o["req"], (0,))[0] > o["computed"]
        for manager in checkpointing(subject))


def state_that_went_on(subject, request, o):
    """Whether a state is published at the end of the prompt, inside its block, and went on."""
    if o["op"] != "cache" or subject.ends.get(o["req"], 0) == o["computed"]:
        return False
    unit = subject.config["hash_block_size"]
    states = [manager for group, manager in zip(subject.config["groups"], subject.groups)
              if group.get("mode") == "align" and o["computed"] % group["block_size"]]
    drops = any(getattr(manager, "drop_eagle_checkpoint_block", False) for manager in states)
    behind = 0 if drops else max(1, subject.config.get("hash_lookahead", 0))
    boundary = max((request.num_prompt_tokens - behind) // unit - drops, 0) * unit
    return states and o["computed"] == boundary


def checkpoint_kept_in_flight(subject, request, o):
    """Whether the block of a checkpoint may stay until its position gets a key."""
    return o["op"] == "allocate" and o.get("in_flight") and checkpointing(subject)


def tail_of_nothing(subject, request, o):
    """Whether the boundary of a prompt without tokens is looked for below 0."""
    unit = subject.config["hash_block_size"]
    return (o["op"] in ("allocate", "cache") and request.num_prompt_tokens == 0
            and subject.config["enable_caching"]
            and any(group["kind"] in READS_ALL and group["block_size"] != unit
                    for group in subject.config["groups"]))


def counts_mislead(subject, _, o):
    """Whether a holder is no request, or a request that was met holds nothing."""
    if o["op"] != "common_prefix":
        return False
    tables = [table for group in subject.groups for table in group.req_to_blocks.values()]
    held = Counter(block.block_id for table in tables for block in table)
    mine = [block for group in subject.groups for block in group.req_to_blocks.get(o["req"], ())]
    beside = any(not block.is_null and block.ref_cnt != held[block.block_id] for block in mine)
    return beside or not mine or not all(tables)


CALLS = (
    Way("46892", lambda subject, r, o: external(o) and aligned(subject, o)
        and hardly_enough(subject, r, o), CHECKED),
    Way("longest", beyond_the_longest, CHECKED,
        "the engine schedules nothing beyond the longest sequence"),
    Way("encoder", lambda subject, r, o: external(o) and any(
        group["kind"] == "cross" for group in subject.config["groups"]), CHECKED,
        "the engine has no connector beside cross attention"),
    Way("39271", fewer_blocks, CHECKED[:6]),
    Way("33775", lambda subject, r, o: external(o) and o["use_lookup"] and len(subject.groups) > 1,
        CHECKED[:6]),
    Way("window-of-one", lambda subject, r, o: external(o) and has_window_of_one(subject),
        CHECKED[:6], "0.22 loads what a window of one token does not read"),
    Way("hit-of-one", lambda subject, r, o: o.get("use_lookup") and has_window_of_one(subject)),
    Way("null-key", published_later),
    Way("output-key", lambda subject, r, o: o["op"] == "append" and r.mm_features, CHECKED[:5]),
    Way("progress", less_than_is_published),
    Way("beyond-keys", beyond_the_keys),
    Way("checkpoint", checkpoint_of_another_call, ("0.33",),
        "the engine publishes after a grant, and as much as that computed"),
    Way("late-state", state_that_went_on, ("0.33",), "a state that went on gets the key of the end "
        "of the prompt; the engine asks for it before"),
    Way("late-checkpoint", checkpoint_kept_in_flight),
    Way("empty", tail_of_nothing, ("0.33",), "the engine refuses a prompt without tokens"),
    Way("counts", counts_mislead, CHECKED),
    Way("twice",
        lambda subject, r, o: o["op"] == "release" and len({*o["blocks"]}) < len(o["blocks"])))
# What is no call: a salt and an adapter of one name are one key; so is an input at two places of a
# block; an event of a block behind one without key is an assertion.
SALT, PLACE, EVENTS = "44701", "36708", "30544"


class Around:
    """Goes around what is known, but for the one of --meet=NAME. How often that was met is written
    to the file of --count=FILE."""

    def __init__(self, words):
        options = dict(word.partition("=")[::2] for word in words)
        self.active, self.meet = "--around-known" in words, options.get("--meet")
        self.met, self.count = 0, options.get("--count")

    def goes_around(self, name, releases=()):
        """@return whether this is left out, as it would be met now"""
        if name != self.meet:
            return self.active and (RELEASE in (releases or releases_of(name))
                                    or RELEASE not in CHECKED)
        self.met += 1
        if self.count:
            with open(self.count, "w", encoding="ascii") as file:
                file.write(str(self.met))
        return False

    def reason(self, rows, *what):
        """@return why this is left out; empty if it is not"""
        return next((row.reason for row in rows if row.meets(*what)
                     and self.goes_around(row.name, row.releases)), "")

    def salt(self, salt):
        """@return a salt that no adapter is named like"""
        return "salt " + salt if salt and self.goes_around(SALT) else salt

    def place(self, item):
        """@return the name of an input, that is another at another place"""
        name = item["id"]
        return f"{name} at {item['offset']}" if self.goes_around(PLACE) else name

    def events(self):
        return not self.goes_around(EVENTS)
