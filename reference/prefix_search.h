// SPDX-License-Identifier: Apache-2.0
// The longest cached prefix, for one kind of layer and for several groups at once.
//
// Model:   a search sees which block positions are cached and answers with a pattern: true for a
//          position that the hit reads, false for one that the kind does not read any more (null
//          in the table). The length of the pattern is the length of the hit in blocks.
// Source:  vLLM v1 find_longest_cache_hit and HybridKVCacheCoordinator.
// Leaves out: partial-block hits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "reference/config.h"

namespace kvproof::reference {

using Pattern = std::vector<bool>;                        // shape [blocks of the hit]
using Cached = std::function<bool(std::uint32_t block)>;  // is that position cached?

/// Where a search may end.
struct SearchLimits {
  std::uint64_t tokens = 0;  // [tokens] at most
  std::uint64_t align = 1;   // [tokens] the hit's length is a multiple of it
  bool drop_last = false;    // EAGLE: the hit ends one block before what was found
};

[[nodiscard]] Pattern longest_hit(const GroupConfig& group, SearchLimits limits,
                                  const Cached& cached);

/// A hit of all groups: as many tokens in each.
struct CommonHit {
  std::uint32_t tokens = 0;
  std::vector<Pattern> patterns;  // per group
};

/// Groups take turns to shorten the hit until all of them have it. Full attention comes first: it
/// finds the longest. @param cached per group and position
[[nodiscard]] CommonHit longest_common_hit(
    const CacheConfig& config, std::uint64_t max_tokens,
    const std::function<bool(GroupId group, std::uint32_t block)>& cached);

}  // namespace kvproof::reference
