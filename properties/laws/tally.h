// SPDX-License-Identifier: Apache-2.0
// Counts how often each block is listed in each place of a state, for the laws about references.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reference/snapshot.h"

namespace kvproof::properties {

/// The counts of one pool. Ids out of range are counted apart.
struct PoolTally {
  std::vector<std::uint32_t> queued, tabled, indexed;  // shape [num_blocks] each
  struct Stray {
    const char* place = "";
    BlockId block = 0;
  };
  std::optional<Stray> stray;  // an id that the pool does not have

  void count_pool(const PoolState& state);
  void add(std::vector<std::uint32_t>& counts, BlockId block, const char* place);
};

/// The counts of the device pool, with those of the host pool.
struct Tally : PoolTally {
  std::vector<std::uint32_t> sharers, raw, leased, copying;  // shape [num_blocks] each
  std::vector<std::uint32_t> table_group;  // shape [num_blocks]: 1 + the group whose tables list it
  struct Repeat {
    std::size_t request = 0;
    BlockId block = 0;
  };
  std::optional<Repeat> repeat;       // a non-null block twice in one request's tables
  std::optional<BlockId> two_groups;  // a block in tables of two groups
  PoolTally host;                     // tabled: in host tables

  void count(const Snapshot& state);

 private:
  void count_tables(const Snapshot& state);
  /// Shape [num_blocks]: 1 + the last request that lists it.
  std::vector<std::uint32_t> last_holder_;
};

}  // namespace kvproof::properties
