#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shortest calls of vLLM 0.33's own Scheduler that end in what the findings say.

    properties/engines/scheduler/confirm.py [NAME...]

No law and no judge takes part: each function makes the calls, and asserts what it should not see.
"""

import sys

import vllm_modules
import world

BLOCK = 4


class Calls:
    """A scheduler, and the few calls that an engine makes."""

    def __init__(self, **options):
        import drive
        self.run = drive.Run(world.Options(**options), 0, lambda _: None)
        self.run.quiet = True  # whose connector has nothing, if it is not told
        self.engine = self.run.engine
        connector = self.engine.connector
        self.generic = getattr(connector, "_connectors", [connector])[0]
        if hasattr(self.generic, "found"):
            self.generic.get_num_new_matched_tokens = self.external
        self.has, self.late = {}, False

    def external(self, request, computed):
        self.generic.found[request.request_id] = computed, self.late
        return max(self.has.get(request.request_id, 0) - computed, 0), self.late

    def add(self, name, tokens, most=8, **named):
        from vllm.v1.request import Request
        self.engine.add_request(Request(
            name, list(tokens), world.sampling(most, None), None, arrival_time=float(len(name)),
            block_hasher=self.run.hasher, **named))

    def answer(self, out, failed=(), stored=None, received=(), **tokens):
        """The step is done: what each request got, and the blocks whose load has failed."""
        from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
        names = list(out.num_scheduled_tokens)
        result = ModelRunnerOutput(
            req_ids=names, req_id_to_index={name: i for i, name in enumerate(names)},
            sampled_token_ids=[tokens.get(name, []) for name in names])
        if failed or stored is not None:
            result.kv_connector_output = KVConnectorOutput(invalid_block_ids=set(failed))
            result.kv_connector_output.kv_connector_worker_meta = stored
            result.kv_connector_output.finished_recving = set(received)
        return self.engine.update_from_output(out, result)

    def abort(self, name):
        from vllm.v1.request import RequestStatus
        self.engine.finish_requests(name, RequestStatus.FINISHED_ABORTED)


def hit(out, name):
    """@return how many tokens the worker is told that this new request has, and its blocks"""
    new = next(each for each in out.scheduled_new_reqs if each.req_id == name)
    return new.num_computed_tokens, new.block_ids[0]


def moved(*jobs, among=False):
    """@return what OffloadingConnector's worker says of jobs that are done"""
    from vllm.distributed.kv_transfer.kv_connector.v1 import multi_connector
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading import common
    said = common.OffloadingWorkerMetadata({job: 1 for job in jobs})
    return multi_connector.MultiKVConnectorWorkerMetadata((None, said)) if among else said


def withdrawn_grant():
    """A victim that was scheduled in the same step comes back with a hit that nobody computed."""
    calls = Calls(blocks=9, priorities=4, budget=12, long_prefill=8, max_length=32)
    calls.add("low", range(28), priority=3)
    calls.answer(calls.engine.schedule())
    calls.add("high", range(50, 54), most=2, priority=0)
    second = calls.engine.schedule()
    assert second.num_scheduled_tokens == {"low": 8, "high": 4}, second.num_scheduled_tokens
    calls.answer(second, high=[7])
    third = calls.engine.schedule()
    assert third.num_scheduled_tokens == {"high": 1}, third.num_scheduled_tokens
    assert third.preempted_req_ids == {"low"}
    calls.answer(third, high=[7])  # its last
    tokens, _ = hit(calls.engine.schedule(), "low")
    assert tokens == 24, tokens
    return f"low computed 20 tokens in all, and comes back with {tokens} as computed"


def failed_load_kept(policy="recompute", early=False):
    """A load that failed stays in the index when its request is aborted."""
    calls = Calls(connector="generic", policy=policy)
    calls.has["a"] = 8
    calls.add("a", range(16))
    out = calls.engine.schedule()
    _, blocks = hit(out, "a")
    if early:
        calls.abort("a")
    calls.answer(out, failed=blocks[:1], a=[1])
    if not early:
        calls.abort("a")
    calls.add("b", range(16))
    tokens, again = hit(calls.engine.schedule(), "b")
    assert tokens == 12 and again[0] == blocks[0], (tokens, again)
    return f"b has {tokens} tokens as computed; its block {again[0]} is the one whose load failed"


def failed_load_kept_by_fail():
    """So it is under the policy that fails requests, if the abort comes before the report."""
    return failed_load_kept("fail", early=True)


def failed_load_hit():
    """So does a request that computes in chunks what failed: others hit the rest meanwhile."""
    calls = Calls(connector="generic", long_prefill=8)
    calls.has["a"] = 36
    calls.add("a", range(40))
    out = calls.engine.schedule()
    _, blocks = hit(out, "a")
    calls.answer(out, failed=blocks[5:6])
    calls.add("b", range(44))
    out = calls.engine.schedule()
    tokens, again = hit(out, "b")
    computed = calls.engine.requests["a"].num_computed_tokens
    assert (computed, tokens) == (28, 40) and again[:10] == blocks, (computed, tokens, again)
    return f"b has {tokens} tokens as computed, in a's blocks; a is at {computed} after this step"


def placeholder_kept():
    """After a failed load, asynchronous scheduling counts a token that was thrown away."""
    calls = Calls(connector="generic", asynchronous=True, depth=2)
    calls.has["a"] = 4
    calls.add("a", range(8))
    out = calls.engine.schedule()
    assert out.num_scheduled_tokens == {"a": 4}
    calls.answer(out, failed=hit(out, "a")[1][:1], a=[1])
    request = calls.engine.requests["a"]
    assert request.num_tokens == 8 and request.num_computed_tokens == 0
    again = calls.engine.schedule()
    assert again.num_scheduled_tokens == {"a": 9}, again.num_scheduled_tokens
    return "a has 8 tokens, of which none is computed; the next step is told to compute 9"


def sessions_starve():
    """Two sessions hold all blocks while both wait for one more."""
    calls = Calls(blocks=9, budget=40, max_length=32)
    for name in "ab":
        calls.add(name, range(ord(name), ord(name) + 16), most=1, resumable=True)
    out = calls.engine.schedule()
    calls.answer(out, a=[1], b=[1])
    for name in "ab":
        calls.add(name, range(8), resumable=True)
    steps = [calls.engine.schedule() for _ in range(1000)]
    assert not any(step.num_scheduled_tokens for step in steps)
    assert calls.engine.get_num_unfinished_requests() == 2
    return "both wait with 4 blocks each, none is free, and 1,000 steps are empty"


def failed_load_stored():
    """Of two connectors, the second stores what the first has failed to load, and keeps it."""
    from vllm.distributed.kv_transfer.kv_connector.v1 import multi_connector
    from vllm.v1.simple_kv_offload.metadata import SimpleCPUOffloadWorkerMetadata
    calls = Calls(connector="generic simple", host=20)
    calls.has["a"] = 8
    calls.add("a", range(9), most=2)
    out = calls.engine.schedule()
    _, blocks = hit(out, "a")
    stores = out.kv_connector_metadata.metadata[1]
    host = dict(zip(stores.store_gpu_blocks, stores.store_cpu_blocks))[blocks[1]]
    calls.answer(out, failed=[blocks[1]], a=[1])
    again = calls.engine.schedule()
    assert again.num_scheduled_tokens == {"a": 5}  # block 1 is computed, the store stands
    calls.answer(again, a=[1], stored=multi_connector.MultiKVConnectorWorkerMetadata(
        metadata=(None, SimpleCPUOffloadWorkerMetadata({stores.store_event: 1}))))
    calls.abort("a")
    assert calls.engine.reset_prefix_cache()
    calls.add("b", range(9))
    loads = calls.engine.schedule().kv_connector_metadata.metadata[1].load_cpu_blocks
    assert host in loads, (host, loads)
    return f"b loads host block {host}, a copy of the block whose load had failed"


def failed_load_offloaded():
    """So does OffloadingConnector, if it is the second."""
    calls = Calls(connector="generic offload", host=20)
    calls.has["a"] = 8
    calls.add("a", range(9), most=2)
    out = calls.engine.schedule()
    _, blocks = hit(out, "a")
    ((number, job),) = out.kv_connector_metadata.metadata[1].store_jobs.items()
    host = dict(zip(job.src_spec.block_ids, job.dst_spec.block_ids))[blocks[1]]
    calls.answer(out, failed=[blocks[1]], a=[1])
    again = calls.engine.schedule()
    assert again.num_scheduled_tokens == {"a": 5}  # block 1 is computed, the store stands
    calls.answer(again, a=[1], stored=moved(number, among=True))
    calls.abort("a")
    assert calls.engine.reset_prefix_cache()
    calls.add("b", range(9))
    (load,) = calls.engine.schedule().kv_connector_metadata.metadata[1].load_jobs.values()
    assert host in load.src_spec.block_ids, (host, load)
    return f"b loads chunk {host}, a copy of the block whose load had failed"


def steps(calls, number, *names):
    """So many steps, whose stores are done at once. @return the last"""
    for _ in range(number):
        out = calls.engine.schedule()
        calls.answer(out, stored=moved(*out.kv_connector_metadata.store_jobs),
                     **dict.fromkeys(names, [1]))
    return out


def reset_stores_others():
    """After a reset, blocks that had left a request's window are stored as if they were its own."""
    calls = Calls(connector="offload", windows=(0, 8), host=40, blocks=17, max_length=32, budget=40)
    calls.add("a", range(16))
    calls.add("b", range(50, 62))
    steps(calls, 3, "a", "b")  # two blocks have left a's window, and b has got them
    held = {block for ids in calls.engine.kv_cache_manager.get_block_ids("b") for block in ids}
    calls.engine.reset_prefix_cache(reset_connector=True)
    out = calls.engine.schedule()
    jobs = out.kv_connector_metadata.store_jobs
    job = next(each for each in jobs.values() if each.req_id == "a")
    copies = {chunk: block for block, chunk in zip(
        job.src_spec.block_ids.tolist(), job.dst_spec.block_ids.tolist()) if block in held}
    assert copies, (job, held)
    calls.answer(out, a=[1], b=[1], stored=moved(*jobs))
    calls.abort("a")
    calls.abort("b")
    steps(calls, 1)
    assert calls.engine.reset_prefix_cache()
    calls.add("c", range(9))
    (load,) = calls.engine.schedule().kv_connector_metadata.load_jobs.values()
    wrong = sorted(copies.keys() & set(load.src_spec.block_ids.tolist()))
    assert wrong, (copies, load)
    return f"c, which begins as a, loads chunks {wrong}: blocks {[*map(copies.get, wrong)]} of b"


def reset_ends_engine():
    """So does a request that has got its own blocks again, and the engine ends of it."""
    calls = Calls(connector="offload", windows=(0, 8), host=40, blocks=13, max_length=40, budget=40)
    calls.add("a", range(16), most=20)
    steps(calls, 17, "a")
    calls.engine.reset_prefix_cache(reset_connector=True)
    try:
        steps(calls, 1, "a")
    except KeyError as error:
        return f"KeyError: {error}, a block that one store names twice"
    raise AssertionError("nothing was raised")


def reset_twice():
    """A second reset before the next step fails where the first met a copy in flight."""
    calls = Calls(connector="offload", host=40)
    calls.add("a", range(16))
    calls.engine.schedule()
    calls.engine.reset_prefix_cache(reset_connector=True)
    try:
        calls.engine.reset_prefix_cache(reset_connector=True)
    except AssertionError as error:
        return f"AssertionError {error}"
    raise RuntimeError("nothing was raised")


def idle_stores():
    """Without any request, a lazy offload copies the same blocks for ever."""
    from vllm.v1.simple_kv_offload.metadata import SimpleCPUOffloadWorkerMetadata
    calls = Calls(connector="simple", lazy=True, host=6, blocks=13, max_length=48, budget=4)
    calls.add("a", range(44), most=1)
    stores, ended = [], -1
    for step in range(1000):
        out = calls.engine.schedule()
        calls.answer(out, stored=SimpleCPUOffloadWorkerMetadata({ended: 1} if ended >= 0 else {}),
                     **({"a": [1]} if step == 10 else {}))
        meta = out.kv_connector_metadata
        ended = meta.store_event
        stores += meta.store_gpu_blocks if not calls.engine.requests else []
    assert calls.engine.has_requests() and len(stores) > 900, len(stores)
    return f"{len(stores)} copies of {len(set(stores))} blocks since its only request has ended"


def failed_load_starves():
    """A late load that failed reserves the blocks that its own next try needs."""
    calls = Calls(connector="generic", blocks=20, max_length=64)
    calls.has["a"], calls.late = 40, True
    calls.add("a", range(44))
    out = calls.engine.schedule()
    (load,) = out.kv_connector_metadata.loads
    calls.answer(out, failed=load.tables[0][:1], received=["a"])
    calls.add("b", [1])
    steps = [calls.engine.schedule() for _ in range(1000)]
    assert not any(step.num_scheduled_tokens for step in steps)
    assert not any(step.kv_connector_metadata.loads for step in steps)
    assert calls.run.pools[0].get_num_free_blocks() == 19
    return "all 19 blocks are free, a and b wait, and 1,000 steps are empty"


FINDINGS = (withdrawn_grant, failed_load_kept, failed_load_kept_by_fail, failed_load_hit,
            placeholder_kept, failed_load_stored, failed_load_offloaded, failed_load_starves,
            sessions_starve, reset_stores_others, reset_ends_engine, reset_twice, idle_stores)


if __name__ == "__main__":
    vllm_modules.install()
    for finding in FINDINGS:
        if not sys.argv[1:] or finding.__name__ in sys.argv[1:]:
            print(f"{finding.__name__}: {finding()}")
