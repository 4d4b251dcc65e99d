// SPDX-License-Identifier: Apache-2.0
// The cache manager: requests, their block tables and hashes, lookup, admission, publication.
//
// Model:   as reference/cache_manager.h, outcome for outcome. A request is a handle; its tokens,
//          hashes and table live in one buffer that arrive() makes or reuses, so that nothing else
//          allocates.
// Source:  vLLM v1 KVCacheManager (full attention).
// Refuses: scheduling, threads, names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "optimized/block_pool.h"
#include "optimized/hashing.h"
#include "optimized/request.h"
#include "reference/config.h"
#include "reference/contract.h"
#include "reference/operations.h"

namespace kvproof::optimized {

template <class Digest>
class CacheManager {
 public:
  using Key = typename Digest::Key;

  /// @pre unsupported(config) is empty; throws std::invalid_argument with the reason otherwise.
  /// @param seed of the hash chain.
  explicit CacheManager(const CacheConfig& config, Capacity capacity = {}, std::uint64_t seed = 0);

  /// Copies the prompt and hashes its complete units. Nothing is allocated from the pool.
  RequestId arrive(const Arrival& arrival);

  /// Adds generated tokens and hashes the units that they complete. @pre room for them
  /// (Breach::capacity)
  void append(RequestId id, std::span<const TokenId> tokens);

  /// Sets the number of tokens whose K and V are in the cache. @pre not more than the request has
  void advance(RequestId id, std::uint32_t computed);

  /// The longest cached prefix, at most one token short of all tokens. Changes nothing but what
  /// hit_blocks() answers. @return [tokens]
  std::uint32_t lookup(RequestId id);

  /// The blocks of the last lookup, shape [hit tokens / block_size].
  [[nodiscard]] std::span<const BlockId> hit_blocks(RequestId id) const {
    return {requests_[id].hit, requests_[id].hit_length};
  }

  /// Makes slots for args.new_tokens more tokens and publishes the blocks that they complete.
  /// @return the number of newly taken blocks, which are the last of table(id); refused, with
  /// nothing changed, when they are not to be had.
  Admission allocate(RequestId id, const AllocateArgs& args);

  /// Preemption: releases all blocks, last first; the tokens stay, the computed count becomes 0.
  void free(RequestId id);

  /// Releases all blocks, last first, and forgets the request.
  void finish(RequestId id);

  /// Publishes complete blocks up to `computed` tokens, e.g. after an external load.
  void cache(RequestId id, std::uint32_t computed);

  /// Forgets the content of blocks. @pre ids < num_blocks
  void evict(std::span<const BlockId> blocks);

  /// Forgets all content. @return false, with nothing changed, while any block is held.
  bool reset();

  /// Leading blocks that all requests with blocks have in common.
  [[nodiscard]] std::uint32_t common_prefix(RequestId id) const;

  /// References without a request. take() fills `out` or refuses; release() needs them to be held.
  bool take(std::span<BlockId> out);
  void touch(std::span<const BlockId> blocks);
  void release(std::span<const BlockId> blocks);

  [[nodiscard]] std::span<const BlockId> table(RequestId id) const {
    return {requests_[id].table, requests_[id].table_length};
  }
  [[nodiscard]] std::span<const TokenId> tokens(RequestId id) const {
    return {requests_[id].tokens, requests_[id].num_tokens};
  }
  [[nodiscard]] std::span<const Key> hashes(RequestId id) const {
    return {requests_[id].hashes, requests_[id].num_hashes};
  }
  [[nodiscard]] std::uint32_t computed(RequestId id) const { return requests_[id].computed; }

  /// Leading table positions considered for publication; nullopt until the request counts as
  /// running.
  [[nodiscard]] std::optional<std::uint32_t> progress(RequestId id) const;

  [[nodiscard]] const CacheConfig& config() const { return config_; }
  [[nodiscard]] const BlockPool<Key>& pool() const { return pool_; }
  [[nodiscard]] std::vector<Event> take_events() { return pool_.events().take(); }

  /// Memory of the requests: tokens, hashes, tables. The pool reports its own.
  [[nodiscard]] std::uint64_t request_bytes() const;

 private:
  static constexpr std::uint32_t kNotRunning = 0xffffffffU;

  // What a decode step reads, in two cache lines.
  struct alignas(64) Request {
    TokenId* tokens = nullptr;  // shape [capacity]
    Key* hashes = nullptr;      // shape [capacity / block_size]
    BlockId* table = nullptr;   // shape [ceil(capacity / block_size)]
    BlockId* hit = nullptr;     // shape as table
    std::uint32_t num_tokens = 0;
    std::uint32_t capacity = 0;       // [tokens]
    std::uint32_t next_unit_end = 0;  // [tokens] at which the next hash is due
    std::uint32_t num_hashes = 0;
    std::uint32_t computed = 0;      // [tokens]
    std::uint32_t quiet_until = 0;   // [tokens] up to which a step takes and publishes nothing
    std::uint32_t published = 0;     // or kNotRunning
    std::uint32_t table_length = 0;  // [blocks]
    std::uint32_t hit_length = 0;    // [blocks]
    bool live = false;
    bool skip_lookup = false;
    bool has_extra = false;
  };

  // What arrive() makes and the hot path does not read.
  struct Storage {
    ExtraKeys extra;
    std::unique_ptr<std::byte[]> buffer;  // what a Request points into
    std::size_t bytes = 0;
  };

  Request& live(RequestId id) {
    expects(id < max_requests_ && requests_[id].live, Breach::unknown_request, "no such request");
    return requests_[id];
  }
  void make_room(RequestId id, std::uint32_t capacity);
  void hash_units(RequestId id);
  Admission step(Request& r, std::uint64_t known, std::uint32_t lookahead, bool delay_cache);
  Admission admit(Request& r, const AllocateArgs& args);
  void check_hit(const Request& r) const;
  [[nodiscard]] std::uint64_t revived(std::span<const BlockId> hit) const;
  [[nodiscard]] std::uint64_t fresh(const Request& r, std::uint64_t tokens,
                                    std::size_t hit_length) const;
  void extend_table(Request& r, std::uint64_t length);
  void publish(Request& r, std::uint64_t tokens);
  void release_table(Request& r);
  void set_quiet(Request& r);
  void audit() const;

  CacheConfig config_;
  std::uint32_t block_size_;
  std::uint32_t max_requests_;
  ChainHasher<Digest> hasher_;
  BlockPool<Key> pool_;
  std::vector<Request> requests_;  // shape [max_requests]
  std::vector<Storage> storage_;   // shape [max_requests]
  std::vector<RequestId> unused_;  // handles, last finished first
  std::uint32_t num_holding_ = 0;  // requests with a table
};

// The three calls of a decode step are here, so that a caller's loop contains them.

template <class Digest>
inline void CacheManager<Digest>::append(RequestId id, std::span<const TokenId> tokens) {
  Request& r = live(id);
  expects(tokens.size() <= r.capacity - r.num_tokens, Breach::capacity,
          "append beyond the token limit");
  std::uint32_t end = r.num_tokens;
  for (const TokenId token : tokens) r.tokens[end++] = token;
  r.num_tokens = end;
  if (end >= r.next_unit_end) hash_units(id);
}

template <class Digest>
inline void CacheManager<Digest>::advance(RequestId id, std::uint32_t computed) {
  Request& r = live(id);
  expects(computed <= r.num_tokens, Breach::computed_beyond_tokens, "advance beyond the tokens");
  r.computed = computed;
}

template <class Digest>
inline Admission CacheManager<Digest>::allocate(RequestId id, const AllocateArgs& args) {
  Request& r = live(id);
  // A step within the last block, with no gate that could refuse, has nothing to do.
  const bool ungated = args.status == RequestStatus::running && args.reserved == 0 &&
                       !args.full_sequence_must_fit && !args.use_lookup && args.external == 0;
  const std::uint64_t end = std::uint64_t{r.computed} + args.new_tokens + args.lookahead;
  if (!ungated || args.new_tokens == 0) return admit(r, args);
  if (end <= r.quiet_until) return 0;
  return step(r, end - args.lookahead, args.lookahead, args.delay_cache);
}

}  // namespace kvproof::optimized
