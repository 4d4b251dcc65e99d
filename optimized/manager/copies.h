// SPDX-License-Identifier: Apache-2.0
// Copy-on-write: a request that writes into an unpublished block with another holder gets a copy.
//
// Model:   as reference/cache_manager_sharing.cpp. A published block is complete and is not written
//          again; a running state and an encoder row are never shared.
// Source:  Kwon et al., SOSP'23, sec. 4.4.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "optimized/manager/admission.h"
#include "optimized/manager/group_table.h"
#include "optimized/manager/layer_group.h"
#include "optimized/manager/requests.h"
#include "reference/ids.h"

namespace kvproof::optimized {

/// The bytes of `from` go to `to` before the step that was admitted runs.
struct BlockCopy {
  GroupId group = 0;
  BlockId from = 0;
  BlockId to = 0;
};

/// Counts and makes the copies of one table, and lists them until the caller takes the list.
class Copies {
 public:
  /// The blocks that an allocation would write although they have another holder.
  template <class Key>
  [[nodiscard]] std::uint32_t needed(const LayerGroup<Key>& group, const GroupTable& table,
                                     const Demand& demand, const BlockPool<Key>& pool) const {
    const auto [from, end] = group.written(table, demand);
    std::uint32_t count = 0;
    for (std::uint32_t i = from; i < end; ++i) {
      count += has_other_holder(table, i, pool) ? 1 : 0;
    }
    return count;
  }

  /// Whether any step of the request might write into a block that has another holder.
  template <class Key>
  [[nodiscard]] bool shares(const LayerGroup<Key>& group, const GroupTable& table,
                            const BlockPool<Key>& pool) const {
    if (!group.is_written_again()) return false;
    for (std::uint32_t i = table.progress(); i < table.length; ++i) {
      if (has_other_holder(table, i, pool)) return true;
    }
    return false;
  }

  /// Makes room in the list for that many more before anything changes, because memory may be
  /// refused if the caller does not take the copies.
  void reserve(std::size_t more) { list_.reserve(list_.size() + more); }

  void add(const BlockCopy& copy) { list_.push_back(copy); }
  /// Those that the caller has not taken.
  [[nodiscard]] std::span<const BlockCopy> list() const { return list_; }

  /// Puts a new block in the place of each that needed() counts. @return the number of copies
  template <class Key>
  std::uint32_t make(const LayerGroup<Key>& group, GroupTable& table, const Demand& demand,
                     BlockPool<Key>& pool) {
    const auto [from, end] = group.written(table, demand);
    std::uint32_t count = 0;
    for (std::uint32_t i = from; i < end; ++i) {
      const BlockId shared = table.blocks[i];
      if (!has_other_holder(table, i, pool)) continue;
      pool.take({table.blocks + i, 1});
      pool.release(std::span(&shared, 1));
      add({group.id(), shared, table.blocks[i]});
      ++count;
    }
    pool.counters().copies += count;
    return count;
  }

  /// The copies listed since the last call, in order. The buffer stays here, so that the next
  /// admission finds room in it.
  [[nodiscard]] std::vector<BlockCopy> take() {
    std::vector<BlockCopy> out = list_;
    list_.clear();
    return out;
  }

  /// Lists a copy whose two blocks have a reference each until it has run.
  template <class Key>
  void hold(const BlockCopy& copy, BlockPool<Key>& pool) {
    add(copy);
    const auto at = std::ranges::upper_bound(held_in_, copy.group);
    held_.insert(held_.begin() + 2 * (at - held_in_.begin()), {copy.from, copy.to});
    held_in_.insert(at, copy.group);
    ++pool.counters().copies;
  }
  /// Makes room for that many copies, as reserve().
  void reserve_held(std::size_t more) {
    if (held_in_.capacity() - held_in_.size() < more) {
      held_.reserve(4 * (held_in_.size() + more));
      held_in_.reserve(2 * (held_in_.size() + more));
    }
    if (list_.capacity() - list_.size() < more) list_.reserve(2 * (list_.size() + more));
  }
  /// Those of one group after those of the group before, whichever request asked first.
  [[nodiscard]] std::span<const BlockId> held() const { return held_; }
  void forget_held() {
    held_.clear();
    held_in_.clear();
  }

 private:
  // A copy that has not run yet only reads, and what is written stands behind what it reads. The
  // block of a shared tail is copied anyway.
  template <class Key>
  [[nodiscard]] bool has_other_holder(const GroupTable& table, std::uint32_t i,
                                      const BlockPool<Key>& pool) const {
    const std::uint32_t holders = pool.record(table.blocks[i]).ref_cnt;
    return holders > 1 && i != table.tail_at &&
           holders > 1 + std::ranges::count(held_, table.blocks[i]);
  }

  std::vector<BlockCopy> list_;
  std::vector<BlockId> held_;     // from, to, from, to, ... of the copies of this step
  std::vector<GroupId> held_in_;  // the group of each pair
};

/// A relative of a forked request may have published a block that they share under the content that
/// it wrote there, and left. The request writes the block anew, so that key goes.
/// @param holds(i) whether the block at position i, whose key is the request's own, has its content
template <class Key, class Holds>
void forget_relatives(const LayerGroup<Key>& group, const GroupTable& table,
                      const HotRequest<Key>& request, const Demand& demand, BlockPool<Key>& pool,
                      const Holds& holds) {
  const auto [from, end] = group.written(table, demand);
  const std::uint32_t unit_tokens = group.block_size() / group.units_per_block();
  for (std::uint32_t i = from; i < end; ++i) {
    const BlockId block = table.blocks[i];
    if (!pool.hashed(block)) continue;
    const bool whole = pool.holds_whole(block);
    const Key& key = whole ? pool.record(block).key : pool.tails()->key(block);
    const std::uint32_t units = whole ? (i + 1) * group.units_per_block()
                                      : pool.tails()->prefix_tokens(block) / unit_tokens;
    const bool own = units <= request.num_hashes &&
                     key == in_group(request.hashes[units - 1], group.id()) && holds(i);
    if (!own) pool.forget(block);
  }
}

}  // namespace kvproof::optimized
