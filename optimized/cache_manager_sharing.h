// SPDX-License-Identifier: Apache-2.0
// Holders of blocks besides a request's own table: forks and leases. Included by
// cache_manager_definitions.h alone.
#pragma once

#include <algorithm>
#include <cstring>

#include "optimized/cache_manager.h"
#include "optimized/pool/reversed.h"

namespace kvproof::optimized {

// Positions about to be written that somebody else holds, too. See reference: what is published is
// complete, and a state or an encoder row is never forked.
template <class Digest, class Pool>
std::int64_t CacheManager<Digest, Pool>::num_to_copy(RequestId id, GroupId group,
                                                     const Demand& demand) const {
  const GroupTable& table = tables(id)[group];
  const auto [from, end] = groups_[group].written(table, demand);
  std::int64_t count = 0;
  for (std::uint32_t i = from; i < end; ++i) {
    count += pool_.record(table.blocks[i]).ref_cnt > 1 ? 1 : 0;
  }
  return count;
}

// While nothing has changed: memory may be refused, where nobody takes the copies.
template <class Digest, class Pool>
void CacheManager<Digest, Pool>::reserve_copies(RequestId id, const Demand& demand) {
  std::size_t most = copies_.size();
  for (const LayerGroup<Pool>& group : groups_) {
    most += static_cast<std::size_t>(num_to_copy(id, group.id(), demand));
  }
  copies_.reserve(most);
}

template <class Digest, class Pool>
std::uint32_t CacheManager<Digest, Pool>::copy_shared(RequestId id, GroupId group,
                                                      const Demand& demand) {
  const GroupTable& table = tables(id)[group];
  const auto [from, end] = groups_[group].written(table, demand);
  std::uint32_t count = 0;
  for (std::uint32_t i = from; i < end; ++i) {
    const BlockId shared = table.blocks[i];
    if (pool_.record(shared).ref_cnt <= 1) continue;
    pool_.take({table.blocks + i, 1});
    pool_.release(std::span(&shared, 1));
    copies_.push_back({group, shared, table.blocks[i]});
    ++count;
  }
  pool_.counters().copies += count;
  return count;
}

// A relative may have published a block under what it wrote there, and left. It is written anew.
template <class Digest, class Pool>
void CacheManager<Digest, Pool>::forget_relatives(RequestId id, GroupId group,
                                                  const Demand& demand) {
  const Request& r = requests_[id];
  const GroupTable& table = tables(id)[group];
  const auto [from, end] = groups_[group].written(table, demand);
  for (std::uint32_t i = from; i < end; ++i) {
    const BlockId block = table.blocks[i];
    if (!pool_.hashed(block)) continue;
    const bool whole = pool_.holds_whole(block);
    const Key& key = whole ? pool_.record(block).key : pool_.tails()->key(block);
    const std::uint32_t units = whole
                                    ? (i + 1) * groups_[group].units_per_block()
                                    : pool_.tails()->prefix_tokens(block) / config_.hash_block_size;
    const bool own = units <= r.num_hashes && key == in_group(r.hashes[units - 1], group);
    if (!own) pool_.forget(block);
  }
}

template <class Digest, class Pool>
bool CacheManager<Digest, Pool>::shares(RequestId id) const {
  for (const LayerGroup<Pool>& group : groups_) {
    const GroupTable& table = tables(id)[group.id()];
    if (!group.is_written_again()) continue;
    for (std::uint32_t i = table.progress(); i < table.length; ++i) {
      if (pool_.record(table.blocks[i]).ref_cnt > 1) return true;
    }
  }
  return false;
}

// Held blocks without a key get another holder: the tables that they stand in are looked at again
// before the next step writes.
template <class Digest, class Pool>
void CacheManager<Digest, Pool>::suspect_sharing(std::span<const BlockId> blocks) {
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

template <class Digest, class Pool>
RequestId CacheManager<Digest, Pool>::fork(RequestId parent_id) {
  resident(parent_id);
  for (const GroupConfig& group : config_.groups) {
    expects(group.kind != LayerKind::mamba, Breach::not_supported, "fork of a running state");
  }
  const Request& parent = requests_[parent_id];
  const RequestId id = new_request(parent.capacity, parent.encoder_tokens);
  Request& child = requests_[id];
  std::memcpy(child.tokens, parent.tokens, parent.num_tokens * sizeof(TokenId));
  std::copy_n(parent.hashes, parent.num_hashes, child.hashes);
  child.num_tokens = parent.num_tokens;
  child.prompt_tokens = parent.prompt_tokens;
  child.num_hashes = parent.num_hashes;
  child.next_unit_end = parent.next_unit_end;
  child.computed = parent.computed;
  child.skip_lookup = parent.skip_lookup;
  child.has_extra = parent.has_extra;
  storage_[id].extra = storage_[parent_id].extra;
  for (const LayerGroup<Pool>& group : groups_) {
    const GroupTable& from = tables(parent_id)[group.id()];
    GroupTable& to = tables(id)[group.id()];
    std::ranges::copy(from.table(), to.blocks);
    group.set_length(to, from.length);
    group.set_published(to, from.published);
    group.set_kept_from(to, from.kept_from);
    pool_.touch(to.table());
  }
  for (const RequestId either : {parent_id, id}) {
    requests_[either].may_share = requests_[either].forked = true;
    refresh(either);
  }
  audit();
  return id;
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::truncate(RequestId id, std::uint32_t tokens) {
  const Request& r = resident(id);
  expects(tokens >= r.computed, Breach::published_tail, "truncate below the computed tokens");
  for (const LayerGroup<Pool>& group : groups_) {
    const GroupTable& table = tables(id)[group.id()];
    expects(!group.is_written_again() || ceil_div(tokens, group.block_size()) >= table.progress(),
            Breach::published_tail, "truncate below the published blocks");
  }
  for (const LayerGroup<Pool>& group : groups_) {
    GroupTable& table = tables(id)[group.id()];
    const std::uint32_t kept = ceil_div(tokens, group.block_size());
    if (!group.is_written_again() || kept >= table.length) continue;
    pool_.release(Reversed(table.table().subspan(kept)));
    group.set_length(table, kept);
  }
  refresh(id);
  audit();
}

template <class Digest, class Pool>
LeaseId CacheManager<Digest, Pool>::pin(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    expects(block != kNullBlock && block < pool_.num_blocks(), Breach::block_out_of_range,
            "pin of a block that cannot be held");
    expects(pool_.record(block).ref_cnt > 0 || pool_.hashed(block), Breach::no_content,
            "pin of a free block without content");
  }
  if (unused_leases_.empty()) {
    const std::size_t given = leases_.size();
    // Room for every lease: unpin() cannot fail, and no lease is lost between the two lists.
    if (unused_leases_.capacity() == given) unused_leases_.reserve(2 * given + 1);
    leases_.emplace_back();
    unused_leases_.push_back(static_cast<LeaseId>(given));
  }
  const LeaseId lease = unused_leases_.back();
  leases_[lease].assign(blocks.begin(), blocks.end());
  unused_leases_.pop_back();
  pool_.touch(blocks);
  suspect_sharing(blocks);
  audit();
  return lease;
}

template <class Digest, class Pool>
void CacheManager<Digest, Pool>::unpin(LeaseId lease) {
  expects(lease < leases_.size() && std::ranges::count(unused_leases_, lease) == 0,
          Breach::unknown_lease, "unpin of a lease that was not given");
  pool_.release(Reversed(leases_[lease]));
  leases_[lease].clear();
  unused_leases_.push_back(lease);
  audit();
}

}  // namespace kvproof::optimized
