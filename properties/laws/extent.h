// SPDX-License-Identifier: Apache-2.0
// Where an allocation begins and ends in every group, and which blocks recycling gives back before
// it. Laws and the history compute both from the state of the request before the operation.
//
// Model:   token axis computed | hit | external | new | lookahead. A table that starts from a hit
//          or from loaded tokens begins with nulls for the positions that its group has skipped.
// Source:  reference/vllm/, by way of layer_rules.h. The code is independent of
//          reference/layer_group.h, so that a law and the model do not share a mistake.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/caller/request_record.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// All keys of a block, in no order.
[[nodiscard]] std::vector<std::uint64_t> all_keys(const PoolState& pool, BlockId block);

/// One group's table through an allocation. All in blocks.
struct GroupExtent {
  std::uint64_t skipped = 0;    // nulls that the table starts with
  std::uint64_t begun = 0;      // length with hit blocks, before new blocks are taken
  std::uint64_t loaded = 0;     // length with the blocks of external tokens
  std::uint64_t length = 0;     // length in the end
  std::uint64_t most = 0;       // length with room for all tokens known now
  std::uint64_t fresh = 0;      // taken beyond `loaded`; fewer than the growth if states move
  std::uint64_t whole_new = 0;  // new blocks that all tokens known now would take
  std::uint64_t copies = 0;     // of blocks in which a shared prefix ends: 0 or 1
  std::optional<Checkpoint> checkpoint = {};
};

struct Extent {
  std::string request;
  bool uses_hit = false;
  bool starts = false;          // hit or external blocks begin the tables
  bool inside = false;          // the hit ends inside a block of some group
  bool waits = false;           // a Mamba state of the hit was published in this very step
  std::uint64_t total = 0;      // [tokens] computed + hit + external
  std::uint64_t processed = 0;  // [tokens] those of them that no step in flight computes
  std::uint64_t main = 0;       // [tokens] total and the new ones
  std::uint64_t slots = 0;      // [tokens] main and lookahead, up to the limit
  std::vector<GroupExtent> groups;
};

[[nodiscard]] Extent extent_of(const CacheConfig& config, const RequestState& request,
                               const RequestRecord& known, const AllocateArgs& args);

/// A grant to a request. [tokens]
struct Chunk {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t prefill_end = 0;
};

/// The checkpoint that a grant reserves in a group of moving states.
/// @param table before the grant. @param has_states it was granted an allocation before
[[nodiscard]] std::optional<Checkpoint> checkpoint_of(const CacheConfig& config,
                                                      const GroupConfig& group,
                                                      const std::vector<BlockId>& table,
                                                      const Chunk& chunk, bool has_states);

/// Where the prefill of a request ends, which it replays when it resumes. [tokens]
[[nodiscard]] inline std::uint64_t prefill_end_of(const RequestState& request,
                                                  std::uint64_t prompt_tokens) {
  return std::max<std::uint64_t>(prompt_tokens, std::max(request.num_tokens, 1U) - 1);
}

/// What recycling goes by. [tokens]
struct Passed {
  std::uint64_t computed = 0;
  std::uint64_t prompt = 0;  // R-SWA keeps it
};

/// The positions that a request gave back in one group, in the order of release.
struct Recycled {
  std::vector<std::size_t> run;     // the deepest first
  std::vector<std::size_t> states;  // for moving states: the one that ran before this step
};

/// The positions that recycling took from table `was` to leave `now`.
[[nodiscard]] Recycled recycled_between(const CacheConfig& config, GroupId group,
                                        const Passed& passed, const std::vector<BlockId>& was,
                                        const std::vector<BlockId>& now);

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
