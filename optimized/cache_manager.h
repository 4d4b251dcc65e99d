// SPDX-License-Identifier: Apache-2.0
// The cache manager: the order of the steps of lookup, admission, publication and release.
//
// Model:   as reference/cache_manager.h, outcome for outcome. Its parts are in manager/, each with
//          its own state: requests, layer groups, the prefix search, copies, leases, the host tier.
//          The blocks are in pool/.
// Source:  vLLM v1 KVCacheManager and KVCacheCoordinator; sharing as in Kwon et al., SOSP'23.
// Leaves out: scheduling, threads, names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "optimized/manager/admission.h"
#include "optimized/manager/capacity.h"
#include "optimized/manager/copies.h"
#include "optimized/manager/decode.h"
#include "optimized/manager/exact_contents.h"
#include "optimized/manager/host_tier.h"
#include "optimized/manager/layer_group.h"
#include "optimized/manager/leases.h"
#include "optimized/manager/prefix_search.h"
#include "optimized/manager/requests.h"
#include "optimized/pool/block_pool.h"
#include "optimized/pool/hashing.h"
#include "reference/config.h"
#include "reference/contract.h"
#include "reference/request.h"

namespace kvproof::optimized {

/// `Digest` is one of those in hashing.h.
template <class Digest>
class CacheManager {
 public:
  using Key = typename Digest::Key;
  using Pool = BlockPool<Key>;

  /// @pre unsupported(config) is empty, and exact hits only for one group of full attention without
  /// EAGLE and host tier; throws std::invalid_argument with the reason otherwise.
  /// @param seed of the hash chain.
  explicit CacheManager(const CacheConfig& config, Capacity capacity = {}, std::uint64_t seed = 0);
  CacheManager(const CacheManager&) = delete;
  CacheManager& operator=(const CacheManager&) = delete;

  /// Copies the prompt and hashes its complete units. Nothing is allocated from the pool.
  RequestId arrive(const Arrival& arrival);
  /// Adds generated tokens and hashes the units that they complete. @pre room for them
  /// (Breach::capacity)
  void append(RequestId id, std::span<const TokenId> tokens);

  /// Sets the number of tokens whose K and V are in the cache. @pre not more than the request has
  void advance(RequestId id, std::uint32_t computed);

  /// The longest cached prefix, at most all tokens but the last and at most `max_tokens`. Changes
  /// only the answer of hit_blocks(). @return [tokens]
  std::uint32_t lookup(RequestId id, std::uint32_t max_tokens = ~0U);
  /// The blocks of the last lookup, shape [hit tokens / block_size]; 0 = not read any more.
  [[nodiscard]] std::span<const BlockId> hit_blocks(RequestId id, GroupId group = 0) const {
    return requests_.tables(id)[group].hits();
  }

  /// Makes slots for args.new_tokens more tokens and publishes the blocks that they complete.
  /// @return the number of blocks taken, which stand last in their tables. It is refused if there
  /// are not enough; then only out-of-window blocks have been given back. A block that would be
  /// written and has another holder is replaced by a copy, see take_copies().
  Admission allocate(RequestId id, const AllocateArgs& args);

  /// One decode step of a batch: for one request after the other append() of its token, allocate()
  /// of a running request for one token and, if that is granted, advance() by one. A refused one
  /// keeps its token. A request may occur twice. @pre of all of these calls, or nothing happens
  /// @param tokens one for each request
  const DecodeGrant& decode(std::span<const RequestId> ids, std::span<const TokenId> tokens);

  /// Preemption: releases all blocks, last first; the tokens stay, the computed count becomes 0.
  void free(RequestId id);
  /// Releases all blocks, last first, and forgets the request.
  void finish(RequestId id);
  /// Gives back the blocks that are not read any more once `processed` tokens are computed.
  void recycle(RequestId id, std::uint32_t processed);
  /// Publishes complete blocks up to `computed` tokens, e.g. after an external load.
  void cache(RequestId id, std::uint32_t computed);
  /// Forgets the content of blocks. @pre ids < num_blocks
  void evict(std::span<const BlockId> blocks);
  /// Forgets all content in both tiers. @return false, with nothing changed, while a block is held
  bool reset();
  /// Begins a step: the copies of the one before have run, so their blocks are given back.
  void start_step() {
    if (!copies_.held().empty()) [[unlikely]] {
      pool_.release(copies_.held());
      copies_.forget_held();
    }
    pool_.step();
  }
  /// References held until the copies of this step have run.
  [[nodiscard]] std::span<const BlockId> copying() const { return copies_.held(); }
  /// Leading blocks that all requests with blocks have in common; 0 if not all tokens are read.
  [[nodiscard]] std::uint32_t common_prefix(RequestId id, GroupId group = 0) const;

  /// References without a request. take() fills `out` or refuses; release() needs them to be held.
  bool take(std::span<BlockId> out);
  void touch(std::span<const BlockId> blocks);
  void release(std::span<const BlockId> blocks);
  /// A request with the tokens and blocks of another. @pre no Mamba group (Breach::not_supported)
  RequestId fork(RequestId parent);
  /// Gives up the slots beyond `tokens` tokens. @pre none of them computed or published
  void truncate(RequestId id, std::uint32_t tokens);
  /// Holds blocks, e.g. for a transfer that reads them. @pre each is held or has content
  LeaseId pin(std::span<const BlockId> blocks);
  void unpin(LeaseId lease);
  [[nodiscard]] std::span<const BlockId> leased(LeaseId lease) const {
    return leases_.blocks(lease);
  }
  /// The copies that admissions since the last call ask for, in order.
  [[nodiscard]] std::vector<BlockCopy> take_copies() { return copies_.take(); }

  /// Starts a transfer of a request's blocks to the other tier; its copies are in take_copies().
  /// Both sides are held until complete(). @return false, with nothing changed, if that is full
  bool swap_out(RequestId id);
  bool swap_in(RequestId id);
  void complete(RequestId id, bool ok);
  [[nodiscard]] std::span<const BlockId> host_table(RequestId id, GroupId group) const {
    return tier_.table(id, group);
  }
  [[nodiscard]] bool has_host_tables(RequestId id) const { return tier_.holds(id); }
  [[nodiscard]] const Pool& host() const { return tier_.pool(); }

  [[nodiscard]] std::span<const BlockId> table(RequestId id, GroupId group = 0) const {
    return requests_.tables(id)[group].table();
  }
  /// What the last admission that took blocks appended, without hits and loaded blocks.
  [[nodiscard]] std::span<const BlockId> growth(RequestId id, GroupId group = 0) const {
    return requests_.tables(id)[group].growth();
  }
  [[nodiscard]] std::span<const TokenId> tokens(RequestId id) const {
    return {requests_.tokens(id), requests_.num_tokens(id)};
  }
  [[nodiscard]] std::span<const Key> hashes(RequestId id) const {
    return {requests_[id].hashes, requests_[id].num_hashes};
  }
  [[nodiscard]] std::uint32_t computed(RequestId id) const { return requests_.computed(id); }
  /// The longest prefix that any group had at the last lookup, if that is longer than the hit, else
  /// 0: a scheduler ends a chunk there, so that a state is kept. [tokens]
  [[nodiscard]] std::uint32_t junction(RequestId id) const { return requests_[id].junction; }
  /// Leading table positions considered for publication; nullopt until the request counts as
  /// running.
  [[nodiscard]] std::optional<std::uint32_t> progress(RequestId id, GroupId group = 0) const;
  [[nodiscard]] const CacheConfig& config() const { return config_; }
  [[nodiscard]] const Pool& pool() const { return pool_; }
  [[nodiscard]] const Counters& counters() const { return pool_.counters(); }
  [[nodiscard]] std::vector<Event> take_events() { return pool_.events().take(); }
  /// Memory of the requests: tokens, hashes, tables. The pool reports its own.
  [[nodiscard]] std::uint64_t request_bytes() const { return requests_.bytes(); }

 private:
  using Group = LayerGroup<Key>;
  using Request = HotRequest<Key>;

  void hash_units(RequestId id);
  Admission admit(RequestId id, const AllocateArgs& args);
  Admission step_by_three_calls(RequestId id, TokenId token);
  [[nodiscard]] Standing standing(RequestId id, const AllocateArgs& args) const;
  void check_hit(RequestId id);
  [[nodiscard]] std::int64_t need(RequestId id, const Demand& demand) const;
  void start(RequestId id, const Demand& demand);
  std::uint32_t grow(RequestId id, const Demand& demand);
  void count_hit(RequestId id, std::uint32_t used_tokens);
  void publish(RequestId id, std::uint64_t tokens);
  void refresh(RequestId id);
  void release_tables(RequestId id);
  void check_holdable(std::span<const BlockId> blocks) const;
  void suspect_sharing(std::span<const BlockId> blocks);
  void audit() const;

  CacheConfig config_;
  bool single_full_;          // one group of full attention without EAGLE
  bool settles_;              // a request may be settled
  std::uint32_t block_size_;  // [tokens] of the first group
  Pool pool_;
  std::vector<Group> groups_;
  RequestTable<Digest> requests_;
  PrefixSearch<Key> search_;
  Copies copies_;
  std::optional<ExactContents> exact_;
  Decode<Digest> decode_;
  Leases leases_;
  HostTier<Key> tier_;
};

// The three calls of a decode step are inlined: most steps stay within a block and have nothing to
// do. A handle that is not in use has no capacity and no tokens, and a step of it is due, so the
// comparison that each call makes anyway finds it.

template <class Digest>
inline void CacheManager<Digest>::append(RequestId id, std::span<const TokenId> tokens) {
  expects(id < requests_.size(), Breach::unknown_request, "no such request");
  if (requests_.append(id, tokens)) hash_units(id);
}

template <class Digest>
inline void CacheManager<Digest>::advance(RequestId id, std::uint32_t computed) {
  expects(id < requests_.size(), Breach::unknown_request, "no such request");
  if (computed - 1 >= requests_.num_tokens(id)) [[unlikely]] {  // more than there are, or none
    static_cast<void>(requests_.live(id));
    expects(computed == 0, Breach::computed_beyond_tokens, "advance beyond the tokens");
  }
  requests_.set_computed(id, computed);
}

template <class Digest>
inline Admission CacheManager<Digest>::allocate(RequestId id, const AllocateArgs& args) {
  expects(id < requests_.size(), Breach::unknown_request, "no such request");
  const Request& r = requests_[id];
  if (!is_ungated_step(args)) return admit(id, args);
  // A step within the last block, with no gate that could refuse, has nothing to do.
  const std::uint64_t known = std::uint64_t{requests_.computed(id)} + args.new_tokens;
  const std::uint64_t slots = known + args.lookahead;
  if (slots <= requests_.write_until(id)) return 0;
  if (slots > r.settled_until) return admit(id, args);
  const std::uint64_t complete = std::min<std::uint64_t>(known, requests_.num_tokens(id));
  return decode_.step(id,
                      {.slots = static_cast<std::uint32_t>(slots),
                       .complete = args.delay_cache ? 0 : static_cast<std::uint32_t>(complete)});
}

template <class Digest>
inline const DecodeGrant& CacheManager<Digest>::decode(std::span<const RequestId> ids,
                                                       std::span<const TokenId> tokens) {
  static constexpr DecodeGrant kNothing;
  expects(tokens.size() == ids.size(), Breach::capacity,
          "a batch that has not one token for each request");
  if (ids.size() == 1 && requests_.step_one(ids.front(), tokens.front())) return kNothing;
  return decode_.batch(ids, tokens);
}

}  // namespace kvproof::optimized
