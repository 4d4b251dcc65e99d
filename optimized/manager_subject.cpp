// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager_subject.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "optimized/cache_manager.h"
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
  ManagerSubject(const CacheConfig& config, const Capacity& capacity)
      : manager_(config, capacity) {}

  Outcome apply(const Operation& operation) override {
    Outcome outcome;
    try {
      outcome.result = std::visit([this](const auto& o) { return this->perform(o); }, operation);
    } catch (const ContractViolation& violation) {
      outcome.result = result_of_error(violation.what());
    }
    outcome.events = manager_.take_events();
    return outcome;
  }

  void observe(Snapshot& out) const override { observe_manager(manager_, names_, out); }

 private:
  using Blocks = std::vector<BlockId>;

  Result perform(const op::Arrive& o) {
    expects(!names_.requests.contains(o.req), Breach::duplicate_request,
            "arrive with a name in use");
    name_request(o.req, manager_.arrive({.tokens = o.tokens,
                                         .extra = &o.extra,
                                         .skip_lookup = o.skip_lookup,
                                         .encoder_tokens = o.encoder_tokens}));
    return {};
  }
  Result perform(const op::Append& o) {
    return manager_.append(o.tokens.empty() ? live(o.req) : request(o.req), o.tokens), Result();
  }
  Result perform(const op::Advance& o) {
    return manager_.advance(request(o.req), o.computed), Result();
  }
  Result perform(const op::Lookup& o) {
    const RequestId id = request(o.req);
    Hit hit{manager_.lookup(id, o.max_tokens.value_or(~0U)), {}};
    for (GroupId g = 0; g < num_groups(); ++g) {
      const auto blocks = manager_.hit_blocks(id, g);
      hit.blocks.emplace_back(blocks.begin(), blocks.end());
    }
    return hit;
  }
  Result perform(const op::Allocate& o);
  Result perform(const op::Free& o) { return manager_.free(request(o.req)), Result(); }
  Result perform(const op::Finish& o) {
    const RequestId id = request(o.req);
    manager_.finish(id);
    names_.requests.erase(o.req);
    gone_[o.req] = id;
    return {};
  }
  Result perform(const op::Recycle& o) {
    return manager_.recycle(request(o.req), o.processed), Result();
  }
  Result perform(const op::Step&) { return manager_.start_step(), Result(); }
  Result perform(const op::Cache& o) {
    return manager_.cache(request(o.req), o.computed), Result();
  }
  Result perform(const op::Evict& o) { return manager_.evict(o.blocks), Result(); }
  Result perform(const op::Reset&) { return manager_.reset(); }
  Result perform(const op::CommonPrefix& o) {
    SharedBlocks shared;
    for (GroupId g = 0; g < num_groups(); ++g) {
      shared.push_back(manager_.common_prefix(live(o.req), g));
    }
    return shared;
  }
  Result perform(const op::Take& o) {
    Blocks blocks(std::min(o.n, manager_.pool().num_free() + 1));  // one too many is enough
    if (!manager_.take(blocks)) return Refused{};
    names_.raw.insert(names_.raw.end(), blocks.begin(), blocks.end());
    return Granted{{std::move(blocks)}};
  }
  Result perform(const op::Touch& o) {
    manager_.touch(o.blocks);
    names_.raw.insert(names_.raw.end(), o.blocks.begin(), o.blocks.end());
    return {};
  }
  Result perform(const op::Release& o) {
    Blocks left = names_.raw;
    for (const BlockId block : o.blocks) {
      const auto at = std::find(left.begin(), left.end(), block);
      if (at == left.end()) refuse_release(block);
      left.erase(at);
    }
    manager_.release(o.blocks);
    names_.raw = std::move(left);
    return {};
  }

  Result perform(const op::Fork& o) {
    const RequestId parent = live(o.req);
    expects(!names_.requests.contains(o.child), Breach::duplicate_request, "fork to a name in use");
    name_request(o.child, manager_.fork(parent));
    return {};
  }
  Result perform(const op::Truncate& o) {
    return manager_.truncate(request(o.req), o.tokens), Result();
  }
  Result perform(const op::Pin& o) {
    expects(!names_.leases.contains(o.lease), Breach::duplicate_lease, "pin under a lease in use");
    const LeaseId lease = manager_.pin(o.blocks);
    std::erase_if(returned_, [&](const auto& entry) { return entry.second == lease; });
    names_.leases[o.lease] = lease;
    return {};
  }
  Result perform(const op::Unpin& o) {
    const LeaseId lease = handle(names_.leases, returned_, o.lease, Breach::unknown_lease);
    manager_.unpin(lease);
    names_.leases.erase(o.lease);
    returned_[o.lease] = lease;
    return {};
  }
  Result perform(const op::SwapOut& o) {
    const RequestId id = live(o.req);
    return start(id, o.transfer, [&] { return manager_.swap_out(id); });
  }
  Result perform(const op::SwapIn& o) {
    const RequestId id = live(o.req);
    return start(id, o.transfer, [&] { return manager_.swap_in(id); });
  }
  Result perform(const op::Complete& o) {
    const auto at = transfers_.find(o.transfer);
    expects(at != transfers_.end(), Breach::unknown_transfer, "complete of no transfer in flight");
    manager_.complete(at->second, o.ok);
    transfers_.erase(at);
    return {};
  }

  Result perform(const op::Decode& o);

  template <class Swap>
  Result start(RequestId id, const std::string& transfer, const Swap& swap) {
    expects(!transfers_.contains(transfer) && !transfer.empty(), Breach::duplicate_transfer,
            "swap under a transfer in use, or without a name");
    if (!swap()) return Refused{};
    transfers_[transfer] = id;
    Granted granted;
    for (const BlockCopy& copy : manager_.take_copies()) {
      granted.copies.push_back({copy.from, copy.to});
    }
    return granted;
  }

  // A handle that was given back, too: whether it is in use is for the manager to say.
  template <class Id>
  static Id handle(const std::map<std::string, Id>& used, const std::map<std::string, Id>& gone,
                   const std::string& name, Breach breach) {
    if (const auto at = used.find(name); at != used.end()) return at->second;
    const auto at = gone.find(name);
    expects(at != gone.end(), breach, "a name that was never given");
    return at->second;
  }
  [[nodiscard]] RequestId request(const std::string& name) const {
    return handle(names_.requests, gone_, name, Breach::unknown_request);
  }
  // For the calls whose handle is not the first thing that is looked at.
  [[nodiscard]] RequestId live(const std::string& name) const {
    return handle(names_.requests, {}, name, Breach::unknown_request);
  }
  // For a batch: a name that was never given becomes a handle that was never given.
  [[nodiscard]] RequestId id_or_none(const std::string& name) const {
    if (const auto at = names_.requests.find(name); at != names_.requests.end()) return at->second;
    const auto at = gone_.find(name);
    return at != gone_.end() ? at->second : RequestId(~0U);
  }
  void name_request(const std::string& name, RequestId id) {
    std::erase_if(gone_, [&](const auto& entry) { return entry.second == id; });
    names_.requests[name] = id;
  }
  // The manager knows holders, not owners: it can only say so of a block that nobody holds.
  void refuse_release(BlockId block) {
    const auto& pool = manager_.pool();
    if (block != kNullBlock && block < pool.num_blocks() && pool.record(block).ref_cnt == 0) {
      manager_.release(std::span(&block, 1));
    }
    violated(Breach::not_held, "release of a block that the raw owner does not hold");
  }
  [[nodiscard]] std::size_t num_groups() const { return manager_.config().groups.size(); }

  Manager manager_;
  CallerNames names_;
  std::map<std::string, RequestId> gone_;    // names of handles that were not given again
  std::map<std::string, LeaseId> returned_;  // the same of leases
  std::map<std::string, RequestId> transfers_;
  std::vector<std::size_t> held_;  // shape [groups]: table lengths before the allocation
};

// The new blocks of the tables, listed behind the copies.
template <class Manager>
Result ManagerSubject<Manager>::perform(const op::Allocate& o) {
  const RequestId id = request(o.req);
  held_.clear();
  for (GroupId g = 0; g < num_groups(); ++g) held_.push_back(manager_.table(id, g).size());
  const Admission admission = manager_.allocate(id, o.args);
  if (!admission) return Refused{};
  names_.granted += *admission;
  Granted granted;
  granted.blocks.resize(num_groups());
  for (const BlockCopy& copy : manager_.take_copies()) {
    const auto table = manager_.table(id, copy.group);  // a state that goes on stays where it is
    if (std::ranges::find(table, copy.to) != table.end()) {
      granted.blocks[copy.group].push_back(copy.to);
    }
    granted.copies.push_back({copy.from, copy.to});
  }
  for (GroupId g = 0; g < num_groups(); ++g) {
    if (manager_.table(id, g).size() == held_[g]) continue;
    const auto growth = manager_.growth(id, g);
    granted.blocks[g].insert(granted.blocks[g].end(), growth.begin(), growth.end());
  }
  return granted;
}

// A name that was never given is found where its turn comes: what breaks the contract first counts.
template <class Manager>
Result ManagerSubject<Manager>::perform(const op::Decode& o) {
  std::vector<RequestId> ids;
  for (const std::string& req : o.reqs) ids.push_back(id_or_none(req));
  const std::uint64_t taken_before = manager_.counters().taken;
  const auto done = manager_.decode(ids, o.tokens);
  names_.granted += manager_.counters().taken - taken_before;
  Decoded out;
  out.refused.assign(done.refused.begin(), done.refused.end());
  out.blocks.assign(ids.size(), std::vector<Blocks>(num_groups()));
  for (const std::uint32_t index : out.refused) out.blocks[index].clear();
  for (const NewBlock& block : done.taken) {
    out.blocks[block.index][block.group].push_back(block.block);
  }
  for (const BlockCopy& copy : manager_.take_copies()) out.copies.push_back({copy.from, copy.to});
  return out;
}

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
