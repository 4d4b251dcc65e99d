// SPDX-License-Identifier: Apache-2.0
// The list of laws: the sentences that hold for any paged KV cache after every operation.
//
// Model:   a law is a pure check over one step; it reads observed states, never the insides of an
//          allocator.
// Source:  ids I1..I31 are those of the invariants in reference/vllm/v1.md, section 12, reworded;
//          kNotLaws has those that are no laws; the C rows are ours. All profiles obey every row,
//          with caching on or off, in any number of groups of any kind; a row that is about one
//          kind names it.
// Answers: a law repairs nothing, aborts nothing and prints nothing. A violation is a sentence; the
//          audit throws it.
#pragma once

#include <initializer_list>
#include <string_view>

#include "properties/laws/law_checks.h"
#include "properties/laws/law_reach.h"

namespace kvproof::properties {

enum class Cost { constant, linear };  // in blocks, keys and table entries

/// safety: a violation corrupts or loses memory. hits: a lookup finds what is there. policy: the
/// law fixes which blocks are used and in which order, and forbids to refuse or forget anything
/// without need. Whoever promises one of them promises those before it, too.
enum class Promise { safety, hits, policy };

struct Breakage;  // laws/law_scenes.h
using Scenes = std::initializer_list<Breakage>;

struct Law {
  std::string_view id;
  std::string_view name;
  std::string_view sentence;
  Cost cost;
  Promise promise;
  std::string_view source;
  std::string_view suspended_by;  // operations after which it is not demanded; empty = none
  Finding (*check)(const Step&);
  const Scenes& (*scenes)();  // that break it on purpose, and that it must report
  Reach reach;
};

/// The two columns that one of laws/laws_*.cpp defines: `Finding NAME(const Step&)` and
/// `extern const Scenes NAME_scenes`, both in namespace law. The row declares them.
#define KVPROOF_LAW(name)                  \
  [](const Step& step) {                   \
    Finding name(const Step&);             \
    return name(step);                     \
  },                                       \
      []() -> const Scenes& {              \
        extern const Scenes name##_scenes; \
        return name##_scenes;              \
      }

namespace law {
// What a law says, then what it is made of.
// clang-format off
inline constexpr Law kLaws[] = {
    {"I1", "queue walks",
     "The free queue walked from either end lists the same ids, as many as the counter says.",
     Cost::linear, Promise::safety, "vLLM FreeKVCacheBlockQueue", "",
     KVPROOF_LAW(queue_walks), {.always = kQueue, .occasions = on::pool}},
    {"I2", "queued iff unheld",
     "A block stands in the free queue exactly once if nobody holds it, else not at all; the null "
     "block never.",
     Cost::linear, Promise::safety, "vLLM BlockPool; vllm#42571, TensorRT-LLM#12667", "",
     KVPROOF_LAW(queued_iff_unheld), {.always = kQueue | kReferences, .occasions = on::pool}},
    {"I3", "links", "A block's links say that it is queued exactly when it is.", Cost::linear,
     Promise::safety, "vLLM FreeKVCacheBlockQueue.remove", "",
     KVPROOF_LAW(links), {.always = kQueue | kLinks, .occasions = on::pool}},
    {"I4", "null block",
     "The null block is never queued, never carries a key and is never in the index.", Cost::linear,
     Promise::safety, "vLLM BlockPool.null_block; sglang#38519", "",
     KVPROOF_LAW(null_block), {.always = kQueue, .occasions = on::pool}},
    {"I5", "conservation", "Free blocks, held blocks and the null block add up to the pool.",
     Cost::linear, Promise::safety, "vLLM BlockPool", "",
     KVPROOF_LAW(conservation), {.always = kReferences, .occasions = on::pool}},
    {"I6", "references",
     "A block's count is the number of entries in tables of all groups, raw references, leases and "
     "copies of the step that name it.",
     Cost::linear, Promise::safety, "vLLM KVCacheBlock.ref_cnt; MinivLLM#87", "",
     KVPROOF_LAW(references), {.always = kIds | kReferences, .occasions = on::pool | on::holders}},
    {"I7", "once per request",
     "No block but the null block stands twice in one request's tables, over all groups.",
     Cost::linear, Promise::safety, "vLLM two-phase computed blocks; Megatron-LM#5822", "",
     KVPROOF_LAW(once_per_request), {.always = kIds, .occasions = on::holders}},
    {"I8", "sharing is published",
     "A block in the tables of two requests carries a key, or came from a fork: sharing has no "
     "other source.",
     Cost::linear, Promise::safety, "vLLM full attention", "evict of that block",
     KVPROOF_LAW(shared_is_published), {.always = kIds, .when_caching = kCached,
      .occasions = on::pool | on::holders | on::held}},
    {"I9", "index matches blocks",
     "A block carries a key exactly when the index lists it, once, under that key. The same "
     "holds for second keys.",
     Cost::linear, Promise::safety, "vLLM BlockHashToBlockMap; vllm#4761, kvcached#362", "",
     KVPROOF_LAW(index_matches_blocks),
     {.always = 0, .when_caching = kCached | kKeys | kIndex, .about = About::caching,
      .occasions = on::pool}},
    {"I10", "index is tidy",
     "No key of the index is empty, listed twice, or of a group that does not exist.", Cost::linear,
     Promise::safety, "vLLM BlockHashToBlockMap.pop", "",
     KVPROOF_LAW(index_tidy), {.always = 0, .when_caching = kIndex, .about = About::caching,
      .occasions = on::pool}},
    {"I11", "one group per block",
     "A block stands in tables of one group only, and under keys of that group only.", Cost::linear,
     Promise::safety, "vLLM make_block_hash_with_group_id", "",
     KVPROOF_LAW(one_group_per_block), {.always = kIds, .about = About::several_groups,
      .occasions = on::pool | on::holders}},
    {"I12", "unhashed first",
     "In the queue of an unhashed-first profile no block without key stands behind one with a key.",
     Cost::linear, Promise::policy, "vLLM PR 42656",
     "evict of a queued block, until the next reset",
     KVPROOF_LAW(unhashed_before_hashed),
     {.always = kQueue, .when_caching = kCached, .about = About::unhashed_first,
      .speaks = when::queues, .occasions = on::pool | on::done}},
    {"I13", "cache progress",
     "Progress stays within the table; below it each block is null, masked out, a checkpoint, or "
     "carries its position's key, beyond it only relatives by a fork and ends of a prompt have "
     "keys.",
     Cost::linear, Promise::safety, "vLLM num_cached_block; kvcached#401",
     "evict of that block; for missing keys, a swap of that request",
     KVPROOF_LAW(cache_progress),
     {.always = kIds, .when_caching = kContent | kProgress, .about = About::caching,
      .occasions = on::pool | on::holders | on::hashes | on::progress | on::held}},
    {"I14", "nulls where unread",
     "A full or cross table holds no null block; in a window's, a chunk's and a dense Mamba table "
     "nulls are a prefix.",
     Cost::linear, Promise::safety, "vLLM remove_skipped_blocks", "",
     KVPROOF_LAW(nulls_where_unread), {.always = kIds, .occasions = on::holders}},
    {"I15", "few states",
     "A request in Mamba mode align holds at most two states besides a checkpoint and those of "
     "drafts, and what its profile holds back for drafts.",
     Cost::linear, Promise::safety, "vLLM MambaManager",
     "truncate, a grant before the tokens of the grant before are computed, one of more than a "
     "token and its drafts after a grant ended inside a block; until free",
     KVPROOF_LAW(few_states), {.always = kIds, .about = About::moving_states,
      .occasions = on::holders | on::tokens | on::held}},
    {"I16", "append-only table",
     "A table is as long as the largest grant asked for its kind; an entry changes only to null "
     "when its group has skipped it, to a copy before it is written, or when a draft's state "
     "moves.",
     Cost::linear, Promise::safety, "vLLM req_to_blocks; mini-sglang#142",
     "free, finish, truncate and swap of that request",
     KVPROOF_LAW(append_only_table), {.always = kIds, .speaks = when::tables_kept,
      .occasions = on::holders | on::held}},
    {"I17", "prefix closed",
     "Whoever finds a full-attention key of a chain in the index finds the key of the block before "
     "it, too.",
     Cost::linear, Promise::policy, "vLLM tail-first release; Megatron-LM#5822",
     "evict, touch, pin, a release beside a copy of the same step, and a key that a relative's "
     "write gave up, until the next reset",
     KVPROOF_LAW(keys_downward_closed),
     {.always = 0, .when_caching = kIndex | kHashes, .about = About::caching,
      .speaks = when::chains, .occasions = on::events}},
    {"I18", "lookup contract",
     "A lookup answers an aligned prefix below the last token, in every group the oldest copies of "
     "all that it still reads; an admission holds exactly those.",
     Cost::linear, Promise::safety, "vLLM get_computed_blocks; llm-d-inference-sim#705, vllm#18957",
     "",
     KVPROOF_LAW(lookup_contract),
     {.always = kIds, .when_caching = kContent, .speaks = when::hits, .operations = {"lookup"},
      .occasions = on::lookup | on::granted}},
    {"I19", "admission prediction",
     "An allocation is granted exactly when its need over all groups fits, counting copies and "
     "queued hits, and a grant takes exactly its need from the free blocks.",
     Cost::linear, Promise::policy, "vLLM allocate_slots; vllm#11565, inference-sim#492", "",
     KVPROOF_LAW(admission_prediction),
     {.always = kIds | kReferences, .when_caching = kProgress, .speaks = when::allocations,
      .counts_suffice = true, .occasions = on::allocate | on::take}},
    {"I20", "failure changes nothing",
     "A refused or rejected operation leaves the state as it was, queue order included, and "
     "announces nothing; a refused allocation may have given back what its request has skipped.",
     Cost::linear, Promise::safety, "vLLM allocate_slots; vllm#11565, inference-sim#354", "",
     KVPROOF_LAW(failure_changes_nothing),
     {.always = 0, .speaks = when::failures, .occasions = on::refused | on::rejected}},
    {"I21", "whole-sequence gate",
     "With full_sequence_must_fit, a request is admitted only if all its tokens fit.",
     Cost::linear, Promise::safety, "vLLM full_sequence_must_fit; vllm#45388", "",
     KVPROOF_LAW(whole_sequence_gate),
     {.always = kIds | kReferences, .when_caching = kProgress, .speaks = when::gates,
      .needs = &Calls::full_sequence_must_fit,
      .counts_suffice = true, .occasions = on::allocate}},
    {"I22", "reads are pure",
     "Lookup, common prefix and step change nothing, but that a step gives back what copies held; "
     "nor does recycle where every group reads all.",
     Cost::linear, Promise::safety, "vLLM get_computed_blocks", "",
     KVPROOF_LAW(reads_are_pure),
     {.always = 0, .speaks = when::reads,
      .operations = {"lookup", "common_prefix", "step", "recycle"}, .occasions = on::read}},
    {"I23", "drained is free",
     "No more blocks of a tier are held than tables, leases, copies and the raw owner have entries "
     "for; when there are none, no progress is left.",
     Cost::linear, Promise::safety, "vLLM free; leaks on abort", "",
     KVPROOF_LAW(drained_is_free), {.always = 0,
      .occasions = on::pool | on::host | on::holders | on::progress | on::held}},
    {"I24", "reset clears",
     "Reset succeeds exactly when nothing is held in either tier; then no key is left, the queues "
     "keep their order, and one event says so.",
     Cost::linear, Promise::safety, "vLLM reset_prefix_cache; vllm#40244", "",
     KVPROOF_LAW(reset_clears),
     {.always = kEvents, .when_caching = kCached, .speaks = when::resets, .operations = {"reset"},
      .occasions = on::reset}},
    {"I25", "events mirror the index",
     "Whoever hears only the events knows which block holds which keys of which group.",
     Cost::linear, Promise::safety, "vLLM KV events; vllm#55092, TensorRT-LLM#16335", "",
     KVPROOF_LAW(events_mirror_index),
     {.always = 0, .when_caching = kEvents | kContent, .about = About::caching,
      .occasions = on::pool | on::events}},
    {"I26", "free order",
     "Blocks are taken from the head in order; released ones enter groups ascending, deepest "
     "first, at "
     "the end that the profile names; the rest keeps its order.",
     Cost::linear, Promise::policy, "vLLM get_new_blocks and free_blocks; Megatron-LM#5822", "",
     KVPROOF_LAW(free_order),
     {.always = kIds | kQueue | kReferences, .when_caching = kCached, .speaks = when::successes,
      .occasions = on::pool | on::held}},
    {"I29", "hash chain",
     "A request has one hash per unit that is complete with its lookahead; they never change, and "
     "are equal exactly where tokens, lookahead and extra keys are.",
     Cost::linear, Promise::safety, "vLLM block_hashes; vllm#12621, vllm#44701", "",
     KVPROOF_LAW(hash_chain), {.always = 0, .when_caching = kHashes, .about = About::caching,
      .occasions = on::tokens | on::hashes | on::done}},
    {"I31", "usage ratio", "Usage is 1 - free / usable, between 0 and 1.", Cost::constant,
     Promise::safety, "vLLM BlockPool.get_usage", "",
     KVPROOF_LAW(usage_ratio), {.always = kUsage, .occasions = on::pool}},
    {"C1", "common prefix is identity",
     "The common prefix counts the leading entries that all tables with blocks name alike, in each "
     "full-attention group; nothing where the profile does not count.",
     Cost::linear, Promise::safety, "vllm#55227, vllm#23485", "",
     KVPROOF_LAW(common_prefix_identity),
     {.always = kIds, .speaks = when::common_prefixes, .operations = {"common_prefix"},
      .occasions = on::common_prefix}},
    {"C2", "fork shares",
     "A child begins with its parent's tokens and tables, one more reference on each block or, if "
     "that is not published, a copy that the answer lists, and nothing else changes.",
     Cost::linear, Promise::safety, "Kwon et al., SOSP'23, sec. 4.4", "",
     KVPROOF_LAW(fork_shares),
     {.always = kIds | kReferences, .speaks = when::forks, .operations = {"fork"},
      .occasions = on::fork}},
    {"C3", "copy before write",
     "A grant leaves no block in its write range, beyond what the request has published, with "
     "another holder or under a key of other content, and copies no other.",
     Cost::linear, Promise::safety, "Kwon et al., SOSP'23, sec. 4.4", "",
     KVPROOF_LAW(copy_before_write),
     {.always = kIds | kReferences, .when_caching = kContent | kProgress, .speaks = when::grants,
      .operations = {"fork"}, .occasions = on::granted}},
    {"C4", "leases hold",
     "A leased block is handed out to nobody and keeps its keys, but those of a state that is "
     "copied before it is overwritten; a lease lists what was pinned until it is unpinned.",
     Cost::linear, Promise::safety, "vLLM KV connectors; LMCache#1034", "evict and reset",
     KVPROOF_LAW(lease_holds),
     {.always = 0, .when_caching = kCached, .speaks = when::leases, .operations = {"pin"},
      .occasions = on::lease}},
    {"C5", "transfers keep both sides",
     "Until a swap is complete both tiers keep their blocks, position by position; afterwards one "
     "does. What was not copied carries one key on both sides.",
     Cost::linear, Promise::safety, "Kwon et al., SOSP'23, sec. 4.5", "",
     KVPROOF_LAW(transfer_keeps_both),
     {.always = kIds, .when_caching = kContent, .about = About::host_tier,
      .speaks = when::transfers, .operations = {"swap_out"}, .occasions = on::holders | on::swap}},
    {"C6", "host pool",
     "The host tier obeys I1 to I6, I9 and I31; its holders are the host tables.", Cost::linear,
     Promise::safety, "Kwon et al., SOSP'23, sec. 4.5", "",
     KVPROOF_LAW(host_pool),
     {.always = kHost, .about = About::host_tier, .operations = {"swap_out"},
      .occasions = on::host | on::holders}},
    {"C7", "keys leave with cause",
     "A block loses its key when it is handed out, evicted by name, reset or written anew, and not "
     "otherwise.",
     Cost::linear, Promise::policy, "vLLM BlockPool; sglang#4987, vllm#4761",
     "for a checkpoint, a lookup of its running request; until free",
     KVPROOF_LAW(keys_leave_with_cause),
     {.always = 0, .when_caching = kIds | kContent, .about = About::caching,
      .occasions = on::pool}},
    {"C8", "published as told",
     "A grant that does not delay it, and a cache call, publish all blocks that their tokens "
     "complete, none further, and none that no hit can use; nothing else does.",
     Cost::linear, Promise::policy, "vLLM cache_blocks; vllm#37152, kvcached#401", "",
     KVPROOF_LAW(published_as_told),
     {.always = kIds, .when_caching = kContent | kProgress, .about = About::caching,
      .speaks = when::publications,
      .occasions = on::holders | on::progress | on::held | on::cache}},
    {"C9", "counted at admission",
     "A manager that counts hits counts each admission once, when it is granted, with the tokens "
     "that it used; a resumed request is not counted.",
     Cost::constant, Promise::policy, "vllm#43736, vllm#25780", "",
     KVPROOF_LAW(counted_at_admission),
     {.always = kCounters, .about = About::caching, .speaks = when::grants,
      .occasions = on::counters | on::granted}},
    {"C10", "longest hit",
     "A lookup finds the longest aligned prefix that every group has; with EAGLE in several groups "
     "no shorter one than that with its extra blocks.",
     Cost::linear, Promise::hits, "vLLM HybridKVCacheCoordinator; vllm#33270", "",
     KVPROOF_LAW(longest_hit),
     {.always = 0, .when_caching = kIds | kContent, .about = About::caching,
      .speaks = when::hits, .operations = {"lookup"}, .occasions = on::lookup}},
    {"C11", "preemption starts over",
     "A preempted request holds nothing, has published nothing and has no computed tokens.",
     Cost::constant, Promise::safety, "vLLM Scheduler preemption", "",
     KVPROOF_LAW(preemption_starts_over),
     {.always = kIds, .when_caching = kProgress, .speaks = when::preemptions,
      .operations = {"free"}, .occasions = on::free}},
    {"C12", "rejection has its cause",
     "A rejected call has broken the precondition that the rejection names, or is beyond a "
     "declared capacity; what is declined is declined again.",
     Cost::constant, Promise::safety, "reference/contract.h", "",
     KVPROOF_LAW(rejection_has_cause), {.always = 0, .occasions = on::rejected}},
    {"C13", "refusal has its cause",
     "No allocation is refused while the whole request fits, with a quarter of the pool to spare "
     "beyond what is reserved; no take and no swap while all its blocks do.",
     Cost::constant, Promise::safety, "vLLM allocate_slots; a watermark is smaller", "",
     KVPROOF_LAW(refusal_has_cause), {.always = 0, .speaks = when::refusals,
      .occasions = on::refused}},
    {"C14", "done as asked",
     "Tokens, computed tokens, the lengths of tables, raw references, common prefixes and the "
     "answer of a reset are as the caller can count them; what is evicted or recycled is gone.",
     Cost::linear, Promise::safety, "vLLM Request; BlockPool", "",
     KVPROOF_LAW(done_as_asked), {.always = 0, .speaks = when::successes,
      .occasions = on::common_prefix | on::of_requests | on::counters | on::done}},
    {"C15", "decode is three calls",
     "A decode step of a batch answers, announces and leaves behind what append, allocate and "
     "advance do for one request after the other; a refused one keeps its token, later ones still "
     "run, and no later call shows which way it was.",
     Cost::linear, Promise::safety, "optimized/cache_manager.h", "",
     KVPROOF_LAW(decode_is_three_calls),
     {.always = 0, .speaks = when::batches, .operations = {"decode"}, .occasions = on::decode}},
};
// clang-format on
}  // namespace law
using law::kLaws;

/// The invariants of reference/vllm/v1.md that are no laws: no operation asks for what they are of.
struct NotALaw {
  std::string_view id;
  std::string_view reason;
};
inline constexpr NotALaw kNotLaws[] = {
    {"I27", "slots are filled from tables by kernels/slot_mapping, whose tests hold them to it"},
    {"I28", "a worker's rows are not the allocator's; optimized/slot_mapping.h fills them anew"},
    {"I30", "a sum over what a scheduler has promised; I19 and I21 hold each single admission"},
    {"I32", "a deferred release is a lease here, and C4 holds leases"},
};

/// @return the row of that id, or nullptr.
[[nodiscard]] constexpr const Law* find_law(std::string_view id) {
  for (const Law& row : kLaws) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

}  // namespace kvproof::properties
