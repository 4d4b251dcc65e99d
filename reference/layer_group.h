// SPDX-License-Identifier: Apache-2.0
// The naive manager of one layer group: how many blocks a request needs, takes, and gives back
// early.
//
// Model:   position i of a table holds tokens [i*block_size, (i+1)*block_size); positions that the
//          group does not read any more are null. Mamba in mode align moves its running states to
//          the end instead of growing the table block by block.
// Source:  vLLM v1 SingleTypeKVCacheManager and its subclasses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reference/block_pool.h"
#include "reference/config.h"

namespace kvproof::reference {

/// What an allocation asks of every group, in tokens.
struct Demand {
  std::uint64_t slots = 0;     // tokens that need a slot, lookahead included
  std::uint64_t main = 0;      // the same without lookahead
  std::uint64_t computed = 0;  // tokens whose K and V are here or will be loaded
  std::uint64_t external = 0;  // those of them that a connector will load
  std::uint32_t encoder = 0;   // tokens of the encoder, for cross attention
  bool starts = false;         // the tables start from hits and loaded tokens
  bool capped = false;         // count only the blocks that recycling leaves at any one time
};

/// One request in one group.
struct GroupTable {
  std::vector<BlockId> blocks;             // 0 = null
  std::optional<std::uint32_t> published;  // leading positions considered; not set: not running
  std::vector<BlockId> hit;                // found by the last lookup
  bool has_states = false;                 // moves_state: it has had blocks before
  std::optional<std::size_t> last_state;   // moves_state: position of the state before this step
};

class LayerGroup {
 public:
  LayerGroup(const CacheConfig& config, GroupId id);

  [[nodiscard]] const GroupConfig& config() const { return group_; }

  /// Blocks that leave the free queue if `demand` is met, counting hit blocks that stand in it.
  /// Negative if a state table is longer than the demand.
  [[nodiscard]] std::int64_t need(const GroupTable& table, std::span<const BlockId> hit,
                                  const Demand& demand, const BlockPool& pool) const;

  /// Starts a table from a hit: touches the blocks that are still read. @pre the table is empty
  void add_hit(GroupTable& table, std::span<const BlockId> hit, std::uint64_t computed,
               BlockPool& pool) const;

  /// Takes blocks for tokens that a connector loads. @pre add_hit came before
  void add_external(GroupTable& table, const Demand& demand, BlockPool& pool) const;

  /// Extends the table. @return the new positions; for moving states also nulls and ids held before
  std::vector<BlockId> allocate(GroupTable& table, const Demand& demand, BlockPool& pool) const;

  /// Gives back the blocks that the group no longer reads once `computed` tokens are cached, the
  /// deepest first.
  void recycle(GroupTable& table, std::uint64_t computed, BlockPool& pool) const;

 private:
  [[nodiscard]] std::uint64_t wanted(const Demand& demand) const;
  [[nodiscard]] std::uint64_t loaded(const Demand& demand) const;
  [[nodiscard]] std::int64_t fresh_states(const GroupTable& table, std::int64_t start,
                                          const Demand& demand) const;
  std::vector<BlockId> allocate_states(GroupTable& table, const Demand& demand,
                                       BlockPool& pool) const;

  Profile profile_;
  GroupConfig group_;
  std::optional<std::uint64_t> cap_;
};

}  // namespace kvproof::reference
