// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager_subject.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "optimized/cache_manager.h"
#include "optimized/manager_calls.h"
#include "reference/contract.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::optimized {
namespace {

// A key is shown without its group, which is shown apart: in_group() is its own inverse.

// Walks are bounded by the number of blocks. They end at the sentinel, which has that number, or at
// a link to nowhere, so that a broken list is reported and not followed.
template <class Pool>
void observe_queue(const Pool& pool, PoolState& out) {
  const std::uint32_t n = pool.num_blocks();
  const auto& queue = pool.queue();
  out.num_free = pool.num_free();
  out.usage = n > 1 ? 1.0 - static_cast<double>(out.num_free) / static_cast<double>(n - 1) : 0.0;
  out.queue.clear();
  out.queue_backward.clear();
  for (BlockId at = queue.head(); at < n && out.queue.size() < n; at = pool.record(at).next) {
    out.queue.push_back(at);
  }
  for (BlockId at = pool.record(queue.sentinel()).prev; at < n && out.queue_backward.size() < n;
       at = pool.record(at).prev) {
    out.queue_backward.push_back(at);
  }
}

template <class Key>
void observe_key(const PrefixIndex<Key>& index, const Key& key, BlockId block, GroupId group,
                 std::size_t most, IndexEntry& entry) {
  entry.group = group;
  entry.key = fingerprint(in_group(key, group));
  entry.blocks.clear();
  for (BlockId copy = block; copy != kNoBlock && entry.blocks.size() < most;
       copy = index.next_copy(copy)) {
    entry.blocks.push_back(copy);
  }
}

// The keys of prefixes that end inside of a block. @param next_entry() the index's next entry
template <class Pool, class NextEntry>
void observe_tails(const Pool& pool, BlockId block, PoolState& out, const NextEntry& next_entry) {
  const auto& tails = *pool.tails();
  BlockState& state = out.blocks[block];
  for (BlockId at = block; at != kNoBlock; at = tails.next(at)) {
    const std::uint64_t key = fingerprint(in_group(tails.key(at), state.group));
    if (at == block && !pool.holds_whole(block)) {
      state.key = key;
      state.prefix_tokens = tails.prefix_tokens(at);
    } else if (!state.tail_key) {
      state.tail_key = key;
    } else {
      out.further_keys.push_back({block, key});
    }
    if (tails.index().find(tails.key(at)) != at) continue;
    IndexEntry& listed = next_entry();
    observe_key(tails.index(), tails.key(at), at, state.group, pool.num_blocks(), listed);
    for (BlockId& copy : listed.blocks) copy = tails.block_of(copy);
  }
}

template <class Pool>
void observe_pool(const Pool& pool, PoolState& out) {
  const std::uint32_t n = pool.num_blocks();
  observe_queue(pool, out);
  out.blocks.assign(n, {});
  out.further_keys.clear();
  std::size_t keys = 0;
  const auto next_entry = [&]() -> IndexEntry& {
    if (keys == out.index.size()) out.index.emplace_back();
    return out.index[keys++];
  };
  for (BlockId block = 0; block < n; ++block) {
    const auto& record = pool.record(block);
    BlockState& state = out.blocks[block];
    state.ref_cnt = record.ref_cnt;
    state.linked = pool.queue().contains(block);
    state.hashed = pool.hashed(block);
    if (!state.hashed) continue;
    state.group = pool.group(block);
    if (pool.holds_whole(block)) {
      state.key = fingerprint(in_group(record.key, state.group));
      state.prefix_tokens = pool.events().prefix_tokens(block);
      if (pool.index().find(record.key) == block) {
        observe_key(pool.index(), record.key, block, state.group, n, next_entry());
      }
    }
    if ((record.flags & Pool::Record::kTailKeyed) != 0) {
      observe_tails(pool, block, out, next_entry);
    }
  }
  out.index.resize(keys);
}

}  // namespace

template <class Manager>
void observe_manager(const Manager& manager, const CallerNames& names, Snapshot& out) {
  const std::size_t num_groups = manager.config().groups.size();
  observe_pool(manager.pool(), out);
  observe_pool(manager.host(), out.host);
  out.requests.resize(names.requests.size());
  auto state = out.requests.begin();
  for (const auto& [name, id] : names.requests) {
    state->name = name;
    state->num_tokens = static_cast<std::uint32_t>(manager.tokens(id).size());
    state->computed = manager.computed(id);
    const auto hashes = manager.hashes(id);
    state->hashes.resize(hashes.size());
    for (std::size_t i = 0; i < hashes.size(); ++i) state->hashes[i] = fingerprint(hashes[i]);
    state->tables.resize(num_groups);
    state->progress.resize(num_groups);
    state->host_tables.resize(manager.has_host_tables(id) ? num_groups : 0);
    for (GroupId g = 0; g < num_groups; ++g) {
      const auto table = manager.table(id, g);
      state->tables[g].assign(table.begin(), table.end());
      state->progress[g] = manager.progress(id, g);
      if (state->host_tables.empty()) continue;
      const auto host = manager.host_table(id, g);
      state->host_tables[g].assign(host.begin(), host.end());
    }
    ++state;
  }
  out.copying.assign(manager.copying().begin(), manager.copying().end());
  std::ranges::sort(out.copying);
  out.raw = names.raw;
  std::ranges::sort(out.raw);
  out.leases.resize(names.leases.size());
  auto held = out.leases.begin();
  for (const auto& [name, lease] : names.leases) {
    const auto blocks = manager.leased(lease);
    held->name = name;
    held->blocks.assign(blocks.begin(), blocks.end());
    ++held;
  }
  const auto& pool = manager.pool();
  const Counters& counted = manager.counters();
  out.counters = {counted.lookups, counted.lookup_tokens, counted.hit_tokens};
  out.work = {.taken = counted.taken,
              .evictions = counted.evictions,
              .revivals = counted.revivals,
              .refusals = counted.refusals,
              .preemptions = counted.preemptions,
              .copies = counted.copies,
              .granted = names.granted,
              .keys = pool.num_keys(),
              .lost_events = pool.events().num_lost(),
              .lifetime = pool.residency().lifetime().buckets(),
              .idle = pool.residency().idle().buckets()};
}

namespace {

template <class Manager>
class ManagerSubject final : public Subject {
 public:
  ManagerSubject(const CacheConfig& config, const Capacity& capacity) : calls_(config, capacity) {}

  Outcome apply(const Operation& operation) override {
    Outcome outcome;
    try {
      outcome.result = calls_.apply(operation);
    } catch (const ContractViolation& violation) {
      outcome.result = result_of_error(violation.what());
    }
    outcome.events = calls_.calls()->take_events();
    return outcome;
  }

  void observe(Snapshot& out) const override { calls_.observe(out); }

 private:
  ManagerCalls<Held<Manager>> calls_;
};

}  // namespace

template <class Digest>
std::unique_ptr<Subject> make_manager_subject(const CacheConfig& config, const Capacity& capacity) {
  Capacity announcing = capacity;
  announcing.event_records = 4 * config.num_blocks + 16;
  announcing.residency = true;
  return std::make_unique<ManagerSubject<CacheManager<Digest>>>(config, announcing);
}

template <class Digest>
std::unique_ptr<Subject> make_manager_subject(const CacheConfig& config,
                                              std::uint32_t max_requests) {
  return make_manager_subject<Digest>(config, Capacity{.max_requests = max_requests});
}

template <class Digest>
std::unique_ptr<Subject> make_silent_subject(const CacheConfig& config) {
  return std::make_unique<ManagerSubject<CacheManager<Digest>>>(config, Capacity{});
}

#define KVPROOF_INSTANTIATE(Digest)                                                          \
  template std::unique_ptr<Subject> make_silent_subject<Digest>(const CacheConfig&);         \
  template void observe_manager(const CacheManager<Digest>&, const CallerNames&, Snapshot&); \
  template std::unique_ptr<Subject> make_manager_subject<Digest>(const CacheConfig&,         \
                                                                 const Capacity&);           \
  template std::unique_ptr<Subject> make_manager_subject<Digest>(const CacheConfig&, std::uint32_t)

KVPROOF_INSTANTIATE(Xxh3Digest);
KVPROOF_INSTANTIATE(Sha256Digest);
KVPROOF_INSTANTIATE(WeakDigest);
KVPROOF_INSTANTIATE(VllmSha256Digest);
KVPROOF_INSTANTIATE(VllmSha256CborDigest);

}  // namespace kvproof::optimized
