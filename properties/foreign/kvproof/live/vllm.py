# SPDX-License-Identifier: Apache-2.0
"""The plugin of vLLM: writes what its scheduler orders and what its model runner uses as a run.

vLLM loads it in each of its processes by the entry point `vllm.general_plugins`; it does nothing
unless KVPROOF_LIVE says where to write. The process of the scheduler (Orders) speaks. Where the
model runner (Runner) is in another one, what it saw travels with its answer, so that of many
workers the one that answers speaks.
"""

import hashlib
import itertools
import os
from collections import deque

from kvproof.live import vllm_claims, vllm_runner
from kvproof.live.hooks import around
from kvproof.live.recorder import Masked, Recorder

PATIENCE = 200  # steps
ORDERS = []  # of the schedulers in this process
WHOLE = ("FullAttentionSpec", "MLAAttentionSpec", "TQFullAttentionSpec")


def group_of(group):
    """@return a layer group as the header has it, and what about it cannot be said"""
    spec = group.kv_cache_spec
    spec = next(iter(getattr(spec, "kv_cache_specs", {}).values()), spec)
    kind = type(spec).__name__
    out = {"block_size": group.kv_cache_spec.block_size}
    if kind == "SlidingWindowSpec":
        return out | {"window": spec.sliding_window}, None
    if kind == "MambaSpec":
        mode = getattr(spec, "mamba_cache_mode", "none")
        return out | {"state": True, "in_place": mode == "align"}, (
            "states of every block" if mode == "all" else None)
    return out, None if kind in WHOLE else f"layers of kind {kind}"


def unsaid(scheduler, groups):
    """@return what this engine does that no event says"""
    config = scheduler.vllm_config
    drafts = config.speculative_config is not None
    if getattr(scheduler, "connector", None) is not None:
        yield "a connector moves blocks"
    if getattr(config.parallel_config, "decode_context_parallel_size", 1) > 1:
        yield "a block is spread over workers"
    if drafts and config.scheduler_config.async_scheduling:
        yield "the device corrects where a row with drafts begins"
    if drafts and any(group.get("state") for group in groups):
        yield "states are moved when drafts were accepted"


class Orders:
    """What one scheduler orders, and what it makes of the answers."""

    def __init__(self, scheduler, where):
        self.scheduler, self.config = scheduler, scheduler.vllm_config
        self.recorder = Recorder(where, last=self.last)
        self.tokens, self.names, self.keys = Masked(), {}, {}
        self.flight, self.steps, self.arrived = deque(), itertools.count(), itertools.count()
        self.ahead = self.config.scheduler_config.async_scheduling  # steps know not what they feed
        self.newest = {}  # token of a request
        self.claims = vllm_claims.Claims(scheduler.kv_cache_manager.block_pool)
        self.held = None  # events that wait until the answers are told
        layout = scheduler.kv_cache_config
        groups, strange = zip(*map(group_of, layout.kv_cache_groups))
        self.emit({"kvproof_run": 1, "engine": f"vllm {version()}", "null_block": True, "seed": "-",
                   "tiers": [{"name": "device", "blocks": layout.num_blocks}],
                   "groups": list(groups), "patience": PATIENCE})
        for what in (*filter(None, strange), *unsaid(scheduler, groups)):
            self.emit({"op": "lost", "what": what})
            self.emit = lambda event: None
            break

    def emit(self, event):
        self.recorder.emit(event)

    def last(self):
        """The engine ends, and tells how many blocks are free if it has nothing to do."""
        self.skip(None)
        if not self.names and not self.flight:
            free = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
            self.emit({"op": "end", "free": [free], "unfinished": []})

    def keys_of(self, request):
        """@return what the identity of its prefix covers beside its tokens, hashed"""
        lora = getattr(request.lora_request, "lora_name", None)
        items = [(getattr(each, "identifier", None), each.mm_position.offset)
                 for each in getattr(request, "mm_features", None) or ()]
        told = repr((lora, getattr(request, "cache_salt", None), items))
        if (lora, items) == (None, []) and not getattr(request, "cache_salt", None):
            return {}
        return {"keys": hashlib.blake2b(told.encode(), digest_size=8,
                                        key=self.tokens.key).hexdigest()}

    # What the scheduler is told.

    def arrives(self, request):
        name, tokens = request.request_id, request.prompt_token_ids
        if tokens is None:
            self.emit({"op": "lost", "what": "a prompt of embeddings"})
            return
        if name in self.keys:  # a name that was given before
            self.keys[name] = f"{name}#{next(self.arrived)}"
        self.names[name] = self.keys.setdefault(name, name)
        self.emit({"op": "request", "req": self.names[name], "tokens": self.tokens.of(tokens)}
                  | self.keys_of(request))

    def goes_on(self, session, update):
        """The next turn of a session; what was not computed of its answer is dropped."""
        name, length = session.request_id, session.num_computed_tokens
        more = list(update.prompt_token_ids or ())
        self.claims.forget(self.names[name])
        self.emit({"op": "tokens", "req": self.names[name], "length": length,
                   "append": self.tokens.of(more)})

    def leaves(self, request):
        """Its blocks are given back."""
        name = request.request_id
        if name not in self.names:
            return
        aborted = request.status.name == "FINISHED_ABORTED"
        op = "preempt" if not request.is_finished() else "abort" if aborted else "finish"
        event = {"op": op, "req": self.names[name]}
        self.newest.pop(self.names[name], None)
        if op != "preempt":
            del self.names[name]
        if self.held is None:
            self.emit(event)
        else:
            self.held.append(event)

    # What it orders.

    def ordered(self, out):
        """A step is given to the worker; its rows are in the order in which they were scheduled."""
        tables = {new.req_id: ("tables", new.block_ids) for new in out.scheduled_new_reqs}
        starts = {new.req_id: new.num_computed_tokens for new in out.scheduled_new_reqs}
        cached = out.scheduled_cached_reqs
        joined = set(starts)
        for i, name in enumerate(cached.req_ids):
            resumed = is_resumed(cached, i)
            tables[name] = "tables" if resumed else "more", cached.new_block_ids[i]
            starts[name] = cached.num_computed_tokens[i]
            joined.update([name] * resumed)
        for name in out.num_scheduled_tokens:
            if name in joined and starts[name]:
                self.emit({"op": "hit", "req": self.names[name], "tokens": starts[name]})
        rows = [self.row(out, name, starts[name], *tables[name])
                for name in out.num_scheduled_tokens]
        copies = [[0, each.src_block_id, each.dst_block_id]
                  for each in getattr(out, "kv_cache_block_copies", None) or ()]
        step = next(self.steps)
        self.flight.append((out, step, {name: self.names[name] for name in tables}))
        self.emit({"op": "dispatch", "step": step, "rows": rows}
                  | ({"copies": copies} if copies else {}))
        self.claim()

    def claim(self):
        for event in self.claims.take():
            self.emit(event)

    def row(self, out, name, start, told, blocks):
        row = {"req": self.names[name], "start": start, "n": out.num_scheduled_tokens[name]}
        if blocks:
            row[told] = [list(ids) for ids in blocks]
        if drafts := out.scheduled_spec_decode_tokens.get(name):
            row["drafts"] = len(drafts)
        return row

    def ran(self, out, seen):
        """The step has run; what the runner saw of it is told, but for the tokens that are known to
        be fed."""
        step, names = next((step, names) for each, step, names in self.flight if each is out)
        told = {what: {names[name]: value for name, value in of.items()}
                for what, of in seen.items() if of and what != "copies"}
        inputs = {name: fed for name, fed in told.get("inputs", {}).items()
                  if fed != [self.newest.get(name)] or self.ahead}
        told["inputs"] = {name: self.tokens.of(fed) for name, fed in inputs.items()}
        told["copies"] = seen["copies"]
        self.emit({"op": "run", "step": step} | {what: of for what, of in told.items() if of})

    # What it makes of the answers.

    def skip(self, until):
        """Steps without rows may have no answer."""
        while self.flight and self.flight[0][0] is not until and (
                not self.flight[0][0].num_scheduled_tokens):
            self.emit({"op": "retire", "step": self.flight.popleft()[1], "sampled": {}})

    def answered(self, original, scheduler, out, result):
        self.skip(out)
        seen = getattr(result, "kvproof", None)
        if seen is not None:
            self.ran(out, seen)
        _, step, names = self.flight.popleft()
        before = {name: (request, request.num_tokens) for name in out.num_scheduled_tokens
                  if (request := scheduler.requests.get(name)) is not None}
        self.held = []
        try:
            return original(scheduler, out, result)
        finally:
            self.told(step, result, names, before)

    def told(self, step, result, names, before):
        sampled, taken, rows = {}, [], result.sampled_token_ids
        for name, i in result.req_id_to_index.items() if len(rows) else ():
            if name in names and len(rows[i]):
                sampled[names[name]] = self.tokens.of(map(int, rows[i]))
        for name, (request, length) in before.items():
            more = request.all_token_ids[length:]
            if more:
                name = names[name]
                self.newest[name] = more[-1]
                taken.append({"op": "tokens", "req": name, "append": self.tokens.of(more)})
        kept = {each["req"] for each in taken}
        self.emit({"op": "retire", "step": step, "sampled": sampled,
                   "discarded": [name for name in sampled if name not in kept]})
        held, self.held = self.held, None
        for event in (*taken, *self.claims.take(), *held):
            self.emit(event)

    def raised(self, error):
        self.emit({"op": "raised", "what": f"{type(error).__name__}: {error}"[:300]})


def is_resumed(cached, i):
    if hasattr(cached, "resumed_req_ids"):
        return cached.req_ids[i] in cached.resumed_req_ids
    return cached.resumed_from_preemption[i]


def version():
    import vllm
    return vllm.__version__


def orders_of(scheduler):
    return next((each for each in ORDERS if each.scheduler is scheduler), None)


def wrap_scheduler(scheduler_class, where):
    def begun(original, self, *values, **named):
        original(self, *values, **named)
        if orders_of(self) is None:
            ORDERS.append(Orders(self, where))

    def arrives(original, self, request):
        orders = orders_of(self)
        if request.request_id not in self.requests:
            orders.arrives(request)
        return original(self, request)

    def goes_on(original, self, session, update):
        orders_of(self).goes_on(session, update)
        return original(self, session, update)

    def orders(original, self, *values, **named):
        try:
            out = original(self, *values, **named)
        except Exception as error:  # it is the engine's, and part of the recording
            orders_of(self).raised(error)
            raise
        orders_of(self).ordered(out)
        return out

    def answered(original, self, out, result):
        try:
            return orders_of(self).answered(original, self, out, result)
        except Exception as error:
            orders_of(self).raised(error)
            raise

    def reset(original, self, *values, **named):
        done = original(self, *values, **named)
        if done:
            orders = orders_of(self)
            orders.claim()
            orders.claims.forget()
            orders.emit({"op": "reset", "tiers": [0]})
        return done

    def leaves(original, self, request, *values, **named):
        manager = getattr(self, "kv_cache_manager", self)
        orders = next((o for o in ORDERS if o.scheduler.kv_cache_manager is manager), None)
        if orders is not None:
            orders.leaves(request)
        return original(self, request, *values, **named)

    for name, called in (("__init__", begun), ("add_request", arrives), ("schedule", orders),
                         ("_update_request_as_session", goes_on), ("update_from_output", answered),
                         ("reset_prefix_cache", reset)):
        around(scheduler_class, name, called)
    if hasattr(scheduler_class, "_free_request_blocks"):
        around(scheduler_class, "_free_request_blocks", leaves)
    else:  # before steps deferred what they free
        from vllm.v1.core.kv_cache_manager import KVCacheManager
        around(KVCacheManager, "free", leaves)


def register():
    """The entry point."""
    where = os.environ.get("KVPROOF_LIVE")
    if not where:
        return
    from vllm.v1.core.sched.scheduler import Scheduler

    wrap_scheduler(Scheduler, where)
    vllm_claims.wrap(ORDERS)
    vllm_runner.wrap(ORDERS)
