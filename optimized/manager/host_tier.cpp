// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager/host_tier.h"

#include <algorithm>
#include <utility>

#include "optimized/pool/reversed.h"

namespace kvproof::optimized {

template <class Key>
HostTier<Key>::HostTier(const CacheConfig& config, FreeOrder order,
                        std::span<const LayerGroup<Key>> groups)
    : pool_(config.num_host_blocks, {.order = order}), groups_(groups) {}

// @return false, with nothing changed, when the other side is short of blocks.
template <class Key>
bool HostTier<Key>::start(const BlockTables& source, const Pool& from, Pool& to,
                          BlockTables& target, Copies& copies) {
  target = source;
  std::vector<BlockId> twins;
  std::uint32_t missing = 0;
  for (std::vector<BlockId>& blocks : target) {
    for (BlockId& block : blocks) {
      if (block == kNullBlock) continue;
      const BlockId twin =
          from.holds_whole(block) ? to.index().find(from.record(block).key) : kNoBlock;
      block = twin == kNoBlock ? kNullBlock : twin;
      if (twin == kNoBlock) {
        ++missing;
      } else {
        twins.push_back(twin);
      }
    }
  }
  if (missing + to.num_revived(twins) > to.num_free()) return false;
  copies.reserve(missing);  // the last place where memory may be refused
  to.touch(twins);          // before taking: a twin may stand in the free queue
  for (GroupId g = 0; g < source.size(); ++g) {
    for (std::size_t i = 0; i < source[g].size(); ++i) {
      if (source[g][i] == kNullBlock || target[g][i] != kNullBlock) continue;
      to.take({&target[g][i], 1});
      copies.add({g, source[g][i], target[g][i]});
    }
  }
  return true;
}

template <class Key>
bool HostTier<Key>::leave(RequestId id, const GroupTable* tables, const Pool& device,
                          Copies& copies) {
  BlockTables source;
  for (const LayerGroup<Key>& group : groups_) {
    const auto blocks = tables[group.id()].table();
    source.emplace_back(blocks.begin(), blocks.end());
  }
  if (swapped_.size() <= id) swapped_.resize(id + 1);
  swapped_[id].published.reserve(groups_.size());  // settling cannot fail
  BlockTables target;
  if (!start(source, device, pool_, target, copies)) return false;
  swapped_[id].blocks = std::move(target);
  return true;
}

template <class Key>
void HostTier<Key>::settle_there(RequestId id, GroupTable* tables, Pool& device) {
  Swapped& swapped = swapped_[id];
  for (const LayerGroup<Key>& group : groups_) {
    GroupTable& table = tables[group.id()];
    for (std::uint32_t i = 0; i < table.length; ++i) {
      const BlockId block = table.blocks[i];
      if (!device.holds_whole(block)) continue;
      pool_.publish(swapped.blocks[group.id()][i], device.record(block).key, group.id(), 0);
    }
    group.release_blocks(table, device);
    table.hit_length = 0;
    table.tail_at = kNever;  // what others look up stays in the block that is given back
    swapped.published.push_back(table.published);
    group.set_published(table, kNever);
  }
}

template <class Key>
bool HostTier<Key>::come_back(RequestId id, GroupTable* tables, Pool& device, Copies& copies) {
  BlockTables target;
  if (!start(swapped_[id].blocks, pool_, device, target, copies)) return false;
  for (const LayerGroup<Key>& group : groups_) {
    GroupTable& table = tables[group.id()];
    std::ranges::copy(target[group.id()], table.blocks);
    group.set_length(table, static_cast<std::uint32_t>(target[group.id()].size()));
  }
  return true;
}

template <class Key>
void HostTier<Key>::settle_here(RequestId id, GroupTable* tables, Pool& device) {
  const Swapped& swapped = swapped_[id];
  for (const LayerGroup<Key>& group : groups_) {
    GroupTable& table = tables[group.id()];
    const std::vector<BlockId>& blocks = swapped.blocks[group.id()];
    group.set_published(table, swapped.published[group.id()]);
    const auto returns = [&](std::uint32_t i) {
      return pool_.holds_whole(blocks[i]) && !device.hashed(table.blocks[i]);
    };
    std::uint32_t end = 0;
    for (std::uint32_t i = 0; i < table.length; ++i) end = returns(i) ? i + 1 : end;
    if (end == 0) continue;
    device.events().stored(group.id(), {0, end * group.block_size()});
    for (std::uint32_t i = 0; i < end; ++i) {
      if (!returns(i)) continue;
      const Key key = pool_.record(blocks[i]).key;
      device.publish(table.blocks[i], key, group.id(), (i + 1) * group.block_size());
    }
  }
  release(id);
}

template <class Key>
void HostTier<Key>::release(RequestId id) {
  Swapped& swapped = swapped_[id];
  for (const auto& blocks : swapped.blocks) pool_.release(Reversed(blocks));
  swapped.blocks.clear();
  swapped.published.clear();
}

template class HostTier<Key128>;
template class HostTier<Key256>;

}  // namespace kvproof::optimized
