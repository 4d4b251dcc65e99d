// SPDX-License-Identifier: Apache-2.0
// Priority with a time to live: the blocks of a conversation are kept before all others, until the
// conversation has been silent for five minutes.
//
// Model:   two classes, LRU in each, the lower one first. The blocks of a request that continues a
//          conversation (Serving::continues) enter the higher class for kKeepSeconds, all others
//          the lower one. A block that was kept for that time falls back to the lower class, at
//          the place of its last use.
// Source:  after TensorRT-LLM, where a request states a retention priority and a duration for
//          ranges of its tokens, and the block of the lowest priority is evicted first. The rule
//          which request gets which priority, and the five minutes, are ours.
#pragma once

#include <vector>

#include "bench/hit_rate/block_heap.h"
#include "bench/hit_rate/victim_order.h"

namespace kvproof::bench {

class PriorityTtl final : public VictimOrder {
 public:
  static constexpr double kKeepSeconds = 300;

  /// @param serving outlives it
  PriorityTtl(std::uint32_t num_blocks, const Serving& serving)
      : serving_(serving), kept_until_(num_blocks), low_(num_blocks), high_(num_blocks) {}

  void freed(BlockId block, std::uint64_t /*content*/, bool /*fresh*/) override {
    kept_until_[block] = serving_.seconds + kKeepSeconds;
    (serving_.continues ? high_ : low_).put(block, ++clock_);
  }
  void revived(BlockId block) override { (high_.contains(block) ? high_ : low_).remove(block); }
  BlockId victim() override {
    while (!high_.empty() && kept_until_[high_.top()] <= serving_.seconds) {
      const std::uint64_t released = high_.key(high_.top());
      low_.put(high_.pop(), released);
    }
    return BlockId((low_.empty() ? high_ : low_).pop());
  }

 private:
  const Serving& serving_;
  std::uint64_t clock_ = 0;
  std::vector<double> kept_until_;  // shape [num_blocks], in seconds of Serving
  BlockHeap<std::uint64_t> low_;
  BlockHeap<std::uint64_t> high_;
};

}  // namespace kvproof::bench
