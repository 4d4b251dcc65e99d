#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives the KVCacheManager of an installed vLLM by the lines of a trace, for
./kvproof check --subject-command="python3 properties/engines/allocators/vllm_adapter.py"

It promises the profile of its release. Arguments: safety promises that alone; the name of an
operation leaves that out; --around-known makes no call that vllm.md lists, so that these hide
nothing else, but for --meet=NAME (vllm_known.py). An exception of vLLM's is its rejection.
"""

import functools
import os
import sys

import vllm_known
import vllm_manager
from kvproof import Adapter, without_torch
from kvproof.live.observer import Observer, ids, waiting_copies
from vllm_known import PROFILED, RELEASE
from vllm_manager import accepted

WORDS = sys.argv[1:]


class VllmV1(Adapter):
    def __init__(self):
        self.around = vllm_known.Around(WORDS)
        absent = {*WORDS, *vllm_known.ABSENT, *vllm_manager.lacking(vllm_manager.OPERATIONS)}
        self.known = [name[3:] for name in dir(self)
                      if name.startswith("do_") and name[3:] not in absent]
        self.profile = PROFILED and "safety" not in WORDS
        self.abilities = {"kinds": vllm_manager.kinds()} | vllm_known.abilities(
            self.profile) | dict.fromkeys(vllm_manager.lacking(vllm_manager.ABILITIES), False)

    def greet(self, header):
        config = header["config"]
        strange = {*header.get("later_than_0.24", ())} - {"nocache_lifo"}
        strange |= {*vllm_manager.lacks(config)}
        reason = strange and f"not in vllm {RELEASE}: {', '.join(sorted(strange))}"
        reason = reason or self.around.reason(vllm_known.CONFIGURATIONS, config)
        try:
            reason = reason or self.begin(config)
        except (AssertionError, NotImplementedError, ValueError) as error:
            reason = f"vllm {RELEASE} builds none: {error}"
        answer = {"unsupported": True, "reason": reason} if reason else {
            "promises": f"profile:vllm-{RELEASE}" if self.profile else "safety", "block_ids": True,
            "operations": self.known, "events": self.observer.tells}
        return answer | {"abilities": self.abilities}

    def begin(self, config):
        self.hasher = vllm_manager.block_hasher(config)
        self.manager = vllm_manager.build(config, self.around.events())
        self.config = config
        self.groups = self.manager.coordinator.single_type_managers
        self.observer = Observer(self.manager, config)
        self.pool, self.requests, self.hits = self.manager.block_pool, {}, {}
        self.ends = {}  # [tokens] of the last grant of each request; if it was refused, infinity

    def do_arrive(self, o, _):
        extra = o.get("extra") or {}
        if extra.get("embeds") or extra.get("layout"):
            raise NotImplementedError("no such input")
        self.requests[o["req"]] = vllm_manager.request_of(o, extra, self.around, self.hasher)
        self.observer.learn_keys(self.requests[o["req"]])
        self.requests[o["req"]].encoder_tokens = o.get("encoder_tokens", 0)

    def do_append(self, o, request):
        request.append_output_token_ids(o["tokens"])
        self.observer.learn_keys(request)

    def do_advance(self, o, request):
        request.num_computed_tokens = o["computed"]

    def do_lookup(self, o, request):
        if request.num_tokens == 0:
            raise NotImplementedError("the engine refuses a prompt without tokens")
        blocks, tokens, *boundary = vllm_manager.look_up(self.manager, request, o)
        self.hits[o["req"]] = blocks, tokens
        if boundary and hasattr(request, "shared_prefix_boundary"):  # kept by the scheduler
            request.shared_prefix_boundary = boundary[0]
        return {"hit_tokens": tokens, "blocks": [ids(group) for group in blocks.blocks]}

    def do_allocate(self, o, request):
        vllm_manager.set_standing(request, o)
        blocks, tokens = self.hits[o["req"]] if o["use_lookup"] else (None, 0)
        waiting = waiting_copies(self.manager)
        new = accepted(
            self.manager.allocate_slots, request=request, num_new_tokens=o["new_tokens"],
            num_new_computed_tokens=tokens, new_computed_blocks=blocks,
            num_lookahead_tokens=o["lookahead"], num_external_computed_tokens=o["external"],
            num_encoder_tokens=request.encoder_tokens,
            full_sequence_must_fit=o["full_sequence_must_fit"], reserved_blocks=o["reserved"],
            delay_cache_blocks=o["delay_cache"], has_scheduled_reqs=o["has_scheduled"])
        copies = [ids(pair) for before, now in zip(
            waiting, waiting_copies(self.manager)) for pair in now[len(before):]]
        end = request.num_computed_tokens + tokens + o["external"] + o["new_tokens"]
        self.ends[o["req"]] = min(end, request.num_tokens) if new else vllm_known.REFUSED
        answer = new and {"blocks": [ids(group) for group in new.blocks]}
        return answer | {"copies": copies} if copies else answer

    def do_free(self, o, request):
        self.manager.free(request)
        request.num_computed_tokens = 0

    def do_finish(self, o, request):
        self.manager.free(self.requests.pop(o["req"]))

    def do_recycle(self, o, request):
        accepted(functools.partial(self.manager.remove_skipped_blocks, o["req"], o["processed"]),
                 num_prompt_tokens=request.num_prompt_tokens)

    def do_cache(self, o, request):
        self.manager.cache_blocks(request, o["computed"])

    def do_evict(self, o, _):
        self.manager.evict_blocks(o["blocks"])

    def do_reset(self, *_):
        return self.manager.reset_prefix_cache()

    def do_common_prefix(self, o, _):
        return self.manager.get_num_common_prefix_blocks(o["req"])

    def do_step(self, *_):
        vllm_manager.end_copies(self.manager)
        self.manager.new_step_starts()

    def do_take(self, o, _):
        if o["n"] > self.pool.get_num_free_blocks():
            return None  # get_new_blocks would raise
        return {"blocks": [ids(self.pool.get_new_blocks(o["n"]))]}

    def do_touch(self, o, _):
        if any(block.ref_cnt and not self.observer.is_full(block) for block in self.blocks(o)):
            raise NotImplementedError("it touches what a lookup found; this is still written")
        vllm_manager.touch(self.pool, self.blocks(o))

    def do_release(self, o, _):
        self.pool.free_blocks(self.blocks(o))

    def blocks(self, o):
        return [self.pool.blocks[block] for block in o["blocks"]]

    def why_not(self, o, request):
        return self.around.reason(vllm_known.CALLS, self, request, o)

    def events(self, o):
        return self.observer.take_events(o.get("req"))

    def state(self):
        return self.observer.state(self.requests)


if __name__ == "__main__":
    os.environ |= {"PYTHONHASHSEED": "0", "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": "0"}
    print(f"vllm {RELEASE}, {without_torch.install()}", file=sys.stderr)
    VllmV1().serve()
