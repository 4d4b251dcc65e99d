// SPDX-License-Identifier: Apache-2.0
// The host tier: a second pool with its own queue and index, and the swaps between the two.
// Included by cache_manager_definitions.h alone.
//
// Model:   as reference/cache_manager_tiers.cpp. Until a transfer is complete both sides keep what
//          they have. Content that the other side has under its key is not copied.
#pragma once

#include <algorithm>
#include <utility>

#include "optimized/cache_manager.h"
#include "optimized/pool/reversed.h"

namespace kvproof::optimized {

// @return false, with nothing changed, when the other side is short of blocks.
template <class Digest, class Pool>
bool CacheManager<Digest, Pool>::start_copies(const BlockTables& source, const Pool& from, Pool& to,
                                              BlockTables& target) {
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
  copies_.reserve(copies_.size() + missing);  // memory may be refused, but only until here
  to.touch(twins);                            // before taking: a twin may stand in the free queue
  for (GroupId g = 0; g < source.size(); ++g) {
    for (std::size_t i = 0; i < source[g].size(); ++i) {
      if (source[g][i] == kNullBlock || target[g][i] != kNullBlock) continue;
      to.take({&target[g][i], 1});
      copies_.push_back({g, source[g][i], target[g][i]});
    }
  }
  return true;
}

template <class Digest, class Pool>
bool CacheManager<Digest, Pool>::swap_out(RequestId id) {
  Request& r = resident(id);
  expects(host_.num_blocks() > 0, Breach::not_supported, "swap without a host tier");
  BlockTables source;
  for (GroupId g = 0; g < groups_.size(); ++g) {
    const auto blocks = table(id, g);
    source.emplace_back(blocks.begin(), blocks.end());
  }
  expects(!std::ranges::all_of(source, [](const auto& blocks) { return blocks.empty(); }),
          Breach::not_in_transfer, "swap out of a request without blocks");
  BlockTables target;
  storage_[id].host_progress.reserve(groups_.size());  // complete() cannot fail
  if (!start_copies(source, pool_, host_, target)) return false;
  storage_[id].host = std::move(target);
  r.place = Place::leaving;
  refresh(id);
  audit();
  return true;
}

template <class Digest, class Pool>
bool CacheManager<Digest, Pool>::swap_in(RequestId id) {
  Request& r = live(id);
  expects(r.place != Place::leaving && r.place != Place::returning, Breach::in_transfer,
          "swap in while a transfer is in flight");
  expects(r.place == Place::host, Breach::not_in_transfer,
          "swap in of a request that is not swapped out");
  BlockTables target;
  if (!start_copies(storage_[id].host, host_, pool_, target)) return false;
  for (const LayerGroup<Pool>& group : groups_) {
    GroupTable& table = tables(id)[group.id()];
    std::ranges::copy(target[group.id()], table.blocks);
    group.set_length(table, static_cast<std::uint32_t>(target[group.id()].size()));
  }
  r.place = Place::returning;
  audit();
  return true;
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::complete(RequestId id, bool ok) {
  Request& r = live(id);
  expects(r.place == Place::leaving || r.place == Place::returning, Breach::unknown_transfer,
          "complete of no transfer in flight");
  if (r.place == Place::leaving) {
    if (ok) settle_out(id);
    if (!ok) release_host(id);
    r.place = ok ? Place::host : Place::device;
  } else {
    if (ok) settle_in(id);
    for (const LayerGroup<Pool>& group : groups_) {
      if (!ok) group.release_blocks(tables(id)[group.id()], pool_);
    }
    r.place = ok ? Place::device : Place::host;
  }
  r.may_share = r.place == Place::device;
  refresh(id);
  audit();
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::settle_out(RequestId id) {
  RequestStorage& storage = storage_[id];
  for (const LayerGroup<Pool>& group : groups_) {
    GroupTable& table = tables(id)[group.id()];
    for (std::uint32_t i = 0; i < table.length; ++i) {
      const BlockId block = table.blocks[i];
      if (!pool_.holds_whole(block)) continue;
      host_.publish(storage.host[group.id()][i], pool_.record(block).key, group.id(), 0);
    }
    group.release_blocks(table, pool_);
    table.hit_length = 0;
    storage.host_progress.push_back(table.published);
    group.set_published(table, kNever);
  }
  requests_[id].hit_tokens = 0;
}

// What the host knows by a key becomes findable in the device pool again.
template <class Digest, class Pool>
void CacheManager<Digest, Pool>::settle_in(RequestId id) {
  RequestStorage& storage = storage_[id];
  for (const LayerGroup<Pool>& group : groups_) {
    GroupTable& table = tables(id)[group.id()];
    group.set_published(table, storage.host_progress[group.id()]);
    const auto returns = [&](std::uint32_t i) {
      return host_.holds_whole(storage.host[group.id()][i]) && !pool_.hashed(table.blocks[i]);
    };
    std::uint32_t end = 0;
    for (std::uint32_t i = 0; i < table.length; ++i) end = returns(i) ? i + 1 : end;
    if (end == 0) continue;
    pool_.events().stored(group.id(), 0, end * group.block_size());
    for (std::uint32_t i = 0; i < end; ++i) {
      if (!returns(i)) continue;
      const Key key = host_.record(storage.host[group.id()][i]).key;
      pool_.publish(table.blocks[i], key, group.id(), (i + 1) * group.block_size());
    }
  }
  release_host(id);
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::release_host(RequestId id) {
  RequestStorage& storage = storage_[id];
  for (const auto& blocks : storage.host) host_.release(Reversed(blocks));
  storage.host.clear();
  storage.host_progress.clear();
}

template <class Digest, class Pool>
std::span<const BlockId> CacheManager<Digest, Pool>::host_table(RequestId id, GroupId group) const {
  const BlockTables& host = storage_[id].host;
  return host.empty() ? std::span<const BlockId>() : std::span<const BlockId>(host[group]);
}

}  // namespace kvproof::optimized
