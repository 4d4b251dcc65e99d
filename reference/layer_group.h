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
  std::uint64_t local = 0;     // those of them that are here
  std::uint64_t external = 0;  // those of them that a connector will load
  std::uint32_t encoder = 0;   // tokens of the encoder, for cross attention
  std::uint32_t prompt = 0;
  std::uint64_t prefill_end = 0;  // where the prefill ends, also that of a preempted request
  bool starts = false;            // the tables are empty, and begin with hits and loaded tokens
  bool capped = false;            // count only the blocks that recycling leaves at any one time
};

/// A block that holds a prefix which ends inside of it, and will be copied before it is written.
struct SharedTail {
  std::size_t position = 0;
  BlockId block = kNullBlock;
};

/// A block for the state at a boundary of the prompt, which the chunk that ends the prefill writes
/// besides the running state.
struct Checkpoint {
  std::uint64_t tokens = 0;
  std::size_t position = 0;
};

/// One request in one group. States move where moves_state() of layer_rules.h says so.
struct GroupTable {
  std::vector<BlockId> blocks;  // 0 = null
  /// How many leading positions publication has looked at; not set: the request does not run.
  std::optional<std::uint32_t> published;
  std::vector<BlockId> hit;               // found by the last lookup
  std::uint64_t hit_found = 0;            // [tokens] that the blocks of the hit cover
  bool has_states = false;                // moving states: the request has had blocks
  std::optional<std::size_t> last_state;  // moving states: where the state was before this step
  std::size_t retired = 0;                // moving states: leading positions given back
  std::optional<SharedTail> tail;         // the block where the hit, or its own prompt, ends inside
  std::optional<Checkpoint> checkpoint;   // moving states: what the last grant reserved
  std::optional<Checkpoint> passed;       // moving states: the one reserved before that
  std::uint64_t state_tokens = 0;         // moving states: known tokens in the running state

  /// Whether the block at a position keeps a checkpoint, and not the state of so many tokens.
  [[nodiscard]] bool holds_other_state(std::size_t position, std::uint64_t tokens) const {
    return passed && passed->position == position && passed->tokens != tokens;
  }
};

/// What an allocation has done to one table.
struct Growth {
  std::vector<BlockId> blocks;  // of the new positions; the copy of a shared tail comes first
  std::optional<Copy> copy = {};
};

class LayerGroup {
 public:
  LayerGroup(const CacheConfig& config, GroupId id);

  /// Blocks that leave the free queue if `demand` is met, counting hit blocks that stand in it.
  /// Negative if a state table is longer than the demand.
  [[nodiscard]] std::int64_t need(const GroupTable& table, std::span<const BlockId> hit,
                                  const Demand& demand, const BlockPool& pool) const;

  /// The checkpoint that meeting `demand` reserves.
  [[nodiscard]] std::optional<Checkpoint> checkpoint(const GroupTable& table,
                                                     const Demand& demand) const;

  /// Starts a table from a hit: touches the blocks that are still read. @pre the table is empty
  void add_hit(GroupTable& table, std::span<const BlockId> hit, const Demand& demand,
               BlockPool& pool) const;

  /// Takes blocks for tokens that a connector loads. @pre add_hit came before
  void add_external(GroupTable& table, const Demand& demand, BlockPool& pool) const;

  /// Extends the table. @return the new positions; for moving states also nulls and ids held before
  Growth allocate(GroupTable& table, const Demand& demand, BlockPool& pool) const;

  /// Gives back the blocks that the group no longer reads once `computed` tokens are cached, the
  /// deepest first. @param prompt_tokens R-SWA keeps them
  void recycle(GroupTable& table, std::uint64_t computed, std::uint64_t prompt_tokens,
               BlockPool& pool) const;

 private:
  [[nodiscard]] std::uint64_t wanted(const Demand& demand) const;
  [[nodiscard]] std::uint64_t loaded(const Demand& demand) const;
  [[nodiscard]] std::int64_t fresh_states(const GroupTable& table, std::span<const BlockId> hit,
                                          std::int64_t start, const Demand& demand) const;
  [[nodiscard]] bool ends_inside(std::span<const BlockId> hit, const Demand& demand) const {
    return !hit.empty() && demand.local % group_.block_size != 0;
  }
  Growth allocate_states(GroupTable& table, const Demand& demand, BlockPool& pool) const;
  void recycle_range(GroupTable& table, std::size_t from, std::size_t to, bool over_gaps,
                     BlockPool& pool) const;

  CacheConfig config_;
  GroupConfig group_;
  std::optional<std::uint64_t> cap_;
};

}  // namespace kvproof::reference
