# SPDX-License-Identifier: Apache-2.0
"""Records what vLLM's KVCacheManager is asked and answers in a running engine, as an operation
trace (properties/sources/traces/format.md): KVPROOF_LIVE_CALLS=own, full or full/N beside
KVPROOF_LIVE.

own has the answers, the number of free blocks, and the table of the request that was named; full
has the whole state and the events; full/N the whole state on each N-th line. Where the engine does
what the format has no words for, the recording says so and ends.
"""

import functools
import inspect
import itertools
import os
import re
import sys

from kvproof.live.hooks import around
from kvproof.live.observer import SPECS, Observer, copying, ids, waiting_copies
from kvproof.live.recorder import Masked, Recorder

KINDS = {name: (kind, fields) for kind, (name, fields) in SPECS.items()}
PROFILES = (22, 24, 33)  # minor releases
FILES = itertools.count()


class Unwritable(Exception):
    """The format has no words for it."""


def group_of(group):
    spec = group.kv_cache_spec
    kind, fields = KINDS.get(type(spec).__name__, (type(spec).__name__, {}))
    out = {"kind": kind, "block_size": spec.block_size,
           "eagle": bool(getattr(group, "is_eagle_group", False))}
    for attribute, field in fields.items():
        value = getattr(spec, attribute, None)
        if value is not None and (value or field == "speculative_blocks"):
            out[field] = value
    return out


def config_of(given):
    """@return a header's config from the arguments that a manager is built with"""
    cache = given["kv_cache_config"]
    names = ("max_model_len", "hash_block_size", "scheduler_block_size")
    return {name: given[name] for name in names if name in given} | {
        "num_blocks": cache.num_blocks, "enable_caching": given.get("enable_caching", True),
        "watermark": given.get("watermark", 0.0), "use_eagle": given.get("use_eagle", False),
        "max_in_flight_tokens": given.get("max_in_flight_tokens"),
        "hash_lookahead": given.get("num_hash_lookahead_tokens", 0),
        "retention_interval": getattr(cache, "prefix_cache_retention_interval", None),
        "groups": [group_of(group) for group in cache.kv_cache_groups]}


class Known:
    """A request, and what the recording has said of it."""

    def __init__(self, name, request):
        self.name, self.request = name, request
        self.tokens, self.computed, self.hit = request.num_tokens, 0, None


class Calls:
    """The recording of one manager."""

    def __init__(self, manager, given, published, where, full_every):
        self.manager, self.pool, self.published = manager, manager.block_pool, published
        self.groups = manager.coordinator.single_type_managers
        self.config, self.full_every = config_of(given), full_every
        self.grows_only = all(g["kind"] in ("full", "mla") for g in self.config["groups"])
        self.observer = Observer(manager, self.config) if full_every else None
        whole_keys = os.environ.get("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES") == "0"
        self.tells = full_every > 0 and whole_keys and self.observer.tells  # events
        self.known, self.names, self.secrets = {}, itertools.count(), {}
        self.inside = self.over = False
        self.about = None  # whom the call names
        self.ops, self.retained, self.copies = 0, None, []
        number, self.masked = next(FILES), Masked()
        self.recorder = Recorder(where, f"calls-{number}" if number else "calls", last=self.end)
        self.recorder.emit(self.header())
        for owner, name, ask in (
                (manager, "get_computed_blocks", self.lookup), (manager, "free", self.free),
                (manager, "allocate_slots", self.allocate), (manager, "cache_blocks", self.cache),
                (manager, "pop_blocks_for_free", self.pop), (manager, "new_step_starts", self.step),
                (manager, "remove_skipped_blocks", self.recycle),
                (manager, "evict_blocks", lambda ids: {"op": "evict", "blocks": [*ids]}),
                (manager, "reset_prefix_cache", lambda: {"op": "reset"}),
                (manager, "take_kv_cache_block_copies", self.take_copies),
                (self.pool, "free_blocks", self.release)):
            if hasattr(owner, name):
                setattr(owner, name, self.followed(getattr(owner, name), ask))

    def header(self):
        import vllm
        minor = int(re.search(r"\d+\.(\d+)", vllm.__version__)[1])
        self.profile = min(PROFILES, key=lambda known: abs(known - minor))
        said = {"kvproof_trace": 1, "recorded_from": f"vllm {vllm.__version__}",
                "profile": f"vllm-0.{self.profile}", "family": "engine",
                "detail": "full" if self.full_every == 1 else "own"}
        if self.full_every > 1:
            said["full_every"] = self.full_every
        return said | {"events": self.tells, "config": self.config}

    def end(self):
        if not self.over:
            self.over = True
            self.recorder.emit({"op": "end", "ops": self.ops})

    def lose(self, error):
        """Nothing is recorded from here on, and the engine goes on."""
        what = str(error) if isinstance(error, Unwritable) else f"the recorder: {error!r}"
        self.over = True
        self.recorder.emit({"op": "lost", "what": what})

    def followed(self, method, ask):
        """@return the method, which records a call from outside of the manager"""
        @functools.wraps(method)
        def called(*values, **named):
            if self.inside or self.over:
                return method(*values, **named)
            if ask == self.release:  # may be given what can be read only once
                values = ([*values[0]], *values[1:])
            self.about = None
            self.copies = waiting_copies(self.manager)
            line = self.guarded(ask, *values, **named)
            self.inside = True
            try:
                answer = method(*values, **named)
            except Exception as error:
                if line and not self.over:
                    self.emit(line | {"out": {"raised": f"{type(error).__name__}: {error}"}})
                raise
            finally:
                self.inside = False
            if line and not self.over:
                self.guarded(self.tell, line, answer)
            return answer
        return called

    def guarded(self, step, *values, **named):
        self.inside = True
        try:
            return step(*values, **named)
        except Exception as error:  # of the recorder: never the engine's
            self.lose(error)
            return None
        finally:
            self.inside = False

    def emit(self, line):
        self.ops += 1
        self.recorder.emit(line)

    # What is seen of a request between the calls is said before the next one.

    def meet(self, request):
        known = self.about = self.known.get(request.request_id) or self.arrive(request)
        if request.num_tokens != known.tokens:
            if request.num_tokens < known.tokens:
                raise Unwritable("a request lost tokens")
            new = self.masked.of(request.all_token_ids[known.tokens:])
            known.tokens = request.num_tokens
            self.say({"op": "append", "req": known.name, "tokens": new}, known)
        computed = min(request.num_computed_tokens, known.tokens)
        if computed != known.computed:
            known.computed = computed
            self.say({"op": "advance", "req": known.name, "computed": computed}, known)
        return known

    def arrive(self, request):
        if getattr(request, "prompt_embeds", None) is not None:
            raise Unwritable("a prompt of embeddings")
        known = self.known[request.request_id] = Known(f"r{next(self.names)}", request)
        line = {"op": "arrive", "req": known.name, "tokens": self.masked.of(request.all_token_ids)}
        extra = {}
        if lora := request.lora_request:
            extra["lora"] = lora.lora_name
            if self.profile == 33 and lora.lora_path:  # a part of the keys since
                extra["lora_path"] = self.number(lora.lora_path)
        if request.cache_salt:
            extra["salt"] = self.number(request.cache_salt)
        if request.mm_features:
            extra["mm"] = [{"id": item.identifier, "offset": item.mm_position.offset,
                            "length": item.mm_position.length} for item in request.mm_features]
        if extra:
            line["extra"] = extra
        if getattr(request, "skip_reading_prefix_cache", False):
            line["skip_lookup"] = True
        self.say(line, known)
        return known

    def number(self, secret):
        """@return what tells a secret apart from others"""
        return self.secrets.setdefault(secret, f"s{len(self.secrets)}")

    # What the methods are asked: a line without its answer, or None.

    def lookup(self, request, max_cache_hit_length=None):
        line = {"op": "lookup", "req": self.meet(request).name}
        return line if max_cache_hit_length is None else line | {"max_tokens": max_cache_hit_length}

    def allocate(self, request, num_new_tokens, num_new_computed_tokens=0, new_computed_blocks=None,
                 num_lookahead_tokens=0, num_external_computed_tokens=0, delay_cache_blocks=False,
                 num_encoder_tokens=0, full_sequence_must_fit=False, reserved_blocks=0,
                 has_scheduled_reqs=True, **_):
        known = self.meet(request)
        uses = new_computed_blocks is not None and known.hit is not None
        if num_encoder_tokens or num_new_computed_tokens != (known.hit if uses else 0):
            raise Unwritable("encoder tokens" if num_encoder_tokens else "a hit was shortened")
        # Tokens that are computed before they are known, and drafts behind a stop.
        ahead = request.num_computed_tokens - known.computed
        status = request.status.name.lower()
        if status not in ("waiting", "preempted"):
            status = "running"
        line = {"op": "allocate", "req": known.name, "new_tokens": num_new_tokens + ahead,
                "use_lookup": uses, "lookahead": num_lookahead_tokens,
                "external": num_external_computed_tokens, "delay_cache": delay_cache_blocks,
                "full_sequence_must_fit": full_sequence_must_fit,
                "has_scheduled": has_scheduled_reqs, "reserved": reserved_blocks, "status": status}
        in_flight = getattr(request, "num_in_flight_tokens", 0) - ahead
        if in_flight > 0:
            line["in_flight"] = in_flight
        return line

    def free(self, request):
        known = self.meet(request)
        known.hit, known.computed = None, 0
        if not request.is_finished():
            return {"op": "free", "req": known.name}
        del self.known[request.request_id]
        self.about = None
        return {"op": "finish", "req": known.name}

    def pop(self, request):
        """What is given back later is held by nobody's request until then."""
        self.meet(request)
        held = ids(block for group in self.groups
                   for block in group.req_to_blocks.get(request.request_id, ())
                   if not block.is_null)
        if held and self.full_every == 1:  # the engine does not hold them twice
            state = self.whole()
            state["ref"] = [[block, count + held.count(block)] for block, count in state["ref"]]
            self.emit({"op": "touch", "blocks": held, "state": state})
        elif held:
            self.emit({"op": "touch", "blocks": held})
        return self.free(request) | {"deferred": True}

    def release(self, ordered_blocks):
        """Of a step's copies, or what was popped."""
        if self.retained is not None and ids(ordered_blocks) == self.retained:
            self.retained = None
            return {"op": "step"}
        held = ids(block for block in ordered_blocks if not block.is_null)
        return {"op": "release", "blocks": held} if held else None

    def recycle(self, request_id, processed_computed_tokens, *_, **__):
        if request_id not in self.known:  # it has no blocks
            return None
        known = self.meet(self.known[request_id].request)
        return {"op": "recycle", "req": known.name, "processed": processed_computed_tokens}

    def cache(self, request, num_computed_tokens):
        return {"op": "cache", "req": self.meet(request).name, "computed": num_computed_tokens}

    def step(self):
        if self.retained is not None:
            raise Unwritable("copies are given back after their step")
        return {"op": "step"}

    def take_copies(self):
        self.retained = copying(self.manager) or None

    # What they answered, and what is seen then.

    def tell(self, line, answer):
        known = self.about
        if line["op"] == "lookup":
            known.hit = answer[1]
            line["out"] = {"hit_tokens": answer[1], "blocks": [ids(g) for g in answer[0].blocks]}
        elif line["op"] == "allocate":
            known.hit = None
            line["out"] = answer and {"blocks": [ids(group) for group in answer.blocks]}
            copies = [ids(pair) for before, now in zip(self.copies, waiting_copies(self.manager))
                      for pair in now[len(before):]]
            if answer and copies:
                line["out"]["copies"] = copies
        elif line["op"] == "reset":
            line["out"] = answer
        self.say(line, known)

    def say(self, line, known):
        if self.tells and (events := self.observer.new_events(
                known and known.request, keep=self.published)):
            line["events"] = events
        if self.full_every and self.ops % self.full_every == 0:
            line["state"] = self.whole()
        elif line["op"] not in ("arrive", "append", "advance"):
            line["state"] = self.own(line, known)
        self.emit(line)

    def own(self, line, known):
        state = {"free": self.pool.free_block_queue.num_free_blocks, "tables": {}}
        # Most grants of decode steps leave the table as it was.
        same = (self.grows_only and line["op"] == "allocate" and line["out"]
                and not any(line["out"]["blocks"]) and not line["use_lookup"])
        if known and not same:
            state["tables"][known.name] = [
                ids(group.req_to_blocks.get(known.request.request_id, ())) for group in self.groups]
        if held := copying(self.manager):
            state["copying"] = held
        return state

    def whole(self):
        state = self.observer.state({rid: known.request for rid, known in self.known.items()})
        unit, beyond = self.config["hash_block_size"], self.config["hash_lookahead"]
        for part in ("tokens", "computed", "boundary"):  # the engine may be ahead of what was said
            del state[part]
        for part in ("tables", "progress", "hashes"):
            state[part] = {self.known[rid].name: each for rid, each in state[part].items()}
        for known in self.known.values():
            del state["hashes"][known.name][max(0, known.tokens - beyond) // unit:]
        return state


def wrap(where):
    """Has each manager that is built from now on recorded, if KVPROOF_LIVE_CALLS says so.

    @param where a folder
    """
    detail = os.environ.get("KVPROOF_LIVE_CALLS", "")
    if not detail:
        return
    match = re.fullmatch(r"own|full(/[1-9]\d*)?", detail)
    if not match or not os.path.isdir(where):
        raise ValueError(f"KVPROOF_LIVE_CALLS={detail}: expected own, full or full/N, "
                         f"and a folder in KVPROOF_LIVE, found {where}")
    full_every = 0 if detail == "own" else int((match[1] or "/1")[1:])
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    signature = inspect.signature(KVCacheManager.__init__)

    def begun(original, self, *values, **named):
        given = signature.bind(self, *values, **named).arguments
        published = given.get("enable_kv_cache_events", False)
        if full_every:
            given["enable_kv_cache_events"] = True
            if not published:
                os.environ["VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES"] = "0"
        original(**given)
        try:
            Calls(self, given, published, where, full_every)
        except Exception as error:  # never the engine's
            print(f"kvproof: no calls are recorded: {error!r}", file=sys.stderr)
    around(KVCacheManager, "__init__", begun)
