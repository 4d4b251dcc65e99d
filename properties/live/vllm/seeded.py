# SPDX-License-Identifier: Apache-2.0
"""What is changed in copies of vLLM 0.33.0: mends of defects with an advisory, and seeded faults.

A change replaces a few words of one file; they occur there once. The words are an anchor, no copy
of the engine. A file that begins with "runner/" is ours: the worker without a model.
"""

from typing import NamedTuple


class Change(NamedTuple):
    file: str
    old: str
    new: str


class Fault(NamedTuple):
    what: str
    told: str  # the laws of which one reports it first, and the bug report that it makes again
    cases: str  # in which its code runs
    change: Change

    @property
    def laws(self):
        return [word for word in self.told.split() if "#" not in word]

    @property
    def report(self):
        return next((word for word in self.told.split() if "#" in word), "")


SCHEDULER, ASYNC = "v1/core/sched/scheduler.py", "v1/core/sched/async_scheduler.py"
OUTPUT, MANAGER = "v1/core/sched/output.py", "v1/core/kv_cache_manager.py"
GROUPS, POOL = "v1/core/single_type_kv_cache_manager.py", "v1/core/block_pool.py"
KEYS, SIMPLE = "v1/core/kv_cache_utils.py", "v1/simple_kv_offload/manager.py"
MULTI = "distributed/kv_transfer/kv_connector/v1/multi_connector.py"
RUNNER = "runner/worker.py"
OFFLOAD = "distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py"
HOST_CHUNKS = "v1/kv_offload/cpu/manager.py"


def scheduler(old, new):
    return Change(SCHEDULER, old, new)


# Requests whose load within a step is unsure, because that step has not been answered yet. The
# class of requests has their names, where connectors see them, too.
UNSURE = (
    scheduler("                if num_external_computed_tokens > 0:\n",
              "                if num_external_computed_tokens > 0:\n"
              "                    Request.unsure = {\n"
              "                        *vars(Request).get('unsure', ()), request_id}\n"),
    scheduler("            assert num_tokens_scheduled > 0\n",
              "            assert num_tokens_scheduled > 0\n"
              "            vars(Request).get('unsure', set()).discard(req_id)\n"),
)

# By advisory in ../../foreign/findings: without its defect a run that it explains holds.
MENDS = {
    "vllm-run-withdrawn-grant": (scheduler(
        "                            req_to_new_blocks.pop(preempted_req_id)\n",
        "                            req_to_new_blocks.pop(preempted_req_id)\n"
        "                            computed = preempted_req.num_computed_tokens\n"
        "                            self.kv_cache_manager.evict_blocks({\n"
        "                                each for ids in self.kv_cache_manager.get_block_ids(\n"
        "                                    preempted_req_id)\n"
        "                                for each in ids[computed // self.block_size:]})\n"),),
    "vllm-run-failed-load-kept": (
        scheduler("        if sync_blocks_to_evict and not self.recompute_kv_load_failures:",
                  "        if sync_blocks_to_evict:"),
        scheduler("                if block_id in marked_invalid_block_ids:\n",
                  "                if False:\n"),
        *UNSURE,
        scheduler("        if self._request_blocks_can_be_freed(request):\n",
                  "        if request.request_id in vars(Request).get('unsure', ()):\n"
                  "            self.kv_cache_manager.evict_blocks({\n"
                  "                each for ids in self.kv_cache_manager.get_block_ids(\n"
                  "                    request.request_id) for each in ids})\n"
                  "        if self._request_blocks_can_be_freed(request):\n"),
    ),
    "vllm-run-failed-load-stored": (
        *UNSURE,
        Change(OFFLOAD, "        num = min(num_computed_tokens, req_status.req.num_tokens)\n",
               "        num = min(num_computed_tokens, req_status.req.num_tokens)\n"
               "        if vars(type(req_status.req)).get('unsure'):\n"
               "            num = 0\n"),
        Change(SIMPLE,
               "request.num_computed_tokens - request.num_output_placeholders\n",
               "0 if vars(type(request)).get('unsure') else (\n"
               "            request.num_computed_tokens - request.num_output_placeholders)\n"),
    ),
    "vllm-run-placeholder-kept": (scheduler(
        "                affected_req_ids.add(request.request_id)\n",
        "                affected_req_ids.add(request.request_id)\n"
        "                if evict_blocks:\n"
        "                    request.drop_stale_output = True\n"
        "                    request.num_stale_output_tokens = request.num_in_flight_tokens\n"
        "                    request.num_output_placeholders = 0\n"),),
    "vllm-run-failed-load-starves": (scheduler(
        "                # reallocated, so the skipped blocks need no handling.)\n",
        "                # reallocated, so the skipped blocks need no handling.)\n"
        "                self._inflight_prefills.discard(request)\n"),),
    "vllm-run-reset-stores-others": (Change(
        OFFLOAD, " = group_state.next_stored_chunk_idx * blocks_per_chunk\n", " = 0\n"),),
    "vllm-run-idle-stores": (Change(
        SIMPLE, "        if self._lazy_mode:\n            return self._prepare_lazy_store_specs()",
        "        if self._lazy_mode and not scheduler_output.num_scheduled_tokens:\n"
        "            return [], [], [], None\n"
        "        if self._lazy_mode:\n            return self._prepare_lazy_store_specs()"),),
    "vllm-run-sessions-starve": (
        scheduler(
        "        self.finished_req_ids.add(request_id)\n",
        "        self.finished_req_ids.add(request_id)\n"
        "        self.reset_preempted_req_ids.discard(request_id)\n"),
        scheduler(
        "            self.num_waiting_for_streaming_input += 1\n\n        return False",
        "            self.num_waiting_for_streaming_input += 1\n"
        "            self._free_request_blocks(request)\n"
        "            self.reset_preempted_req_ids.add(request.request_id)\n"
        "            request.num_computed_tokens = 0\n\n        return False"),
    ),
}


def mends(but=None):
    """@return the changes after which all defects that have an advisory are gone, except one"""
    return list(dict.fromkeys(each for page, changes in MENDS.items() if page != but
                              for each in changes))


def fault(what, told, cases, file, old, new):
    return Fault(what, told, cases, Change(file, old, new))


ANY = "sync async async_tight"
PRESSED = "async_tight sync_chunks async_drafts"
DRAFTS = "async_drafts sync_drafts"
LATE = "loads loads_both_async simple_async"
FENCED = "loads_both_async simple_async"
HOST, TWO = "simple_async simple_slow simple", "both both_async"
CHUNKS = "offload_async offload_slow offload_window"

FAULTS = (
    # The scheduler: steps in flight, placeholders, drafts, preemption, resets.
    fault("freed blocks are taken while a step in flight writes them",
          "S4 S5 openvinotoolkit/model_server#4428", FENCED, SCHEDULER,
          "return not self.defer_block_free or (", "return True or ("),
    fault("deferred blocks come back a step too early", "S4 S5", FENCED, SCHEDULER,
          "            if fence > self.processed_step_seq:\n"
          "                break\n"
          "            _, ",
          "            if fence > self.processed_step_seq + 1:\n"
          "                break\n"
          "            _, "),
    fault("deferred blocks never come back", "L2", FENCED, SCHEDULER,
          "        while self.deferred_frees:\n", "        while False:\n"),
    fault("deferred blocks are given back twice", "S11 S16", FENCED, SCHEDULER,
          "self.deferred_frees.append((self.sched_step_seq, blocks))",
          "self.deferred_frees.extend([(self.sched_step_seq, blocks)] * 2)"),
    fault("a preempted request keeps its computed tokens", "S8", PRESSED, SCHEDULER,
          "        request.status = RequestStatus.PREEMPTED\n"
          "        request.num_computed_tokens = 0\n",
          "        request.status = RequestStatus.PREEMPTED\n"),
    fault("an answer in flight counts after a preemption", "S1", "async_deep pipeline_chunks",
          SCHEDULER,
          "        request.num_stale_output_tokens = request.num_in_flight_tokens\n"
          "        request.num_output_placeholders = 0\n"
          "        request.num_preemptions",
          "        request.num_output_placeholders = 0\n"
          "        request.num_preemptions"),
    fault("a preempted request keeps its placeholders", "S9", PRESSED, SCHEDULER,
          "        request.num_output_placeholders = 0\n"
          "        request.num_preemptions", "        request.num_preemptions"),
    fault("rejected drafts stay computed", "S9 S1", DRAFTS, SCHEDULER,
          "                        request.num_computed_tokens -= num_rejected\n",
          "                        pass\n"),
    fault("rejected drafts stay placeholders", "S9 S1", DRAFTS, SCHEDULER,
          "                        request.num_output_placeholders -= num_rejected\n",
          "                        pass\n"),
    fault("one rejected draft too few is taken back", "S9 S1", DRAFTS, SCHEDULER,
          "num_rejected = num_draft_tokens - num_accepted",
          "num_rejected = max(num_draft_tokens - num_accepted - 1, 0)"),
    fault("a stale answer that was to be dropped is delivered", "S1 S14", "async_reset", SCHEDULER,
          "if output_is_stale and request.drop_stale_output:", "if False:"),
    fault("a request that ended takes answers", "S14 S16", "loads_both_async both_async", SCHEDULER,
          "            if request is None or request.is_finished():\n"
          "                # The request is already",
          "            if request is None:\n"
          "                # The request is already"),
    fault("a placeholder counts as a token to compute", "S9 S1", "async async_drafts", SCHEDULER,
          "                + request.num_output_placeholders\n"
          "                - request.num_computed_tokens",
          "                + request.num_output_placeholders +"
          " bool(request.num_output_placeholders)\n"
          "                - request.num_computed_tokens"),
    fault("no placeholder is counted for drafts", "S1", "async_drafts", ASYNC,
          "self.num_sampled_tokens_per_step + cur_num_spec_tokens",
          "self.num_sampled_tokens_per_step"),
    fault("drafts get no room beyond the last block", "S11 TensorRT-LLM#16280", DRAFTS, SCHEDULER,
          "                        num_new_tokens,\n"
          "                        num_lookahead_tokens=self.num_lookahead_tokens,",
          "                        num_new_tokens - len(request.spec_token_ids) or 1,\n"
          "                        num_lookahead_tokens=self.num_lookahead_tokens,"),
    fault("a cleared index keeps its names", "S10 llm-d-kv-cache#593", "sync_reset async_reset",
          POOL,
          "        for block in self.blocks:\n"
          "            block.reset_hash()\n"
          "\n"
          "        if self.metrics", "        if self.metrics"),
    # Sessions.
    fault("a cut session keeps the keys of the tokens that are gone", "S9 vllm#49377",
          "sync_sessions async_sessions", SCHEDULER,
          "        del session.block_hashes[keep_end // self.hash_block_size :]\n", ""),
    fault("a session goes on from tokens that are in flight", "S8 S1",
          "async_sessions sync_sessions", SCHEDULER,
          "safe_frontier = request.num_computed_tokens - request.num_output_placeholders",
          "safe_frontier = request.num_computed_tokens"),
    fault("a session takes the answers of its turn before", "S1", "async_sessions", SCHEDULER,
          "        request.drop_stale_output = True\n"
          "        request.num_stale_output_tokens = request.num_in_flight_tokens\n", ""),
    # Loads and sends.
    fault("a late load counts as done when it starts", "S4 S8 S16", LATE, SCHEDULER,
          "request.status = RequestStatus.WAITING_FOR_REMOTE_KVS\n"
          "                    # Set",
          "request.status = RequestStatus.WAITING\n"
          "                    # Set"),
    fault("a late load is published before it is done", "S4 vllm#34526", LATE, SCHEDULER,
          "delay_cache_blocks=load_kv_async,", "delay_cache_blocks=False,"),
    fault("an abort gives back what a late load is to write", "S5", LATE, SCHEDULER,
          "                delay_free_blocks = (\n",
          "                delay_free_blocks = False and (\n"),
    fault("after a failed load the failed block counts as computed", "S9 S4",
          "failing failing_sync", SCHEDULER,
          "request.num_computed_tokens = idx * self.block_size\n",
          "request.num_computed_tokens = (idx + 1) * self.block_size\n"),
    fault("a failed load is taken for a good one", "S9 S12 LMCache#4286", "failing failing_sync",
          SCHEDULER,
          "if kv_connector_output and kv_connector_output.invalid_block_ids:", "if False:"),
    fault("a late load that failed is not seen among those that wait", "S9", "failing", SCHEDULER,
          "            if req.status == RequestStatus.WAITING_FOR_REMOTE_KVS\n"
          "        )",
          "            if False\n"
          "        )"),
    fault("blocks go back while they are sent", "S15 S5 S16", "loads both", SCHEDULER,
          "delay_free_blocks |= connector_delay_free_blocks", "delay_free_blocks |= False"),
    fault("blocks that were sent never come back", "L2 vllm#50754", "loads both", SCHEDULER,
          "            assert req_id in self.requests\n"
          "            self._free_blocks(self.requests[req_id])\n",
          "            assert req_id in self.requests\n"),
    # What the worker is given, and its own table.
    fault("the worker is not told of new blocks", "S11", ANY, SCHEDULER,
          "req_to_new_blocks[req_id].get_block_ids(allow_none=True)\n", "None\n"),
    fault("a resumed request looks as if it went on", "S16", "sync_first_runner", SCHEDULER,
          "                resumed_req_ids.add(req_id)\n", "                pass\n"),
    fault("the worker starts a token too late", "S8 S11", ANY, OUTPUT,
          "num_computed_tokens=request.num_computed_tokens,\n"
          "            lora",
          "num_computed_tokens=request.num_computed_tokens + 1,\n"
          "            lora"),
    fault("a resumed request is told without its answer", "S1", PRESSED, SCHEDULER,
          "                    req._all_token_ids,\n",
          "                    req.prompt_token_ids,\n"),
    fault("the answers in flight are not told", "S1", "async async_drafts", SCHEDULER,
          "req.num_output_tokens + req.num_output_placeholders\n", "req.num_output_tokens\n"),
    fault("the runner puts new blocks before the others", "S9", ANY, RUNNER,
          "{\"more\": [list(ids) for ids in blocks]}",
          "{\"more\": [list(ids)[::-1] for ids in blocks]}"),
    fault("the runner sorts the table of a new request", "S9 S8", ANY, RUNNER,
          "{\"tables\": [list(ids) for ids in new.block_ids]}",
          "{\"tables\": [sorted(ids) for ids in new.block_ids]}"),
    fault("the runner keeps a rejected draft", "S1", DRAFTS, RUNNER,
          "        held.computed = len(held.tokens) - 1\n",
          "        held.computed = len(held.tokens) - (not drafts)\n"),
    # The allocator below.
    fault("window blocks leave while a step in flight reads them", "S11", "async_window", MANAGER,
          "max(0, total_computed_tokens - request.num_in_flight_tokens),",
          "total_computed_tokens,"),
    fault("a window is a block too short", "S11", "async_window sync_window", GROUPS,
          "num_computed_tokens - self.sliding_window + 1 - self.extra_retained_tokens",
          "num_computed_tokens - self.sliding_window + 1 + self.block_size"),
    fault("a block that is hit stays on the free queue", "S11", ANY, POOL,
          "                self.free_block_queue.remove(block)\n", "                pass\n"),
    fault("a hit is not counted", "S11", ANY, POOL,
          "                self.free_block_queue.remove(block)\n"
          "            block.ref_cnt += 1\n",
          "                self.free_block_queue.remove(block)\n"
          "                block.ref_cnt += 1\n"),
    fault("a block that is taken keeps its key", "S9", ANY, POOL,
          "                self._maybe_evict_cached_block(block)\n"
          "                assert", "                assert"),
    fault("a shared block is given back with its first holder", "S11 S2", ANY, POOL,
          "            if block.ref_cnt == 0:\n"
          "                if block.block_hash is None",
          "            if block.ref_cnt >= 0:\n"
          "                if block.block_hash is None"),
    fault("a key does not cover the blocks before it", "S9 S8", ANY, KEYS,
          "        hash_function((parent_block_hash, curr",
          "        hash_function((NONE_HASH, curr"),
    # SimpleCPUOffload.
    fault("a store does not hold what it reads", "S3 S9 S11 vllm#52360", HOST, SIMPLE,
          "                gpu_block_pool.touch(\n"
          "                    [gpu_block_pool.blocks[bid] for bid in gpu_block_ids]\n"
          "                )\n", ""),
    fault("a load does not hold what it writes", "S11", HOST, SIMPLE,
          "        self._gpu_block_pool.touch(\n"
          "            [self._gpu_block_pool.blocks[bid] for bid in gpu_block_ids]\n"
          "        )\n", ""),
    fault("a load does not hold what it reads", "S3 S4", HOST, SIMPLE,
          "        self.cpu_block_pool.touch(cpu_blocks_to_touch)\n", ""),
    fault("a store is published when it starts", "S3", HOST, SIMPLE,
          "            if store_req_ids:  # For eager",
          "            self._process_store_event(store_event)\n"
          "            if store_req_ids:  # For eager"),
    fault("a load lands a block too early", "S9 S4", HOST, SIMPLE,
          "gpu_ext_start = num_computed_tokens // g_block_size",
          "gpu_ext_start = max(num_computed_tokens // g_block_size - 1, 0)"),
    fault("a load brings a block less than was promised", "S9 S8 LMCache#5151", HOST, SIMPLE,
          "n_take_g = cdiv(num_external_tokens, g_block_size)",
          "n_take_g = cdiv(num_external_tokens, g_block_size) - 1"),
    fault("an end gives back what a load still writes", "L2 S4 S5", HOST, SIMPLE,
          "                load_state.finished = True  # Defer: load in-flight",
          "                self._cleanup_load_request(req_id)"),
    fault("a lazy store does not hold what it reads", "S3", "lazy lazy_async", SIMPLE,
          "            gpu_pool.touch([gpu_pool.blocks[bid] for bid in gpu_ids])\n"
          "        else:", "        else:"),
    fault("a reset gives back what a store still uses", "S4 S3", "simple_reset", SIMPLE,
          "        for transfer in self._pending_finished_stores:\n"
          "            self._release_transfer_refs",
          "        for transfer in (*self._pending_finished_stores,"
          " *self._store_event_to_blocks.values()):\n"
          "            self._release_transfer_refs"),
    fault("a host block is given back twice", "S3 S4", HOST, SIMPLE,
          "        # Free CPU and GPU blocks' ref counts to turn them into prefix cache\n",
          "        self.cpu_block_pool.free_blocks(cpu_blocks)\n"),
    fault("the pin of an earlier lookup stays", "L3 vllm#35931", HOST, SIMPLE,
          "            self._free_pending_cpu_hit(stale)\n", "            pass\n"),
    fault("the end of a store is lost", "L2 L3 dynamo#3730", HOST, SIMPLE,
          "            if total >= self._expected_worker_count:",
          "            if total > self._expected_worker_count:"),
    fault("a load takes host blocks for device blocks", "S4 S5 S9 S11 TensorRT-LLM#13124", HOST,
          SIMPLE,
          "gpu_block_ids.append(group_gpu_ids[gpu_ext_start + i])",
          "gpu_block_ids.append(cpu_blk.block_id)"),
    fault("a store does not wait for the step that fills its blocks", "S3 S7 vllm#45704", HOST,
          "runner/connectors.py",
          "            after=step)\n"
          "\n"
          "    def begin",
          "            )\n"
          "\n"
          "    def begin"),
    fault("a lazy store takes more than the host has", "S16 vllm#54914", "lazy lazy_async", SIMPLE,
          "            if covered >= self._target_free or len(gpu_ids) >= num_cpu_free:",
          "            if covered >= self._target_free:"),
    # MultiConnector.
    fault("two connectors load the same tokens", "S4 vllm#53049", TWO, MULTI,
          "            if i == chosen_connector:\n", "            if True:\n"),
    fault("the wrong connector is asked to load", "L1 L2", "both both_async both_turned", MULTI,
          "self._requests_to_connector[request.request_id] = i",
          "self._requests_to_connector[request.request_id] = 0"),
    fault("a connector gets the report of another", "L2", TWO, MULTI,
          "multi_connector_worker_meta.metadata[i]\n",
          "multi_connector_worker_meta.metadata[-1 - i]\n"),
    fault("a finished request is forgotten by one connector", "L3", TWO, MULTI,
          "        for c in self._connectors:\n"
          "            async_save, txfer_params = per_connector_fn(c)",
          "        for c in self._connectors[:1]:\n"
          "            async_save, txfer_params = per_connector_fn(c)"),
    fault("a connector does not hear of blocks that another fills", "S3 vllm#46951",
          "both_offload both_offload_async", MULTI,
          "                c.update_state_after_alloc(request, blocks, 0)\n",
          "                pass\n"),
    # OffloadingConnector, its host and the tier behind it.
    fault("a chunk is read before its store is done", "L3 S4 S1 vllm#51439", CHUNKS, HOST_CHUNKS,
          "        if not chunk.is_ready:\n"
          "            return LookupResult.HIT_PENDING",
          "        if False:\n"
          "            return LookupResult.HIT_PENDING"),
    fault("a load does not pin its chunks", "S3 S4 S16", CHUNKS, HOST_CHUNKS,
          "                self._policy.mark_non_evictable(key)\n", ""),
    fault("chunks that were loaded stay pinned", "L3 LMCache#3770", CHUNKS, HOST_CHUNKS,
          "            chunk.ref_cnt -= 1\n"
          "            if chunk.ref_cnt == 0:\n"
          "                self._num",
          "            if chunk.ref_cnt == 0:\n"
          "                self._num"),
    fault("a preemption does not wait for the stores of its blocks", "S3",
          "offload_async offload_slow offload_window offload_priority_async", OFFLOAD,
          "            self._current_batch_jobs_to_flush.update(jobs_to_flush)\n",
          "            pass\n"),
    fault("blocks are taken anew while stores read them", "S3", CHUNKS, OFFLOAD,
          "        if (\n"
          "            self._block_id_to_pending_jobs\n"
          "            and not self",
          "        if (\n"
          "            False\n"
          "            and not self"),
    fault("the end of a request forgets the stores of its blocks", "S3", CHUNKS, OFFLOAD,
          "            for bid in job_status.deferred_fence_block_ids or ():\n"
          "                self._block",
          "            for bid in ():\n"
          "                self._block"),
    fault("a reset does not wait for transfers", "S3 S4 S5", "offload_reset offload_reset_async",
          OFFLOAD,
          "        self._current_batch_jobs_to_flush.update(self._jobs.keys())\n", ""),
    fault("a store takes what is not computed", "S7 S9 S4", CHUNKS, OFFLOAD,
          "        num = min(num_computed_tokens, req_status.req.num_tokens)\n",
          "        num = req_status.req.num_tokens\n"),
)
