// SPDX-License-Identifier: Apache-2.0
// The list of laws: the sentences that hold for any paged KV cache. They judge a state after every
// operation, the run of a whole engine event by event, and a stream of KV cache events.
//
// Model:   a law reads what can be observed, never the insides of an allocator. Where it applies to
//          a step it is evaluated. What breaks it is exempted if a trait of the subject declares
//          that, else it is reported. laws/law_counts.h counts these.
// Source:  ids I1..I31 are those of the invariants in reference/vllm/v1.md, section 12, reworded;
//          kNotLaws has those that are no laws; the other rows are ours. All profiles obey every
//          row, with caching on or off, in any number of groups of any kind; a row that is about
//          one kind names it.
// Scenes:  each law must report what is written to break it. Such scenes of a state stand beside
//          the law's check in laws/laws_*.cpp, those of a run in laws/runs.patches, those of a
//          stream in engines/live/events/scenes.py.
// Answers: a law repairs nothing, aborts nothing and prints nothing.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>

#include "properties/laws/law_checks.h"
#include "properties/laws/law_reach.h"

namespace kvproof::properties {

enum class Cost { constant, linear };  // in blocks, keys, table entries, and what an event names

/// safety: a violation corrupts or loses memory. hits: a lookup finds what is there. policy: the
/// law fixes which blocks are used and in which order, and forbids to refuse or forget anything
/// without need. Whoever promises one of them promises those before it, too. liveness: what a run
/// waits for happens at last.
enum class Promise { safety, hits, policy, liveness };

/// What a law judges, and so who asks it: audit/audit.h, shadow/judge.h,
/// engines/live/events/judge.py.
enum class Judges { state, run, events };

struct Breakage;  // laws/law_scenes.h
using Scenes = std::initializer_list<Breakage>;

struct Law {
  std::string_view id;
  std::string_view name;
  std::string_view sentence;
  Cost cost;
  Promise promise;
  std::string_view source;
  Judges judges;
  // Of a state:
  Finding (*check)(const Step&) = nullptr;
  const Scenes& (*scenes)() = nullptr;  // that break it on purpose, and that it must report
  Reach reach = {};
};

/// A law of a state, whose check and scenes one of laws/laws_*.cpp defines in namespace law:
/// `Finding NAME(const Step&)` and `extern const Scenes NAME_scenes`. The row declares them.
#define KVPROOF_LAW(name)                  \
  Judges::state,                           \
      [](const Step& step) {               \
        Finding name(const Step&);         \
        return name(step);                 \
      },                                   \
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
     Cost::linear, Promise::safety, "vLLM FreeKVCacheBlockQueue", KVPROOF_LAW(queue_walks),
     {.always = kQueue, .occasions = on::pool}},
    {"I2", "queued iff unheld",
     "A block stands in the free queue exactly once if nobody holds it, else not at all; the null "
     "block never.", Cost::linear, Promise::safety,
     "vLLM BlockPool; vllm#42571, TensorRT-LLM#12667", KVPROOF_LAW(queued_iff_unheld),
     {.always = kQueue | kReferences, .occasions = on::pool}},
    {"I3", "links", "A block's links say that it is queued exactly when it is.", Cost::linear,
     Promise::safety, "vLLM FreeKVCacheBlockQueue.remove", KVPROOF_LAW(links),
     {.always = kQueue | kLinks, .occasions = on::pool}},
    {"I4", "null block",
     "The null block is never queued, never carries a key and is never in the index.", Cost::linear,
     Promise::safety, "vLLM BlockPool.null_block; sglang#38519", KVPROOF_LAW(null_block),
     {.always = kQueue, .occasions = on::pool}},
    {"I5", "conservation", "Free blocks, held blocks and the null block add up to the pool.",
     Cost::linear, Promise::safety, "vLLM BlockPool", KVPROOF_LAW(conservation),
     {.always = kReferences, .occasions = on::pool}},
    {"I6", "references",
     "A block's count is the number of entries in tables of all groups, raw references, leases and "
     "copies of the step that name it.", Cost::linear, Promise::safety,
     "vLLM KVCacheBlock.ref_cnt; MinivLLM#87", KVPROOF_LAW(references),
     {.always = kIds | kReferences, .occasions = on::pool | on::holders}},
    {"I7", "once per request",
     "No block but the null block stands twice in one request's tables, over all groups.",
     Cost::linear, Promise::safety, "vLLM two-phase computed blocks; Megatron-LM#5822",
     KVPROOF_LAW(once_per_request), {.always = kIds, .occasions = on::holders}},
    {"I8", "sharing is published",
     "A block in the tables of two requests carries a key, or came from a fork: sharing has no "
     "other source.", Cost::linear, Promise::safety, "vLLM full attention",
     KVPROOF_LAW(shared_is_published), {.always = kIds, .when_caching = kCached,
      .occasions = on::pool | on::holders | on::held, .suspended_by = "evict of that block"}},
    {"I9", "index matches blocks",
     "A block carries a key exactly when the index lists it, once, under that key. The same "
     "holds for second keys.", Cost::linear, Promise::safety,
     "vLLM BlockHashToBlockMap; vllm#4761, kvcached#362", KVPROOF_LAW(index_matches_blocks),
     {.always = 0, .when_caching = kCached | kKeys | kIndex, .about = About::caching,
      .occasions = on::pool}},
    {"I10", "index is tidy",
     "No key of the index is empty, listed twice, or of a group that does not exist.", Cost::linear,
     Promise::safety, "vLLM BlockHashToBlockMap.pop", KVPROOF_LAW(index_tidy), {.always = 0,
      .when_caching = kIndex, .about = About::caching, .occasions = on::pool}},
    {"I11", "one group per block",
     "A block stands in tables of one group only, and under keys of that group only.", Cost::linear,
     Promise::safety, "vLLM make_block_hash_with_group_id", KVPROOF_LAW(one_group_per_block),
     {.always = kIds, .about = About::several_groups, .occasions = on::pool | on::holders}},
    {"I12", "unhashed first",
     "In the queue of an unhashed-first profile no block without key stands behind one with a key.",
     Cost::linear, Promise::policy, "vLLM PR 42656", KVPROOF_LAW(unhashed_before_hashed),
     {.always = kQueue, .when_caching = kCached, .about = About::unhashed_first,
      .applies = when::queues, .occasions = on::pool | on::done,
      .suspended_by = "evict of a queued block, until the next reset"}},
    {"I13", "cache progress",
     "Progress stays within the table; below it each block is null, masked out, a checkpoint, or "
     "carries its position's key, beyond it only relatives by a fork and ends of a prompt have "
     "keys.", Cost::linear, Promise::safety, "vLLM num_cached_block; kvcached#401",
     KVPROOF_LAW(cache_progress), {.always = kIds, .when_caching = kContent | kProgress,
      .about = About::caching,
      .occasions = on::pool | on::holders | on::hashes | on::progress | on::held,
      .suspended_by = "evict of that block; for missing keys, a swap of that request"}},
    {"I14", "nulls where unread",
     "A full or cross table holds no null block; in a window's, a chunk's and a dense Mamba table "
     "nulls are a prefix.", Cost::linear, Promise::safety, "vLLM remove_skipped_blocks",
     KVPROOF_LAW(nulls_where_unread), {.always = kIds, .occasions = on::holders}},
    {"I15", "few states",
     "A request in Mamba mode align holds at most two states besides a checkpoint and those of "
     "drafts, and what its profile holds back for drafts.", Cost::linear, Promise::safety,
     "vLLM MambaManager", KVPROOF_LAW(few_states),
     {.always = kIds, .about = About::moving_states,
      .occasions = on::holders | on::tokens | on::held,
      .suspended_by = "truncate, a grant before the tokens of the grant before are computed, one "
                      "of more than a token and its drafts after a grant ended inside a block; "
                      "until free"}},
    {"I16", "append-only table",
     "A table is as long as the largest grant asked for its kind; an entry changes only to null "
     "when its group has skipped it, to a copy before it is written, or when a draft's state "
     "moves.", Cost::linear, Promise::safety, "vLLM req_to_blocks; mini-sglang#142",
     KVPROOF_LAW(append_only_table), {.always = kIds, .applies = when::tables_kept,
      .occasions = on::holders | on::held,
      .suspended_by = "free, finish, truncate and swap of that request"}},
    {"I17", "prefix closed",
     "Whoever finds a full-attention key of a chain in the index finds the key of the block before "
     "it, too.", Cost::linear, Promise::policy, "vLLM tail-first release; Megatron-LM#5822",
     KVPROOF_LAW(keys_downward_closed),
     {.always = 0, .when_caching = kIndex | kHashes, .about = About::caching,
      .applies = when::chains, .occasions = on::events,
      .suspended_by = "evict, touch, pin, a release beside a copy of the same step, and a key that "
                      "a relative's write gave up, until the next reset"}},
    {"I18", "lookup contract",
     "A lookup answers an aligned prefix below the last token, in every group the oldest copies of "
     "all that it still reads; an admission holds exactly those.", Cost::linear, Promise::safety,
     "vLLM get_computed_blocks; llm-d-inference-sim#705, vllm#18957", KVPROOF_LAW(lookup_contract),
     {.always = kIds, .when_caching = kContent, .applies = when::hits, .operations = {"lookup"},
      .occasions = on::lookup | on::granted}},
    {"I19", "admission prediction",
     "An allocation is granted exactly when its need over all groups fits, counting copies and "
     "queued hits, and a grant takes exactly its need from the free blocks.", Cost::linear,
     Promise::policy, "vLLM allocate_slots; vllm#11565, inference-sim#492",
     KVPROOF_LAW(admission_prediction), {.always = kIds | kReferences, .when_caching = kProgress,
      .applies = when::allocations, .counts_suffice = true, .occasions = on::allocate | on::take}},
    {"I20", "failure changes nothing",
     "A refused or rejected operation leaves the state as it was, queue order included, and "
     "announces nothing; a refused allocation may have given back what its request has skipped.",
     Cost::linear, Promise::safety, "vLLM allocate_slots; vllm#11565, inference-sim#354",
     KVPROOF_LAW(failure_changes_nothing), {.always = 0, .applies = when::failures,
      .occasions = on::refused | on::rejected}},
    {"I21", "whole-sequence gate",
     "With full_sequence_must_fit, a request is admitted only if all its tokens fit.", Cost::linear,
     Promise::safety, "vLLM full_sequence_must_fit; vllm#45388", KVPROOF_LAW(whole_sequence_gate),
     {.always = kIds | kReferences, .when_caching = kProgress, .applies = when::gates,
      .needs = &Calls::full_sequence_must_fit, .counts_suffice = true, .occasions = on::allocate}},
    {"I22", "reads are pure",
     "Lookup, common prefix and step change nothing, but that a step gives back what copies held; "
     "nor does recycle where every group reads all.", Cost::linear, Promise::safety,
     "vLLM get_computed_blocks", KVPROOF_LAW(reads_are_pure), {.always = 0, .applies = when::reads,
      .operations = {"lookup", "common_prefix", "step", "recycle"}, .occasions = on::read}},
    {"I23", "drained is free",
     "No more blocks of a tier are held than tables, leases, copies and the raw owner have entries "
     "for; when there are none, no progress is left.", Cost::linear, Promise::safety,
     "vLLM free; leaks on abort", KVPROOF_LAW(drained_is_free), {.always = 0,
      .occasions = on::pool | on::host | on::holders | on::progress | on::held}},
    {"I24", "reset clears",
     "Reset succeeds exactly when nothing is held in either tier; then no key is left, the queues "
     "keep their order, and one event says so.", Cost::linear, Promise::safety,
     "vLLM reset_prefix_cache; vllm#40244", KVPROOF_LAW(reset_clears), {.always = kEvents,
      .when_caching = kCached, .applies = when::resets, .operations = {"reset"},
      .occasions = on::reset}},
    {"I25", "events mirror the index",
     "Whoever hears only the events knows which block holds which keys of which group.",
     Cost::linear, Promise::safety, "vLLM KV events; vllm#55092, TensorRT-LLM#16335",
     KVPROOF_LAW(events_mirror_index), {.always = 0, .when_caching = kEvents | kContent,
      .about = About::caching, .occasions = on::pool | on::events}},
    {"I26", "free order",
     "Blocks are taken from the head in order; released ones enter groups ascending, deepest "
     "first, at "
     "the end that the profile names; the rest keeps its order.", Cost::linear, Promise::policy,
     "vLLM get_new_blocks and free_blocks; Megatron-LM#5822", KVPROOF_LAW(free_order),
     {.always = kIds | kQueue | kReferences, .when_caching = kCached, .applies = when::successes,
      .occasions = on::pool | on::held}},
    {"I29", "hash chain",
     "A request has one hash per unit that is complete with its lookahead; they never change, and "
     "are equal exactly where tokens, lookahead and extra keys are.", Cost::linear, Promise::safety,
     "vLLM block_hashes; vllm#12621, vllm#44701", KVPROOF_LAW(hash_chain), {.always = 0,
      .when_caching = kHashes, .about = About::caching,
      .occasions = on::tokens | on::hashes | on::done}},
    {"I31", "usage ratio", "Usage is 1 - free / usable, between 0 and 1.", Cost::constant,
     Promise::safety, "vLLM BlockPool.get_usage", KVPROOF_LAW(usage_ratio), {.always = kUsage,
      .occasions = on::pool}},
    {"C1", "common prefix is identity",
     "The common prefix counts the leading entries that all tables with blocks name alike, in each "
     "full-attention group; nothing where the profile does not count.", Cost::linear,
     Promise::safety, "vllm#55227, vllm#23485", KVPROOF_LAW(common_prefix_identity),
     {.always = kIds, .applies = when::common_prefixes, .operations = {"common_prefix"},
      .occasions = on::common_prefix}},
    {"C2", "fork shares",
     "A child begins with its parent's tokens and tables, one more reference on each block or, if "
     "that is not published, a copy that the answer lists, and nothing else changes.", Cost::linear,
     Promise::safety, "Kwon et al., SOSP'23, sec. 4.4", KVPROOF_LAW(fork_shares),
     {.always = kIds | kReferences, .applies = when::forks, .operations = {"fork"},
      .occasions = on::fork}},
    {"C3", "copy before write",
     "A grant leaves no block in its write range, beyond what the request has published, with "
     "another holder or under a key of other content, and copies no other.", Cost::linear,
     Promise::safety, "Kwon et al., SOSP'23, sec. 4.4", KVPROOF_LAW(copy_before_write),
     {.always = kIds | kReferences, .when_caching = kContent | kProgress, .applies = when::grants,
      .operations = {"fork"}, .occasions = on::granted}},
    {"C4", "leases hold",
     "A leased block is handed out to nobody and keeps its keys, but those of a state that is "
     "copied before it is overwritten; a lease lists what was pinned until it is unpinned.",
     Cost::linear, Promise::safety, "vLLM KV connectors; LMCache#1034", KVPROOF_LAW(lease_holds),
     {.always = 0, .when_caching = kCached, .applies = when::leases, .operations = {"pin"},
      .occasions = on::lease, .suspended_by = "evict and reset"}},
    {"C5", "transfers keep both sides",
     "Until a swap is complete both tiers keep their blocks, position by position; afterwards one "
     "does. What was not copied carries one key on both sides.", Cost::linear, Promise::safety,
     "Kwon et al., SOSP'23, sec. 4.5", KVPROOF_LAW(transfer_keeps_both), {.always = kIds,
      .when_caching = kContent, .about = About::host_tier, .applies = when::transfers,
      .operations = {"swap_out"}, .occasions = on::holders | on::swap}},
    {"C6", "host pool",
     "The host tier obeys I1 to I6, I9 and I31; its holders are the host tables.", Cost::linear,
     Promise::safety, "Kwon et al., SOSP'23, sec. 4.5", KVPROOF_LAW(host_pool), {.always = kHost,
      .about = About::host_tier, .operations = {"swap_out"}, .occasions = on::host | on::holders}},
    {"C7", "keys leave with cause",
     "A block loses its key when it is handed out, evicted by name, reset or written anew, and not "
     "otherwise.", Cost::linear, Promise::policy, "vLLM BlockPool; sglang#4987, vllm#4761",
     KVPROOF_LAW(keys_leave_with_cause), {.always = 0, .when_caching = kIds | kContent,
      .about = About::caching, .occasions = on::pool,
      .suspended_by = "for a checkpoint, a lookup of its running request; until free"}},
    {"C8", "published as told",
     "A grant that does not delay it, and a cache call, publish all blocks that their tokens "
     "complete, none further, and none that no hit can use; nothing else does.", Cost::linear,
     Promise::policy, "vLLM cache_blocks; vllm#37152, kvcached#401", KVPROOF_LAW(published_as_told),
     {.always = kIds, .when_caching = kContent | kProgress, .about = About::caching,
      .applies = when::publications,
      .occasions = on::holders | on::progress | on::held | on::cache}},
    {"C9", "counted at admission",
     "A manager that counts hits counts each admission once, when it is granted, with the tokens "
     "that it used; a resumed request is not counted.", Cost::constant, Promise::policy,
     "vllm#43736, vllm#25780", KVPROOF_LAW(counted_at_admission), {.always = kCounters,
      .about = About::caching, .applies = when::grants, .occasions = on::counters | on::granted}},
    {"C10", "longest hit",
     "A lookup finds the longest aligned prefix that every group has; with EAGLE in several groups "
     "no shorter one than that with its extra blocks.", Cost::linear, Promise::hits,
     "vLLM HybridKVCacheCoordinator; vllm#33270", KVPROOF_LAW(longest_hit), {.always = 0,
      .when_caching = kIds | kContent, .about = About::caching, .applies = when::hits,
      .operations = {"lookup"}, .occasions = on::lookup}},
    {"C11", "preemption starts over",
     "A preempted request holds nothing, has published nothing and has no computed tokens.",
     Cost::constant, Promise::safety, "vLLM Scheduler preemption",
     KVPROOF_LAW(preemption_starts_over), {.always = kIds, .when_caching = kProgress,
      .applies = when::preemptions, .operations = {"free"}, .occasions = on::free}},
    {"C12", "rejection has its cause",
     "A rejected call has broken the precondition that the rejection names, or is beyond a "
     "declared capacity; what is declined is declined again.", Cost::constant, Promise::safety,
     "reference/contract.h", KVPROOF_LAW(rejection_has_cause), {.always = 0,
      .occasions = on::rejected}},
    {"C13", "refusal has its cause",
     "No allocation is refused while the whole request fits, with a quarter of the pool to spare "
     "beyond what is reserved; no take and no swap while all its blocks do.", Cost::constant,
     Promise::safety, "vLLM allocate_slots; a watermark is smaller", KVPROOF_LAW(refusal_has_cause),
     {.always = 0, .applies = when::refusals, .occasions = on::refused}},
    {"C14", "done as asked",
     "Tokens, computed tokens, the lengths of tables, raw references, common prefixes and the "
     "answer of a reset are as the caller can count them; what is evicted or recycled is gone.",
     Cost::linear, Promise::safety, "vLLM Request; BlockPool", KVPROOF_LAW(done_as_asked),
     {.always = 0, .applies = when::successes,
      .occasions = on::common_prefix | on::of_requests | on::counters | on::done}},
    {"C15", "decode is three calls",
     "A decode step of a batch answers, announces and leaves behind what append, allocate and "
     "advance do for one request after the other; a refused one keeps its token, later ones still "
     "run, and no later call shows which way it was.", Cost::linear, Promise::safety,
     "optimized/cache_manager.h", KVPROOF_LAW(decode_is_three_calls), {.always = 0,
      .applies = when::batches, .operations = {"decode"}, .occasions = on::decode}},
    {"S1", "content",
     "What a row reads at a position of its request is what that request's tokens up to it wrote.",
     Cost::linear, Promise::safety, "paged attention; SGLang kv_canary", Judges::run},
    {"S2", "overwritten",
     "Nobody writes other content into a slot that a request in the batch has behind it and may "
     "read again.", Cost::linear, Promise::safety, "vLLM BlockPool reference counts", Judges::run},
    {"S3", "source", "No step or transfer writes into a block that another transfer still reads.",
     Cost::constant, Promise::safety, "vLLM SimpleCPUOffload need_flush", Judges::run},
    {"S4", "target",
     "No step reads or writes a block into which a transfer writes or whose load has failed, "
     "before it is written anew.", Cost::linear, Promise::safety,
     "vLLM WAITING_FOR_REMOTE_KVS, invalid_block_ids", Judges::run},
    {"S5", "given back",
     "A block that its holder gave back is written by nobody else while a step or a transfer of "
     "the former holder uses it.", Cost::linear, Promise::safety,
     "vLLM deferred_frees; TensorRT-LLM poison latch", Judges::run},
    {"S6", "once", "Each transfer settles once, and only what was started settles.", Cost::constant,
     Promise::safety, "vLLM finished_recving, finished_sending", Judges::run},
    {"S7", "order", "A store reads its block after the step that fills it.", Cost::constant,
     Promise::safety, "vLLM prepare_store; HiCache write-through", Judges::run},
    {"S8", "hit",
     "Tokens claimed as computed are: their slots hold them, or the transfer that is named brings "
     "them.", Cost::linear, Promise::safety, "vLLM get_computed_blocks, get_num_new_matched_tokens",
     Judges::run},
    {"S9", "published",
     "A block that an index names holds the tokens of its key, or its writer is in flight.",
     Cost::linear, Promise::safety, "vLLM cache_full_blocks", Judges::run},
    {"S10", "mirror",
     "What is withdrawn was published, and what is published is not published there already.",
     Cost::constant, Promise::safety, "vLLM BlockStored, BlockRemoved", Judges::run},
    {"S11", "table",
     "A row's request is alive, its tables cover its positions, and it writes neither the null "
     "block nor one that somebody holds for other content.", Cost::linear, Promise::safety,
     "vLLM SchedulerOutput, BlockTable", Judges::run},
    {"S12", "discarded", "The answer of a row that read what failed to load is thrown away.",
     Cost::constant, Promise::safety, "vLLM kv_load_failure_policy", Judges::run},
    {"S13", "state", "A state is read for exactly the prefix that it summarises.", Cost::linear,
     Promise::safety, "vLLM MambaManager", Judges::run},
    {"S14", "answer",
     "A request's tokens are those that its retired steps sampled, in order, once each.",
     Cost::linear, Promise::safety, "vLLM update_from_output", Judges::run},
    {"S15", "held", "A block that a transfer in flight has yet to copy is on no free queue.",
     Cost::linear, Promise::safety, "vLLM delay_free_blocks", Judges::run},
    {"S16", "raised", "The engine raises nothing, and none of its assertions fails.",
     Cost::constant, Promise::safety, "EngineCore dies of what its scheduler raises", Judges::run},
    {"S17", "exists",
     "The requests, steps, transfers and blocks that the engine names exist, and its numbers lie "
     "in their ranges.", Cost::linear, Promise::safety,
     "vLLM BlockTable, slot_mapping: the GPU writes wherever they point", Judges::run},
    {"L1", "end",
     "Once arrivals and faults stop, each request ends within the patience of the run.",
     Cost::linear, Promise::liveness, "vLLM Scheduler", Judges::run},
    {"L2", "progress",
     "No step without rows repeats for the patience of the run while a request waits and nothing "
     "is in flight.", Cost::constant, Promise::liveness, "vLLM EngineCore busy loop", Judges::run},
    {"L3", "drain",
     "When no request is left and nothing is in flight, every block of every tier is free or "
     "published only.", Cost::constant, Promise::liveness, "leaks on abort", Judges::run},
    {"L4", "settled", "Once faults stop, each transfer settles within the patience of the run.",
     Cost::linear, Promise::liveness, "vLLM delay_free_blocks", Judges::run},
    {"sequence", "batch numbers", "batches are numbered one by one", Cost::constant, Promise::hits,
     "vLLM ZmqEventPublisher", Judges::events},
    {"size", "block size",
     "blocks of a group have one size; a shorter one stands alone and divides it", Cost::constant,
     Promise::hits, "vLLM BlockStored.block_size", Judges::events},
    {"tokens", "tokens of blocks",
     "an event has the tokens of its blocks, and but in the main group of some left out",
     Cost::constant, Promise::hits, "vLLM#44451", Judges::events},
    {"parent", "parent stored",
     "in the main group, which routers follow, the parent of a block was stored before",
     Cost::constant, Promise::hits, "dynamo#693", Judges::events},
    {"tail", "parent of a shorter block", "and so was that of a shorter block", Cost::constant,
     Promise::hits, "vLLM#58119", Judges::events},
    {"meaning", "one meaning", "a hash has one parent and one content", Cost::linear, Promise::hits,
     "vllm-ascend#12012", Judges::events},
    {"twice", "stored once", "with --unique: nothing is stored that is there", Cost::linear,
     Promise::hits, "sglang#24568", Judges::events},
    {"removed", "removed if there", "what is removed is there", Cost::linear, Promise::hits,
     "vLLM BlockRemoved", Judges::events},
    {"residency", "residency", "behind each operation the events say what the pool's index shows",
     Cost::linear, Promise::hits, "vLLM KV events; vllm#55092", Judges::events},
    {"lookup", "a router's lookup", "a router that follows the events finds what is held",
     Cost::linear, Promise::hits, "llm-d-kv-cache#593", Judges::events},
};
// clang-format on
}  // namespace law
using law::kLaws;

/// @return the rows of one kind, which stand together.
[[nodiscard]] consteval std::span<const Law> laws_of(Judges judges) {
  const auto first = std::ranges::find(kLaws, judges, &Law::judges);
  const auto is_mine = [=](const Law& row) { return row.judges == judges; };
  return {first, std::ranges::find_if_not(first, std::end(kLaws), is_mine)};
}
inline constexpr std::span<const Law> kStateLaws = laws_of(Judges::state);
inline constexpr std::span<const Law> kRunLaws = laws_of(Judges::run);
inline constexpr std::span<const Law> kEventLaws = laws_of(Judges::events);
static_assert(kStateLaws.size() + kRunLaws.size() + kEventLaws.size() == std::size(kLaws));

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

/// @return the row of that id among those laws, or nullptr.
[[nodiscard]] constexpr const Law* find_law(std::string_view id,
                                            std::span<const Law> laws = kStateLaws) {
  const auto row = std::ranges::find(laws, id, &Law::id);
  return row == laws.end() ? nullptr : &*row;
}

}  // namespace kvproof::properties
