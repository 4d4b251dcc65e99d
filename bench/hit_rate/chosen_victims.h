// SPDX-License-Identifier: Apache-2.0
// The victim policy of a pool whose order of eviction is chosen at run time: blocks without content
// go first, then whatever the chosen order says.
//
// One instantiation of the pool and the manager serves all policies of the list, at the price of a
// virtual call for each block that is freed, revived or handed out.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bench/hit_rate/block_lists.h"
#include "bench/hit_rate/policies.h"
#include "optimized/pool/victims.h"

namespace kvproof::bench {

class ChosenVictims {
 public:
  static constexpr bool kInQueueOrder = false;

  /// LRU until something else is chosen.
  explicit ChosenVictims(std::uint32_t num_blocks)
      : num_blocks_(num_blocks),
        blanks_(num_blocks),
        contents_(num_blocks, optimized::kNoContent),
        order_(std::make_unique<Recency>(num_blocks)) {}

  /// @pre no block has had content so far; `policy.make` is there
  void choose(const EvictionPolicy& policy, const Serving& serving) {
    order_ = policy.make(num_blocks_, serving);
    deepest_first_ = policy.deepest_first;
  }

  [[nodiscard]] bool deepest_first() const { return deepest_first_; }

  void freed(BlockId block, std::uint64_t content) {
    const bool fresh = std::exchange(contents_[block], content) != content;
    if (content == optimized::kNoContent) {
      blanks_.push_back(0, block);
    } else {
      order_->freed(block, content, fresh);
    }
  }

  void revived(BlockId block) {
    if (blanks_.list_of(block) == 0) {
      blanks_.remove(block);
    } else {
      order_->revived(block);
    }
  }

  BlockId victim() {
    const bool blank = blanks_.size(0) > 0;
    const BlockId block = blank ? blanks_.front(0) : order_->victim();
    if (blank) blanks_.remove(block);
    contents_[block] = optimized::kNoContent;
    return block;
  }

 private:
  std::uint32_t num_blocks_;
  bool deepest_first_ = true;
  BlockLists<1> blanks_;
  std::vector<std::uint64_t> contents_;  // shape [num_blocks], as told last
  std::unique_ptr<VictimOrder> order_;
};

}  // namespace kvproof::bench
