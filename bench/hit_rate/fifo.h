// SPDX-License-Identifier: Apache-2.0
// FIFO: the block whose content is the oldest goes first; hits change nothing.
//
// Model:   age is counted from the first release after publication.
#pragma once

#include <vector>

#include "bench/hit_rate/block_heap.h"
#include "bench/hit_rate/victim_order.h"

namespace kvproof::bench {

class Fifo final : public VictimOrder {
 public:
  explicit Fifo(std::uint32_t num_blocks) : born_(num_blocks), free_(num_blocks) {}

  void freed(BlockId block, std::uint64_t /*content*/, bool fresh) override {
    if (fresh) born_[block] = ++clock_;
    free_.put(block, born_[block]);
  }
  void revived(BlockId block) override { free_.remove(block); }
  BlockId victim() override { return BlockId(free_.pop()); }

 private:
  std::uint64_t clock_ = 0;
  std::vector<std::uint64_t> born_;  // shape [num_blocks]
  BlockHeap<std::uint64_t> free_;
};

}  // namespace kvproof::bench
