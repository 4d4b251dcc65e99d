// SPDX-License-Identifier: Apache-2.0
// The longest cached prefix, for one kind of layer and for several groups at once.
//
// Model:   a search sees which prefixes a group has cached and answers with a pattern: true for a
//          position that the hit reads, false for one that the kind does not read any more (null
//          in the table). A hit may end inside its last block.
// Source:  vLLM v1 find_longest_cache_hit and HybridKVCacheCoordinator.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "reference/config.h"

namespace kvproof::reference {

using Pattern = std::vector<bool>;  // shape [ceil(tokens of the hit / block_size)]
/// Does the group have the block in which this prefix ends? @param tokens multiple of the hash unit
using Cached = std::function<bool(std::uint64_t tokens)>;

/// Where a search may end.
struct SearchLimits {
  std::uint64_t tokens = 0;  // [tokens] at most
  std::uint64_t align = 1;   // [tokens] the hit's length is a multiple of it
  bool drop_last = false;    // EAGLE: the hit ends one block, or one shorter alignment, earlier
};

/// What one kind of layer has.
struct GroupHit {
  Pattern read;
  std::uint64_t tokens = 0;
  std::uint64_t found = 0;  // [tokens] before any were dropped: its last block covers so many
};

[[nodiscard]] GroupHit longest_hit(const GroupConfig& group, SearchLimits limits,
                                   const Cached& cached);

/// A hit of all groups: as many tokens in each.
struct CommonHit {
  std::uint32_t tokens = 0;
  std::vector<Pattern> patterns;          // per group
  std::vector<std::uint64_t> found = {};  // per group, [tokens]: a longer hit was cut to this one
  std::uint32_t longest = 0;  // [tokens] that any group had, on the way to the common hit
};

/// Groups take turns to shorten the hit until all of them have it. Full attention comes first: it
/// finds the longest.
/// @param hashed_tokens [tokens] whose keys are known @param cached per group and prefix
[[nodiscard]] CommonHit longest_common_hit(
    const CacheConfig& config, std::uint64_t max_tokens, std::uint64_t hashed_tokens,
    const std::function<bool(GroupId group, std::uint64_t tokens)>& cached);

}  // namespace kvproof::reference
