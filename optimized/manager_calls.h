// SPDX-License-Identifier: Apache-2.0
// Operations as calls of a manager: names become handles, and answers become values.
//
// Model:   each operation is one call, between which names and results are made; so a call that
//          throws leaves the names as they were. `Calls` is who makes it: a Held manager, or a test
//          that looks over it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "optimized/cache_manager.h"
#include "reference/contract.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::optimized {

/// The caller's names for its requests, leases and transfers, the blocks that it holds itself, and
/// how many its allocations were granted.
struct CallerNames {
  std::map<std::string, RequestId> requests;
  std::map<std::string, LeaseId> leases;
  std::map<std::string, RequestId> transfers;  // whose they are
  std::vector<BlockId> raw;
  std::uint64_t granted = 0;
};

/// The manager as its caller sees it.
template <class Manager>
void observe_manager(const Manager& manager, const CallerNames& names, Snapshot& out);

/// A manager that is called as it is.
template <class Manager>
class Held {
 public:
  Held(const CacheConfig& config, const Capacity& capacity) : manager_(config, capacity) {}
  Manager* operator->() { return &manager_; }            // to call
  const Manager& operator*() const { return manager_; }  // to ask
  std::vector<BlockCopy> take_copies() { return manager_.take_copies(); }

 private:
  Manager manager_;
};

template <class Calls>
class ManagerCalls {
 public:
  ManagerCalls(const CacheConfig& config, const Capacity& capacity) : calls_(config, capacity) {}

  /// @throws ContractViolation
  Result apply(const Operation& operation) {
    return std::visit([this](const auto& o) { return this->perform(o); }, operation);
  }
  void observe(Snapshot& out) const { observe_manager(*calls_, names_, out); }

  [[nodiscard]] Calls& calls() { return calls_; }
  [[nodiscard]] const auto& manager() const { return *calls_; }
  [[nodiscard]] const CallerNames& names() const { return names_; }

 private:
  using Blocks = std::vector<BlockId>;

  Result perform(const op::Arrive& o) {
    expects(!names_.requests.contains(o.req), Breach::duplicate_request,
            "arrive with a name in use");
    const RequestId id = calls_->arrive({.tokens = o.tokens,
                                         .extra = &o.extra,
                                         .skip_lookup = o.skip_lookup,
                                         .encoder_tokens = o.encoder_tokens});
    name_request(o.req, id);
    return {};
  }
  Result perform(const op::Append& o) {
    return calls_->append(o.tokens.empty() ? live(o.req) : request(o.req), o.tokens), Result();
  }
  Result perform(const op::Advance& o) {
    return calls_->advance(request(o.req), o.computed), Result();
  }
  Result perform(const op::Lookup& o) {
    const RequestId id = request(o.req);
    Hit hit{calls_->lookup(id, o.max_tokens.value_or(~0U)), {}};
    for (GroupId g = 0; g < num_groups(); ++g) {
      const auto blocks = manager().hit_blocks(id, g);
      hit.blocks.emplace_back(blocks.begin(), blocks.end());
    }
    return hit;
  }
  Result perform(const op::Allocate& o);
  Result perform(const op::Free& o) { return calls_->free(request(o.req)), Result(); }
  Result perform(const op::Finish& o) {
    const RequestId id = request(o.req);
    calls_->finish(id);
    names_.requests.erase(o.req);
    gone_[o.req] = id;
    return {};
  }
  Result perform(const op::Recycle& o) {
    return calls_->recycle(request(o.req), o.processed), Result();
  }
  Result perform(const op::Step&) { return calls_->start_step(), Result(); }
  Result perform(const op::Cache& o) { return calls_->cache(request(o.req), o.computed), Result(); }
  Result perform(const op::Evict& o) { return calls_->evict(o.blocks), Result(); }
  Result perform(const op::Reset&) { return calls_->reset(); }
  Result perform(const op::CommonPrefix& o) {
    SharedBlocks shared;
    for (GroupId g = 0; g < num_groups(); ++g) {
      const std::uint32_t blocks = calls_->common_prefix(live(o.req), g);
      shared.push_back(blocks);
    }
    return shared;
  }
  Result perform(const op::Take& o) {
    Blocks blocks(std::min(o.n, manager().pool().num_free() + 1));  // one too many is enough
    if (!calls_->take(blocks)) return Refused{};
    names_.raw.insert(names_.raw.end(), blocks.begin(), blocks.end());
    return Granted{{std::move(blocks)}};
  }
  Result perform(const op::Touch& o) {
    calls_->touch(o.blocks);
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
    calls_->release(o.blocks);
    names_.raw = std::move(left);
    return {};
  }

  Result perform(const op::Fork& o) {
    const RequestId parent = live(o.req);
    expects(!names_.requests.contains(o.child), Breach::duplicate_request, "fork to a name in use");
    const RequestId child = calls_->fork(parent);
    name_request(o.child, child);
    return {};
  }
  Result perform(const op::Truncate& o) {
    return calls_->truncate(request(o.req), o.tokens), Result();
  }
  Result perform(const op::Pin& o) {
    expects(!names_.leases.contains(o.lease), Breach::duplicate_lease, "pin under a lease in use");
    const LeaseId lease = calls_->pin(o.blocks);
    std::erase_if(returned_, [&](const auto& entry) { return entry.second == lease; });
    names_.leases[o.lease] = lease;
    return {};
  }
  Result perform(const op::Unpin& o) {
    const LeaseId lease = handle(names_.leases, returned_, o.lease, Breach::unknown_lease);
    calls_->unpin(lease);
    names_.leases.erase(o.lease);
    returned_[o.lease] = lease;
    return {};
  }
  Result perform(const op::SwapOut& o) {
    const RequestId id = live(o.req);
    return start(id, o.transfer, [&] { return calls_->swap_out(id); });
  }
  Result perform(const op::SwapIn& o) {
    const RequestId id = live(o.req);
    return start(id, o.transfer, [&] { return calls_->swap_in(id); });
  }
  Result perform(const op::Complete& o) {
    const auto at = names_.transfers.find(o.transfer);
    expects(at != names_.transfers.end(), Breach::unknown_transfer,
            "complete of no transfer in flight");
    calls_->complete(at->second, o.ok);
    names_.transfers.erase(at);
    return {};
  }

  Result perform(const op::Decode& o);

  template <class Swap>
  Result start(RequestId id, const std::string& transfer, const Swap& swap) {
    expects(!names_.transfers.contains(transfer) && !transfer.empty(), Breach::duplicate_transfer,
            "swap under a transfer in use, or without a name");
    if (!swap()) return Refused{};
    names_.transfers[transfer] = id;
    Granted granted;
    for (const BlockCopy& copy : calls_.take_copies()) {
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
    const auto& pool = manager().pool();
    if (block != kNullBlock && block < pool.num_blocks() && pool.record(block).ref_cnt == 0) {
      calls_->release(std::span(&block, 1));
    }
    violated(Breach::not_held, "release of a block that the raw owner does not hold");
  }
  [[nodiscard]] std::size_t num_groups() const { return manager().config().groups.size(); }

  Calls calls_;
  CallerNames names_;
  std::map<std::string, RequestId> gone_;    // names of handles that were not given again
  std::map<std::string, LeaseId> returned_;  // the same of leases
  std::vector<std::size_t> held_;            // shape [groups]: table lengths before the allocation
};

// The new blocks of the tables, listed behind the copies.
template <class Calls>
Result ManagerCalls<Calls>::perform(const op::Allocate& o) {
  const RequestId id = request(o.req);
  held_.clear();
  for (GroupId g = 0; g < num_groups(); ++g) held_.push_back(manager().table(id, g).size());
  const Admission admission = calls_->allocate(id, o.args);
  if (!admission) return Refused{};
  names_.granted += *admission;
  Granted granted;
  granted.blocks.resize(num_groups());
  for (const BlockCopy& copy : calls_.take_copies()) {
    const auto table = manager().table(id, copy.group);  // a state that goes on stays where it is
    if (std::ranges::find(table, copy.to) != table.end()) {
      granted.blocks[copy.group].push_back(copy.to);
    }
    granted.copies.push_back({copy.from, copy.to});
  }
  for (GroupId g = 0; g < num_groups(); ++g) {
    if (manager().table(id, g).size() == held_[g]) continue;
    const auto growth = manager().growth(id, g);
    granted.blocks[g].insert(granted.blocks[g].end(), growth.begin(), growth.end());
  }
  return granted;
}

// A name that was never given is found where its turn comes: what breaks the contract first counts.
template <class Calls>
Result ManagerCalls<Calls>::perform(const op::Decode& o) {
  std::vector<RequestId> ids;
  for (const std::string& req : o.reqs) ids.push_back(id_or_none(req));
  const std::uint64_t taken_before = manager().counters().taken;
  const auto done = calls_->decode(ids, o.tokens);
  names_.granted += manager().counters().taken - taken_before;
  Decoded out;
  out.refused.assign(done.refused.begin(), done.refused.end());
  out.blocks.assign(ids.size(), std::vector<Blocks>(num_groups()));
  for (const std::uint32_t index : out.refused) out.blocks[index].clear();
  for (const NewBlock& block : done.taken) {
    out.blocks[block.index][block.group].push_back(block.block);
  }
  for (const BlockCopy& copy : calls_.take_copies()) out.copies.push_back({copy.from, copy.to});
  return out;
}

}  // namespace kvproof::optimized
