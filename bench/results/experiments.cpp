// SPDX-License-Identifier: Apache-2.0
// The list of experiments.
#include "bench/results/schema.h"

namespace kvproof::bench {
namespace {

constexpr int kMany = 100'000;

// clang-format off
constexpr Experiment kExperiments[] = {
    // what check, selftest, explain and gate say of an allocator
    {"check", "subject, verdict, reason",
     "seconds:amount:s, operations:count, ?laws_evaluated:count, ?exempted:count"},
    {"check_law", "subject, law, name, verdict, reason",
     "evaluated:count, suspended:count, ?exempted:count, ?partly:share:count", 1000, 100},
    {"check_finding", "subject, law:note, verdict, reason", ""},
    {"check_run", "subject, configuration, verdict, reason", "runs:count"},
    {"check_oracle", "subject, oracle, verdict, reason", ""},
    {"check_note", "note", ""},
    {"check_deep", "what, verdict", "seeds:count, operations:count"},
    {"exhaustive", "space, verdict",
     "states:positive:count, edges:count, depth:count, closed:share:count, "
     "collision_probability:amount:ratio, ?seconds:amount:s, ?bytes_per_state:amount:bytes",
     32, 32},
    {"exhaustive_finding", "space, law:note, verdict, reason", ""},
    {"exhaustive_total", "", ""},
    {"mutant",
     "id, family, family_name, where, configuration, expected_law, laws, "
     "fate:word:expected|other_law|model|content|crash|hang|survived",
     "operations_to_kill:count, trace_operations:count, model_operations:count, "
     "content_operations:count, ?seconds_to_kill:amount:s", 500, 500},
    {"mutants", "", "not_applicable:count, seconds:amount:s", 1},
    {"mutant_family", "family, name", "total:count, killed:count"},
    {"operator_mutant", "", ""},
    {"mutation_score", "", ""},
    {"rules_score", "", ""},
    {"liar",
     "operation, lie, level:word:safety|hits|policy|profile|counts_only, excuse, seldom_by, "
     "often_by, always_by",
     "noticed:share:count, seldom_operations:count, often_operations:count, "
     "always_operations:count", 6000, 500},
    {"liar_level", "level", "cells:count, noticed:count"},
    {"liar_note", "note", ""},
    {"liars", "", "seconds:amount:s", 1},
    {"explain", "source", "lookups:count"},
    {"explain_met", "met", "lookups:count, tokens:count:tokens"},
    {"explain_note", "note", ""},
    {"explain_lookup", "request:note, cause", "hit_tokens:count:tokens"},
    {"gate", "workload, verdict, reason", ""},
    {"gate_note", "note", ""},
    {"gate_total", "verdict, reason", ""},
    {"gate_measure", "workload, measure, verdict",
     "base:amount:count, head:amount:count, change_percent:number:percent, "
     "threshold_percent:amount:percent", 200, 32},
    {"gate_time", "workload, verdict",
     "change_percent:number:percent, threshold_percent:amount:percent", 32, 32},
    {"gate_record", "workload, subject, stream", ""},
    // other engines, whole runs of them, recorded events, and many tasks
    {"engine_law", "engine, revision, law, name, verdict, reason",
     "?evaluated:count, ?exempted:count", 6000, 500},
    {"engines", "engine, revision, verdict", "seeded:count, detected:count", 100, 100},
    {"engine_history", "engine, revision, defect, what, link:note, "
     "verdict:word:known|broken|holds|not_evaluated, reason",
     "met:count, operations:count", 2000, 200},
    {"engine_fault", "engine, revision, fault, reason", "detected:share:count"},
    {"engine_known", "engine, revision, defect, verdict, reason", ""},
    {"engine_list", "", ""},
    {"known", "", ""},
    {"live_run", "",
     "steps:count, ?findings_known:count, ?seeded:count, ?detected:count, ?requests:count, "
     "?runs:count, ?findings_new:count, ?laws_evaluated:count, ?steps_per_second:amount:1/s"},
    {"live_law", "law, name",
     "evaluated:count, ?findings:count, ?faults:count, ?known:count, ?new:count", 10000, 500},
    {"live_finding", "verdict, reason", ""},
    {"live_unjudged", "verdict, reason", ""},
    {"live_fault", "engine, fault, law:note, reason", "detected:share:count"},
    {"live_engine", "engine, verdict, reason", ""},
    {"live_history", "engine, version, model, mode, law, what, "
     "verdict:word:broken|known|holds|not_evaluated|skipped, reason",
     "evaluated:count, findings:count", 2000, 200},
    {"events", "verdict, reason", "events:count"},
    {"events_law", "law, name, verdict, reason", "evaluated:count"},
    {"events_finding", "law, verdict, reason", ""},
    {"campaign", "plan, kind", "tasks:size, complete:count, findings:count", kMany, 32},
    {"campaign_finding", "law, reason", "tasks:size", kMany, 32},
    {"campaign_task", "task, kind, options, verdict, reason", ""},
    {"campaign_cost", "kind", ""},
    {"campaign_machine", "host", ""},
    {"fuzz", "target", ""},
    {"report_part", "part",
     "seconds:amount:s, cpu_seconds:amount:s, peak_rss_bytes:count:bytes, ?exit_code:count",
     100, 100},
    // counted by study, plan and replay
    {"waste_against_block_size", "block_size:size, workload",
     "mean_waste_tokens:amount:tokens, waste_share:share, "
     "table_entries_per_request:positive:blocks", kMany, 32},
    {"memory_of_one_request",
     "storage:storage, tokens:count, block_size:size, bytes_per_token:size, max_length:size",
     "allocated_bytes:amount:bytes, used_bytes:amount:bytes", kMany, 32},
    {"memory_of_models", "model, cache, tokens:size, block_size:size, context_tokens:size",
     "allocated_bytes:positive:bytes, live_bytes:positive:bytes", 4000, 32},
    {"utilisation", "storage:storage, requests:size",
     "allocated_bytes:positive:bytes, used_bytes:amount:bytes, utilisation:share, "
     "?arena_bytes:amount:bytes, ?saving_factor:positive:ratio", 32, 32},
    {"live_memory", "source, storage:storage, seconds:amount, max_length:size",
     "live_tokens:amount:tokens, reserved_tokens:amount:tokens, "
     "?external_fragmentation:share, ?moved_tokens:amount:tokens", kMany, 32},
    {"live_memory_run", "source, storage:storage", ""},
    {"prefix_hit_rate",
     "source, block_size:size, capacity_blocks:size, capacity_share:positive:infinite",
     "hit_rate_tokens:share, ?hit_rate_blocks:share, ?evictions:amount:count", kMany, 32},
    {"eviction", "source, policy, capacity_blocks:size, block_size:size",
     "hit_rate_blocks:share, ?hit_rate_tokens:share, ?evictions:amount:count", 1000, 32},
    {"retention",
     "source, model, hits:word:whole blocks|inside blocks, retention:digits:dense|optimum, "
     "capacity_blocks:size, block_size:size, groups:size, capacity_share:positive:infinite",
     "hit_rate_tokens:share, ?evictions:amount:count, ?kept_blocks:amount:count, "
     "?requests_refused:amount:count", 1000, 32},
    {"serving_run", "source, storage:storage, model, block_size:size, clients:size",
     "requests:count, refused:count, preemptions:count, capacity_blocks:size:blocks, "
     "simulated_seconds:amount:s, running_mean:amount:count, "
     "output_tokens_per_second:amount:tokens/s, first_token_seconds_p50:amount:s, "
     "first_token_seconds_p99:amount:s, hit_rate_tokens:share", 200, 32},
    {"serving_over_time", "source, storage:storage, seconds:amount",
     "tokens_in_memory:amount:tokens, partial_tail:amount:tokens, reserved:amount:tokens, "
     "stranded:amount:tokens, free:amount:tokens", kMany, 32},
    {"published", "claim, source, series, at", "here:amount:*, ?published:amount:*", 200, 32, true},
    {"plan", "model", "num_blocks:amount:blocks"},
    {"serving", "source, model", "requests:count"},
    {"trace_replay", "source", "requests:count, hit_rate_tokens:share"},
    // timed by bench
    {"life_cycle", "case, hash, num_blocks:size",
     "ns_per_block:positive:ns, ?instructions_per_block:positive:instructions, "
     "?bytes_per_block:positive:bytes, ?hash_alone_ns_per_block:positive:ns, "
     "?ratio_to_hash_alone:positive:ratio, ?ns_per_admission:positive:ns, "
     "?ns_per_decode_token:positive:ns, ?ns_per_finish:positive:ns", 32, 32},
    {"decode_step", "calls:word:one|three, live_requests:size",
     "ns_per_token:positive:ns, hash_alone_ns_per_token:positive:ns, "
     "?instructions_per_token:positive:instructions, "
     "?hash_alone_instructions_per_token:positive:instructions, "
     "?textbook_ns_per_token:positive:ns, ?textbook_times_as_long:positive:ratio, "
     "?vllm_ns_per_token:positive:ns, ?vllm_times_as_long:positive:ratio", 32, 32},
    {"pool_operation", "operation, num_blocks:size, batch:size, order",
     "ns_per_block:positive:ns, ?call_p50:positive:ns, ?call_p99:positive:ns, "
     "?call_worst:positive:ns, ?calls:count, ?floor_ns_per_block:positive:ns", 1000, 32},
    {"concurrent_pool", "operation, num_blocks:size, threads:size", "ns_per_block:positive:ns"},
    {"unit_hash", "operation, batch:size", "ns_per_block:positive:ns"},
    {"textbook", "operation, hash", ""},
    {"serving_cost", "blocks:size, pool_blocks:size",
     "ns_per_block:positive:ns, seconds:amount:s", 100, 32},
    {"audit", "configuration, oracles", "ns_per_operation:positive:ns"},
    {"live", "requests:size", "ns_per_scheduled_token:positive:ns"},
    {"memory", "operation, kernel", "gb_per_second:positive:GB/s"},
    {"paged_decode",
     "type, layout:word:nhd|hnd, block_size:size, order, context:size, batch:size, "
     "ratio:size, threads:size, implementation",
     "gb_per_second:positive:GB/s, fraction_of_read_ceiling:positive:ratio, "
     "fraction_of_gather_ceiling:positive:ratio, paged_over_contiguous:positive:ratio, "
     "contiguous_fraction_of_read_ceiling:positive:ratio", 500, 500},
    {"movement", "operation, type, cache_type, layout:word:nhd|hnd, threads:size, implementation",
     "ns_per_call:positive:ns, ?fraction_of_copy_ceiling:positive:ratio, "
     "?ns_per_token:positive:ns", 500, 500},
    // beside other people's libraries, and on a device
    {"peers_kernels",
     "peer, case, operation:word:decode|prefill|mla|write, cache_type, threads:size, "
     "batch:size, context:size, heads:size, kv_heads:size, new:size, block_size:size",
     "?ours_over_peer:positive:ratio, ?time:positive:us, ?peer_time:positive:us", 500, 500},
    {"peers_allocators", "peer, case, operation, hash",
     "?ours_over_peer:positive:ratio, ?time:positive:ns, ?peer_time:positive:ns, "
     "?peer_inner_time:positive:ns, ?ours_over_peer_inner:positive:ratio", 500, 500},
    {"device_peers", "peer, case, operation", "time:positive:us"},
    {"device_ceiling", "kind", "time:positive:us"},
    {"device_paged_decode", "implementation", "time:positive:us"},
    {"device_paged_prefill", "implementation", "time:positive:us"},
    {"device_mla_decode", "implementation", "time:positive:us"},
    {"device_reshape_and_cache", "implementation", "time:positive:us"},
};
// clang-format on

}  // namespace

std::span<const Experiment> experiments() { return kExperiments; }

}  // namespace kvproof::bench
