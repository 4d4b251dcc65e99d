// SPDX-License-Identifier: Apache-2.0
// The state of a manager as a value, read from its structures link by link. Included by
// manager_subject_definitions.h alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "optimized/cache_manager.h"
#include "optimized/manager_subject.h"
#include "reference/snapshot.h"

namespace kvproof::optimized {

// Of a key without its group, which is told apart: in_group() undoes itself.
template <std::size_t Words>
std::uint64_t fingerprint(const HashKey<Words>& key) {
  std::uint64_t out = 0;
  for (const std::uint64_t word : key.words) out = out * 0x100000001b3U + word;
  return out;
}

// Walks are bounded by the number of blocks and end at the sentinel, which has that number, or at a
// link to nowhere, so that a broken list is reported and not followed.
template <class Pool>
void observe_queue(const Pool& pool, PoolState& out) {
  const std::uint32_t n = pool.num_blocks();
  const auto& queue = pool.queue();
  out.num_free = pool.num_free();
  out.usage = n > 1 ? 1.0 - static_cast<double>(out.num_free) / static_cast<double>(n - 1) : 0.0;
  out.queue.clear();
  out.queue_backward.clear();
  for (BlockId at = queue.head(); at < n && out.queue.size() < n; at = pool.record(at).next) {
    out.queue.push_back(at);
  }
  for (BlockId at = pool.record(queue.sentinel()).prev; at < n && out.queue_backward.size() < n;
       at = pool.record(at).prev) {
    out.queue_backward.push_back(at);
  }
}

template <class Key>
void observe_key(const PrefixIndex<Key>& index, const Key& key, BlockId block, GroupId group,
                 std::size_t most, IndexEntry& entry) {
  entry.group = group;
  entry.key = fingerprint(in_group(key, group));
  entry.blocks.clear();
  for (BlockId copy = block; copy != kNoBlock && entry.blocks.size() < most;
       copy = index.next_copy(copy)) {
    entry.blocks.push_back(copy);
  }
}

template <class Pool>
void observe_pool(const Pool& pool, PoolState& out) {
  const std::uint32_t n = pool.num_blocks();
  observe_queue(pool, out);
  out.blocks.assign(n, {});
  std::size_t keys = 0;
  const auto next_entry = [&]() -> IndexEntry& {
    if (keys == out.index.size()) out.index.emplace_back();
    return out.index[keys++];
  };
  for (BlockId block = 0; block < n; ++block) {
    const auto& record = pool.record(block);
    BlockState& state = out.blocks[block];
    state.ref_cnt = record.ref_cnt;
    state.linked = pool.queue().contains(block);
    state.hashed = pool.hashed(block);
    if (!state.hashed) continue;
    state.group = pool.group(block);
    if (pool.holds_whole(block)) {
      state.key = fingerprint(in_group(record.key, state.group));
      state.prefix_tokens = pool.events().prefix_tokens(block);
      if (pool.index().find(record.key) == block) {
        observe_key(pool.index(), record.key, block, state.group, n, next_entry());
      }
    }
    if ((record.flags & Pool::Record::kTailKeyed) == 0) continue;
    const auto& tail = pool.tails()->key(block);
    if (pool.holds_whole(block)) {
      state.tail_key = fingerprint(in_group(tail, state.group));
    } else {
      state.key = fingerprint(in_group(tail, state.group));
      state.prefix_tokens = pool.tails()->prefix_tokens(block);
    }
    if (pool.tails()->index().find(tail) != block) continue;
    observe_key(pool.tails()->index(), tail, block, state.group, n, next_entry());
  }
  out.index.resize(keys);
}

template <class Manager>
void observe_manager(const Manager& manager, const CallerNames& names, Snapshot& out) {
  const auto num_groups = static_cast<GroupId>(manager.config().groups.size());
  observe_pool(manager.pool(), out);
  observe_pool(manager.host(), out.host);
  out.requests.resize(names.requests.size());
  auto state = out.requests.begin();
  for (const auto& [name, id] : names.requests) {
    state->name = name;
    state->num_tokens = static_cast<std::uint32_t>(manager.tokens(id).size());
    state->computed = manager.computed(id);
    const auto hashes = manager.hashes(id);
    state->hashes.resize(hashes.size());
    for (std::size_t i = 0; i < hashes.size(); ++i) state->hashes[i] = fingerprint(hashes[i]);
    state->tables.resize(num_groups);
    state->progress.resize(num_groups);
    state->host_tables.resize(manager.has_host_tables(id) ? num_groups : 0);
    for (GroupId g = 0; g < num_groups; ++g) {
      const auto table = manager.table(id, g);
      state->tables[g].assign(table.begin(), table.end());
      state->progress[g] = manager.progress(id, g);
      if (state->host_tables.empty()) continue;
      const auto host = manager.host_table(id, g);
      state->host_tables[g].assign(host.begin(), host.end());
    }
    ++state;
  }
  out.raw = names.raw;
  std::ranges::sort(out.raw);
  out.leases.resize(names.leases.size());
  auto held = out.leases.begin();
  for (const auto& [name, lease] : names.leases) {
    const auto blocks = manager.leased(lease);
    held->name = name;
    held->blocks.assign(blocks.begin(), blocks.end());
    ++held;
  }
  const Counters& counted = manager.counters();
  out.counters = {counted.lookups, counted.lookup_tokens, counted.hit_tokens};
}

}  // namespace kvproof::optimized
