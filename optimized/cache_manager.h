// SPDX-License-Identifier: Apache-2.0
// The cache manager: requests, their block tables in every group, lookup, admission, publication.
//
// Model:   as reference/cache_manager.h, outcome for outcome. A request is a handle; its tokens,
//          hashes and tables live in one buffer that arrive() makes or reuses, so that nothing else
//          allocates.
// Source:  vLLM v1 KVCacheManager and KVCacheCoordinator; sharing as in Kwon et al., SOSP'23.
// Refuses: scheduling, threads, names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "optimized/manager/exact_contents.h"
#include "optimized/manager/group_table.h"
#include "optimized/manager/layer_group.h"
#include "optimized/manager/prefix_search.h"
#include "optimized/manager/request.h"
#include "optimized/pool/block_pool.h"
#include "optimized/pool/hashing.h"
#include "reference/config.h"
#include "reference/contract.h"
#include "reference/operations.h"

namespace kvproof::optimized {

/// @tparam Pool a BlockPool with the keys of the digest
template <class Digest, class Pool = BlockPool<typename Digest::Key>>
class CacheManager {
 public:
  using Key = typename Digest::Key;

  /// @pre unsupported(config) is empty, and exact hits only for one group of full attention without
  /// EAGLE and host tier; throws std::invalid_argument with the reason otherwise.
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
  /// The blocks of the last lookup, shape [hit tokens / block_size]; 0 = not read any more.
  [[nodiscard]] std::span<const BlockId> hit_blocks(RequestId id, GroupId group = 0) const {
    return tables(id)[group].hits();
  }

  /// Makes slots for args.new_tokens more tokens and publishes the blocks that they complete.
  /// @return the number of blocks taken, the last of their tables; refused, with nothing changed
  /// but out-of-window blocks given back, when they are not to be had. A block that somebody else
  /// holds and that would be written is replaced, see take_copies().
  Admission allocate(RequestId id, const AllocateArgs& args);

  /// Preemption: releases all blocks, last first; the tokens stay, the computed count becomes 0.
  void free(RequestId id);
  /// Releases all blocks, last first, and forgets the request.
  void finish(RequestId id);
  /// Gives back what nobody reads once `processed` tokens are computed.
  void recycle(RequestId id, std::uint32_t processed);
  /// Publishes complete blocks up to `computed` tokens, e.g. after an external load.
  void cache(RequestId id, std::uint32_t computed);
  /// Forgets the content of blocks. @pre ids < num_blocks
  void evict(std::span<const BlockId> blocks);
  /// Forgets all content in both tiers. @return false, with nothing changed, while a block is held
  bool reset();
  /// A scheduling step starts.
  void start_step() { pool_.step(); }
  /// Leading blocks that all requests with blocks have in common; 0 where not all tokens are read.
  [[nodiscard]] std::uint32_t common_prefix(RequestId id, GroupId group = 0) const;

  // Sharing: cache_manager_sharing.h
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
  [[nodiscard]] std::span<const BlockId> leased(LeaseId lease) const { return leases_[lease]; }
  /// The copies that admissions since the last call ask for, in order.
  [[nodiscard]] std::vector<BlockCopy> take_copies();

  // The host tier: cache_manager_tiers.h
  /// Starts a transfer of a request's blocks to the other tier; its copies are in take_copies().
  /// Both sides are held until complete(). @return false, with nothing changed, if it is full there
  bool swap_out(RequestId id);
  bool swap_in(RequestId id);
  void complete(RequestId id, bool ok);
  [[nodiscard]] std::span<const BlockId> host_table(RequestId id, GroupId group) const;
  [[nodiscard]] bool has_host_tables(RequestId id) const { return !storage_[id].host.empty(); }
  [[nodiscard]] const Pool& host() const { return host_; }

  [[nodiscard]] std::span<const BlockId> table(RequestId id, GroupId group = 0) const {
    return {tables(id)[group].blocks, tables(id)[group].length};
  }
  /// What the table grew by when it last grew: hits and loaded blocks are not in it.
  [[nodiscard]] std::span<const BlockId> growth(RequestId id, GroupId group = 0) const {
    return table(id, group).subspan(tables(id)[group].grown_from);
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
  [[nodiscard]] std::optional<std::uint32_t> progress(RequestId id, GroupId group = 0) const;
  [[nodiscard]] const CacheConfig& config() const { return config_; }
  [[nodiscard]] const Pool& pool() const { return pool_; }
  [[nodiscard]] const Counters& counters() const { return pool_.counters(); }
  [[nodiscard]] std::vector<Event> take_events() { return pool_.events().take(); }
  /// Memory of the requests: tokens, hashes, tables. The pool reports its own.
  [[nodiscard]] std::uint64_t request_bytes() const;

 private:
  using Request = RequestState<Key>;
  using Storage = RequestStorage;

  [[nodiscard]] GroupTable* tables(RequestId id) { return &tables_[id * groups_.size()]; }
  [[nodiscard]] const GroupTable* tables(RequestId id) const {
    return &tables_[id * groups_.size()];
  }
  Request& live(RequestId id) {
    expects(id < requests_.size() && requests_[id].live, Breach::unknown_request, "no such handle");
    return requests_[id];
  }
  Request& resident(RequestId id) {
    Request& r = live(id);
    expects(r.place == Place::device, Breach::in_transfer,
            "the blocks of the request are not in the device pool");
    return r;
  }
  RequestId new_request(std::uint32_t capacity, std::uint32_t encoder_tokens);
  void make_room(RequestId id, std::uint32_t capacity, std::uint32_t encoder_tokens);
  void hash_units(RequestId id);
  Admission step(RequestId id, std::uint32_t known, std::uint32_t slots, bool delay_cache);
  Admission step_full(RequestId id, std::uint32_t known, std::uint32_t slots, bool delay_cache);
  Admission admit(RequestId id, const AllocateArgs& args);
  [[nodiscard]] ExactContents::Expected expected(RequestId id, std::uint32_t position,
                                                 BlockId before);
  [[nodiscard]] BlockId find_full(RequestId id, std::uint32_t position);
  void note_contents(RequestId id, std::uint64_t tokens);
  void check_hit(RequestId id);
  [[nodiscard]] std::int64_t need(RequestId id, bool use_hit, const Demand& demand) const;
  void count_hit(const Request& r, bool use_hit);
  std::uint32_t grow(RequestId id, const Demand& demand);
  void publish(RequestId id, std::uint64_t tokens);
  void release_tables(RequestId id);
  void refresh(RequestId id);
  void audit() const;
  [[nodiscard]] std::int64_t num_to_copy(RequestId id, GroupId group, const Demand& demand) const;
  void reserve_copies(RequestId id, const Demand& demand);
  std::uint32_t copy_shared(RequestId id, GroupId group, const Demand& demand);
  void forget_relatives(RequestId id, GroupId group, const Demand& demand);
  [[nodiscard]] bool shares(RequestId id) const;
  void suspect_sharing(std::span<const BlockId> blocks);
  bool start_copies(const BlockTables& source, const Pool& from, Pool& to, BlockTables& target);
  void settle_out(RequestId id);
  void settle_in(RequestId id);
  void release_host(RequestId id);

  CacheConfig config_;
  std::uint32_t max_requests_;
  bool single_full_;          // one group of full attention without EAGLE
  bool steps_alike_;          // step() will do for every group
  std::uint32_t block_size_;  // [tokens] of that group
  ChainHasher<Digest> hasher_;
  Pool pool_;
  Pool host_;
  std::vector<LayerGroup<Pool>> groups_;
  PrefixSearch<Key> search_;
  std::vector<Request> requests_;   // shape [handles given so far], reserved for max_requests
  std::vector<GroupTable> tables_;  // shape [handles given so far, groups]
  std::vector<Storage> storage_;    // shape [handles given so far]
  std::vector<RequestId> unused_;   // of those handles
  std::optional<ExactContents> exact_;
  std::vector<BlockCopy> copies_;
  std::vector<std::vector<BlockId>> leases_;
  std::vector<LeaseId> unused_leases_;
};
}  // namespace kvproof::optimized

#include "optimized/cache_manager_inline.h"  // IWYU pragma: export
