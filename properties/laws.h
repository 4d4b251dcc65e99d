// SPDX-License-Identifier: Apache-2.0
// THE LIST of invariants: what must hold of any paged KV cache after every operation.
//
// Model:   a law is a pure check over one step; it reads observed states, never the insides of an
//          allocator.
// Source:  ids I1..I31 are those of the published behaviour of vLLM v1 at 0.22 and 0.24, for one
//          group of full attention, reworded; C1 is ours. Both profiles obey every row, with
//          caching on or off.
// Refuses: to repair, to abort, to print. A violation is a sentence; the audit throws it.
#pragma once

#include <string_view>

#include "properties/law_checks.h"

namespace kvproof::properties {

enum class Cost { constant, linear };  // in blocks, keys and table entries

/// safety: breaking it corrupts or loses memory. policy: it fixes which block, in which order.
enum class Promise { safety, policy };

struct Law {
  std::string_view id;
  std::string_view name;
  std::string_view sentence;
  Cost cost;
  Promise promise;
  std::string_view source;
  std::string_view suspended_by;  // operations after which it is not demanded; empty = none
  Finding (*check)(const Step&);
};

inline constexpr Law kLaws[] = {
    {"I1", "queue walks",
     "The free queue walked from either end lists the same ids, as many as the counter says.",
     Cost::linear, Promise::safety, "vLLM FreeKVCacheBlockQueue", "", law::queue_walks},
    {"I2", "queued iff unheld",
     "A block stands in the free queue exactly once if nobody holds it, else not at all; the null "
     "block never.",
     Cost::linear, Promise::safety, "vLLM BlockPool; vllm#42571, TensorRT-LLM#12667", "",
     law::queued_iff_unheld},
    {"I3", "links", "A block's links say that it is queued exactly when it is.", Cost::linear,
     Promise::safety, "vLLM FreeKVCacheBlockQueue.remove", "", law::links},
    {"I4", "null block",
     "The null block is never queued, never carries a key and is never in the index.", Cost::linear,
     Promise::safety, "vLLM BlockPool.null_block; sglang#38519", "", law::null_block},
    {"I5", "conservation", "Free blocks, held blocks and the null block add up to the pool.",
     Cost::linear, Promise::safety, "vLLM BlockPool", "", law::conservation},
    {"I6", "references",
     "A block's count is the number of table entries and raw references that name it, never less.",
     Cost::linear, Promise::safety, "vLLM KVCacheBlock.ref_cnt; MinivLLM#87", "", law::references},
    {"I7", "once per request", "No block stands twice in one request's table.", Cost::linear,
     Promise::safety, "vLLM two-phase computed blocks; Megatron-LM#5822", "",
     law::once_per_request},
    {"I8", "sharing is published",
     "A block in the tables of two requests carries a key: sharing comes from lookups only.",
     Cost::linear, Promise::safety, "vLLM full attention", "evict of that block",
     law::shared_is_published},
    {"I9", "index matches blocks",
     "A block carries a key exactly when the index lists it, once, under that key.", Cost::linear,
     Promise::safety, "vLLM BlockHashToBlockMap; vllm#4761, kvcached#362", "",
     law::index_matches_blocks},
    {"I10", "index is tidy",
     "No key of the index is empty, listed twice, or of a group that does not exist.", Cost::linear,
     Promise::safety, "vLLM BlockHashToBlockMap.pop", "", law::index_tidy},
    {"I12", "unhashed first",
     "In the queue of an unhashed-first profile no block without key stands behind one with a key.",
     Cost::linear, Promise::policy, "vLLM PR 42656",
     "evict of a queued block, until the next reset", law::unhashed_before_hashed},
    {"I13", "cache progress",
     "Progress stays within the table; below it each block carries its position's key, beyond it "
     "none.",
     Cost::linear, Promise::safety, "vLLM num_cached_block; kvcached#401", "evict of that block",
     law::cache_progress},
    {"I14", "no null in tables", "A full-attention table never holds the null block.", Cost::linear,
     Promise::safety, "vLLM FullAttentionManager", "", law::no_null_in_tables},
    {"I16", "append-only table",
     "A table changes only at its end, and its length is what the largest grant asked for.",
     Cost::linear, Promise::safety, "vLLM req_to_blocks; mini-sglang#142",
     "free and finish of that request", law::append_only_table},
    {"I17", "prefix closed",
     "Whoever finds the key of a chain in the index finds the key before it, too.", Cost::linear,
     Promise::policy, "vLLM tail-first release; Megatron-LM#5822",
     "evict and touch, until the next reset", law::keys_downward_closed},
    {"I18", "lookup contract",
     "A lookup answers the longest published prefix below the last token, oldest copies first; an "
     "admission holds exactly those blocks.",
     Cost::linear, Promise::safety, "vLLM get_computed_blocks; llm-d-inference-sim#705, vllm#18957",
     "", law::lookup_contract},
    {"I19", "admission prediction",
     "An allocation is granted exactly when its need fits, and a grant takes exactly its need from "
     "the free blocks.",
     Cost::linear, Promise::safety, "vLLM allocate_slots; vllm#11565, inference-sim#492",
     "external tokens beyond max_model_len", law::admission_prediction},
    {"I20", "failure changes nothing",
     "A refused or rejected operation leaves the state as it was, queue order included, and "
     "announces nothing.",
     Cost::linear, Promise::safety, "vLLM allocate_slots; vllm#11565, inference-sim#354", "",
     law::failure_changes_nothing},
    {"I21", "whole-sequence gate",
     "Asked that the whole sequence must fit, no sequence that cannot fit is admitted.",
     Cost::linear, Promise::safety, "vLLM full_sequence_must_fit; vllm#45388", "",
     law::whole_sequence_gate},
    {"I22", "reads are pure",
     "Lookup and common prefix change nothing; nor do recycle and step, as no full-attention block "
     "leaves its window.",
     Cost::linear, Promise::safety, "vLLM get_computed_blocks", "", law::reads_are_pure},
    {"I23", "drained is free",
     "When no request has blocks and the raw owner holds none, every usable block is free and no "
     "progress is left.",
     Cost::linear, Promise::safety, "vLLM free; leaks on abort", "", law::drained_is_free},
    {"I24", "reset clears",
     "Reset succeeds exactly when nothing is held; then no key is left, the queue keeps its order, "
     "and one event says so.",
     Cost::linear, Promise::safety, "vLLM reset_prefix_cache; vllm#40244", "", law::reset_clears},
    {"I25", "events mirror the index",
     "Whoever hears only the events knows which block holds which key.", Cost::linear,
     Promise::safety, "vLLM KV events; vllm#55092, TensorRT-LLM#16335", "",
     law::events_mirror_index},
    {"I26", "free order",
     "Blocks are taken from the head in order; released ones enter deepest first at the end that "
     "the profile names; the rest keeps its order.",
     Cost::linear, Promise::policy, "vLLM get_new_blocks and free_blocks; Megatron-LM#5822", "",
     law::free_order},
    {"I29", "hash chain",
     "A request has one hash per complete unit; they never change, and are equal exactly where "
     "tokens and extra keys are.",
     Cost::linear, Promise::safety, "vLLM block_hashes; vllm#12621, vllm#44701", "",
     law::hash_chain},
    {"I31", "usage ratio", "Usage is 1 - free / usable, between 0 and 1.", Cost::constant,
     Promise::safety, "vLLM BlockPool.get_usage", "", law::usage_ratio},
    {"C1", "common prefix is identity",
     "The common prefix counts the leading entries that all tables with blocks name alike.",
     Cost::linear, Promise::safety, "vllm#55227, vllm#23485", "", law::common_prefix_identity},
};

/// @return the row of that id, or nullptr.
[[nodiscard]] constexpr const Law* find_law(std::string_view id) {
  for (const Law& row : kLaws) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

}  // namespace kvproof::properties
