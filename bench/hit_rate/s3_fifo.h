// SPDX-License-Identifier: Apache-2.0
// S3-FIFO: content has to prove itself in a small queue before it gets into the main one.
//
// Model:   small has a tenth of the blocks, main the rest; ghost remembers as much content as main
//          holds, by its fingerprint. An access is a hit (a revival), counted up to 3. New content
//          enters small, or main if ghost knows it. From the end of small a block with two hits or
//          more moves to main, others go and are noted in ghost; from the end of main a block with
//          hits goes round again and loses one hit. Blocks stay in their queue while they are held:
//          a held block that comes to the end moves on as if it had been hit.
// Source:  Yang et al., FIFO queues are all you need for cache eviction, SOSP'23.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "bench/hit_rate/block_lists.h"
#include "bench/hit_rate/victim_order.h"

namespace kvproof::bench {

/// Content that was evicted lately: a table of fingerprints with the time of their eviction. A
/// fingerprint that finds no room in its bucket displaces the oldest one there.
class GhostQueue {
 public:
  explicit GhostQueue(std::uint32_t length) : length_(length), buckets_(length / 2 + 1) {}

  void push(std::uint64_t content) {
    Bucket& bucket = buckets_[content % buckets_.size()];
    *std::ranges::min_element(bucket, {}, &Entry::evicted) = {content, ++clock_};
  }
  [[nodiscard]] bool contains(std::uint64_t content) const {
    const Bucket& bucket = buckets_[content % buckets_.size()];
    return std::ranges::any_of(bucket, [&](const Entry& entry) {
      return entry.content == content && entry.evicted + length_ > clock_;
    });
  }

 private:
  struct Entry {
    std::uint64_t content = 0;
    std::uint64_t evicted = 0;
  };
  using Bucket = std::array<Entry, 4>;

  std::uint64_t length_;
  std::uint64_t clock_ = 0;
  std::vector<Bucket> buckets_;
};

class S3Fifo final : public VictimOrder {
 public:
  explicit S3Fifo(std::uint32_t num_blocks)
      : most_small_(num_blocks / 10),
        queues_(num_blocks),
        states_(num_blocks),
        ghost_(num_blocks - num_blocks / 10) {}

  void freed(BlockId block, std::uint64_t content, bool fresh) override {
    State& state = states_[block];
    if (fresh) {
      if (queues_.list_of(block) != Queues::kNone) queues_.remove(block);
      state = {content, 0, false};
      queues_.push_back(ghost_.contains(content) ? kMain : kSmall, block);
    }
    state.free = true;
    ++free_[queues_.list_of(block)];
  }

  void revived(BlockId block) override {
    State& state = states_[block];
    state.hits = std::min(state.hits + 1, kMostHits);
    state.free = false;
    --free_[queues_.list_of(block)];
  }

  BlockId victim() override {
    while (true) {
      const bool small_is_full = queues_.size(kSmall) > most_small_;
      const bool from_small = free_[kSmall] > 0 && (small_is_full || free_[kMain] == 0);
      const BlockId block = queues_.front(from_small ? kSmall : kMain);
      if (from_small ? leaves_small(block) : leaves_main(block)) return block;
    }
  }

 private:
  using Queues = BlockLists<2>;
  enum : std::uint32_t { kSmall, kMain };
  static constexpr std::uint32_t kMostHits = 3;
  struct State {
    std::uint64_t content = 0;
    std::uint32_t hits = 0;
    bool free = false;
  };

  bool leaves_small(BlockId block) {
    State& state = states_[block];
    queues_.remove(block);
    if (state.free) --free_[kSmall];
    if (state.free && state.hits <= 1) {
      ghost_.push(state.content);
      return true;
    }
    queues_.push_back(kMain, block);
    if (state.free) ++free_[kMain];
    state.hits = 0;
    return false;
  }

  bool leaves_main(BlockId block) {
    State& state = states_[block];
    queues_.remove(block);
    if (state.free && state.hits == 0) {
      --free_[kMain];
      return true;
    }
    queues_.push_back(kMain, block);
    if (state.free) --state.hits;
    return false;
  }

  std::uint32_t most_small_;
  Queues queues_;
  std::array<std::uint32_t, 2> free_{};  // of the blocks in each queue
  std::vector<State> states_;            // shape [num_blocks]
  GhostQueue ghost_;
};

}  // namespace kvproof::bench
