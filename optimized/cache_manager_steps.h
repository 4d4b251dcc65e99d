// SPDX-License-Identifier: Apache-2.0
// Lookup, and the steps of running requests that have nothing to decide. Included by
// cache_manager_definitions.h alone.
#pragma once

#include <algorithm>

#include "optimized/cache_manager.h"

namespace kvproof::optimized {

template <class Digest, class Pool>
std::uint32_t CacheManager<Digest, Pool>::lookup(RequestId id) {
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
template <class Digest, class Pool>
Admission CacheManager<Digest, Pool>::step_full(RequestId id, std::uint32_t known,
                                                std::uint32_t slots, bool delay_cache) {
  Request& r = requests_[id];
  GroupTable& table = *tables(id);
  const LayerGroup<Pool>& group = groups_.front();
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
template <class Digest, class Pool>
Admission CacheManager<Digest, Pool>::step(RequestId id, std::uint32_t known, std::uint32_t slots,
                                           bool delay_cache) {
  Request& r = requests_[id];
  GroupTable* const own = tables(id);
  std::uint32_t missing = 0;
  for (const LayerGroup<Pool>& group : groups_) {
    GroupTable& table = own[group.id()];
    if (r.computed >= table.recycle_at) group.recycle(table, r.computed, pool_);
    if (slots > table.slots_end) missing += group.missing(table, slots);
  }
  if (missing > pool_.num_free()) {
    ++pool_.counters().refusals;
    return Admission::refused();
  }
  for (const LayerGroup<Pool>& group : groups_) {
    GroupTable& table = own[group.id()];
    if (slots > table.slots_end) group.append(table, group.missing(table, slots), pool_);
  }
  const std::uint32_t complete = std::min(known, r.num_tokens);
  r.quiet_until = kNever;
  for (const LayerGroup<Pool>& group : groups_) {
    GroupTable& table = own[group.id()];
    if (complete >= table.publish_end && !delay_cache) {
      group.publish_due(table, r.hashes, complete, pool_);
    }
    r.quiet_until = std::min(r.quiet_until, group.quiet_until(table));
  }
  audit();
  return missing;
}

}  // namespace kvproof::optimized
