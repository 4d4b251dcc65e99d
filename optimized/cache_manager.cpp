// SPDX-License-Identifier: Apache-2.0
#include "optimized/cache_manager.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "optimized/pool/reversed.h"

namespace kvproof::optimized {
namespace {

CacheConfig checked(const CacheConfig& config) {
  if (const auto why = unsupported(config)) {
    throw std::invalid_argument("the cache manager does not support " + std::string(*why));
  }
  return with_eagle_kin(config);
}

// The most keys that end inside of one block; 0 = none do. Requests that share the block in which
// their prompt ends are forks with the same prompt. Where keys cover tokens behind their unit, how
// much of the prompt has keys depends on how many tokens a fork knows behind it. A state has one
// key.
std::uint32_t most_tail_keys(const CacheConfig& config) {
  if (!config.enable_caching) return 0;
  const Profile& profile = config.profile;
  const std::uint32_t unit = config.hash_block_size;
  std::uint32_t most = 0;
  for (const GroupConfig& g : config.groups) {
    if (g.block_size == unit) continue;
    if (profile.hits_inside_blocks && moves_state(g)) most = std::max(most, 1U);
    if (profile.prompt_tail == PromptTail::none || !reads_all(g.kind)) continue;
    const std::uint32_t ends = 1 + ceil_div(config.hash_lookahead, unit);
    most = std::max(most, std::min(ends, g.block_size / unit - 1));
  }
  return most;
}

PoolOptions pool_options(const CacheConfig& config, const Capacity& capacity) {
  const auto is_mamba = [](const GroupConfig& g) { return g.kind == LayerKind::mamba; };
  PoolOptions out;
  out.order = config.enable_caching ? config.profile.caching_on : config.profile.caching_off;
  out.event_records = capacity.event_records;
  out.tail_keys = most_tail_keys(config);
  out.new_states = config.enable_caching && std::ranges::any_of(config.groups, is_mamba);
  out.residency = capacity.residency;
  out.victims = capacity.victims;
  return out;
}

}  // namespace

template <class Digest>
CacheManager<Digest>::CacheManager(const CacheConfig& config, Capacity capacity, std::uint64_t seed)
    : config_(checked(config)),
      single_full_(config.groups.size() == 1 && reads_all(config.groups.front().kind) &&
                   config.groups.front().kind != LayerKind::rswa && !config.groups.front().eagle),
      settles_(most_tail_keys(config) == 0 &&
               std::ranges::all_of(config.groups,
                                   [](const GroupConfig& group) {
                                     return is_written_again(group.kind) &&
                                            group.kind != LayerKind::rswa;
                                   })),
      block_size_(config.groups.front().block_size),
      pool_(config.num_blocks, pool_options(config, capacity)),
      groups_(make_groups<Key>(config_)),
      requests_(config_, groups_, capacity.max_requests, seed),
      search_(config_),
      decode_(config_, capacity, pool_, groups_, requests_, copies_, exact_,
              [this](RequestId id, TokenId token) { return step_by_three_calls(id, token); }),
      tier_(config_, pool_options(config, capacity).order, groups_) {
  const std::size_t tables = config.groups.size() * capacity.max_requests;
  copies_.reserve(2 * tables);
  if (pool_.tails() != nullptr) copies_.reserve_held(tables);
  if (!capacity.exact_hits) return;
  if (!single_full_ || config.num_host_blocks > 0) {
    throw std::invalid_argument(
        "exact hits need one group of full attention without EAGLE or host");
  }
  exact_.emplace(config.num_blocks, block_size_, config.hash_lookahead);
}

// ---- requests -----------------------------------------------------------------------------------

template <class Digest>
RequestId CacheManager<Digest>::arrive(const Arrival& arrival) {
  if (exact_ && arrival.extra != nullptr) exact_->reserve(*arrival.extra);
  const RequestId id = requests_.open(arrival);
  refresh(id);
  if (requests_.num_tokens(id) >= requests_[id].next_unit_end) hash_units(id);
  return id;
}

template <class Digest>
void CacheManager<Digest>::hash_units(RequestId id) {
  // A lookup or a publication of these keys is near.
  for (const Key& key : requests_.hash_units(id)) pool_.index().prefetch(key);
}

// Notes which work the next steps may skip.
template <class Digest>
void CacheManager<Digest>::refresh(RequestId id) {
  Request& r = requests_[id];
  const GroupTable* const own = requests_.tables(id);
  // A block under a relative's key finds new holders at any time: a hit, a lease.
  r.may_share = r.forked || (r.may_share && std::ranges::any_of(groups_, [&](const Group& group) {
                               return copies_.shares(group, own[group.id()], pool_);
                             }));
  const bool own_only = r.place == Place::device && !r.may_share;
  // A request that has published nothing yet does not count as running.
  const bool runs = !config_.enable_caching || own->published != kNever;
  r.settled_until = own_only && settles_ && runs ? r.capacity : 0;
  // The key of a prompt may become due in any step, so nothing is skipped under that policy.
  std::uint32_t work_at = own_only && pool_.tails() == nullptr ? r.work_at() : 0;
  for (const GroupTable& table : std::span(own, groups_.size())) {
    work_at = std::min(work_at, table.work_at());
  }
  requests_.limit(id, work_at);
}

// Last block first: the deeper a block, the fewer prompts can use it, the sooner it may be lost.
template <class Digest>
void CacheManager<Digest>::release_tables(RequestId id) {
  Request& r = requests_[id];
  expects(r.place == Place::device || r.place == Place::host, Breach::in_transfer,
          "release while a transfer is in flight");
  for (const Group& group : groups_) group.release(requests_.tables(id)[group.id()], pool_);
  if (r.place == Place::host) tier_.release(id);
  r.place = Place::device;
}

template <class Digest>
void CacheManager<Digest>::free(RequestId id) {
  static_cast<void>(requests_.live(id));
  release_tables(id);
  requests_.set_computed(id, 0);
  ++pool_.counters().preemptions;
  refresh(id);
  audit();
}

template <class Digest>
void CacheManager<Digest>::finish(RequestId id) {
  static_cast<void>(requests_.live(id));
  release_tables(id);
  requests_.close(id);
  audit();
}

// ---- lookup -------------------------------------------------------------------------------------

template <class Digest>
std::uint32_t CacheManager<Digest>::lookup(RequestId id, std::uint32_t max_tokens) {
  Request& r = requests_.live(id);
  GroupTable* const own = requests_.tables(id);
  r.junction = 0;
  if (!config_.enable_caching || r.skip_lookup || requests_.num_tokens(id) == 0) return 0;
  // The last token is always computed anew: its output is what the request came for.
  const std::uint32_t most = std::min(requests_.num_tokens(id) - 1, max_tokens);
  if (!single_full_) {
    const auto found = search_.find(pool_, r.hashes, r.num_hashes, most, own);
    r.hit_tokens = found.hit;
    r.junction = groups_.size() > 1 && found.longest > found.hit ? found.longest : 0;
  } else {
    const std::uint32_t blocks = std::min(most / block_size_, r.num_hashes);
    const auto& index = pool_.index();
    const Key* const keys = r.hashes;
    if (!exact_) {
      own->hit_length =
          leading_hits(blocks, own->hit, [&](std::uint32_t i) { return index.find(keys[i]); });
    } else {
      own->hit_length = leading_hits(blocks, own->hit, [&](std::uint32_t i) {
        const BlockId before = i == 0 ? kNullBlock : own->hit[i - 1];
        return exact_->find(index, keys[i], exact_->expected(requests_, id, i, before));
      });
    }
    r.hit_tokens = own->hit_found = own->hit_length * block_size_;
  }
  requests_.hit_epoch(id) = pool_.num_forgotten();
  return r.hit_tokens;
}

// A lookup takes no references, so anything may happen to its blocks before they are used.
template <class Digest>
void CacheManager<Digest>::check_hit(RequestId id) {
  const Request& r = requests_[id];
  for (const Group& group : groups_) {
    const GroupTable& table = requests_.tables(id)[group.id()];
    expects(table.published == kNever && table.length == 0, Breach::hit_on_running,
            "a looked-up prefix for a request that already has blocks");
    if (requests_.hit_epoch(id) == pool_.num_forgotten()) continue;
    BlockId before = kNullBlock;
    for (std::uint32_t i = 0; i < table.hit_length; ++i) {
      const BlockId block = table.hit[i];
      if (block == kNullBlock) continue;
      const bool kept =
          group.carries(block, group.content_of(r), group.hit_end(table, i), pool_) &&
          (!exact_ || exact_->holds(block, exact_->expected(requests_, id, i, before)));
      expects(kept, Breach::stale_lookup, "a looked-up block has lost its content");
      before = block;
    }
  }
}

// Once per admission, not at each lookup: one that is refused and tried again counts once.
template <class Digest>
void CacheManager<Digest>::count_hit(RequestId id, std::uint32_t used_tokens) {
  const std::uint32_t num_tokens = requests_.num_tokens(id);
  if (!config_.enable_caching || requests_[id].skip_lookup || num_tokens == 0) return;
  Counters& counters = pool_.counters();
  ++counters.lookups;
  counters.lookup_tokens += num_tokens - 1;
  counters.hit_tokens += used_tokens;
}

// ---- admission ----------------------------------------------------------------------------------

// Every check that can refuse comes before any change, except giving back out-of-window blocks.
template <class Digest>
Admission CacheManager<Digest>::admit(RequestId id, const AllocateArgs& args) {
  Request& r = requests_.resident(id);
  GroupTable* const own = requests_.tables(id);
  const Standing request = standing(id, args);
  expects(args.new_tokens > 0 || args.external > 0 ||
              (config_.profile.grants_hits_alone && request.uses_hit),
          Breach::nothing_to_allocate, "allocate without new and without external tokens");
  if (request.uses_hit) check_hit(id);
  const Demand demand = demand_of(args, request, config_.max_model_len);
  std::int64_t most = 0;  // [blocks] that it may need
  for (const Group& group : groups_) {
    const std::uint64_t wanted = group.wanted(demand);
    expects(wanted <= own[group.id()].capacity, Breach::capacity,
            "slots beyond the capacity of the request");
    most += static_cast<std::int64_t>(wanted);
  }
  const auto refuse = [&] {
    ++pool_.counters().refusals;
    refresh(id);
    return Admission::refused();
  };
  const Gates gates = gates_of(config_, args);
  if (args.full_sequence_must_fit) {
    const Demand all = whole_sequence(demand, request);
    if (!gates.admit_sequence(need(id, all), pool_.num_free())) return refuse();
  }
  if (r.may_share) {
    std::size_t shared = 0;
    for (const Group& group : groups_) {
      shared += copies_.needed(group, own[group.id()], demand, pool_);
    }
    copies_.reserve(shared);
  }
  if (pool_.tails() != nullptr) copies_.reserve_held(groups_.size());
  for (const Group& group : groups_) {
    group.recycle(own[group.id()], demand.processed, demand.prompt, pool_);
  }
  // What it needs is counted where the most that it may need is not there.
  const bool plenty = settles_ && !r.may_share && gates.admit_step(most, pool_.num_free());
  if (!plenty && !gates.admit_step(need(id, demand), pool_.num_free())) return refuse();
  for (const Group& group : groups_) group.note_state(own[group.id()], demand, request.num_tokens);
  if (demand.starts) start(id, demand);
  if (args.use_lookup && request.idle && args.status != RequestStatus::preempted) {
    count_hit(id, request.hit_tokens);
  }
  const std::uint32_t taken = grow(id, demand);
  // Drafts, which lie beyond the tokens that exist, are never published: they may be rejected.
  if (!args.delay_cache) publish(id, demand.main);
  refresh(id);
  audit();
  return taken;
}

template <class Digest>
Standing CacheManager<Digest>::standing(RequestId id, const AllocateArgs& args) const {
  const Request& r = requests_[id];
  const std::span<const GroupTable> own(requests_.tables(id), groups_.size());
  const auto has_hit = [](const GroupTable& table) { return table.hit_length > 0; };
  const auto is_idle = [](const GroupTable& table) {
    return table.length == 0 && table.published == kNever;
  };
  const bool uses_hit = args.use_lookup && std::ranges::any_of(own, has_hit);
  return {.num_tokens = requests_.num_tokens(id),
          .computed = requests_.computed(id),
          .encoder_tokens = requests_.encoder_tokens(id),
          .prompt_tokens = r.prompt_tokens,
          .hit_tokens = uses_hit ? r.hit_tokens : 0,
          .uses_hit = uses_hit,
          .idle = std::ranges::all_of(own, is_idle)};
}

template <class Digest>
std::int64_t CacheManager<Digest>::need(RequestId id, const Demand& demand) const {
  std::int64_t sum = 0;
  for (const Group& group : groups_) {
    const GroupTable& table = requests_.tables(id)[group.id()];
    const std::span<const BlockId> hit = table.hits().first(demand.uses_hit ? table.hit_length : 0);
    // A state that was published in this very step is not computed yet.
    if (group.config().kind == LayerKind::mamba && !hit.empty() &&
        pool_.is_new_state(hit.back(), demand.local % group.block_size() != 0)) {
      return std::int64_t{pool_.num_blocks()} + 1;
    }
    sum += group.need(table, hit, demand, pool_);
    if (requests_[id].may_share) sum += copies_.needed(group, table, demand, pool_);
  }
  return sum;
}

// All hits before any taking: a hit may stand in the free queue.
template <class Digest>
void CacheManager<Digest>::start(RequestId id, const Demand& demand) {
  GroupTable* const own = requests_.tables(id);
  for (const Group& group : groups_) {
    GroupTable& table = own[group.id()];
    group.add_hit(table, table.hits().first(demand.uses_hit ? table.hit_length : 0), demand, pool_);
  }
  for (const Group& group : groups_) group.add_external(own[group.id()], demand, pool_);
}

template <class Digest>
std::uint32_t CacheManager<Digest>::grow(RequestId id, const Demand& demand) {
  const Request& r = requests_[id];
  std::uint32_t taken = 0;
  for (const Group& group : groups_) {
    GroupTable& table = requests_.tables(id)[group.id()];
    if (r.may_share) taken += copies_.make(group, table, demand, pool_);
    // The number of the block before counts only while that block has its content.
    const auto holds = [&](std::uint32_t i) {
      if (!exact_) return true;
      const BlockId before = i == 0 ? kNullBlock : table.blocks[i - 1];
      return (i == 0 || pool_.holds_whole(before)) &&
             exact_->holds(table.blocks[i], exact_->expected(requests_, id, i, before));
    };
    if (r.forked) forget_relatives(group, table, r, demand, pool_, holds);
    TailCopy copy;
    taken += group.allocate(table, demand, pool_, copy);
    if (copy.from != kNullBlock) copies_.hold({group.id(), copy.from, copy.to}, pool_);
  }
  return taken;
}

template <class Digest>
Admission CacheManager<Digest>::step_by_three_calls(RequestId id, TokenId token) {
  append(id, {&token, 1});
  const Admission admission = allocate(id, {.new_tokens = 1, .status = RequestStatus::running});
  if (admission) advance(id, requests_.computed(id) + 1);
  return admission;
}

// ---- publication and what is given back ---------------------------------------------------------

template <class Digest>
void CacheManager<Digest>::publish(RequestId id, std::uint64_t tokens) {
  if (!config_.enable_caching) return;
  const Request& r = requests_[id];
  GroupTable* const own = requests_.tables(id);
  const std::uint64_t known = std::min<std::uint64_t>(tokens, requests_.num_tokens(id));
  if (exact_) exact_->note_complete(requests_, id, *own, known, pool_);
  for (const Group& group : groups_) {
    group.publish(own[group.id()], group.content_of(r), known, pool_);
  }
}

template <class Digest>
void CacheManager<Digest>::cache(RequestId id, std::uint32_t computed) {
  requests_.resident(id);
  publish(id, computed);
  refresh(id);
  audit();
}

template <class Digest>
void CacheManager<Digest>::recycle(RequestId id, std::uint32_t processed) {
  requests_.resident(id);
  for (const Group& group : groups_) {
    group.recycle(requests_.tables(id)[group.id()], processed, requests_[id].prompt_tokens, pool_);
  }
  refresh(id);
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

// Resets both tiers or neither: content that is stale in one is stale in the other.
template <class Digest>
bool CacheManager<Digest>::reset() {
  return tier_.pool().all_free() && pool_.reset() && tier_.reset();
}

template <class Digest>
std::uint32_t CacheManager<Digest>::common_prefix(RequestId id, GroupId group) const {
  if (!config_.profile.counts_common_prefix || !config_.enable_caching ||
      !reads_all(config_.groups[group].kind)) {
    return 0;
  }
  const std::span<const BlockId> mine = table(id, group);
  std::size_t shared = mine.size();
  const std::size_t live_requests = requests_.num_live();
  RequestId other = 0;
  for (std::size_t seen = 0; seen < live_requests && shared > 0; ++other) {
    if (!requests_[other].live) continue;
    ++seen;
    const std::span<const BlockId> theirs = table(other, group);
    if (theirs.empty()) continue;
    const auto differ = std::ranges::mismatch(mine.first(shared), theirs).in1;
    shared = static_cast<std::size_t>(std::distance(mine.begin(), differ));
  }
  return static_cast<std::uint32_t>(shared);
}

template <class Digest>
std::optional<std::uint32_t> CacheManager<Digest>::progress(RequestId id, GroupId group) const {
  const std::uint32_t published = requests_.tables(id)[group].published;
  return published == kNever ? std::nullopt : std::optional(published);
}

// ---- other holders ------------------------------------------------------------------------------

template <class Digest>
void CacheManager<Digest>::check_holdable(std::span<const BlockId> blocks) const {
  for (const BlockId block : blocks) {
    expects(block != kNullBlock && block < pool_.num_blocks(), Breach::block_out_of_range,
            "a block that cannot be held");
  }
}

template <class Digest>
bool CacheManager<Digest>::take(std::span<BlockId> out) {
  if (out.size() > pool_.num_free()) return false;
  pool_.take(out);
  return true;
}

template <class Digest>
void CacheManager<Digest>::touch(std::span<const BlockId> blocks) {
  check_holdable(blocks);
  pool_.touch(blocks);
  suspect_sharing(blocks);
  audit();
}

template <class Digest>
void CacheManager<Digest>::release(std::span<const BlockId> blocks) {
  check_holdable(blocks);
  pool_.release(blocks);
  audit();
}

template <class Digest>
LeaseId CacheManager<Digest>::pin(std::span<const BlockId> blocks) {
  check_holdable(blocks);
  for (const BlockId block : blocks) {
    expects(pool_.record(block).ref_cnt > 0 || pool_.hashed(block), Breach::no_content,
            "pin of a free block without content");
  }
  const LeaseId lease = leases_.keep(blocks);
  pool_.touch(blocks);
  suspect_sharing(blocks);
  audit();
  return lease;
}

template <class Digest>
void CacheManager<Digest>::unpin(LeaseId lease) {
  pool_.release(Reversed(leases_.blocks(lease)));
  leases_.drop(lease);
  audit();
}

// Held blocks without a key get another holder, so the next step must look at their tables again
// before it writes.
template <class Digest>
void CacheManager<Digest>::suspect_sharing(std::span<const BlockId> blocks) {
  const bool any = std::ranges::any_of(blocks, [&](BlockId block) {
    return !pool_.holds_whole(block) && pool_.record(block).ref_cnt > 1;
  });
  if (!any) return;
  for (RequestId id = 0; id < requests_.size(); ++id) {
    if (!requests_[id].live) continue;
    requests_[id].may_share = true;
    refresh(id);
  }
}

template <class Digest>
RequestId CacheManager<Digest>::fork(RequestId parent) {
  requests_.resident(parent);
  for (const GroupConfig& group : config_.groups) {
    expects(group.kind != LayerKind::mamba, Breach::not_supported, "fork of a running state");
  }
  const RequestId child = requests_.clone(parent);
  for (const Group& group : groups_) {
    const GroupTable& from = requests_.tables(parent)[group.id()];
    GroupTable& to = requests_.tables(child)[group.id()];
    std::ranges::copy(from.table(), to.blocks);
    group.set_length(to, from.length);
    group.set_published(to, from.published);
    group.set_kept_from(to, from.kept_from);
    pool_.touch(to.table());
  }
  for (const RequestId either : {parent, child}) {
    requests_[either].may_share = requests_[either].forked = true;
    refresh(either);
  }
  audit();
  return child;
}

template <class Digest>
void CacheManager<Digest>::truncate(RequestId id, std::uint32_t tokens) {
  requests_.resident(id);
  GroupTable* const own = requests_.tables(id);
  expects(tokens >= requests_.computed(id), Breach::published_tail,
          "truncate below the computed tokens");
  for (const Group& group : groups_) {
    expects(!group.is_written_again() ||
                ceil_div(tokens, group.block_size()) >= own[group.id()].progress(),
            Breach::published_tail, "truncate below the published blocks");
  }
  for (const Group& group : groups_) {
    GroupTable& table = own[group.id()];
    const std::uint32_t kept = ceil_div(tokens, group.block_size());
    if (!group.is_written_again() || kept >= table.length) continue;
    pool_.release(Reversed(table.table().subspan(kept)));
    group.set_length(table, kept);
    group.set_kept_from(table,
                        std::min(table.kept_from, kept));  // what grows anew is recycled anew
  }
  refresh(id);
  audit();
}

// ---- the host tier ------------------------------------------------------------------------------

template <class Digest>
bool CacheManager<Digest>::swap_out(RequestId id) {
  Request& r = requests_.resident(id);
  expects(tier_.exists(), Breach::not_supported, "swap without a host tier");
  const std::span<const GroupTable> own(requests_.tables(id), groups_.size());
  expects(std::ranges::any_of(own, [](const GroupTable& table) { return table.length > 0; }),
          Breach::not_in_transfer, "swap out of a request without blocks");
  if (!tier_.leave(id, own.data(), pool_, copies_)) return false;
  r.place = Place::leaving;
  refresh(id);
  audit();
  return true;
}

template <class Digest>
bool CacheManager<Digest>::swap_in(RequestId id) {
  Request& r = requests_.live(id);
  expects(r.place != Place::leaving && r.place != Place::returning, Breach::in_transfer,
          "swap in while a transfer is in flight");
  expects(r.place == Place::host, Breach::not_in_transfer,
          "swap in of a request that is not swapped out");
  if (!tier_.come_back(id, requests_.tables(id), pool_, copies_)) return false;
  r.place = Place::returning;
  audit();
  return true;
}

template <class Digest>
void CacheManager<Digest>::complete(RequestId id, bool ok) {
  Request& r = requests_.live(id);
  GroupTable* const own = requests_.tables(id);
  expects(r.place == Place::leaving || r.place == Place::returning, Breach::unknown_transfer,
          "complete of no transfer in flight");
  if (r.place == Place::leaving && ok) {
    tier_.settle_there(id, own, pool_);
    r.place = Place::host;
  } else if (r.place == Place::leaving) {
    tier_.release(id);
    r.place = Place::device;
  } else if (ok) {
    tier_.settle_here(id, own, pool_);
    r.place = Place::device;
  } else {
    for (const Group& group : groups_) group.release_blocks(own[group.id()], pool_);
    r.place = Place::host;
  }
  r.may_share = r.place == Place::device;
  refresh(id);
  audit();
}

template <class Digest>
void CacheManager<Digest>::audit() const {
#if defined(KVPROOF_AUDIT)
  pool_.audit();
  tier_.pool().audit();
#endif
}

template class CacheManager<Xxh3Digest>;
template class CacheManager<Sha256Digest>;
template class CacheManager<WeakDigest>;
template class CacheManager<VllmSha256Digest>;
template class CacheManager<VllmSha256CborDigest>;

}  // namespace kvproof::optimized
