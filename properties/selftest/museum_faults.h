// SPDX-License-Identifier: Apache-2.0
// The code of seeded bugs that is too long for a row of reference.patches, and the memory that
// some of them need, for which the naive manager has no place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/selftest/active_patch.h"
#include "reference/config.h"
#include "reference/ids.h"
#include "reference/mix64.h"
#include "reference/snapshot.h"

namespace kvproof::patched {

/// What a bug remembers of one manager. It uses the members that it needs; their keys are addresses
/// in the manager, or names.
/// A request that was aborted while a step of it was in flight, of a scheduler.
struct Aborted {
  std::uint64_t index = 0;
  std::uint32_t handle = 0;
  std::uint32_t known = 0;  // [tokens]
};

struct FaultMemory {
  std::uint32_t count = 0;
  std::set<BlockId> marked;
  std::map<std::string, std::vector<BlockId>> of_name;
  std::map<const void*, std::vector<BlockId>> of_table;
  std::map<const void*, std::uint32_t> lost;          // [tokens] per block of a request
  std::map<std::uint32_t, std::uint32_t> other_name;  // of a content: elsewhere, or its parent's
  std::vector<Aborted> aborted;
};
inline FaultMemory& memory() { return *active_memory; }

/// One of few numbers for a content.
inline std::uint32_t truncated(std::uint32_t content) {
  return 1 + static_cast<std::uint32_t>(mix64(content) & 0x3f);
}

/// The end of an identity.
inline std::string tail_of(const std::string& id) {
  return id.size() > 4 ? id.substr(id.size() - 4) : id;
}

/// Notes what somebody calls the last content of a request who leaves out extra keys.
template <class Book, class Request>
void name_without(std::initializer_list<std::string_view> left_out, Book& book, const Request& r,
                  std::uint32_t parent, std::uint32_t start, std::uint32_t unit,
                  std::vector<std::string> extra) {
  std::erase_if(extra, [&](const std::string& key) {
    return std::ranges::any_of(left_out, [&](std::string_view s) { return key.starts_with(s); });
  });
  std::map<std::uint32_t, std::uint32_t>& names = memory().other_name;
  const std::uint32_t before = r.contents.size() > 1 ? names[parent] : parent;
  names[r.contents.back()] =
      book.name(before, std::span(r.tokens).subspan(start, unit), std::move(extra));
}

/// The key that is cached and has the other name of `key`; otherwise `key`.
template <class Cache, class Key>
Key named_alike(const Cache& cache, const Key& key) {
  std::map<std::uint32_t, std::uint32_t>& names = memory().other_name;
  for (const auto& [other, blocks] : cache.entries()) {
    if (other.group == key.group && names[other.content] == names[key.content]) return other;
  }
  return key;
}

/// Whether the content before that of a key is cached, or there is none.
template <class Cache, class Key>
bool parent_is_cached(const Cache& cache, const Key& key) {
  const std::uint32_t parent = memory().other_name[key.content];
  return parent == 0 || std::ranges::any_of(cache.entries(), [&](const auto& entry) {
           return entry.first.group == key.group && entry.first.content == parent;
         });
}

/// The cache of a pool is for others to read.
template <class Cache>
Cache& writable(const Cache& cache) {
  return const_cast<Cache&>(cache);
}

inline void head_to_tail(const std::list<BlockId>& blocks) {
  auto& queue = const_cast<std::list<BlockId>&>(blocks);
  if (!queue.empty()) queue.splice(queue.end(), queue, queue.begin());
}

/// The leading blocks of a table whose references are as many as the requests of the group, or more
/// if these count, too.
template <class Pool, class Requests>
std::size_t held_by_as_many(const Pool& pool, const Requests& requests, GroupId group,
                            const std::vector<BlockId>& table, bool or_more) {
  const auto holding = std::ranges::count_if(
      requests, [&](const auto& entry) { return !entry.second.groups[group].blocks.empty(); });
  std::size_t out = 0;
  for (; out < table.size(); ++out) {
    const std::int64_t refs = pool.ref_cnt(table[out]);
    if (or_more ? refs < holding : refs != holding) break;
  }
  return out;
}

template <class Mask>
Mask shifted(Mask mask) {
  if (mask.period > mask.run) mask.shift += 1;
  return mask;
}

/// [tokens] that need as many blocks as `tokens` do where every block of the request has lost some.
inline std::uint64_t inflated(std::uint64_t tokens, const void* request, std::uint32_t block_size) {
  const std::uint64_t capacity = block_size - memory().lost[request];
  return (tokens + capacity - 1) / capacity * block_size;
}

/// Shows an index and the keys of blocks that contradict each other.
template <class Cache>
void observe_cache(const Cache& cache, PoolState& out) {
  for (const auto& [block, keys] : cache.carried()) {
    BlockState& state = out.blocks[block];
    state.hashed = true;
    state.group = keys.front().group;
    state.key = keys.front().content;
    state.prefix_tokens = keys.front().prefix_tokens;
  }
  out.further_keys.clear();
  out.index.clear();
  for (const auto& [key, blocks] : cache.entries()) {
    out.index.push_back({key.group, key.content, blocks});
  }
  std::ranges::sort(out.index, {}, &IndexEntry::blocks);
}

}  // namespace kvproof::patched
