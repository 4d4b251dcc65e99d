# SPDX-License-Identifier: Apache-2.0
"""The configurations that are driven, and what vLLM's constructors ask of each."""

from types import SimpleNamespace
from typing import NamedTuple


class Options(NamedTuple):
    blocks: int = 24
    block_size: int = 4
    windows: tuple = (0,)  # of each group; 0: all tokens
    requests: int = 6  # at most, in the batch
    budget: int = 24  # tokens of a step
    long_prefill: int = 0
    max_length: int = 80  # a request must fit into the pool
    asynchronous: bool = False
    depth: int = 1  # steps in flight
    drafts: int = 0
    priorities: int = 1
    whole: bool = False  # a request is admitted if all its tokens fit
    watermark: float = 0.0
    second_runner: bool = True  # vLLM's V2 model runner
    abort: float = 0.03
    reset: float = 0.0
    sessions: float = 0.0  # of the requests
    connector: str = ""  # "generic", "simple", "generic simple": first to last
    policy: str = "recompute"  # of loads that fail
    loads: str = "async"  # "sync", "async" or both
    failing: float = 0.0
    keeps: float = 0.0  # of the requests: their blocks are sent when they end
    host: int = 0  # blocks
    lazy: bool = False
    evicts: str = "lru"  # the policy of OffloadingConnector's host
    chunk: int = 1  # blocks in one of its chunks
    within: int = 0  # tokens that it may load within a step
    decoded: bool = True  # it stores answers too
    storage: bool = False  # a tier behind its host
    pace: float = 0.6  # how often something happens between two calls


class Case(NamedTuple):
    name: str
    options: Options
    promised: str = ""  # events, beside those of every case


def case(name, promised="", **options):
    return Case(name, Options(**options), promised)


CHUNKS = {"budget": 40, "long_prefill": 12, "blocks": 34, "requests": 8}
DEEP = {"asynchronous": True, "depth": 2}
GENERIC = {"connector": "generic"}
FAILING = GENERIC | {"failing": 0.15}
SIMPLE = {"connector": "simple", "host": 20, "blocks": 20, "max_length": 64, "abort": 0.06}
BOTH = SIMPLE | {"connector": "generic simple", "keeps": 0.3}
OFFLOAD = SIMPLE | {"connector": "offload"}
TIERS = OFFLOAD | {"storage": True, "host": 12}
BOTH_OFFLOAD = BOTH | {"connector": "generic offload"}
WINDOW = {"windows": (0, 8), "blocks": 28}
LOADS, COPIES = "start settle", "start move settle"

CASES = (
    case("sync"), case("sync_first_runner", second_runner=False),
    case("sync_drafts", drafts=3), case("sync_chunks", **CHUNKS),
    case("sync_window", windows=(0, 8), max_length=60, blocks=30),
    case("sync_whole", whole=True, watermark=0.1),
    case("sync_reset", "reset", reset=0.03),
    case("sync_sessions", sessions=0.6, blocks=16, max_length=56),
    case("sync_priority", "preempt", priorities=4),
    case("sync_priority_chunks", priorities=4, **CHUNKS),
    case("pipeline", depth=2), case("pipeline_chunks", depth=3, **CHUNKS),
    case("async", **DEEP), case("async_drafts", drafts=3, **DEEP),
    case("async_deep", asynchronous=True, depth=3, drafts=1),
    case("async_tight", blocks=14, max_length=48, requests=4, drafts=1, abort=0.1, **DEEP),
    case("async_window", windows=(0, 8), max_length=60, blocks=30, drafts=2, **DEEP),
    case("async_reset", "reset", reset=0.03, **DEEP),
    case("async_sessions", sessions=0.6, blocks=16, max_length=56, **DEEP),
    case("async_priority", priorities=4, drafts=2, **DEEP),
    case("async_priority_chunks", priorities=4, **CHUNKS, **DEEP),
    case("loads_sync", LOADS, loads="sync", **GENERIC),
    case("loads", COPIES, keeps=0.3, **GENERIC),
    case("loads_both_async", COPIES, keeps=0.3, loads="sync async", **GENERIC, **DEEP),
    case("loads_window", COPIES, windows=(0, 8), max_length=60, blocks=30, **GENERIC, **DEEP),
    case("loads_priority", COPIES, priorities=4, **GENERIC),
    case("failing_sync", LOADS, loads="sync", **FAILING),
    case("failing_sync_async", LOADS, loads="sync", **FAILING, **DEEP),
    case("failing", COPIES, **FAILING), case("failing_async", COPIES, **FAILING, **DEEP),
    case("failing_window", COPIES, windows=(0, 8), max_length=60, blocks=30, **FAILING),
    case("failing_fails", COPIES, policy="fail", loads="sync async", abort=0.15, **FAILING),
    case("failing_fails_async", COPIES, policy="fail", loads="sync async", abort=0.15, **FAILING,
         **DEEP),
    case("simple", COPIES, **SIMPLE), case("simple_async", COPIES, **SIMPLE, **DEEP),
    case("simple_drafts", COPIES, drafts=2, **SIMPLE, **DEEP),
    case("simple_window", COPIES, **SIMPLE | {"windows": (0, 8), "blocks": 28}, **DEEP),
    case("simple_slow", COPIES, pace=0.2, **SIMPLE, **DEEP),
    case("simple_reset", COPIES, reset=0.03, **SIMPLE, **DEEP),
    case("simple_failing", COPIES, failing=0.1, **SIMPLE),
    case("simple_priority", COPIES, **SIMPLE | CHUNKS | {"priorities": 4, "max_length": 96}),
    case("lazy", COPIES, lazy=True, **SIMPLE),
    case("lazy_async", COPIES, lazy=True, **SIMPLE, **DEEP),
    case("lazy_priority", COPIES,
         **SIMPLE | CHUNKS | {"priorities": 4, "max_length": 96, "lazy": True}),
    case("both", COPIES, **BOTH), case("both_async", COPIES, **BOTH, **DEEP),
    case("both_failing", COPIES, failing=0.1, loads="sync async", **BOTH),
    case("both_turned", COPIES, **BOTH | {"connector": "simple generic"}, **DEEP),
    case("offload", COPIES, **OFFLOAD), case("offload_async", COPIES, **OFFLOAD, **DEEP),
    case("offload_arc", COPIES, **OFFLOAD | {"evicts": "arc", "host": 12}, **DEEP),
    case("offload_drafts", COPIES, drafts=2, **OFFLOAD, **DEEP),
    case("offload_window", COPIES, **OFFLOAD | WINDOW, **DEEP),
    case("offload_chunk", COPIES, chunk=2, **OFFLOAD | {"host": 24}, **DEEP),
    case("offload_chunk_window", COPIES, chunk=2, **OFFLOAD | WINDOW | {"host": 24}, **DEEP),
    case("offload_within", COPIES, within=24, **OFFLOAD),
    case("offload_within_async", COPIES, within=24, **OFFLOAD | WINDOW, **DEEP),
    case("offload_slow", COPIES, pace=0.2, **OFFLOAD | {"host": 10}, **DEEP),
    case("offload_prompts", COPIES, decoded=False, **OFFLOAD, **DEEP),
    case("offload_reset", f"{COPIES} reset", reset=0.03, **OFFLOAD),
    case("offload_reset_async", f"{COPIES} reset", reset=0.03, **OFFLOAD, **DEEP),
    case("offload_reset_window", COPIES, reset=0.005, **OFFLOAD | WINDOW),
    case("offload_priority", COPIES, **OFFLOAD | {"priorities": 4, "max_length": 72}),
    case("offload_priority_async", COPIES, **OFFLOAD | {"priorities": 4}, **DEEP),
    case("offload_sessions", COPIES, **OFFLOAD | {"sessions": 0.5}, **DEEP),
    case("tiers", COPIES, **TIERS), case("tiers_async", COPIES, **TIERS, **DEEP),
    case("tiers_arc", COPIES, **TIERS | {"evicts": "arc", "priorities": 4}, **DEEP),
    case("tiers_window", COPIES, failing=0.1, **TIERS | WINDOW, **DEEP),
    case("tiers_reset", f"{COPIES} reset", failing=0.1, reset=0.05, **TIERS, **DEEP),
    case("both_offload", COPIES, **BOTH_OFFLOAD),
    case("both_offload_async", COPIES, within=24, **BOTH_OFFLOAD, **DEEP),
    case("both_offload_failing", COPIES, failing=0.1, loads="sync async", **BOTH_OFFLOAD),
    case("both_offload_turned", COPIES, **BOTH_OFFLOAD | {"connector": "offload generic"}, **DEEP),
)


def transfers(o):
    """@return what vLLM is told of connectors"""
    if not o.connector:
        return None
    extra = {"num_cpu_blocks": o.host, "cpu_bytes_to_use": 8 * o.block_size * o.host,
             "lazy_offload": o.lazy, "eviction_policy": o.evicts, "blocks_per_chunk": o.chunk,
             "sync_load_budget_bytes": 8 * o.within * len(o.windows),
             "offload_prompt_only": not o.decoded}
    if o.storage:
        extra |= {"spec_name": "TieringOffloadingSpec",
                  "secondary_tiers": [{"type": "Storage", "module_path": "offloading"}]}
    named = {"kv_role": "kv_both", "kv_connector_extra_config": extra, "is_kv_producer": True,
             "is_kv_consumer": True, "kv_load_failure_policy": o.policy}
    single, *others = (dict(named, kv_connector=each) for each in o.connector.split())
    if others:
        single = dict(named, kv_connector="multi",
                      kv_connector_extra_config={"connectors": [single, *others]})
    return SimpleNamespace(engine_id="e", **single)


def drafter(o):
    never = {name: lambda: False for name in (
        "use_eagle", "use_eagle_block_drop", "needs_eagle_block_drop")}
    return o.drafts and SimpleNamespace(
        max_num_new_slots_for_drafting=0, num_speculative_tokens_per_batch_size=None,
        disable_eagle_block_drop=False, **never) or None


def config(o):
    """@return a VllmConfig as far as the scheduler looks at it"""
    new = SimpleNamespace
    return new(
        scheduler_config=new(
            max_num_seqs=o.requests, max_num_active_seqs=None, max_num_scheduled_tokens=None,
            max_num_batched_tokens=o.budget, long_prefill_token_threshold=o.long_prefill,
            long_prefill_token_threshold_adaptive=False, prefill_schedule_interval=1,
            policy="priority" if o.priorities > 1 else "fcfs", enable_chunked_prefill=True,
            scheduler_reserve_full_isl=o.whole, watermark=o.watermark,
            async_scheduling=o.asynchronous, disable_hybrid_kv_cache_manager=False),
        cache_config=new(
            num_gpu_blocks=o.blocks, enable_prefix_caching=True, block_size=o.block_size,
            enable_mamba_shared_prefix_checkpoint=False, mamba_cache_mode="none",
            prefix_match_unit=None, simple_cpu_offload_num_blocks=None,
            prefix_cache_retention_interval=None, cache_dtype="auto", kv_cache_layout=None),
        parallel_config=new(
            data_parallel_index=0, data_parallel_size=1, decode_context_parallel_size=1,
            prefill_context_parallel_size=1, world_size=1, tensor_parallel_size=1, rank=0,
            data_parallel_rank_local=None,
            pipeline_parallel_size=max(o.depth - o.asynchronous, 1)),
        observability_config=new(
            per_request_spec_decode_metrics="none", kv_cache_metrics=False,
            enable_mfu_metrics=False, enable_logging_iteration_details=False),
        model_config=new(
            uses_mrope=False, is_encoder_decoder=False, max_model_len=o.max_length,
            runner_type="generate", is_diffusion=False, use_mla=False, model="", dtype="",
            get_total_num_kv_heads=lambda: 1, return_sampling_mask=False,
            enable_return_routed_experts=False, supports_multimodal_inputs=False),
        lora_config=None, kv_events_config=None, is_mm_encoder_only=False,
        kv_transfer_config=transfers(o), ec_transfer_config=None,
        ec_manager_config=new(get_encoder_cache_manager_obj=lambda: None),
        speculative_config=drafter(o), num_speculative_tokens=o.drafts, num_lookahead_tokens=0,
        num_prefill_lookahead_tokens=0, num_hash_lookahead_tokens=0,
        use_v2_model_runner=o.second_runner, max_concurrent_batches=o.depth,
        max_in_flight_tokens=o.budget * o.depth, aux_output_config=new(enabled=False))


def layout(o):
    """@return a KVCacheConfig"""
    import torch
    from vllm.v1 import kv_cache_interface as kv
    shape = {"block_size": o.block_size, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
    specs = [kv.SlidingWindowSpec(sliding_window=window, **shape) if window
             else kv.FullAttentionSpec(**shape) for window in o.windows]
    groups = [kv.KVCacheGroupSpec(layer_names=[f"layer {i}"], kv_cache_spec=spec)
              for i, spec in enumerate(specs)]
    page = 8 * o.block_size
    tensor = kv.KVCacheTensor(size=page * o.blocks, layers=["layer 0"],
                              layer_stride=page * o.blocks, block_stride=page)
    return kv.KVCacheConfig(o.blocks, [tensor], groups)


def sampling(most, end):
    return SimpleNamespace(
        max_tokens=most, extra_args=None, structured_outputs=None, skip_reading_prefix_cache=None,
        eos_token_id=end, stop_token_ids=None, min_tokens=0, repetition_detection=None,
        num_logprobs=None, prompt_logprobs=None)
