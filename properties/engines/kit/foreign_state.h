// SPDX-License-Identifier: Apache-2.0
// Puts the state that a foreign allocator shows together into a snapshot.
//
// Model:   every answer shows the same parts of the pool. It lists at least the request that the
//          operation named; requests that it does not list are as they were. Facts that the caller
//          knows (tokens, computed tokens, leases, raw references) need not be shown.
// Refuses: a state that this manager cannot have: ids beyond the pool, groups that do not exist,
//          parts that are shown at one time and not at another.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "properties/caller/caller_book.h"
#include "properties/caller/promises.h"
#include "reference/snapshot.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

class ForeignState {
 public:
  explicit ForeignState(const CacheConfig& config);

  /// @throws TextError
  void read(const RecordedState& state, const Promises& promises, const CallerBook& book);

  /// Requires that an answer names only blocks and groups that exist. @throws TextError
  void check(const Outcome& outcome) const;

  [[nodiscard]] const Snapshot& snapshot() const { return snapshot_; }
  [[nodiscard]] Parts shown() const { return shown_; }

 private:
  struct Listed {  // of a request, when it was listed last
    std::vector<std::vector<BlockId>> tables;
    std::vector<std::vector<BlockId>> host_tables;
    std::vector<std::optional<std::uint32_t>> progress;
    std::vector<std::uint64_t> hashes;
  };

  void read_pool(const RecordedPool& pool, std::uint32_t num_blocks, PoolState& out) const;
  void list(const RecordedState& state, bool block_ids);
  [[nodiscard]] RequestState request(const std::string& name, const Listed& listed,
                                     const RecordedState& state, const CallerBook& book) const;

  CacheConfig config_;
  std::map<std::string, Listed> listed_;
  Snapshot snapshot_;
  Parts shown_ = 0;
  bool read_ = false;
};

}  // namespace kvproof::properties
