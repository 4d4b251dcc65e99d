// SPDX-License-Identifier: Apache-2.0
// The host tier: a second pool with its own queue and index, and the swaps between the two.
//
// Model:   as reference/cache_manager_tiers.cpp. Until a transfer is settled both sides keep their
//          blocks. Content that the other side has under its key is not copied.
// Source:  Kwon et al., SOSP'23, sec. 4.5.
// Leaves out: the decision which requests may be moved when, which the manager makes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optimized/manager/copies.h"
#include "optimized/manager/layer_group.h"
#include "optimized/pool/block_pool.h"
#include "reference/config.h"
#include "reference/ids.h"

namespace kvproof::optimized {

template <class Key>
class HostTier {
 public:
  using Pool = BlockPool<Key>;

  /// @param groups of the configuration; they outlive the tier
  HostTier(const CacheConfig& config, FreeOrder order, std::span<const LayerGroup<Key>> groups);

  /// The pool; empty if the configuration has no host tier.
  [[nodiscard]] const Pool& pool() const { return pool_; }
  [[nodiscard]] bool exists() const { return pool_.num_blocks() > 0; }
  [[nodiscard]] bool holds(RequestId id) const {
    return id < swapped_.size() && !swapped_[id].blocks.empty();
  }
  /// The blocks of a request on the host; empty if it has none.
  [[nodiscard]] std::span<const BlockId> table(RequestId id, GroupId group) const {
    return holds(id) ? std::span<const BlockId>(swapped_[id].blocks[group])
                     : std::span<const BlockId>();
  }

  /// Starts a transfer of the blocks in `tables` to the host. @param tables shape [groups]
  /// @return false, with nothing changed, when the host is short of blocks
  bool leave(RequestId id, const GroupTable* tables, const Pool& device, Copies& copies);
  /// The transfer to the host is over: the device gives its blocks back.
  void settle_there(RequestId id, GroupTable* tables, Pool& device);

  /// Starts the transfer back, into `tables`. @return false, with nothing changed, when the
  /// device is short of blocks
  bool come_back(RequestId id, GroupTable* tables, Pool& device, Copies& copies);
  /// The transfer back is over: the host gives its blocks back, and those with a key can be found
  /// on the device again.
  void settle_here(RequestId id, GroupTable* tables, Pool& device);

  /// Gives the host's blocks back after a transfer that failed, or when a request ends.
  void release(RequestId id);

  /// @return false, with nothing changed, while a block is held
  bool reset() { return pool_.reset(); }

 private:
  using BlockTables = std::vector<std::vector<BlockId>>;  // shape [groups][blocks]

  /// The part of one request on the host.
  struct Swapped {
    BlockTables blocks;
    std::vector<std::uint32_t> published;  // shape [groups]: GroupTable::published before the swap
  };

  static bool start(const BlockTables& source, const Pool& from, Pool& to, BlockTables& target,
                    Copies& copies);

  Pool pool_;
  std::span<const LayerGroup<Key>> groups_;
  std::vector<Swapped> swapped_;  // by request, up to the last one that was ever moved
};

}  // namespace kvproof::optimized
