// SPDX-License-Identifier: Apache-2.0
// Where an allocation begins and ends in every group, and what recycling gives back before it:
// computed from the request as it was, for laws and for the memory of what was granted.
//
// Model:   token axis computed | hit | external | new | lookahead. A table that starts from a hit
//          or from loaded tokens begins with nulls for what its group has skipped.
// Source:  the published behaviour of vLLM v1, from layer_rules.h; written apart from
//          reference/layer_group.h, so that a law and the model do not share a mistake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/config.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// The prefix that a request's last lookup found, as its caller knows it.
struct FoundPrefix {
  std::uint32_t tokens = 0;
  std::vector<std::vector<BlockId>> blocks;  // per group
  [[nodiscard]] bool empty() const;
};

/// One group's table through an allocation. All in blocks.
struct GroupExtent {
  std::uint64_t skipped = 0;    // nulls that the table starts with
  std::uint64_t begun = 0;      // length with hit blocks, before anything is taken
  std::uint64_t loaded = 0;     // length with the blocks of external tokens
  std::uint64_t length = 0;     // in the end
  std::uint64_t fresh = 0;      // taken beyond `loaded`; of moving states fewer than it grows by
  std::uint64_t whole_new = 0;  // that all tokens known now would take
};

struct Extent {
  std::string request;
  bool uses_hit = false;
  bool starts = false;      // hit or external blocks begin the tables
  bool waits = false;       // a Mamba state of the hit was published in this very step
  std::uint64_t total = 0;  // [tokens] computed + hit + external
  std::uint64_t main = 0;   // [tokens] with the new ones
  std::uint64_t slots = 0;  // [tokens] with lookahead, below the limit
  std::vector<GroupExtent> groups;
};

/// @param encoder_tokens of the request. @param has_states it was granted an allocation before
[[nodiscard]] Extent extent_of(const CacheConfig& config, const RequestState& request,
                               const FoundPrefix& found, std::uint32_t encoder_tokens,
                               bool has_states, const AllocateArgs& args);

/// What a request gave back in one group, in the order of release.
struct Recycled {
  std::vector<std::size_t> run;     // positions, deepest first
  std::vector<std::size_t> states;  // of moving states: the one that ran before this step
};

/// What recycling took out of `was`, of which `now` is left. @param computed its basis [tokens]
[[nodiscard]] Recycled recycled_between(const CacheConfig& config, GroupId group,
                                        std::uint64_t computed, const std::vector<BlockId>& was,
                                        const std::vector<BlockId>& now);

/// Positions that recycling gives back for sure: from the first that is still read downwards, until
/// one is null already. @return them in the order of their release
[[nodiscard]] std::vector<std::size_t> recycled_run(const CacheConfig& config, GroupId group,
                                                    std::uint64_t computed,
                                                    const std::vector<BlockId>& table);

/// Positions [0, n) that nobody reads once `computed` tokens are. @return n
[[nodiscard]] std::size_t unread_positions(const CacheConfig& config, GroupId group,
                                           std::uint64_t computed, std::size_t table_length);

[[nodiscard]] inline bool without_blocks(const RequestState& request) {
  for (const auto& table : request.tables) {
    if (!table.empty()) return false;
  }
  return true;
}

[[nodiscard]] inline bool without_progress(const RequestState& request) {
  for (const auto& progress : request.progress) {
    if (progress) return false;
  }
  return true;
}

}  // namespace kvproof::properties
