# SPDX-License-Identifier: Apache-2.0
"""The plugin of vLLM: writes what its scheduler orders and what its model runner uses as a run.

vLLM loads it in each of its processes by the entry point `vllm.general_plugins`; it does nothing
unless KVPROOF_LIVE says where to write. The process of the scheduler (Orders) speaks. Where the
model runner (Runner) is in another one, what it saw travels with its answer, so that of many
workers the one that answers speaks. The engine only notes what it sees; events are made of it in
another process (vllm_told.py).
"""

import functools
import itertools
import os
import sys
from collections import deque

from kvproof.live import calls, vllm_runner
from kvproof.live.hooks import around, guarded
from kvproof.live.recorder import Recorder

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
        layout = scheduler.kv_cache_config
        if not layout.kv_cache_groups:
            raise ValueError("the model has no cache")
        groups, strange = zip(*map(group_of, layout.kv_cache_groups))
        header = {
            "kvproof_run": 1, "engine": f"vllm {version()}", "null_block": True, "seed": "-",
            "tiers": [{"name": "device", "blocks": layout.num_blocks}], "groups": list(groups),
            "patience": PATIENCE}
        self.flight, self.steps = deque(), itertools.count()
        self.recorder = Recorder(where, last=self.last, translator="kvproof.live.vllm_told")
        self.note = lambda *record: self.recorder.emit(record)
        self.note("begins", header, self.config.scheduler_config.async_scheduling)
        for what in (*filter(None, strange), *unsaid(scheduler, groups)):
            self.lose(what)
            break

    def lose(self, what):
        self.recorder.emit({"op": "lost", "what": what})
        self.note = lambda *record: None

    @guarded
    def last(self):
        """The engine ends, and tells how many blocks are free if it has nothing to do."""
        self.skip(None)
        if not self.scheduler.requests and not self.flight:
            free = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
            self.recorder.emit({"op": "end", "free": [free], "unfinished": []})

    # What the scheduler is told.

    @guarded
    def arrives(self, request):
        lora = getattr(request.lora_request, "lora_name", None)
        items = [(getattr(each, "identifier", None), each.mm_position.offset)
                 for each in getattr(request, "mm_features", None) or ()]
        salt = getattr(request, "cache_salt", None)
        if request.prompt_token_ids is None:
            self.lose("a prompt of embeddings")
        else:
            self.note("arrives", request.request_id, list(request.prompt_token_ids),
                      repr((lora, salt, items)) if lora or salt or items else "")

    @guarded
    def goes_on(self, session, update):
        """What was not computed of its answer is dropped."""
        self.note("goes_on", session.request_id, session.num_computed_tokens,
                  list(update.prompt_token_ids or ()))

    @guarded
    def leaves(self, request):
        """Its blocks are given back."""
        aborted = request.status.name == "FINISHED_ABORTED"
        self.note("leaves", request.request_id, "preempt" if not request.is_finished() else
                  "abort" if aborted else "finish")

    # What it orders.

    @guarded
    def ordered(self, out):
        """A step is given to the worker."""
        cached, step = out.scheduled_cached_reqs, next(self.steps)
        drafts = out.scheduled_spec_decode_tokens
        self.flight.append((out, step))
        self.note("ordered", step, dict(out.num_scheduled_tokens),
                  [(new.req_id, new.num_computed_tokens, copied(new.block_ids))
                   for new in out.scheduled_new_reqs],
                  (cached.req_ids, cached.num_computed_tokens,
                   [blocks and copied(blocks) for blocks in cached.new_block_ids]),
                  vllm_runner.resumed_of(cached),
                  {name: len(each) for name, each in drafts.items()},
                  [[0, each.src_block_id, each.dst_block_id]
                   for each in getattr(out, "kv_cache_block_copies", None) or ()])

    @guarded
    def ran(self, out, seen):
        self.note("ran", next(step for each, step in self.flight if each is out), seen)

    # What it makes of the answers.

    def skip(self, until):
        """Steps without rows may have no answer."""
        while self.flight and self.flight[0][0] is not until and (
                not self.flight[0][0].num_scheduled_tokens):
            self.note("answered", self.flight.popleft()[1], {}, {})

    @guarded
    def answering(self, out, result):
        """@return the step, and what was sampled for each request, before it is made shorter"""
        self.skip(out)
        seen = getattr(result, "kvproof", None)
        if seen is not None:
            self.ran(out, seen)
        rows = result.sampled_token_ids
        self.note("answering")
        return self.flight.popleft()[1], {
            name: [*map(int, rows[i])] for name, i in result.req_id_to_index.items()
            if len(rows[i])} if len(rows) else {}

    @guarded
    def answered(self, told, answers):
        taken = {each.request_id: list(each.new_token_ids) for answer in answers.values()
                 for each in answer.outputs if each.new_token_ids}
        self.note("answered", *told, taken)

    def raised(self, error):
        self.recorder.emit({"op": "raised", "what": f"{type(error).__name__}: {error}"[:300]})


def copied(blocks):
    """@return the ids of each group in lists that the runner does not make longer"""
    return [list(ids) for ids in blocks]


def version():
    import vllm
    return vllm.__version__


def orders_of(scheduler):
    return next((each for each in ORDERS if each.scheduler is scheduler), None)


def recorded(called):
    """@return the hook of a scheduler's method; one that is not recorded is left alone"""
    @functools.wraps(called)
    def hook(original, self, *values, **named):
        orders = orders_of(self)
        if orders is None:
            return original(self, *values, **named)
        return called(functools.partial(original, self), orders, *values, **named)
    return hook


@recorded
def arrives(original, orders, request):
    if request.request_id not in orders.scheduler.requests:
        orders.arrives(request)
    return original(request)


@recorded
def goes_on(original, orders, session, update):
    orders.goes_on(session, update)
    return original(session, update)


@recorded
def schedules(original, orders, *values, **named):
    try:
        out = original(*values, **named)
    except Exception as error:  # it is the engine's, and part of the recording
        orders.raised(error)
        raise
    orders.ordered(out)
    return out


@recorded
def takes_answers(original, orders, out, result):
    told = orders.answering(out, result)
    try:
        answers = original(out, result)
    except Exception as error:
        orders.answered(told, {})
        orders.raised(error)
        raise
    orders.answered(told, answers)
    return answers


@recorded
def resets(original, orders, *values, **named):
    done = original(*values, **named)
    if done:
        orders.note("reset")
    return done


def wrap_scheduler(scheduler_class, where):
    def begun(original, self, *values, **named):
        original(self, *values, **named)
        try:
            if orders_of(self) is None:
                ORDERS.append(Orders(self, where))
        except Exception as error:  # never the engine's
            print(f"kvproof: no run is recorded: {error!r}", file=sys.stderr)

    def leaves(original, self, request, *values, **named):
        manager = getattr(self, "kv_cache_manager", self)
        orders = next((o for o in ORDERS if o.scheduler.kv_cache_manager is manager), None)
        if orders is not None:
            orders.leaves(request)
        return original(self, request, *values, **named)

    for name, called in (("__init__", begun), ("add_request", arrives), ("schedule", schedules),
                         ("_update_request_as_session", goes_on), ("reset_prefix_cache", resets),
                         ("update_from_output", takes_answers)):
        around(scheduler_class, name, called)
    if hasattr(scheduler_class, "_free_request_blocks"):
        around(scheduler_class, "_free_request_blocks", leaves)
    else:  # before steps deferred what they free
        from vllm.v1.core.kv_cache_manager import KVCacheManager
        around(KVCacheManager, "free", leaves)


def wrap_index():
    from vllm.v1.core.block_pool import BlockPool

    def orders_for(pool):
        return next((o for o in ORDERS if o.scheduler.kv_cache_manager.block_pool is pool), None)

    def publishes(original, self, request, blocks, num_cached_blocks, num_full_blocks, block_size,
                  kv_cache_group_id, *values, **named):
        done = original(self, request, blocks, num_cached_blocks, num_full_blocks, block_size,
                        kv_cache_group_id, *values, **named)
        orders = orders_for(self)
        if orders is not None:
            keyed = [(i, blocks[i].block_id) for i in range(num_cached_blocks, num_full_blocks)
                     if not blocks[i].is_null and blocks[i].block_hash is not None]
            orders.note("publishes", request.request_id, keyed, block_size, kv_cache_group_id)
        return done

    def withdraws(original, self, block, *values, **named):
        done = original(self, block, *values, **named)
        orders = orders_for(self)
        if done and orders is not None:
            orders.note("withdraws", block.block_id)
        return done

    removes = "_remove_cached_block_hashes"  # since keys are more than one
    around(BlockPool, "cache_full_blocks", publishes)
    around(BlockPool, removes if hasattr(BlockPool, removes) else "_maybe_evict_cached_block",
           withdraws)


def register():
    """The entry point."""
    where = os.environ.get("KVPROOF_LIVE")
    if not where:
        return
    from vllm.v1.core.sched.scheduler import Scheduler

    wrap_scheduler(Scheduler, where)
    wrap_index()
    calls.wrap(where)
    vllm_runner.wrap(ORDERS)
