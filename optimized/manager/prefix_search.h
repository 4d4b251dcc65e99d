// SPDX-License-Identifier: Apache-2.0
// The longest cached prefix over layer groups of every kind, written into the hit arrays of a
// request's tables.
//
// Model:   as reference/prefix_search.h. Groups that are alike are looked up together; the kinds
//          take turns to shorten the hit until all have it. One group ends after its first turn.
// Source:  vLLM v1 find_longest_cache_hit and HybridKVCacheCoordinator.
//          Nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optimized/manager/layer_group.h"

namespace kvproof::optimized {

/// Notes in `hit` the leading positions for which `find(position)` knows a block: the first gap
/// ends the prefix. @return how many [blocks], at most `most`
template <class Find>
std::uint32_t leading_hits(std::uint32_t most, BlockId* hit, const Find& find) {
  std::uint32_t length = 0;
  for (; length < most; ++length) {
    const BlockId block = find(length);
    if (block == kNoBlock) break;
    hit[length] = block;
  }
  return length;
}

template <class Key>
class PrefixSearch {
 public:
  explicit PrefixSearch(const CacheConfig& config);

  /// What was found: a common hit, and the longest that any group had on the way. [tokens]
  struct Found {
    std::uint32_t hit = 0;
    std::uint32_t longest = 0;
  };

  /// @param units keys of the request's hash units, shape [num_units]
  /// @param max_tokens that the hit may have @param tables per group; their hits are set
  Found find(const BlockPool<Key>& pool, const Key* units, std::uint32_t num_units,
             std::uint32_t max_tokens, GroupTable* tables);

 private:
  using Group = LayerGroup<Key>;

  /// Groups that are alike and are looked up together.
  struct Kin {
    GroupId first;
    std::vector<GroupId> members;
    bool eagle;
    bool verified;         // the EAGLE block beyond the common length has been seen
    bool looked_up;        // full attention needs it once
    std::uint64_t length;  // [tokens] of the hit
    std::uint64_t found;   // [tokens] before any were dropped
  };

  /// The prompt that is looked up.
  struct Prompt {
    const BlockPool<Key>& pool;
    const Key* units;
    std::uint64_t hashed;  // [tokens]
    std::uint64_t most;    // [tokens] of the hit
    GroupTable* tables;
  };

  /// The data that one search reads and writes.
  struct Search {
    const Prompt& prompt;
    const Kin& kin;
    const Group& group;
    std::uint64_t tokens;  // [tokens] at most
    bool drop_last;
  };
  /// What one kind has. [tokens]
  struct Length {
    std::uint64_t hit = 0;
    std::uint64_t found = 0;
  };

  bool probe(const Search& search, std::uint64_t tokens) const;
  /// Calls `f` with what answers the same for whole blocks: a function of a position.
  template <class F>
  auto with_block_probe(const Search& search, const F& f) const;
  /// The first `count` positions of the hit are not read.
  void set_null(const Search& search, std::uint32_t count) const;
  std::uint32_t trimmed(const Search& search, std::uint32_t length) const;
  Length longest(const Search& search) const;
  Length longest_full(const Search& search) const;
  std::uint32_t longest_window(const Search& search) const;  // [blocks]
  std::uint32_t longest_chunk(const Search& search) const;   // [blocks]
  Length longest_state(const Search& search) const;
  std::uint64_t sweep(const Prompt& prompt, std::uint64_t hit, std::uint64_t& longest_hit);

  std::vector<Group> groups_;
  std::vector<Kin> kin_;  // full attention first
  std::uint64_t align_;   // [tokens]
  bool searches_all_hashes_;
  std::uint32_t unit_;  // [tokens] per hash
  bool one_sweep_;
};

}  // namespace kvproof::optimized
