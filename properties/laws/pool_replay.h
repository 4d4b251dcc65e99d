// SPDX-License-Identifier: Apache-2.0
// Replays the touches, takes and releases of an operation, to get the free queue that it must
// leave.
//
// Leaves out: the decision which blocks are taken or released; the caller states them in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "properties/laws/extent.h"
#include "reference/config.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

class PoolReplay {
 public:
  PoolReplay(const CacheConfig& config, const PoolState& before);

  /// Blocks without a holder left enter in the order given, at the end that the profile names.
  void release(std::span<const BlockId> blocks);
  /// As release(), for the blocks from back to front.
  void release_backward(std::span<const BlockId> blocks);

  /// The run of a group in one release, then the state that ran before this step in another.
  void recycle(const std::vector<BlockId>& table, const Recycled& gone);

  /// A block leaves, wherever it stands.
  void touch(BlockId block);

  /// @return whether the head is this block; it leaves.
  [[nodiscard]] bool take(BlockId block);

  [[nodiscard]] const std::vector<BlockId>& queue() const {
    return changed_ ? queue_ : before_.queue;
  }

  /// Queue, counts and links as a state shows them.
  void write_to(PoolState& out) const;

 private:
  void change();
  void release_one(BlockId block, std::size_t& to_front);

  const PoolState& before_;
  FreeOrder order_;
  bool changed_ = false;  // the first change fills the members below; most operations make none
  std::vector<BlockId> queue_;
  std::vector<std::int64_t> refs_;  // shape [num_blocks]
};

}  // namespace kvproof::properties
