// SPDX-License-Identifier: Apache-2.0
// The bodies of CacheManager, for whoever instantiates it with a pool of its own: cache_manager.cpp
// does so with the one that ships.
#pragma once

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "optimized/cache_manager.h"
#include "optimized/cache_manager_admission.h"
#include "optimized/cache_manager_exact.h"
#include "optimized/cache_manager_requests.h"
#include "optimized/cache_manager_sharing.h"
#include "optimized/cache_manager_steps.h"
#include "optimized/cache_manager_tiers.h"

namespace kvproof::optimized {

inline CacheConfig checked(const CacheConfig& config) {
  if (const auto why = unsupported(config)) {
    throw std::invalid_argument("the cache manager does not support " + std::string(*why));
  }
  return with_eagle_kin(config);
}

inline PoolOptions pool_options(const CacheConfig& config, const Capacity& capacity) {
  const auto is_mamba = [](const GroupConfig& g) { return g.kind == LayerKind::mamba; };
  PoolOptions out;
  out.order = config.enable_caching ? config.profile.caching_on : config.profile.caching_off;
  out.event_records = capacity.event_records;
  out.tail_keys = config.enable_caching && config.profile.prompt_tail_keys;
  out.new_states = config.enable_caching && std::ranges::any_of(config.groups, is_mamba);
  out.residency = capacity.residency;
  out.victims = capacity.victims;
  return out;
}

template <class Digest, class Pool>
CacheManager<Digest, Pool>::CacheManager(const CacheConfig& config, Capacity capacity,
                                         std::uint64_t seed)
    : config_(checked(config)),
      max_requests_(capacity.max_requests),
      single_full_(config.groups.size() == 1 && reads_all(config.groups.front().kind) &&
                   !config.groups.front().eagle),
      steps_alike_(!config.profile.prompt_tail_keys &&
                   std::ranges::all_of(config.groups,
                                       [](const GroupConfig& group) {
                                         return group.kind != LayerKind::mamba &&
                                                group.kind != LayerKind::cross;
                                       })),
      block_size_(config.groups.front().block_size),
      hasher_(config.hash_block_size, seed),
      pool_(config.num_blocks, pool_options(config, capacity)),
      host_(config.num_host_blocks, {.order = pool_options(config, capacity).order}),
      groups_(make_groups<LayerGroup<Pool>>(config_)),
      search_(config_) {
  requests_.reserve(capacity.max_requests);
  tables_.reserve(capacity.max_requests * config.groups.size());
  storage_.reserve(capacity.max_requests);
  unused_.reserve(capacity.max_requests);
  copies_.reserve(2 * config.groups.size() * capacity.max_requests);
  if (!capacity.exact_hits) return;
  if (!single_full_ || config.num_host_blocks > 0) {
    throw std::invalid_argument(
        "exact hits need one group of full attention without EAGLE or host");
  }
  exact_.emplace(config.num_blocks, block_size_);
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::publish(RequestId id, std::uint64_t tokens) {
  if (!config_.enable_caching) return;
  const Request& r = requests_[id];
  const std::uint64_t known = std::min<std::uint64_t>(tokens, r.num_tokens);
  if (exact_) note_contents(id, known);
  for (const LayerGroup<Pool>& group : groups_) {
    GroupTable& table = tables(id)[group.id()];
    group.publish(table, r.hashes, known, pool_);
    group.publish_prompt_tail(table, r.hashes, r.prompt_tokens, known, pool_);
  }
}

// What the next steps may skip.
template <class Digest, class Pool>
void CacheManager<Digest, Pool>::refresh(RequestId id) {
  Request& r = requests_[id];
  // A block under a relative's key finds new holders at any time: a hit, a lease.
  r.may_share = r.forked || (r.may_share && shares(id));
  const bool settled = r.live && r.place == Place::device && !r.may_share && !r.forked;
  r.plain = settled && steps_alike_;
  // The key of a prompt may become due in any step, so nothing is skipped under that policy.
  r.quiet_until = settled && pool_.tails() == nullptr ? kNever : 0;
  if (r.quiet_until == 0) return;
  for (const LayerGroup<Pool>& group : groups_) {
    r.quiet_until = std::min(r.quiet_until, group.quiet_until(tables(id)[group.id()]));
  }
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::cache(RequestId id, std::uint32_t computed) {
  resident(id);
  publish(id, computed);
  refresh(id);
  audit();
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::recycle(RequestId id, std::uint32_t processed) {
  resident(id);
  for (const LayerGroup<Pool>& group : groups_) {
    group.recycle(tables(id)[group.id()], processed, pool_);
  }
  refresh(id);
  audit();
}

// Last block first: the deeper a block, the fewer prompts can use it, the sooner it may be lost.
template <class Digest, class Pool>
void CacheManager<Digest, Pool>::release_tables(RequestId id) {
  Request& r = requests_[id];
  expects(r.place == Place::device || r.place == Place::host, Breach::in_transfer,
          "release while a transfer is in flight");
  for (const LayerGroup<Pool>& group : groups_) group.release(tables(id)[group.id()], pool_);
  if (r.place == Place::host) release_host(id);
  r.place = Place::device;
  r.hit_tokens = 0;
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::free(RequestId id) {
  Request& r = live(id);
  release_tables(id);
  r.computed = 0;
  ++pool_.counters().preemptions;
  refresh(id);
  audit();
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::finish(RequestId id) {
  Request& r = live(id);
  release_tables(id);
  r.live = r.plain = false;
  r.quiet_until = r.capacity = r.num_tokens = 0;
  unused_.push_back(id);
  audit();
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::evict(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    expects(block < pool_.num_blocks(), Breach::block_out_of_range, "evict of an unknown block");
  }
  for (const BlockId block : blocks) pool_.forget(block);
  audit();
}

// The buffer stays here, so that the next admission finds room in it.
template <class Digest, class Pool>
std::vector<BlockCopy> CacheManager<Digest, Pool>::take_copies() {
  std::vector<BlockCopy> out = copies_;
  copies_.clear();
  return out;
}

// Both tiers, or neither: what is stale in one is stale in the other.
template <class Digest, class Pool>
bool CacheManager<Digest, Pool>::reset() {
  return host_.all_free() && pool_.reset() && host_.reset();
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::audit() const {
#if defined(KVPROOF_AUDIT)
  pool_.audit();
  host_.audit();
#endif
}

}  // namespace kvproof::optimized
