// SPDX-License-Identifier: Apache-2.0
// The host tier: a second pool with its own queue and index, and the swaps between the two.
//
// Model:   as reference/cache_manager_tiers.cpp. Until a transfer is settled both sides keep what
//          they have. Content that the other side has under its key is not copied.
// Source:  Kwon et al., SOSP'23, sec. 4.5.
// Leaves out: which requests may be moved when; the manager says so, and notes their Place.
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

  /// Empty where the configuration has no host tier.
  [[nodiscard]] const Pool& pool() const { return pool_; }
  [[nodiscard]] bool exists() const { return pool_.num_blocks() > 0; }
  [[nodiscard]] bool holds(RequestId id) const {
    return id < swapped_.size() && !swapped_[id].blocks.empty();
  }
  /// The blocks of a request on the host; empty where it has none.
  [[nodiscard]] std::span<const BlockId> table(RequestId id, GroupId group) const {
    return holds(id) ? std::span<const BlockId>(swapped_[id].blocks[group])
                     : std::span<const BlockId>();
  }

  /// Starts a transfer of the blocks in `tables` to the host. @param tables shape [groups]
  /// @return false, with nothing changed, when the host is short of blocks
  bool leave(RequestId id, const GroupTable* tables, const Pool& device, Copies& copies);
  /// The transfer to the host is over: the device gives its blocks back.
  void settle_there(RequestId id, GroupTable* tables, Pool& device);

  /// Starts the transfer back, into `tables`. @return as leave(), of the device
  bool come_back(RequestId id, GroupTable* tables, Pool& device, Copies& copies);
  /// The transfer back is over: the host gives its blocks back, and what it knows by a key becomes
  /// findable on the device again.
  void settle_here(RequestId id, GroupTable* tables, Pool& device);

  /// The host's side of a transfer that failed, or of a request that ends.
  void release(RequestId id);

  /// @return false, with nothing changed, while a block is held
  bool reset() { return pool_.reset(); }

 private:
  using BlockTables = std::vector<std::vector<BlockId>>;  // shape [groups][blocks]

  /// What the host has of one request.
  struct Swapped {
    BlockTables blocks;
    std::vector<std::uint32_t> published;  // shape [groups]: GroupTable::published, while away
  };

  static bool start(const BlockTables& source, const Pool& from, Pool& to, BlockTables& target,
                    Copies& copies);

  Pool pool_;
  std::span<const LayerGroup<Key>> groups_;
  std::vector<Swapped> swapped_;  // by request, as far as any was ever moved
};

}  // namespace kvproof::optimized
