// SPDX-License-Identifier: Apache-2.0
// The list of the laws of a run: what holds whatever engine, scheduler, connector or tier is meant.
//
// Model: safety is judged event by event over the shadow; liveness over the steps that go by.
// Tests: live_test.cpp has for each row a run in which one changed line breaks that law first.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvproof::live {

struct RunLaw {
  std::string_view id;
  std::string_view name;
  std::string_view sentence;
  std::string_view source;
};

// clang-format off
enum LawId : std::uint8_t {
  kContent, kOverwritten, kSource, kTarget, kGivenBack, kOnce, kOrder, kHit, kPublished, kMirror,
  kTable, kDiscarded, kState, kAnswer, kHeld, kRaised, kExists,  // of safety
  kEnds, kProgress, kDrain, kSettled                    // of liveness
};

inline constexpr RunLaw kRunLaws[] = {
    {"S1", "content",
     "What a row reads at a position of its request is what that request's tokens up to it wrote.",
     "paged attention; SGLang kv_canary"},
    {"S2", "overwritten",
     "Nobody writes other content into a slot that a request in the batch has behind it and may "
     "read again.", "vLLM BlockPool reference counts"},
    {"S3", "source", "No step or transfer writes into a block that another transfer still reads.",
     "vLLM SimpleCPUOffload need_flush"},
    {"S4", "target",
     "No step reads or writes a block into which a transfer writes or whose load has failed, "
     "before it is written anew.", "vLLM WAITING_FOR_REMOTE_KVS, invalid_block_ids"},
    {"S5", "given back",
     "A block that its holder gave back is written by nobody else while a step or a transfer of "
     "the former holder uses it.", "vLLM deferred_frees; TensorRT-LLM poison latch"},
    {"S6", "once", "Each transfer settles once, and only what was started settles.",
     "vLLM finished_recving, finished_sending"},
    {"S7", "order", "A store reads its block after the step that fills it.",
     "vLLM prepare_store; HiCache write-through"},
    {"S8", "hit",
     "Tokens claimed as computed are: their slots hold them, or the transfer that is named brings "
     "them.", "vLLM get_computed_blocks, get_num_new_matched_tokens"},
    {"S9", "published",
     "A block that an index names holds the tokens of its key, or its writer is in flight.",
     "vLLM cache_full_blocks"},
    {"S10", "mirror",
     "What is withdrawn was published, and what is published is not published there already.",
     "vLLM BlockStored, BlockRemoved"},
    {"S11", "table",
     "A row's request is alive, its tables cover its positions, and it writes neither the null "
     "block nor one that somebody holds for other content.", "vLLM SchedulerOutput, BlockTable"},
    {"S12", "discarded", "The answer of a row that read what failed to load is thrown away.",
     "vLLM kv_load_failure_policy"},
    {"S13", "state", "A state is read for exactly the prefix that it summarises.",
     "vLLM MambaManager"},
    {"S14", "answer",
     "A request's tokens are those that its retired steps sampled, in order, once each.",
     "vLLM update_from_output"},
    {"S15", "held", "A block that a transfer in flight has yet to copy is on no free queue.",
     "vLLM delay_free_blocks"},
    {"S16", "raised", "The engine raises nothing, and none of its assertions fails.",
     "EngineCore dies of what its scheduler raises"},
    {"S17", "exists",
     "The requests, steps, transfers and blocks that the engine names exist, and its numbers lie "
     "in their ranges.", "vLLM BlockTable, slot_mapping: the GPU writes wherever they point"},
    {"L1", "end",
     "Once arrivals and faults stop, each request ends within the patience of the run.",
     "vLLM Scheduler"},
    {"L2", "progress",
     "No step without rows repeats for the patience of the run while a request waits and nothing "
     "is in flight.", "vLLM EngineCore busy loop"},
    {"L3", "drain",
     "When no request is left and nothing is in flight, every block of every tier is free or "
     "published only.", "leaks on abort"},
    {"L4", "settled", "Once faults stop, each transfer settles within the patience of the run.",
     "vLLM delay_free_blocks"},
};
// clang-format on
inline constexpr std::size_t kNumLaws = std::size(kRunLaws);
static_assert(kNumLaws == kSettled + 1);

}  // namespace kvproof::live
