// SPDX-License-Identifier: Apache-2.0
// LFU with dynamic aging: the block with the fewest hits goes first, and blocks that were popular
// long ago lose to blocks that are popular now.
//
// Model:   a block's value is its number of hits plus the age of the cache when it was last used;
//          the age of the cache is the value of the last victim. Equal values: released first.
// Source:  LFU-DA, Arlitt et al., Performance Evaluation Review 27(4), 2000.
#pragma once

#include <compare>
#include <vector>

#include "bench/hit_rate/block_heap.h"
#include "bench/hit_rate/victim_order.h"

namespace kvproof::bench {

class LfuWithAging final : public VictimOrder {
 public:
  explicit LfuWithAging(std::uint32_t num_blocks) : hits_(num_blocks), free_(num_blocks) {}

  void freed(BlockId block, std::uint64_t /*content*/, bool fresh) override {
    if (fresh) hits_[block] = 0;
    free_.put(block, {age_ + hits_[block], ++clock_});
  }
  void revived(BlockId block) override {
    ++hits_[block];
    free_.remove(block);
  }
  BlockId victim() override {
    age_ = free_.key(free_.top()).value;
    return BlockId(free_.pop());
  }

 private:
  struct Rank {
    std::uint64_t value = 0;
    std::uint64_t released = 0;
    auto operator<=>(const Rank&) const = default;
  };

  std::uint64_t age_ = 0;
  std::uint64_t clock_ = 0;
  std::vector<std::uint64_t> hits_;  // shape [num_blocks], since its content was published
  BlockHeap<Rank> free_;
};

}  // namespace kvproof::bench
