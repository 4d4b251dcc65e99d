// SPDX-License-Identifier: Apache-2.0
// A cache manager as a Subject, for whoever has one with a pool of its own.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "optimized/cache_manager.h"
#include "optimized/manager_subject.h"
#include "optimized/observe_manager.h"
#include "reference/contract.h"

namespace kvproof::optimized {

template <class Manager>
class ManagerSubject final : public Subject {
 public:
  ManagerSubject(const CacheConfig& config, std::uint32_t max_requests)
      : manager_(config, Capacity{max_requests, 4 * config.num_blocks + 16}) {}

  Outcome apply(const Operation& operation) override {
    Outcome outcome;
    try {
      outcome.result = std::visit([this](const auto& o) { return this->perform(o); }, operation);
    } catch (const ContractViolation& violation) {
      outcome.result = Rejected{violation.what()};
    }
    outcome.events = manager_.take_events();
    return outcome;
  }

  [[nodiscard]] Manager& manager() { return manager_; }
  void observe(Snapshot& out) const override { observe_manager(manager_, names_, out); }

 private:
  using Blocks = std::vector<BlockId>;

  Result perform(const op::Arrive& o) {
    expects(!names_.requests.contains(o.req), Breach::duplicate_request,
            "arrive with a name in use");
    names_.requests[o.req] = manager_.arrive({.tokens = o.tokens,
                                              .extra = &o.extra,
                                              .skip_lookup = o.skip_lookup,
                                              .encoder_tokens = o.encoder_tokens});
    return {};
  }
  Result perform(const op::Append& o) {
    return manager_.append(request(o.req), o.tokens), Result();
  }
  Result perform(const op::Advance& o) {
    return manager_.advance(request(o.req), o.computed), Result();
  }
  Result perform(const op::Lookup& o) {
    const RequestId id = request(o.req);
    Hit hit{manager_.lookup(id), {}};
    for (GroupId g = 0; g < num_groups(); ++g) {
      const auto blocks = manager_.hit_blocks(id, g);
      hit.blocks.emplace_back(blocks.begin(), blocks.end());
    }
    return hit;
  }
  Result perform(const op::Allocate& o);
  Result perform(const op::Free& o) { return manager_.free(request(o.req)), Result(); }
  Result perform(const op::Finish& o) {
    manager_.finish(request(o.req));
    names_.requests.erase(o.req);
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
      shared.push_back(manager_.common_prefix(request(o.req), g));
    }
    return shared;
  }
  Result perform(const op::Take& o) {
    if (o.n > manager_.pool().num_free()) return Refused{};
    Blocks blocks(o.n);
    manager_.take(blocks);
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
      expects(at != left.end(), Breach::not_held,
              "release of a block that the raw owner does not hold");
      left.erase(at);
    }
    manager_.release(o.blocks);
    names_.raw = std::move(left);
    return {};
  }

  Result perform(const op::Fork& o) {
    const RequestId parent = request(o.req);
    expects(!names_.requests.contains(o.child), Breach::duplicate_request, "fork to a name in use");
    names_.requests[o.child] = manager_.fork(parent);
    return {};
  }
  Result perform(const op::Truncate& o) {
    return manager_.truncate(request(o.req), o.tokens), Result();
  }
  Result perform(const op::Pin& o) {
    expects(!names_.leases.contains(o.lease), Breach::duplicate_lease, "pin under a lease in use");
    names_.leases[o.lease] = manager_.pin(o.blocks);
    return {};
  }
  Result perform(const op::Unpin& o) {
    const auto at = names_.leases.find(o.lease);
    expects(at != names_.leases.end(), Breach::unknown_lease,
            "unpin of a lease that was not given");
    manager_.unpin(at->second);
    names_.leases.erase(at);
    return {};
  }
  Result perform(const op::SwapOut& o) {
    const RequestId id = request(o.req);
    return start(id, o.transfer, [&] { return manager_.swap_out(id); });
  }
  Result perform(const op::SwapIn& o) {
    const RequestId id = request(o.req);
    return start(id, o.transfer, [&] { return manager_.swap_in(id); });
  }
  Result perform(const op::Complete& o) {
    const auto at = transfers_.find(o.transfer);
    expects(at != transfers_.end(), Breach::unknown_transfer, "complete of no transfer in flight");
    manager_.complete(at->second, o.ok);
    transfers_.erase(at);
    return {};
  }

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

  RequestId request(const std::string& name) const {
    const auto at = names_.requests.find(name);
    expects(at != names_.requests.end(), Breach::unknown_request, "no request of that name");
    return at->second;
  }
  [[nodiscard]] GroupId num_groups() const {
    return static_cast<GroupId>(manager_.config().groups.size());
  }

  Manager manager_;
  CallerNames names_;
  std::map<std::string, RequestId> transfers_;
  std::vector<std::size_t> held_;  // shape [groups]: table lengths before the allocation
};

// What the tables grew by, behind the copies that stand in them.
template <class Manager>
Result ManagerSubject<Manager>::perform(const op::Allocate& o) {
  const RequestId id = request(o.req);
  held_.clear();
  for (GroupId g = 0; g < num_groups(); ++g) held_.push_back(manager_.table(id, g).size());
  if (!manager_.allocate(id, o.args)) return Refused{};
  Granted granted;
  granted.blocks.resize(num_groups());
  for (const BlockCopy& copy : manager_.take_copies()) {
    granted.blocks[copy.group].push_back(copy.to);
    granted.copies.push_back({copy.from, copy.to});
  }
  for (GroupId g = 0; g < num_groups(); ++g) {
    if (manager_.table(id, g).size() == held_[g]) continue;
    const auto growth = manager_.growth(id, g);
    granted.blocks[g].insert(granted.blocks[g].end(), growth.begin(), growth.end());
  }
  return granted;
}

}  // namespace kvproof::optimized
