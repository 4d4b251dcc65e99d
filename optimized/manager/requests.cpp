// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager/requests.h"

#include <bit>

namespace kvproof::optimized {

template <class Digest>
RequestTable<Digest>::RequestTable(const CacheConfig& config,
                                   std::span<const LayerGroup<Key>> groups,
                                   std::uint32_t max_requests, std::uint64_t seed)
    : groups_(groups),
      max_requests_(max_requests),
      max_model_len_(config.max_model_len),
      unit_(config.hash_block_size),
      caching_(config.enable_caching),
      first_unit_end_(caching_ ? unit_ + config.hash_lookahead : kNever),
      hasher_(config.hash_block_size, seed, config.hash_lookahead) {
  const std::size_t handles = std::bit_ceil(std::size_t{max_requests});
  requests_.resize(handles);
  tokens_.resize(handles);
  ends_.resize(handles);
  unknown_ = ~((handles - 1) * 0x1'0000'0001U);
  tables_.reserve(max_requests * groups.size());
  storage_.reserve(max_requests);
  unused_.reserve(max_requests);
}

template <class Digest>
RequestId RequestTable<Digest>::open(const Arrival& arrival) {
  const std::size_t prompt = arrival.tokens.size();
  const std::uint32_t wanted =
      arrival.max_tokens == 0 ? max_model_len_ : std::min(arrival.max_tokens, max_model_len_);
  expects(prompt <= max_model_len_, Breach::capacity, "a prompt beyond the token limit");
  SharedExtraKeys extra;  // before a handle is taken: memory may be refused
  if (arrival.extra != nullptr && !arrival.extra->empty()) {
    extra = std::make_shared<const ExtraKeys>(*arrival.extra);
    hasher_.reserve(*extra);
  }
  const RequestId id =
      take_handle(std::max(wanted, static_cast<std::uint32_t>(prompt)), arrival.encoder_tokens);
  Request& r = requests_[id];
  if (prompt > 0) std::memcpy(tokens_[id], arrival.tokens.data(), arrival.tokens.size_bytes());
  ends_[id].num_tokens = r.ahead = r.prompt_tokens = static_cast<std::uint32_t>(prompt);
  r.skip_lookup = arrival.skip_lookup;
  r.usual_units = extra == nullptr && hasher_.is_usual();
  storage_[id].extra = std::move(extra);
  return id;
}

template <class Digest>
RequestId RequestTable<Digest>::clone(RequestId parent_id) {
  const RequestId id =
      take_handle(requests_[parent_id].capacity, storage_[parent_id].encoder_tokens);
  const Request& parent = requests_[parent_id];
  Request& child = requests_[id];
  std::memcpy(tokens_[id], tokens_[parent_id], num_tokens(parent_id) * sizeof(TokenId));
  std::copy_n(parent.hashes, parent.num_hashes, child.hashes);
  ends_[id].num_tokens = num_tokens(parent_id);
  child.prompt_tokens = parent.prompt_tokens;
  child.num_hashes = parent.num_hashes;
  child.next_unit_end = parent.next_unit_end;
  child.ahead = parent.ahead;
  child.skip_lookup = parent.skip_lookup;
  child.junction = parent.junction;
  child.usual_units = parent.usual_units;
  storage_[id].extra = storage_[parent_id].extra;
  return id;
}

template <class Digest>
void RequestTable<Digest>::close(RequestId id) {
  Request& r = requests_[id];
  r.live = false;
  r.settled_until = r.capacity = 0;
  ends_[id] = {};
  unused_.push_back(id);
}

template <class Digest>
RequestId RequestTable<Digest>::take_handle(std::uint32_t capacity, std::uint32_t encoder_tokens) {
  if (unused_.empty()) {
    const auto next = static_cast<RequestId>(num_given_);
    expects(next < max_requests_, Breach::capacity, "more requests than the manager was built for");
    unused_.push_back(next);  // a handle that was never given
    tables_.resize(tables_.size() + groups_.size());
    requests_[next].tables = tables(next);
    storage_.emplace_back();
    ++num_given_;
  }
  const RequestId id = unused_.back();
  make_room(id, capacity, encoder_tokens);
  unused_.pop_back();
  Request& r = requests_[id];
  ends_[id] = {};
  r.num_hashes = r.ahead = r.junction = 0;
  r.next_unit_end = first_unit_end_;
  r.live = true;
  r.may_share = r.forked = false;
  r.place = Place::device;
  return id;
}

// One buffer per handle, kept when the request ends: a later request of the same size reuses it as
// it is. The tables of a handle that is not in use are empty.
template <class Digest>
void RequestTable<Digest>::make_room(RequestId id, std::uint32_t capacity,
                                     std::uint32_t encoder_tokens) {
  Request& r = requests_[id];
  Storage& storage = storage_[id];
  if (capacity == storage.capacity && encoder_tokens == storage.encoder_tokens) {
    r.capacity = capacity;
    return;
  }
  const std::size_t units = caching_ ? capacity / unit_ : std::size_t{0};
  std::size_t positions = 0;
  for (const LayerGroup<Key>& group : groups_) {
    positions += group.positions(capacity, encoder_tokens);
  }
  const std::size_t bytes = (1 + units) * sizeof(Key) + 2 * positions * sizeof(BlockId) +
                            std::size_t{capacity} * sizeof(TokenId);
  if (bytes > storage.bytes) {
    storage.buffer = std::make_unique_for_overwrite<std::byte[]>(bytes);
    storage.bytes = bytes;
  }
  r.capacity = storage.capacity = capacity;
  storage.encoder_tokens = encoder_tokens;
  r.hashes = reinterpret_cast<Key*>(storage.buffer.get()) + 1;
  r.hashes[-1] = hasher_.root();
  auto* blocks = reinterpret_cast<BlockId*>(r.hashes + units);
  for (const LayerGroup<Key>& group : groups_) {
    GroupTable& table = tables(id)[group.id()];
    const std::size_t own = group.positions(capacity, encoder_tokens);
    table.capacity = static_cast<std::uint32_t>(own);
    table.blocks = blocks;
    table.hit = blocks + own;
    group.set_published(table, kNever);
    group.set_kept_from(table, 0);
    blocks += 2 * own;
  }
  tokens_[id] = reinterpret_cast<TokenId*>(blocks);
}

// Sixteen requests at a time: one look at their handles, and no counting between them.
template <class Digest>
BatchDue RequestTable<Digest>::write_all(std::span<const RequestId> ids, const TokenId* tokens,
                                         std::uint32_t* due) {
  constexpr std::size_t kAtOnce = 16;
  TokenId* const* const to = tokens_.data();
  End* const ends = ends_.data();
  Request* const requests = requests_.data();
  std::uint32_t* next = due;
  bool written = true;
  const auto visit = [&](const RequestId* request, const TokenId* token)
      __attribute__((always_inline)) {
    std::size_t id = *request;
    const std::uint32_t at = ends[id].num_tokens;
    asm("" : "+r"(id));  // or its address is kept for the next line, in one instruction more
    if (at >= ends[id].write_until) [[unlikely]] {
      const auto index = static_cast<std::uint32_t>(request - ids.data());
      Request& r = requests[id];
      if (at >= r.settled_until) [[unlikely]] {
        if (r.settled() || !r.live) return false;
        written = false;
        *next++ = index | BatchDue::kUnwritten;
        return true;
      }
      ++r.ahead;
      __builtin_prefetch(r.tables, 1);
      *next++ = index;
    }
    to[id][at] = *token;
    asm("" : "+r"(id));
    ++ends[id].num_tokens;
    return true;
  };
  const RequestId* id = ids.data();
  const RequestId* const end = id + ids.size();
  const RequestId* const whole = id + ids.size() / kAtOnce * kAtOnce;
  bool writable = true;
  while (id != whole && writable) {
    std::uint64_t bits = 0;  // that any of them has, two handles a word
    for (std::size_t k = 0; k < kAtOnce; k += 2) {
      std::uint64_t two;
      std::memcpy(&two, id + k, sizeof two);
      bits |= two;
    }
    if ((bits & unknown_) != 0) [[unlikely]]
      break;
#pragma GCC unroll 16
    for (std::size_t k = 0; k < kAtOnce; ++k, ++id, ++tokens) {
      writable = visit(id, tokens);
      if (!writable) [[unlikely]]
        break;
    }
  }
  while (writable && id != end && *id < num_given_ && visit(id, tokens)) ++id, ++tokens;
  return {static_cast<std::size_t>(next - due), static_cast<std::size_t>(id - ids.data()), written};
}

template <class Digest>
void RequestTable<Digest>::undo(std::span<const RequestId> ids,
                                std::span<const std::uint32_t> due) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint32_t next = due.empty() ? kNever : due.front();
    const bool was_due = (next & ~BatchDue::kUnwritten) == i;
    if (was_due) due = due.subspan(1);
    if (was_due && next != i) continue;
    --ends_[ids[i]].num_tokens;
    if (was_due) --requests_[ids[i]].ahead;
  }
}

template <class Digest>
std::span<const typename Digest::Key> RequestTable<Digest>::hash_units(RequestId id) {
  Request& r = requests_[id];
  const std::uint32_t first = r.num_hashes;
  const std::uint32_t behind = num_tokens(id) - r.next_unit_end;
  const std::uint32_t count = behind < unit_ ? 1 : behind / unit_ + 1;
  if (count == 1 && !storage_[id].extra) {
    hasher_.hash_next(tokens_[id], first, r.hashes);
  } else {
    hasher_.hash(tokens_[id], storage_[id].extra.get(), first, count, r.hashes);
  }
  r.num_hashes += count;
  r.next_unit_end += count * unit_;
  return {r.hashes + first, count};
}

template <class Digest>
std::uint64_t RequestTable<Digest>::bytes() const {
  std::uint64_t bytes = requests_.size() * (sizeof(Request) + sizeof(TokenId*) + sizeof(End)) +
                        std::uint64_t{max_requests_} * (sizeof(RequestId) + sizeof(Storage) +
                                                        groups_.size() * sizeof(GroupTable));
  for (const Storage& storage : storage_) bytes += storage.bytes;
  return bytes;
}

template class RequestTable<Xxh3Digest>;
template class RequestTable<Sha256Digest>;
template class RequestTable<WeakDigest>;
template class RequestTable<VllmSha256Digest>;
template class RequestTable<VllmSha256CborDigest>;

}  // namespace kvproof::optimized
