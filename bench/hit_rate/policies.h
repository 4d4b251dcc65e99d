// SPDX-License-Identifier: Apache-2.0
// The list of eviction policies under study. They promise safety, and no order of blocks.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/hit_rate/block_heap.h"
#include "bench/hit_rate/s3_fifo.h"
#include "bench/hit_rate/victim_order.h"

namespace kvproof::bench {

/// LRU: the block that was released first goes first. The order of the free queue of optimized/,
/// made once more with a clock and a heap: the two together show what the order of release alone is
/// worth, and that the pool calls a policy correctly.
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

/// The block whose content is the oldest goes first; hits change nothing. Age is counted from the
/// first release after publication.
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

/// LFU with dynamic aging: the block with the fewest hits goes first, and blocks that were popular
/// long ago lose to blocks that are popular now. A block's value is its number of hits plus the age
/// of the cache when it was last used; the age of the cache is the value of the last victim. Equal
/// values: released first (LFU-DA, Arlitt et al., Performance Evaluation Review 27(4), 2000).
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

/// The blocks of a conversation are kept before all others, until it has been silent for five
/// minutes. Two classes, LRU in each, the lower one first. The blocks of a request that continues a
/// conversation (Serving::continues) enter the higher class for kKeepSeconds, all others the lower
/// one. A block that was kept for that time falls back to the lower class, at the place of its last
/// use. After TensorRT-LLM, where a request states a retention priority and a duration for ranges
/// of its tokens; the rule which request gets which, and the five minutes, are ours.
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

struct EvictionPolicy {
  std::string_view name;
  std::string_view sentence;
  bool deepest_first;  // a finished request gives its last block back first
  // nullptr: the free queue of optimized/, at its price.
  // @param num_blocks with the null block @param serving outlives the order
  std::unique_ptr<VictimOrder> (*make)(std::uint32_t num_blocks, const Serving& serving);
};

inline constexpr EvictionPolicy kEvictionPolicies[] = {
    {"lru",
     "the allocator's own: released first goes first, the last block of a request before "
     "its first",
     true, nullptr},
    {"lru_first_block_first", "LRU where a request releases its first block first", false,
     [](std::uint32_t num_blocks, const Serving&) -> std::unique_ptr<VictimOrder> {
       return std::make_unique<Recency>(num_blocks);
     }},
    {"fifo", "the oldest content goes first, hits change nothing", true,
     [](std::uint32_t num_blocks, const Serving&) -> std::unique_ptr<VictimOrder> {
       return std::make_unique<Fifo>(num_blocks);
     }},
    {"lfu", "the fewest hits go first, with dynamic aging", true,
     [](std::uint32_t num_blocks, const Serving&) -> std::unique_ptr<VictimOrder> {
       return std::make_unique<LfuWithAging>(num_blocks);
     }},
    {"s3_fifo", "a small queue for new content, a main one for what was hit twice, a ghost", true,
     [](std::uint32_t num_blocks, const Serving&) -> std::unique_ptr<VictimOrder> {
       return std::make_unique<S3Fifo>(num_blocks);
     }},
    {"priority_ttl", "conversations are kept for five minutes before all else", true,
     [](std::uint32_t num_blocks, const Serving& serving) -> std::unique_ptr<VictimOrder> {
       return std::make_unique<PriorityTtl>(num_blocks, serving);
     }},
};

}  // namespace kvproof::bench
