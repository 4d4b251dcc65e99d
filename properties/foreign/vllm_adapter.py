#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives the KVCacheManager of an installed vLLM by the lines of a trace, for
./kvproof check --subject-command="python3 properties/foreign/vllm_adapter.py"

It promises the profile of its release. Arguments: safety promises that alone; the name of an
operation leaves that out; --around-known makes no call that vllm.md lists, so that these hide
nothing else. An exception of vLLM's is its rejection.
"""

import json
import os
import sys
from types import SimpleNamespace

import vllm_known
import without_torch
from vllm_known import RELEASE
from vllm_manager import SPECS, Observer, accepted, build, ids

WORDS = sys.argv[1:]
AROUND_KNOWN = "--around-known" in WORDS


class Subject:
    def __init__(self, config):
        from vllm.utils.hashing import sha256
        from vllm.v1.core import kv_cache_utils
        from vllm.v1.request import Request, RequestStatus
        self.request_type, self.status = Request, RequestStatus
        kv_cache_utils.init_none_hash(sha256)
        hasher = kv_cache_utils.get_request_block_hasher(config["hash_block_size"], sha256)
        self.hasher = hasher if config["enable_caching"] else None
        self.manager = build(config)
        self.observer, self.config = Observer(self.manager, config), config
        self.pool, self.requests, self.hits = self.manager.block_pool, {}, {}

    def arrive(self, o, _):
        extra = o.get("extra") or {}
        if o.get("encoder_tokens") or extra.get("embeds") or extra.get("layout"):
            raise NotImplementedError
        mm = [SimpleNamespace(identifier=item["id"], mm_position=SimpleNamespace(**item))
              for item in extra.get("mm", [])]
        lora = SimpleNamespace(lora_name=extra.get("lora"), name=extra.get("lora"), adapter_id=1,
                               lora_path=f"/adapters/{extra.get('lora')}")
        sampling = SimpleNamespace(max_tokens=1, extra_args=None, structured_outputs=None,
                                   skip_reading_prefix_cache=o.get("skip_lookup", False))
        salt = vllm_known.salt_apart(extra.get("salt")) if AROUND_KNOWN else extra.get("salt")
        self.requests[o["req"]] = self.request_type(
            o["req"], o["tokens"], sampling, None, mm_features=mm, cache_salt=salt,
            lora_request=lora if extra.get("lora") else None, block_hasher=self.hasher)
        self.observer.learn_keys(self.requests[o["req"]])

    def append(self, o, request):
        request.append_output_token_ids(o["tokens"])
        self.observer.learn_keys(request)

    def lookup(self, o, request):
        if request.num_tokens == 0:
            raise NotImplementedError  # the engine refuses a prompt without tokens
        blocks, tokens = self.hits[o["req"]] = self.manager.get_computed_blocks(request)[:2]
        return {"hit_tokens": tokens, "blocks": [ids(group) for group in blocks.blocks]}

    def allocate(self, o, request):
        request.status = self.status[o["status"].upper()]
        blocks, tokens = self.hits[o["req"]] if o["use_lookup"] else (None, 0)
        new = accepted(
            self.manager.allocate_slots, request=request, num_new_tokens=o["new_tokens"],
            num_new_computed_tokens=tokens, new_computed_blocks=blocks,
            num_lookahead_tokens=o["lookahead"], num_external_computed_tokens=o["external"],
            full_sequence_must_fit=o["full_sequence_must_fit"], reserved_blocks=o["reserved"],
            delay_cache_blocks=o["delay_cache"], has_scheduled_reqs=o["has_scheduled"])
        return new and {"blocks": [ids(group) for group in new.blocks]}

    def free(self, o, request):
        self.manager.free(request)
        request.num_computed_tokens = 0

    def take(self, o, _):
        if o["n"] > self.pool.get_num_free_blocks():
            return None  # get_new_blocks would raise
        return {"blocks": [ids(self.pool.get_new_blocks(o["n"]))]}

    def touch(self, o, _):
        if any(block.ref_cnt and not block.block_hash for block in self.blocks(o)):
            raise NotImplementedError  # it touches what a lookup found; this is still written
        self.pool.touch(self.blocks(o))

    def blocks(self, o):
        return [self.pool.blocks[block] for block in o["blocks"]]

    OPERATIONS = {
        "arrive": arrive, "append": append, "lookup": lookup, "allocate": allocate, "free": free,
        "take": take, "touch": touch,
        "release": lambda self, o, r: self.pool.free_blocks(self.blocks(o)),
        "advance": lambda self, o, r: setattr(r, "num_computed_tokens", o["computed"]),
        "finish": lambda self, o, r: self.manager.free(self.requests.pop(o["req"])),
        "recycle": lambda self, o, r: self.manager.remove_skipped_blocks(o["req"], o["processed"]),
        "cache": lambda self, o, r: self.manager.cache_blocks(r, o["computed"]),
        "evict": lambda self, o, r: self.manager.evict_blocks(o["blocks"]),
        "reset": lambda self, o, r: self.manager.reset_prefix_cache(),
        "common_prefix": lambda self, o, r: self.manager.get_num_common_prefix_blocks(o["req"]),
        "step": lambda self, o, r: self.manager.new_step_starts()}

    def answer(self, o):
        request = self.requests.get(o.get("req"))
        reason = AROUND_KNOWN and vllm_known.reason_not_to_call(self, request, o)
        if reason:
            return {"unsupported": True, "reason": reason}
        try:
            out = self.OPERATIONS[o["op"]](self, o, request)
        except NotImplementedError:
            return {"unsupported": True}
        except Exception as error:
            out = {"error": f"{type(error).__name__}: {error}"}
        events = self.observer.take_events(o.get("req"))
        return {"out": out, "events": events, "state": self.observer.state(self.requests)}


def greet(header):
    """A manager as the header wants it, if this release has one, and the answer to the header."""
    config, later = header["config"], {*header.get("later_than_0.24", ())} - {"nocache_lifo"}
    strange = later | {group["kind"] for group in config["groups"]} - {*SPECS}
    reason = strange and f"not in vllm {RELEASE}: {', '.join(sorted(strange))}"
    reason = reason or AROUND_KNOWN and vllm_known.reason_not_to_build(config)
    if reason:
        return None, {"unsupported": True, "reason": reason}
    equal = RELEASE in ("0.22", "0.24") and "safety" not in WORDS
    return Subject(config), {
        "promises": f"profile:vllm-{RELEASE}" if equal else "safety", "events": True,
        "operations": [o for o in Subject.OPERATIONS if o not in {*WORDS} | vllm_known.ABSENT],
        "abilities": vllm_known.ABILITIES, "block_ids": True}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to the other stream
    os.environ |= {"PYTHONHASHSEED": "0", "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": "0"}
    print(f"vllm {RELEASE}, {without_torch.install()}", file=sys.stderr)
    subject = None
    for line in sys.stdin:
        o = json.loads(line)
        if "kvproof_trace" in o:
            subject, answer = greet(o)
        else:
            answer = subject.answer(o) if o["op"] in subject.OPERATIONS else {"unsupported": True}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
