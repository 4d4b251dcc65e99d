// SPDX-License-Identifier: Apache-2.0
#include "optimized/cache_manager.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include "optimized/cache_manager_exact.h"
#include "optimized/cache_manager_requests.h"
#include "optimized/cache_manager_sharing.h"
#include "optimized/cache_manager_tiers.h"

namespace kvproof::optimized {
namespace {

CacheConfig checked(const CacheConfig& config) {
  if (const auto why = unsupported(config)) {
    throw std::invalid_argument("the cache manager does not support " + std::string(*why));
  }
  return with_eagle_kin(config);
}

PoolOptions pool_options(const CacheConfig& config, const Capacity& capacity) {
  const auto is_mamba = [](const GroupConfig& g) { return g.kind == LayerKind::mamba; };
  PoolOptions out;
  out.order = config.enable_caching ? config.profile.caching_on : config.profile.caching_off;
  out.event_records = capacity.event_records;
  out.tail_keys = config.enable_caching && config.profile.prompt_tail_keys;
  out.new_states = config.enable_caching && std::ranges::any_of(config.groups, is_mamba);
  out.residency = capacity.residency;
  return out;
}

template <class Key>
std::vector<LayerGroup<Key>> make_groups(const CacheConfig& config) {
  std::vector<LayerGroup<Key>> out;
  for (GroupId g = 0; g < config.groups.size(); ++g) out.emplace_back(config, g);
  return out;
}

}  // namespace

template <class Digest>
CacheManager<Digest>::CacheManager(const CacheConfig& config, Capacity capacity, std::uint64_t seed)
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
      groups_(make_groups<Key>(config_)),
      search_(config_, groups_) {
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

template <class Digest>
std::uint32_t CacheManager<Digest>::lookup(RequestId id) {
  Request& r = live(id);
  GroupTable* const own = tables(id);
  r.hit_tokens = 0;
  for (GroupId g = 0; g < groups_.size(); ++g) own[g].hit_length = 0;
  if (!config_.enable_caching || r.skip_lookup || r.num_tokens == 0) return 0;
  // The last token is always computed anew: its output is what the request came for.
  const std::uint32_t most = r.num_tokens - 1;
  if (single_full_) {
    const std::uint32_t limit = most / block_size_;
    std::uint32_t length = 0;
    for (; length < limit; ++length) {
      const BlockId block = exact_ ? find_full(id, length) : pool_.index().find(r.hashes[length]);
      if (block == kNoBlock) break;  // the first gap ends the prefix
      own->hit[length] = block;
    }
    own->hit_length = length;
    r.hit_tokens = length * block_size_;
  } else {
    r.hit_tokens = search_.find(pool_.index(), r.hashes, most, own);
  }
  r.hit_epoch = pool_.num_forgotten();
  return r.hit_tokens;
}

// step() of one group of full attention: without loops it takes 40 instructions per block less.
template <class Digest>
Admission CacheManager<Digest>::step_full(RequestId id, std::uint32_t known, std::uint32_t slots,
                                          bool delay_cache) {
  Request& r = requests_[id];
  GroupTable& table = *tables(id);
  const LayerGroup<Key>& group = groups_.front();
  std::uint32_t missing = 0;
  if (slots > table.slots_end) {
    missing = group.missing(table, slots);
    if (missing > pool_.num_free()) {
      ++pool_.counters().refusals;
      return Admission::refused();
    }
    group.append(table, missing, pool_);
  }
  const std::uint32_t complete = std::min(known, r.num_tokens);
  if (complete >= table.publish_end && !delay_cache) {
    if (exact_) note_contents(id, complete);
    group.publish_due(table, r.hashes, complete, pool_);
  }
  r.quiet_until = std::min(table.slots_end, table.publish_end - 1);
  audit();
  return missing;
}

// admit() for a running request without gates, hits and external tokens, where no block is shared
// and no group moves states: once `known` tokens are computed, with room for `slots`.
template <class Digest>
Admission CacheManager<Digest>::step(RequestId id, std::uint32_t known, std::uint32_t slots,
                                     bool delay_cache) {
  Request& r = requests_[id];
  GroupTable* const own = tables(id);
  std::uint32_t missing = 0;
  for (const LayerGroup<Key>& group : groups_) {
    GroupTable& table = own[group.id()];
    if (r.computed >= table.recycle_at) group.recycle(table, r.computed, pool_);
    if (slots > table.slots_end) missing += group.missing(table, slots);
  }
  if (missing > pool_.num_free()) {
    ++pool_.counters().refusals;
    return Admission::refused();
  }
  for (const LayerGroup<Key>& group : groups_) {
    GroupTable& table = own[group.id()];
    if (slots > table.slots_end) group.append(table, group.missing(table, slots), pool_);
  }
  const std::uint32_t complete = std::min(known, r.num_tokens);
  r.quiet_until = kNever;
  for (const LayerGroup<Key>& group : groups_) {
    GroupTable& table = own[group.id()];
    if (complete >= table.publish_end && !delay_cache) {
      group.publish_due(table, r.hashes, complete, pool_);
    }
    r.quiet_until = std::min(r.quiet_until, group.quiet_until(table));
  }
  audit();
  return missing;
}

// Everything that can refuse comes before anything that changes, but for out-of-window blocks.
template <class Digest>
Admission CacheManager<Digest>::admit(RequestId id, const AllocateArgs& args) {
  Request& r = resident(id);
  GroupTable* const own = tables(id);
  expects(args.new_tokens > 0 || args.external > 0, Breach::nothing_to_allocate,
          "allocate without new and without external tokens");
  const bool use_hit = args.use_lookup && std::any_of(own, own + groups_.size(), [](const auto& t) {
                         return t.hit_length > 0;
                       });
  if (use_hit) check_hit(id);
  const std::uint64_t limit = config_.max_model_len;
  const std::uint64_t total =
      std::uint64_t{r.computed} + (use_hit ? r.hit_tokens : 0) + args.external;
  expects(total <= limit, Breach::capacity, "external tokens beyond the token limit");
  const std::uint64_t main = std::min(total + args.new_tokens, limit);
  const bool idle = std::all_of(own, own + groups_.size(), [](const GroupTable& t) {
    return t.length == 0 && t.published == kNever;
  });
  const bool starts = idle && (use_hit || args.external > 0);
  const std::uint64_t slots = std::min(main + args.lookahead, limit);
  const Demand demand{slots, main, total, args.external, r.encoder_tokens, starts, false};
  for (const LayerGroup<Key>& group : groups_) {
    expects(group.wanted(demand) <= own[group.id()].capacity, Breach::capacity,
            "slots beyond the capacity of the request");
  }
  const bool admission = args.has_scheduled && args.status != RequestStatus::running;
  const std::int64_t watermark = admission ? config_.watermark_blocks() : 0;
  const std::int64_t reserved = config_.profile.admission_gates ? args.reserved : 0;
  if (args.full_sequence_must_fit) {
    const std::uint32_t n = r.num_tokens;
    const Demand all{n, n, total, args.external, r.encoder_tokens, starts, true};
    if (need(id, use_hit, all) + watermark > pool_.num_free()) {
      ++pool_.counters().refusals;
      return Admission::refused();
    }
  }
  if (r.may_share) reserve_copies(id, demand);
  for (const LayerGroup<Key>& group : groups_) group.recycle(own[group.id()], total, pool_);
  if (need(id, use_hit, demand) + watermark + reserved > pool_.num_free()) {
    ++pool_.counters().refusals;
    refresh(id);
    return Admission::refused();
  }
  if (starts) {
    // All hits before any taking: a hit may stand in the free queue.
    for (const LayerGroup<Key>& group : groups_) {
      GroupTable& table = own[group.id()];
      group.add_hit(table, table.hits().first(use_hit ? table.hit_length : 0), total, pool_);
    }
    for (const LayerGroup<Key>& group : groups_) {
      group.add_external(own[group.id()], demand, pool_);
    }
  }
  if (args.use_lookup && idle && args.status != RequestStatus::preempted) count_hit(r, use_hit);
  const std::uint32_t taken = grow(id, demand);
  // Drafts beyond the tokens that exist are never published: they may be rejected.
  if (!args.delay_cache) publish(id, main);
  refresh(id);
  audit();
  return taken;
}

// Once per admission, not at each lookup: one that is refused and tried again counts once.
template <class Digest>
void CacheManager<Digest>::count_hit(const Request& r, bool use_hit) {
  if (!config_.enable_caching || r.skip_lookup || r.num_tokens == 0) return;
  Counters& counters = pool_.counters();
  ++counters.lookups;
  counters.lookup_tokens += r.num_tokens - 1;
  counters.hit_tokens += use_hit ? r.hit_tokens : 0;
}

template <class Digest>
std::uint32_t CacheManager<Digest>::grow(RequestId id, const Demand& demand) {
  GroupTable* const own = tables(id);
  std::uint32_t taken = 0;
  for (const LayerGroup<Key>& group : groups_) {
    GroupTable& table = own[group.id()];
    if (requests_[id].may_share) taken += copy_shared(id, group.id(), demand);
    if (requests_[id].forked) forget_relatives(id, group.id(), demand);
    taken += group.allocate(table, demand, pool_);
  }
  return taken;
}

// A lookup takes no references, so anything may happen to its blocks before they are used.
template <class Digest>
void CacheManager<Digest>::check_hit(RequestId id) {
  const Request& r = requests_[id];
  for (const LayerGroup<Key>& group : groups_) {
    const GroupTable& table = tables(id)[group.id()];
    expects(table.published == kNever && table.length == 0, Breach::hit_on_running,
            "a looked-up prefix for a request that already has blocks");
    if (r.hit_epoch == pool_.num_forgotten()) continue;
    BlockId before = kNullBlock;
    for (std::uint32_t i = 0; i < table.hit_length; ++i) {
      const BlockId block = table.hit[i];
      if (block == kNullBlock) continue;
      const bool kept = pool_.holds_whole(block) &&
                        pool_.record(block).key == group.key(r.hashes, i) &&
                        (!exact_ || exact_->holds(block, expected(id, i, before)));
      expects(kept, Breach::stale_lookup, "a looked-up block has lost its content");
      before = block;
    }
  }
}

template <class Digest>
std::int64_t CacheManager<Digest>::need(RequestId id, bool use_hit, const Demand& demand) const {
  std::int64_t sum = 0;
  for (const LayerGroup<Key>& group : groups_) {
    const GroupTable& table = tables(id)[group.id()];
    const std::span<const BlockId> hit = table.hits().first(use_hit ? table.hit_length : 0);
    // A state that was published in this very step is not computed yet.
    if (group.config().kind == LayerKind::mamba && !hit.empty() && pool_.is_new_state(hit.back())) {
      return std::int64_t{pool_.num_blocks()} + 1;
    }
    sum += group.need(table, hit, demand, pool_);
    if (requests_[id].may_share) sum += num_to_copy(id, group.id(), demand);
  }
  return sum;
}

template <class Digest>
void CacheManager<Digest>::publish(RequestId id, std::uint64_t tokens) {
  if (!config_.enable_caching) return;
  const Request& r = requests_[id];
  const std::uint64_t known = std::min<std::uint64_t>(tokens, r.num_tokens);
  if (exact_) note_contents(id, known);
  for (const LayerGroup<Key>& group : groups_) {
    GroupTable& table = tables(id)[group.id()];
    group.publish(table, r.hashes, known, pool_);
    group.publish_prompt_tail(table, r.hashes, r.prompt_tokens, known, pool_);
  }
}

// What the next steps may skip.
template <class Digest>
void CacheManager<Digest>::refresh(RequestId id) {
  Request& r = requests_[id];
  // A block under a relative's key finds new holders at any time: a hit, a lease.
  r.may_share = r.forked || (r.may_share && shares(id));
  const bool settled = r.live && r.place == Place::device && !r.may_share && !r.forked;
  r.plain = settled && steps_alike_;
  // The key of a prompt may become due in any step, so nothing is skipped under that policy.
  r.quiet_until = settled && pool_.tails() == nullptr ? kNever : 0;
  if (r.quiet_until == 0) return;
  for (const LayerGroup<Key>& group : groups_) {
    r.quiet_until = std::min(r.quiet_until, group.quiet_until(tables(id)[group.id()]));
  }
}

template <class Digest>
void CacheManager<Digest>::cache(RequestId id, std::uint32_t computed) {
  resident(id);
  publish(id, computed);
  refresh(id);
  audit();
}

template <class Digest>
void CacheManager<Digest>::recycle(RequestId id, std::uint32_t processed) {
  resident(id);
  for (const LayerGroup<Key>& group : groups_) {
    group.recycle(tables(id)[group.id()], processed, pool_);
  }
  refresh(id);
  audit();
}

// Last block first: the deeper a block, the fewer prompts can use it, the sooner it may be lost.
template <class Digest>
void CacheManager<Digest>::release_tables(RequestId id) {
  Request& r = requests_[id];
  expects(r.place == Place::device || r.place == Place::host, Breach::in_transfer,
          "release while a transfer is in flight");
  for (const LayerGroup<Key>& group : groups_) group.release(tables(id)[group.id()], pool_);
  if (r.place == Place::host) release_host(id);
  r.place = Place::device;
  r.hit_tokens = 0;
}

template <class Digest>
void CacheManager<Digest>::free(RequestId id) {
  Request& r = live(id);
  release_tables(id);
  r.computed = 0;
  ++pool_.counters().preemptions;
  refresh(id);
  audit();
}

template <class Digest>
void CacheManager<Digest>::finish(RequestId id) {
  Request& r = live(id);
  release_tables(id);
  r.live = r.plain = false;
  r.quiet_until = r.capacity = r.num_tokens = 0;
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

// Both tiers, or neither: what is stale in one is stale in the other.
template <class Digest>
bool CacheManager<Digest>::reset() {
  return host_.all_free() && pool_.reset() && host_.reset();
}

template <class Digest>
void CacheManager<Digest>::audit() const {
#if defined(KVPROOF_AUDIT)
  pool_.audit();
  host_.audit();
#endif
}

template class CacheManager<Xxh3Digest>;
template class CacheManager<Sha256Digest>;
template class CacheManager<WeakDigest>;

}  // namespace kvproof::optimized
