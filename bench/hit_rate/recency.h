// SPDX-License-Identifier: Apache-2.0
// LRU: the block that was released first goes first.
//
// Model:   the order of the free queue of optimized/, made once more with a clock and a heap. The
//          two together show what the order of release alone is worth, and that the pool calls a
//          policy correctly.
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
