// SPDX-License-Identifier: Apache-2.0
// THE LIST of seeded bugs: reported defects of real engines, each re-made by one fault in the
// textbook allocator, and the law that must report it.
//
// Source:  the public report behind `link`. The fault is the same class of mistake at the same
//          place, not the engine's code; whether a report was settled is for its thread to say.
#pragma once

#include <memory>
#include <string_view>

#include "properties/mutants/textbook.h"

namespace kvproof::properties {

struct Mutant {
  std::string_view id;
  std::string_view link;
  std::string_view sentence;
  std::string_view law;  // must be among the laws broken first
  bool misread;          // some request then reads foreign bytes: the content oracle alone sees it
  std::unique_ptr<Subject> (*make)(const CacheConfig& config);
};

template <Fault fault>
std::unique_ptr<Subject> make_textbook(const CacheConfig& config) {
  return std::make_unique<Textbook>(config, fault);
}

inline constexpr Mutant kMutants[] = {
    {"B002", "https://github.com/vllm-project/vllm/issues/42571",
     "Releasing one block twice in one call puts it into the free queue twice.", "I2", true,
     make_textbook<Fault::free_queues_duplicates>},
    {"B004", "https://github.com/NVIDIA/TensorRT-LLM/pull/12667",
     "A free block that is held again stays in the free queue.", "I26", true,
     make_textbook<Fault::touch_leaves_queued>},
    {"B014", "https://github.com/Wenyueh/MinivLLM/pull/87",
     "A block is handed out without a reference.", "I6", true,
     make_textbook<Fault::take_without_reference>},
    {"B015", "https://github.com/vllm-project/vllm/pull/12621",
     "The block hash has so few bits that different prompts collide.", "I29", true,
     make_textbook<Fault::hash_truncated>},
    {"B019", "https://github.com/LMCache/LMCache/issues/690",
     "The block hash leaves out the images: all images share one entry.", "I29", true,
     make_textbook<Fault::hash_without_images>},
    {"B020", "https://github.com/vllm-project/vllm/pull/36708",
     "The block hash leaves out where in the block an image starts.", "I29", true,
     make_textbook<Fault::hash_without_image_offset>},
    {"B026", "https://github.com/vllm-project/vllm/issues/3264",
     "The block hash leaves out the adapter.", "I29", true,
     make_textbook<Fault::hash_without_adapter>},
    {"B027", "https://github.com/vllm-project/vllm/issues/44701",
     "Extra keys are hashed untagged: a salt named like an adapter hits the adapter's blocks.",
     "I29", true, make_textbook<Fault::hash_untagged>},
    {"B032", "https://github.com/vllm-project/vllm/pull/4762",
     "A recycled block keeps its entry in the prefix index.", "I9", true,
     make_textbook<Fault::take_keeps_index_entry>},
    {"B034", "https://github.com/ovg-project/kvcached/issues/362",
     "Eviction removes the index entry but leaves the hash on the block.", "I9", true,
     make_textbook<Fault::evict_keeps_block_hash>},
    {"B035", "https://github.com/ovg-project/kvcached/issues/401",
     "The index holds one block per hash and skips the second copy as already done.", "I13", false,
     make_textbook<Fault::index_holds_one_block>},
    {"B036", "https://github.com/vllm-project/vllm/pull/55092",
     "Evicting one of several copies announces the loss of another.", "I25", false,
     make_textbook<Fault::removal_names_first_copy>},
    {"B044", "https://github.com/llm-d/llm-d-inference-sim/issues/705",
     "The lookup goes on after the first missing block and counts hits behind the hole.", "I18",
     true, make_textbook<Fault::lookup_continues_after_miss>},
    {"B052", "https://github.com/LMCache/LMCache/pull/3322",
     "A lookup may hit the last token, so that nothing is left to compute.", "I18", false,
     make_textbook<Fault::lookup_takes_last_token>},
    {"B055", "https://github.com/vllm-project/vllm/pull/18957",
     "The hit of an earlier attempt is used after its blocks were recycled.", "I18", true,
     make_textbook<Fault::stale_hit_accepted>},
    {"B057", "https://github.com/vllm-project/vllm/pull/11565",
     "Hit blocks are referenced before the check that may refuse the request.", "I20", false,
     make_textbook<Fault::touch_before_check>},
    {"B058", "https://github.com/vllm-project/vllm/pull/11565",
     "The check forgets that hit blocks may stand in the free queue.", "I19", false,
     make_textbook<Fault::check_ignores_queued_hits>},
    {"B062", "https://github.com/inference-sim/inference-sim/issues/492",
     "The check ignores the room in the last block and refuses what fits.", "I19", false,
     make_textbook<Fault::check_ignores_partial_block>},
    {"B065", "https://github.com/vllm-project/vllm/issues/45388",
     "The admission gate counts the first chunk instead of the whole prompt.", "I21", false,
     make_textbook<Fault::gate_reserves_chunk_only>},
    {"B070", "https://github.com/NVIDIA/Megatron-LM/pull/5822",
     "A request's blocks are released head first, so parents are evicted before children.", "I26",
     false, make_textbook<Fault::free_parents_first>},
    {"B071", "https://github.com/NVIDIA/Megatron-LM/pull/5822",
     "New blocks are taken before the hit is held, and take the hit itself.", "I7", true,
     make_textbook<Fault::take_before_touch>},
    {"B074", "https://github.com/inference-sim/inference-sim/issues/354",
     "A failed allocation gives its blocks back at the wrong end of the queue.", "I20", false,
     make_textbook<Fault::rollback_to_tail>},
    {"B103", "https://github.com/sgl-project/sglang/pull/38355",
     "Preemption frees blocks that the index still names.", "I9", true,
     make_textbook<Fault::preempt_frees_published>},
    {"B139", "https://github.com/LMCache/LMCache/issues/1034",
     "A lookup pins what it finds, and nobody unpins it.", "I22", false,
     make_textbook<Fault::lookup_pins>},
    {"B156", "https://github.com/NVIDIA/Megatron-LM/pull/7033",
     "Reset clears every array but the hashes on the blocks.", "I24", false,
     make_textbook<Fault::reset_forgets_blocks>},
    {"B158", "https://github.com/vllm-project/vllm/pull/23485",
     "A block counts as common to all requests when its references are as many as they.", "C1",
     false, make_textbook<Fault::common_prefix_by_count>},
};

}  // namespace kvproof::properties
