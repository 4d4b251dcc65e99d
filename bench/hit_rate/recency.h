// SPDX-License-Identifier: Apache-2.0
// LRU: the block that was released first goes first.
//
// Model:   what the free queue of optimized/ does, done once more with a clock and a heap: together
//          they show what the order of release alone is worth, and that the pool asks a policy
//          rightly.
#pragma once

#include "bench/hit_rate/block_heap.h"
#include "bench/hit_rate/victim_order.h"

namespace kvproof::bench {

class Recency final : public VictimOrder {
 public:
  explicit Recency(std::uint32_t num_blocks) : free_(num_blocks) {}

  void freed(BlockId block, std::uint64_t /*content*/, bool /*fresh*/) override {
    free_.put(block, ++clock_);
  }
  void revived(BlockId block) override { free_.remove(block); }
  BlockId victim() override { return BlockId(free_.pop()); }

 private:
  std::uint64_t clock_ = 0;
  BlockHeap<std::uint64_t> free_;
};

}  // namespace kvproof::bench
