// SPDX-License-Identifier: Apache-2.0
#include "optimized/cache_manager.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <ranges>
#include <stdexcept>
#include <string>

namespace kvproof::optimized {
namespace {

const CacheConfig& checked(const CacheConfig& config) {
  if (const auto why = unsupported(config)) {
    throw std::invalid_argument("the cache manager does not support " + std::string(*why));
  }
  return config;
}

FreeOrder free_order(const CacheConfig& config) {
  return config.enable_caching ? config.profile.caching_on : config.profile.caching_off;
}

}  // namespace

template <class Digest>
CacheManager<Digest>::CacheManager(const CacheConfig& config, Capacity capacity, std::uint64_t seed)
    : config_(checked(config)),
      block_size_(config.groups.front().block_size),
      max_requests_(capacity.max_requests),
      hasher_(config.hash_block_size, seed),
      pool_(config.num_blocks, free_order(config), capacity.event_records),
      requests_(capacity.max_requests),
      storage_(capacity.max_requests) {
  unused_.reserve(capacity.max_requests);
  for (RequestId id = capacity.max_requests; id > 0; --id) unused_.push_back(id - 1);
}

template <class Digest>
RequestId CacheManager<Digest>::arrive(const Arrival& arrival) {
  const std::size_t prompt = arrival.tokens.size();
  const std::uint32_t limit = config_.max_model_len;
  const std::uint32_t wanted =
      arrival.max_tokens == 0 ? limit : std::min(arrival.max_tokens, limit);
  expects(prompt <= limit, Breach::capacity, "a prompt beyond the token limit");
  expects(!unused_.empty(), Breach::capacity, "more requests than the manager was built for");
  const RequestId id = unused_.back();
  Request& r = requests_[id];
  make_room(id, std::max(wanted, static_cast<std::uint32_t>(prompt)));
  unused_.pop_back();

  if (prompt > 0) std::memcpy(r.tokens, arrival.tokens.data(), arrival.tokens.size_bytes());
  r.num_tokens = static_cast<std::uint32_t>(prompt);
  r.num_hashes = r.computed = r.table_length = r.hit_length = 0;
  r.next_unit_end = config_.enable_caching ? block_size_ : kNotRunning;
  r.published = kNotRunning;
  r.live = true;
  set_quiet(r);
  r.skip_lookup = arrival.skip_lookup;
  r.has_extra = arrival.extra != nullptr && !arrival.extra->empty();
  if (r.has_extra) {
    storage_[id].extra = *arrival.extra;
    hasher_.reserve(storage_[id].extra);
  }
  if (r.num_tokens >= r.next_unit_end) hash_units(id);
  return id;
}

// One buffer per handle, kept when the request finishes: a later request of the same size reuses
// it.
template <class Digest>
void CacheManager<Digest>::make_room(RequestId id, std::uint32_t capacity) {
  Request& r = requests_[id];
  Storage& storage = storage_[id];
  const std::size_t blocks = ceil_div<std::size_t>(capacity, block_size_);
  const std::size_t bytes =
      blocks * (sizeof(Key) + 2 * sizeof(BlockId)) + std::size_t{capacity} * sizeof(TokenId);
  if (bytes > storage.bytes) {
    storage.buffer = std::make_unique_for_overwrite<std::byte[]>(bytes);
    storage.bytes = bytes;
  }
  r.capacity = capacity;
  r.hashes = reinterpret_cast<Key*>(storage.buffer.get());
  r.table = reinterpret_cast<BlockId*>(r.hashes + blocks);
  r.hit = r.table + blocks;
  r.tokens = reinterpret_cast<TokenId*>(r.hit + blocks);
}

template <class Digest>
void CacheManager<Digest>::hash_units(RequestId id) {
  Request& r = requests_[id];
  const std::uint32_t first = r.num_hashes;
  const std::uint32_t count = r.num_tokens - r.next_unit_end < block_size_
                                  ? 1  // the usual case: one token completed one unit
                                  : r.num_tokens / block_size_ - first;
  hasher_.hash(r.tokens, r.has_extra ? &storage_[id].extra : nullptr, first, count, r.hashes);
  r.num_hashes += count;
  r.next_unit_end += count * block_size_;
  // A lookup or a publication of these keys is near.
  for (std::uint32_t i = first; i < r.num_hashes; ++i) pool_.index().prefetch(r.hashes[i]);
}

template <class Digest>
std::uint32_t CacheManager<Digest>::lookup(RequestId id) {
  Request& r = live(id);
  r.hit_length = 0;
  if (!config_.enable_caching || r.skip_lookup || r.num_tokens == 0) return 0;
  // The last token is always computed anew: its output is what the request came for.
  const std::uint32_t limit = (r.num_tokens - 1) / block_size_;
  while (r.hit_length < limit) {
    const BlockId block = pool_.index().find(r.hashes[r.hit_length]);
    if (block == kNoBlock) break;  // the first gap ends the prefix
    r.hit[r.hit_length++] = block;
  }
  return r.hit_length * block_size_;
}

// admit() for a running request without gates, hits and external tokens, once `known` tokens are
// computed.
template <class Digest>
Admission CacheManager<Digest>::step(Request& r, std::uint64_t known, std::uint32_t lookahead,
                                     bool delay_cache) {
  const auto slots =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(known + lookahead, config_.max_model_len));
  const std::uint32_t before = r.table_length;
  const std::uint32_t wanted = ceil_div(slots, block_size_);
  if (wanted > before && wanted - before > pool_.num_free()) return Admission::refused();
  extend_table(r, wanted);
  if (!delay_cache) publish(r, known);
  set_quiet(r);
  audit();
  return r.table_length - before;
}

// Everything that can refuse comes before anything that changes.
template <class Digest>
Admission CacheManager<Digest>::admit(Request& r, const AllocateArgs& args) {
  expects(args.new_tokens > 0 || args.external > 0, Breach::nothing_to_allocate,
          "allocate without new and without external tokens");
  const std::span<const BlockId> hit(r.hit, args.use_lookup ? r.hit_length : 0);
  if (!hit.empty()) check_hit(r);

  const std::uint64_t limit = config_.max_model_len;
  const std::uint64_t local = r.computed + std::uint64_t{hit.size()} * block_size_;
  const std::uint64_t known = std::min(local + args.external, limit);
  const bool admission = args.has_scheduled && args.status != RequestStatus::running;
  const std::uint64_t watermark = admission ? config_.watermark_blocks() : 0;
  const std::uint64_t reserved = config_.profile.admission_gates ? args.reserved : 0;
  const std::uint64_t revivals = revived(hit);
  if (args.full_sequence_must_fit) {
    const std::uint64_t whole = std::min<std::uint64_t>(r.num_tokens, limit);
    if (fresh(r, whole, hit.size()) + revivals + watermark > pool_.num_free())
      return Admission::refused();
  }
  const std::uint64_t slots = std::min(known + args.new_tokens + args.lookahead, limit);
  const std::uint64_t need = fresh(r, slots, hit.size()) + revivals;
  if (need + watermark + reserved > pool_.num_free()) return Admission::refused();

  const bool first = r.published == kNotRunning && r.table_length == 0;
  if (first && (!hit.empty() || args.external > 0)) {
    pool_.touch(hit);  // before taking new blocks: a hit may stand in the free queue
    std::ranges::copy(hit, r.table);
    r.table_length = r.published = static_cast<std::uint32_t>(hit.size());
    num_holding_ += r.table_length > 0 ? 1 : 0;
    if (args.external > 0) {
      extend_table(r, ceil_div<std::uint64_t>(local + args.external, block_size_));
    }
  }
  const std::uint32_t before = r.table_length;
  extend_table(r, ceil_div<std::uint64_t>(slots, block_size_));
  // Drafts beyond the tokens that exist are never published: they may be rejected.
  if (!args.delay_cache) publish(r, known + args.new_tokens);
  set_quiet(r);
  audit();
  return r.table_length - before;
}

// A lookup takes no references, so anything may happen to its blocks before they are used.
template <class Digest>
void CacheManager<Digest>::check_hit(const Request& r) const {
  expects(r.published == kNotRunning && r.table_length == 0, Breach::hit_on_running,
          "a looked-up prefix for a request that already has blocks");
  for (std::uint32_t i = 0; i < r.hit_length; ++i) {
    const auto& record = pool_.record(r.hit[i]);
    expects(pool_.hashed(r.hit[i]) && record.key == r.hashes[i], Breach::stale_lookup,
            "a looked-up block has lost its content");
  }
}

// A hit that stands in the free queue is free now and will not be afterwards.
template <class Digest>
std::uint64_t CacheManager<Digest>::revived(std::span<const BlockId> hit) const {
  std::uint64_t count = 0;
  for (const BlockId block : hit) count += pool_.record(block).ref_cnt == 0 ? 1 : 0;
  return count;
}

template <class Digest>
std::uint64_t CacheManager<Digest>::fresh(const Request& r, std::uint64_t tokens,
                                          std::size_t hit_length) const {
  const std::uint64_t wanted = ceil_div<std::uint64_t>(tokens, block_size_);
  const std::uint64_t have = r.table_length + hit_length;
  return wanted > have ? wanted - have : 0;
}

template <class Digest>
void CacheManager<Digest>::extend_table(Request& r, std::uint64_t length) {
  if (length <= r.table_length) return;
  num_holding_ += r.table_length == 0 ? 1 : 0;
  pool_.take({r.table + r.table_length, r.table + length});
  r.table_length = static_cast<std::uint32_t>(length);
}

template <class Digest>
void CacheManager<Digest>::publish(Request& r, std::uint64_t tokens) {
  const std::uint64_t complete = std::min<std::uint64_t>(tokens, r.num_tokens);
  const std::uint32_t from = r.published == kNotRunning ? 0 : r.published;
  const std::uint32_t to =
      std::min(static_cast<std::uint32_t>(complete / block_size_), r.table_length);
  if (from >= to || !config_.enable_caching) return;
  pool_.events().stored(0, from * block_size_, to * block_size_);
  for (std::uint32_t i = from; i < to; ++i) {
    pool_.publish(r.table[i], r.hashes[i]);
    pool_.events().stored_block(r.table[i], (i + 1) * block_size_);
  }
  r.published = to;
}

// A block is published when it is complete, which is when the next one is due.
template <class Digest>
void CacheManager<Digest>::set_quiet(Request& r) {
  const std::uint32_t slots = r.table_length * block_size_;
  const std::uint32_t done = (r.published == kNotRunning ? 0 : r.published) * block_size_;
  r.quiet_until = config_.enable_caching ? std::min(slots, done + block_size_ - 1) : slots;
}

template <class Digest>
void CacheManager<Digest>::cache(RequestId id, std::uint32_t computed) {
  Request& r = live(id);
  publish(r, computed);
  set_quiet(r);
  audit();
}

// Last block first: the deeper a block, the fewer prompts can use it, the sooner it may be lost.
template <class Digest>
void CacheManager<Digest>::release_table(Request& r) {
  if (r.table_length > 0) --num_holding_;
  // The records were last touched when the blocks were taken; their addresses are known at once.
  for (std::uint32_t i = 0; i < r.table_length; ++i) pool_.prefetch(r.table[i]);
  pool_.release(std::views::reverse(std::span(r.table, r.table_length)));
  r.table_length = r.hit_length = 0;
  r.published = kNotRunning;
  set_quiet(r);
}

template <class Digest>
void CacheManager<Digest>::free(RequestId id) {
  Request& r = live(id);
  release_table(r);
  r.computed = 0;
  audit();
}

template <class Digest>
void CacheManager<Digest>::finish(RequestId id) {
  Request& r = live(id);
  release_table(r);
  r.live = false;
  unused_.push_back(id);
  audit();
}

template <class Digest>
void CacheManager<Digest>::evict(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    expects(block < pool_.num_blocks(), Breach::block_out_of_range, "evict of an unknown block");
  }
  for (const BlockId block : blocks) pool_.forget(block);
  audit();
}

template <class Digest>
bool CacheManager<Digest>::reset() {
  return pool_.reset();
}

template <class Digest>
std::uint32_t CacheManager<Digest>::common_prefix(RequestId id) const {
  if (!config_.enable_caching) return 0;
  const std::span<const BlockId> mine = table(id);
  std::size_t shared = mine.size();
  for (std::uint32_t other = 0, seen = 0; seen < num_holding_ && shared > 0; ++other) {
    const std::span<const BlockId> theirs = table(other);
    if (!requests_[other].live || theirs.empty()) continue;
    ++seen;
    const auto differ = std::ranges::mismatch(mine.first(shared), theirs).in1;
    shared = static_cast<std::size_t>(std::distance(mine.begin(), differ));
  }
  return static_cast<std::uint32_t>(shared);
}

template <class Digest>
bool CacheManager<Digest>::take(std::span<BlockId> out) {
  if (out.size() > pool_.num_free()) return false;
  pool_.take(out);
  return true;
}

template <class Digest>
void CacheManager<Digest>::touch(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    expects(block != kNullBlock && block < pool_.num_blocks(), Breach::block_out_of_range,
            "touch of a block that cannot be held");
  }
  pool_.touch(blocks);
  audit();
}

template <class Digest>
void CacheManager<Digest>::release(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    expects(block != kNullBlock && block < pool_.num_blocks(), Breach::block_out_of_range,
            "release of a block that cannot be held");
  }
  pool_.release(blocks);
  audit();
}

template <class Digest>
std::optional<std::uint32_t> CacheManager<Digest>::progress(RequestId id) const {
  const std::uint32_t published = requests_[id].published;
  return published == kNotRunning ? std::nullopt : std::optional(published);
}

template <class Digest>
std::uint64_t CacheManager<Digest>::request_bytes() const {
  std::uint64_t bytes = requests_.size() * (sizeof(Request) + sizeof(RequestId));
  for (const Storage& storage : storage_) bytes += sizeof(Storage) + storage.bytes;
  return bytes;
}

template <class Digest>
void CacheManager<Digest>::audit() const {
#if defined(KVPROOF_AUDIT)
  pool_.audit();
#endif
}

template class CacheManager<Xxh3Digest>;
template class CacheManager<Sha256Digest>;
template class CacheManager<WeakDigest>;

}  // namespace kvproof::optimized
