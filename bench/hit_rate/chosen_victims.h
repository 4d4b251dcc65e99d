// SPDX-License-Identifier: Apache-2.0
// The victim policy of a pool under study: blocks without content go first, then blocks in the
// order of an eviction policy.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bench/hit_rate/block_lists.h"
#include "bench/hit_rate/policies.h"
#include "optimized/pool/victims.h"

namespace kvproof::bench {

class ChosenVictims final : public optimized::VictimPolicy {
 public:
  /// @param num_blocks with the null block @param serving outlives this @pre `policy.make` is there
  ChosenVictims(std::uint32_t num_blocks, const EvictionPolicy& policy, const Serving& serving)
      : deepest_first_(policy.deepest_first),
        blanks_(num_blocks),
        contents_(num_blocks, optimized::kNoContent),
        order_(policy.make(num_blocks, serving)) {}

  [[nodiscard]] bool deepest_first() const override { return deepest_first_; }

  void freed(BlockId block, std::uint64_t content) override {
    const bool fresh = std::exchange(contents_[block], content) != content;
    if (content == optimized::kNoContent) {
      blanks_.push_back(0, block);
    } else {
      order_->freed(block, content, fresh);
    }
  }

  void revived(BlockId block) override {
    if (blanks_.list_of(block) == 0) {
      blanks_.remove(block);
    } else {
      order_->revived(block);
    }
  }

  BlockId victim() override {
    const bool blank = blanks_.size(0) > 0;
    const BlockId block = blank ? blanks_.front(0) : order_->victim();
    if (blank) blanks_.remove(block);
    contents_[block] = optimized::kNoContent;
    return block;
  }

 private:
  bool deepest_first_;
  BlockLists<1> blanks_;
  std::vector<std::uint64_t> contents_;  // shape [num_blocks], as told last
  std::unique_ptr<VictimOrder> order_;
};

}  // namespace kvproof::bench
