// SPDX-License-Identifier: Apache-2.0
// The bounds that no eviction policy can exceed: the infinite cache, and the offline optimum of
// each size.
//
// Model:   a prompt is the list of its block ids. The cache holds blocks of finished prompts. A
//          block that two prompts have in common hits at the second if it was kept since the first:
//          each such pair asks for one place over the time between them. At most `capacity` places
//          can be given at a time, and as many pairs as possible get theirs when the one that is
//          needed last gives way (Belady). New blocks may be passed over (bypass), places are given
//          after a request, and the running request needs none: it is not pinned.
// Bounds:  a real cache serves a pair only if it gives it a place, too, but also has to hold the
//          running request, and serves it only behind an unbroken prefix. The latter costs nothing
//          here: a prompt that has a block has all blocks before it, so a parent is never needed
//          later than its child, and of two needed at the same time the deeper one gives way.
//          The number of blocks is what is at its best; the share of tokens is that of this
//          schedule, and partial last blocks could be weighed otherwise.
// Leaves out: decoded tokens and time: a request is instantaneous, as in replay_prompts.h.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/hit_rate/replay_prompts.h"

namespace kvproof::bench {

/// The prompts of a source, and when each of their blocks is needed again.
class PromptFuture {
 public:
  /// @pre the source has ids, of at most 2^32 - 2 blocks together and as many requests
  explicit PromptFuture(RequestSource& source);

  [[nodiscard]] std::uint64_t num_requests() const { return first_.size() - 1; }
  [[nodiscard]] std::uint32_t distinct_blocks() const { return distinct_; }

  /// The best that a cache of that many blocks can do; with distinct_blocks() the infinite cache.
  /// Only the counts of requests, tokens and blocks are set. O(blocks * log(capacity))
  [[nodiscard]] ReplayCounts optimum(std::uint64_t capacity_blocks) const;

 private:
  static constexpr std::uint32_t kNever = 0xffffffffU;

  std::uint64_t block_size_;
  std::uint32_t distinct_ = 0;
  std::vector<std::uint64_t> first_;     // shape [requests + 1]: where the blocks of each start
  std::vector<std::uint64_t> inputs_;    // shape [requests] [tokens]
  std::vector<std::uint32_t> blocks_;    // shape [blocks of all prompts]: numbered from 0
  std::vector<std::uint32_t> next_use_;  // as blocks_: the next request that has it, or kNever
};

}  // namespace kvproof::bench
