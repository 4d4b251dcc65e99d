// SPDX-License-Identifier: Apache-2.0
// Admission: what a request needs, the gates, its growth. Included by cache_manager_definitions.h
// alone.
#pragma once

#include <algorithm>

#include "optimized/cache_manager.h"

namespace kvproof::optimized {

// Everything that can refuse comes before anything that changes, but for out-of-window blocks.
template <class Digest, class Pool>
Admission CacheManager<Digest, Pool>::admit(RequestId id, const AllocateArgs& args) {
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
  for (const LayerGroup<Pool>& group : groups_) {
    expects(group.wanted(demand) <= own[group.id()].capacity, Breach::capacity,
            "slots beyond the capacity of the request");
  }
  const auto refuse = [&] {
    ++pool_.counters().refusals;
    refresh(id);
    return Admission::refused();
  };
  const bool admission = args.has_scheduled && args.status != RequestStatus::running;
  const std::int64_t watermark = admission ? config_.watermark_blocks() : 0;
  const std::int64_t reserved = config_.profile.admission_gates ? args.reserved : 0;
  if (args.full_sequence_must_fit) {
    const std::uint32_t n = r.num_tokens;
    const Demand all{n, n, total, args.external, r.encoder_tokens, starts, true};
    if (need(id, use_hit, all) + watermark > pool_.num_free()) return refuse();
  }
  if (r.may_share) reserve_copies(id, demand);
  for (const LayerGroup<Pool>& group : groups_) group.recycle(own[group.id()], total, pool_);
  if (need(id, use_hit, demand) + watermark + reserved > pool_.num_free()) return refuse();
  if (starts) {
    // All hits before any taking: a hit may stand in the free queue.
    for (const LayerGroup<Pool>& group : groups_) {
      GroupTable& table = own[group.id()];
      group.add_hit(table, table.hits().first(use_hit ? table.hit_length : 0), total, pool_);
    }
    for (const LayerGroup<Pool>& group : groups_) {
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
template <class Digest, class Pool>
void CacheManager<Digest, Pool>::count_hit(const Request& r, bool use_hit) {
  if (!config_.enable_caching || r.skip_lookup || r.num_tokens == 0) return;
  Counters& counters = pool_.counters();
  ++counters.lookups;
  counters.lookup_tokens += r.num_tokens - 1;
  counters.hit_tokens += use_hit ? r.hit_tokens : 0;
}

template <class Digest, class Pool>
std::uint32_t CacheManager<Digest, Pool>::grow(RequestId id, const Demand& demand) {
  GroupTable* const own = tables(id);
  std::uint32_t taken = 0;
  for (const LayerGroup<Pool>& group : groups_) {
    GroupTable& table = own[group.id()];
    if (requests_[id].may_share) taken += copy_shared(id, group.id(), demand);
    if (requests_[id].forked) forget_relatives(id, group.id(), demand);
    taken += group.allocate(table, demand, pool_);
  }
  return taken;
}

// A lookup takes no references, so anything may happen to its blocks before they are used.
template <class Digest, class Pool>
void CacheManager<Digest, Pool>::check_hit(RequestId id) {
  const Request& r = requests_[id];
  for (const LayerGroup<Pool>& group : groups_) {
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

template <class Digest, class Pool>
std::int64_t CacheManager<Digest, Pool>::need(RequestId id, bool use_hit,
                                              const Demand& demand) const {
  std::int64_t sum = 0;
  for (const LayerGroup<Pool>& group : groups_) {
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

}  // namespace kvproof::optimized
