// SPDX-License-Identifier: Apache-2.0
// Where an allocation begins and ends in every group, and which blocks recycling gives back before
// it. Laws and the history compute both from the state of the request before the operation.
//
// Model:   token axis computed | hit | external | new | lookahead. A table that starts from a hit
//          or from loaded tokens begins with nulls for the positions that its group has skipped.
// Source:  the published behaviour of vLLM v1, from layer_rules.h. The code is independent of
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

/// The prefix that the last lookup of a request found, as the caller knows it.
struct FoundPrefix {
  std::uint32_t tokens = 0;
  std::vector<std::vector<BlockId>> blocks;  // per group
  [[nodiscard]] bool empty() const;
};

/// One group's table through an allocation. All in blocks.
struct GroupExtent {
  std::uint64_t skipped = 0;    // nulls that the table starts with
  std::uint64_t begun = 0;      // length with hit blocks, before new blocks are taken
  std::uint64_t loaded = 0;     // length with the blocks of external tokens
  std::uint64_t length = 0;     // length in the end
  std::uint64_t most = 0;       // length with room for all tokens known now
  std::uint64_t fresh = 0;      // taken beyond `loaded`; fewer than the growth if states move
  std::uint64_t whole_new = 0;  // new blocks that all tokens known now would take
};

struct Extent {
  std::string request;
  bool uses_hit = false;
  bool starts = false;      // hit or external blocks begin the tables
  bool waits = false;       // a Mamba state of the hit was published in this very step
  std::uint64_t total = 0;  // [tokens] computed + hit + external
  std::uint64_t main = 0;   // [tokens] total and the new ones
  std::uint64_t slots = 0;  // [tokens] main and lookahead, up to the limit
  std::vector<GroupExtent> groups;
};

/// @param encoder_tokens of the request. @param has_states it was granted an allocation before
[[nodiscard]] Extent extent_of(const CacheConfig& config, const RequestState& request,
                               const FoundPrefix& found, std::uint32_t encoder_tokens,
                               bool has_states, const AllocateArgs& args);

/// The positions that a request gave back in one group, in the order of release.
struct Recycled {
  std::vector<std::size_t> run;     // the deepest first
  std::vector<std::size_t> states;  // for moving states: the one that ran before this step
};

/// The positions that recycling took from table `was` to leave `now`. @param computed [tokens] that
/// count as computed
[[nodiscard]] Recycled recycled_between(const CacheConfig& config, GroupId group,
                                        std::uint64_t computed, const std::vector<BlockId>& was,
                                        const std::vector<BlockId>& now);

/// The positions that recycling surely gives back: downwards from the first that is still read,
/// until a position is null already. @return the positions in the order of release
[[nodiscard]] std::vector<std::size_t> recycled_run(const CacheConfig& config, GroupId group,
                                                    std::uint64_t computed,
                                                    const std::vector<BlockId>& table);

/// @return n: positions [0, n) are not read any more once `computed` tokens are computed
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
