// SPDX-License-Identifier: Apache-2.0
// The list of eviction policies under study. They promise safety, and no order of blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "bench/hit_rate/fifo.h"
#include "bench/hit_rate/lfu.h"
#include "bench/hit_rate/priority_ttl.h"
#include "bench/hit_rate/recency.h"
#include "bench/hit_rate/s3_fifo.h"
#include "bench/hit_rate/victim_order.h"

namespace kvproof::bench {

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
