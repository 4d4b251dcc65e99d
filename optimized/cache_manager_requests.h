// SPDX-License-Identifier: Apache-2.0
// Arrivals: handles, their memory, the hashes of their tokens, what is asked about them; and the
// raw owner. Included by cache_manager_definitions.h alone.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "optimized/cache_manager.h"

namespace kvproof::optimized {

template <class Digest, class Pool>
RequestId CacheManager<Digest, Pool>::arrive(const Arrival& arrival) {
  const std::size_t prompt = arrival.tokens.size();
  const std::uint32_t limit = config_.max_model_len;
  const std::uint32_t wanted =
      arrival.max_tokens == 0 ? limit : std::min(arrival.max_tokens, limit);
  expects(prompt <= limit, Breach::capacity, "a prompt beyond the token limit");
  SharedExtraKeys extra;  // before a handle is taken: memory may be refused
  if (arrival.extra != nullptr && !arrival.extra->empty()) {
    extra = std::make_shared<const ExtraKeys>(*arrival.extra);
    hasher_.reserve(*extra);
    if (exact_) exact_->reserve(*extra);
  }
  const RequestId id =
      new_request(std::max(wanted, static_cast<std::uint32_t>(prompt)), arrival.encoder_tokens);
  Request& r = requests_[id];
  if (prompt > 0) std::memcpy(r.tokens, arrival.tokens.data(), arrival.tokens.size_bytes());
  r.num_tokens = r.prompt_tokens = static_cast<std::uint32_t>(prompt);
  r.skip_lookup = arrival.skip_lookup;
  r.has_extra = extra != nullptr;
  storage_[id].extra = std::move(extra);
  if (r.num_tokens >= r.next_unit_end) hash_units(id);
  return id;
}

template <class Digest, class Pool>
RequestId CacheManager<Digest, Pool>::new_request(std::uint32_t capacity,
                                                  std::uint32_t encoder_tokens) {
  if (unused_.empty()) {
    const auto next = static_cast<RequestId>(requests_.size());
    expects(next < max_requests_, Breach::capacity, "more requests than the manager was built for");
    unused_.push_back(next);  // a handle that nobody had yet
    requests_.emplace_back();
    tables_.resize(tables_.size() + groups_.size());
    storage_.emplace_back();
  }
  const RequestId id = unused_.back();
  make_room(id, capacity, encoder_tokens);
  unused_.pop_back();
  Request& r = requests_[id];
  r.num_tokens = r.num_hashes = r.computed = r.hit_tokens = 0;
  r.next_unit_end = config_.enable_caching ? config_.hash_block_size : kNever;
  r.live = true;
  r.may_share = r.forked = false;
  r.place = Place::device;
  refresh(id);
  return id;
}

// One buffer per handle, kept when the request finishes: a later request of the same size reuses
// it. The tables of an unused handle are empty.
template <class Digest, class Pool>
void CacheManager<Digest, Pool>::make_room(RequestId id, std::uint32_t capacity,
                                           std::uint32_t encoder_tokens) {
  Request& r = requests_[id];
  Storage& storage = storage_[id];
  const std::size_t units =
      config_.enable_caching ? capacity / config_.hash_block_size : std::size_t{0};
  std::size_t positions = 0;
  for (const LayerGroup<Pool>& group : groups_) {
    positions += group.positions(capacity, encoder_tokens);
  }
  const std::size_t bytes = units * sizeof(Key) + 2 * positions * sizeof(BlockId) +
                            std::size_t{capacity} * sizeof(TokenId);
  if (bytes > storage.bytes) {
    storage.buffer = std::make_unique_for_overwrite<std::byte[]>(bytes);
    storage.bytes = bytes;
  }
  r.capacity = capacity;
  r.encoder_tokens = encoder_tokens;
  r.hashes = reinterpret_cast<Key*>(storage.buffer.get());
  auto* blocks = reinterpret_cast<BlockId*>(r.hashes + units);
  for (const LayerGroup<Pool>& group : groups_) {
    GroupTable& table = tables(id)[group.id()];
    const std::size_t own = group.positions(capacity, encoder_tokens);
    table.capacity = static_cast<std::uint32_t>(own);
    table.blocks = blocks;
    table.hit = blocks + own;
    group.set_published(table, kNever);
    group.set_kept_from(table, 0);
    blocks += 2 * own;
  }
  r.tokens = reinterpret_cast<TokenId*>(blocks);
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::hash_units(RequestId id) {
  Request& r = requests_[id];
  const std::uint32_t unit = config_.hash_block_size;
  const std::uint32_t first = r.num_hashes;
  if (r.num_tokens - r.next_unit_end < unit && !r.has_extra) {  // one token completed one unit
    hasher_.hash_next(r.tokens, first, r.hashes);
    pool_.index().prefetch(r.hashes[first]);
    r.num_hashes = first + 1;
    r.next_unit_end += unit;
    return;
  }
  const std::uint32_t count = r.num_tokens / unit - first;
  hasher_.hash(r.tokens, r.has_extra ? storage_[id].extra.get() : nullptr, first, count, r.hashes);
  r.num_hashes += count;
  r.next_unit_end += count * unit;
  // A lookup or a publication of these keys is near.
  for (std::uint32_t i = first; i < r.num_hashes; ++i) pool_.index().prefetch(r.hashes[i]);
}

template <class Digest, class Pool>
std::uint32_t CacheManager<Digest, Pool>::common_prefix(RequestId id, GroupId group) const {
  if (!config_.enable_caching || !reads_all(config_.groups[group].kind)) return 0;
  const std::span<const BlockId> mine = table(id, group);
  std::size_t shared = mine.size();
  const std::size_t live_requests = requests_.size() - unused_.size();
  for (std::size_t other = 0, seen = 0; seen < live_requests && shared > 0; ++other) {
    if (!requests_[other].live) continue;
    ++seen;
    const std::span<const BlockId> theirs = table(static_cast<RequestId>(other), group);
    if (theirs.empty()) continue;
    const auto differ = std::ranges::mismatch(mine.first(shared), theirs).in1;
    shared = static_cast<std::size_t>(std::distance(mine.begin(), differ));
  }
  return static_cast<std::uint32_t>(shared);
}

template <class Digest, class Pool>
std::optional<std::uint32_t> CacheManager<Digest, Pool>::progress(RequestId id,
                                                                  GroupId group) const {
  const std::uint32_t published = tables(id)[group].published;
  return published == kNever ? std::nullopt : std::optional(published);
}

template <class Digest, class Pool>
std::uint64_t CacheManager<Digest, Pool>::request_bytes() const {
  std::uint64_t bytes =
      std::uint64_t{max_requests_} *
      (sizeof(Request) + sizeof(RequestId) + sizeof(Storage) + groups_.size() * sizeof(GroupTable));
  for (const Storage& storage : storage_) bytes += storage.bytes;
  return bytes;
}

template <class Digest, class Pool>
bool CacheManager<Digest, Pool>::take(std::span<BlockId> out) {
  if (out.size() > pool_.num_free()) return false;
  pool_.take(out);
  return true;
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::touch(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    expects(block != kNullBlock && block < pool_.num_blocks(), Breach::block_out_of_range,
            "touch of a block that cannot be held");
  }
  pool_.touch(blocks);
  suspect_sharing(blocks);
  audit();
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::release(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    expects(block != kNullBlock && block < pool_.num_blocks(), Breach::block_out_of_range,
            "release of a block that cannot be held");
  }
  pool_.release(blocks);
  audit();
}

}  // namespace kvproof::optimized
