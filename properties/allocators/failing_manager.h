// SPDX-License-Identifier: Apache-2.0
// A cache manager whose allocations of memory can be made to fail: the k-th one of each call.
//
// Model:   apply() makes one call of the manager after the other; only within them is memory
//          refused, not for names, results and snapshots. A call that throws leaves the names as
//          they were.
// Leaves out: calls that break a contract, and the Subject interface, whose answers need memory
//          themselves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "optimized/cache_manager.h"
#include "optimized/manager_subject.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// How many more allocations of this program succeed; kNoLimit = all.
inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
inline std::uint64_t allocations_left = kNoLimit;

template <class Digest>
class FailingManager {
 public:
  FailingManager(const CacheConfig& config, const optimized::Capacity& capacity)
      : manager_(config, capacity) {}

  /// @param granted allocations within the operation's call; the next throws std::bad_alloc
  Result apply(const Operation& operation, std::uint64_t granted) {
    granted_ = granted;
    return std::visit([this](const auto& o) { return this->perform(o); }, operation);
  }
  std::vector<Event> take_events(std::uint64_t granted) {
    granted_ = granted;
    return call([&] { return manager_.take_events(); });
  }
  std::vector<optimized::BlockCopy> take_copies(std::uint64_t granted) {
    granted_ = granted;
    return call([&] { return manager_.take_copies(); });
  }

  void observe(Snapshot& out) const { observe_manager(manager_, names_, out); }

 private:
  /// Only allocations by `act` are counted and refused.
  template <class Act>
  auto call(const Act& act) {
    struct Window {
      explicit Window(std::uint64_t granted) { allocations_left = granted; }
      ~Window() { allocations_left = kNoLimit; }
    };
    const Window window(granted_);
    return act();
  }

  Result perform(const op::Arrive& o) {
    const optimized::Arrival arrival{.tokens = o.tokens,
                                     .extra = &o.extra,
                                     .skip_lookup = o.skip_lookup,
                                     .encoder_tokens = o.encoder_tokens};
    const RequestId id = call([&] { return manager_.arrive(arrival); });
    names_.requests[o.req] = id;
    return {};
  }
  Result perform(const op::Append& o) {
    return call([&] { manager_.append(id_of(o), o.tokens); }), Result();
  }
  Result perform(const op::Advance& o) {
    return call([&] { manager_.advance(id_of(o), o.computed); }), Result();
  }
  Result perform(const op::Lookup& o) {
    return Hit{call([&] { return manager_.lookup(id_of(o)); }), {}};
  }
  Result perform(const op::Allocate& o) {
    const bool granted = bool{call([&] { return manager_.allocate(id_of(o), o.args); })};
    return granted ? Result(Granted{}) : Result(Refused{});
  }
  Result perform(const op::Free& o) {
    return call([&] { manager_.free(id_of(o)); }), Result();
  }
  Result perform(const op::Finish& o) {
    call([&] { manager_.finish(id_of(o)); });
    names_.requests.erase(o.req);
    return {};
  }
  Result perform(const op::Recycle& o) {
    return call([&] { manager_.recycle(id_of(o), o.processed); }), Result();
  }
  Result perform(const op::Cache& o) {
    return call([&] { manager_.cache(id_of(o), o.computed); }), Result();
  }
  Result perform(const op::Evict& o) {
    return call([&] { manager_.evict(o.blocks); }), Result();
  }
  Result perform(const op::Reset&) {
    return call([&] { return manager_.reset(); });
  }
  Result perform(const op::CommonPrefix& o) {
    return SharedBlocks{call([&] { return manager_.common_prefix(id_of(o)); })};
  }
  Result perform(const op::Step&) {
    return call([&] { manager_.start_step(); }), Result();
  }
  Result perform(const op::Take& o) {
    std::vector<BlockId> blocks(o.n);
    if (!call([&] { return manager_.take(blocks); })) return Refused{};
    names_.raw.insert(names_.raw.end(), blocks.begin(), blocks.end());
    return Granted{{std::move(blocks)}};
  }
  Result perform(const op::Touch& o) {
    call([&] { manager_.touch(o.blocks); });
    names_.raw.insert(names_.raw.end(), o.blocks.begin(), o.blocks.end());
    return {};
  }
  Result perform(const op::Release& o) {
    call([&] { manager_.release(o.blocks); });
    for (const BlockId block : o.blocks) {
      names_.raw.erase(std::ranges::find(names_.raw, block));
    }
    return {};
  }
  Result perform(const op::Fork& o) {
    const RequestId child = call([&] { return manager_.fork(id_of(o)); });
    names_.requests[o.child] = child;
    return {};
  }
  Result perform(const op::Truncate& o) {
    return call([&] { manager_.truncate(id_of(o), o.tokens); }), Result();
  }
  Result perform(const op::Pin& o) {
    const LeaseId lease = call([&] { return manager_.pin(o.blocks); });
    names_.leases[o.lease] = lease;
    return {};
  }
  Result perform(const op::Unpin& o) {
    call([&] { manager_.unpin(names_.leases.at(o.lease)); });
    names_.leases.erase(o.lease);
    return {};
  }
  Result perform(const op::Decode& o) {
    std::vector<RequestId> ids;
    for (const std::string& req : o.reqs) ids.push_back(names_.requests.at(req));
    return call([&] { manager_.decode(ids, o.tokens); }), Result();
  }
  Result perform(const op::SwapOut& o) {
    return started(o, call([&] { return manager_.swap_out(id_of(o)); }));
  }
  Result perform(const op::SwapIn& o) {
    return started(o, call([&] { return manager_.swap_in(id_of(o)); }));
  }
  Result perform(const op::Complete& o) {
    call([&] { manager_.complete(transfers_.at(o.transfer), o.ok); });
    transfers_.erase(o.transfer);
    return {};
  }

  template <class Swap>
  Result started(const Swap& o, bool granted) {
    if (!granted) return Refused{};
    transfers_[o.transfer] = id_of(o);
    return Granted{};
  }
  template <class OfRequest>
  RequestId id_of(const OfRequest& o) const {
    return names_.requests.at(o.req);
  }

  optimized::CacheManager<Digest> manager_;
  optimized::CallerNames names_;
  std::map<std::string, RequestId> transfers_;
  std::uint64_t granted_ = kNoLimit;
};

}  // namespace kvproof::properties
