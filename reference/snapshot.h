// SPDX-License-Identifier: Apache-2.0
// Everything observable of a cache manager at one moment, recomputed from its structures.
//
// Laws read only this. A snapshot is refilled in place, so that auditing after every operation does
// not allocate once its vectors have grown.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/ids.h"

namespace kvproof {

struct BlockState {
  std::int64_t ref_cnt = 0;         // holders; not maintained for the null block
  bool linked = false;              // its links say that it is in the free queue
  bool hashed = false;              // it carries a key
  GroupId group = 0;                // of the key
  std::uint64_t key = 0;            // fingerprint of the key; equal content has equal fingerprints
  std::uint32_t prefix_tokens = 0;  // tokens that the key covers; 0 when not tracked
  bool operator==(const BlockState&) const = default;
};

/// One key of the prefix index with the blocks that hold its content, oldest registration first.
struct IndexEntry {
  GroupId group = 0;
  std::uint64_t key = 0;
  std::vector<BlockId> blocks;
  bool operator==(const IndexEntry&) const = default;
};

struct RequestState {
  std::string name;
  std::uint32_t num_tokens = 0;
  std::uint32_t computed = 0;
  std::vector<std::uint64_t> hashes;         // fingerprints, one per complete hash unit
  std::vector<std::vector<BlockId>> tables;  // per group
  std::vector<std::optional<std::uint32_t>>
      progress;  // per group: table positions considered for caching
  bool operator==(const RequestState&) const = default;
};

struct Snapshot {
  std::uint32_t num_free = 0;  // the manager's own counter
  double usage = 0.0;
  std::vector<BlockId> queue;           // free ids from head (handed out next) to tail
  std::vector<BlockId> queue_backward;  // the same walk from the tail
  std::vector<BlockState> blocks;       // shape [num_blocks]
  std::vector<IndexEntry> index;        // sorted by first block id
  std::vector<RequestState> requests;   // sorted by name
  std::vector<BlockId> raw;             // references held by the raw owner, sorted, with repeats
  bool operator==(const Snapshot&) const = default;

  [[nodiscard]] const RequestState* find(std::string_view name) const {
    auto at =
        std::lower_bound(requests.begin(), requests.end(), name,
                         [](const RequestState& r, std::string_view n) { return r.name < n; });
    return at != requests.end() && at->name == name ? &*at : nullptr;
  }
};

}  // namespace kvproof
