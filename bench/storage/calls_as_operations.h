// SPDX-License-Identifier: Apache-2.0
// The calls of a manager as operations: handles become names, and answers become values. So whoever
// drives a CacheManager drives any allocator that performs operations.
//
// Model:   each call is one operation. It is the way back from optimized/manager_calls.h.
// Leaves out: the calls that only tests make: fork, truncate, recycle, the raw pool, batches.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "optimized/manager/admission.h"
#include "optimized/manager/requests.h"
#include "reference/operations.h"
#include "reference/outcomes.h"

namespace kvproof::bench {

class CallsAsOperations {
 public:
  /// @param prefix of the names of requests, before their handles
  /// @param reuses whether the handle of a finished request is given again
  CallsAsOperations(std::string prefix, bool reuses)
      : prefix_(std::move(prefix)), reuses_(reuses) {}
  virtual ~CallsAsOperations() = default;

  RequestId arrive(const optimized::Arrival& arrival) {
    const RequestId id = unused_.empty() ? RequestId(num_requests_++) : unused_.back();
    if (!unused_.empty()) unused_.pop_back();
    transfers_.erase(id);
    perform(op::Arrive{name(id), {arrival.tokens.begin(), arrival.tokens.end()}});
    return id;
  }
  void append(RequestId id, std::span<const TokenId> tokens) {
    if (!tokens.empty()) perform(op::Append{name(id), {tokens.begin(), tokens.end()}});
  }
  void advance(RequestId id, std::uint32_t computed) { perform(op::Advance{name(id), computed}); }
  std::uint32_t lookup(RequestId id) {
    const Result result = perform(op::Lookup{name(id)});
    const auto* hit = std::get_if<Hit>(&result);
    looked_up_ = hit != nullptr;
    return looked_up_ ? hit->hit_tokens : 0;
  }
  /// @pre of args.use_lookup: the last lookup was of this request. Not every allocator has one.
  optimized::Admission allocate(RequestId id, AllocateArgs args) {
    args.use_lookup = args.use_lookup && looked_up_;
    const Result result = perform(op::Allocate{name(id), args});
    const auto* granted = std::get_if<Granted>(&result);
    if (granted == nullptr) return optimized::Admission::refused();
    std::uint32_t taken = 0;
    for (const auto& blocks : granted->blocks) taken += static_cast<std::uint32_t>(blocks.size());
    return taken;
  }
  void cache(RequestId id, std::uint32_t computed) { perform(op::Cache{name(id), computed}); }
  void free(RequestId id) { perform(op::Free{name(id)}); }
  void finish(RequestId id) {
    perform(op::Finish{name(id)});
    if (reuses_) unused_.push_back(id);
  }
  void start_step() { perform(op::Step{}); }

  LeaseId pin(std::span<const BlockId> blocks) {
    const LeaseId lease(num_leases_++);
    perform(op::Pin{{blocks.begin(), blocks.end()}, name(lease)});
    return lease;
  }
  void unpin(LeaseId lease) { perform(op::Unpin{name(lease)}); }
  bool swap_out(RequestId id) {
    ++transfers_[id];
    return std::holds_alternative<Granted>(perform(op::SwapOut{name(id), transfer(id)}));
  }
  bool swap_in(RequestId id) {
    ++transfers_[id];
    return std::holds_alternative<Granted>(perform(op::SwapIn{name(id), transfer(id)}));
  }
  void complete(RequestId id, bool ok) { perform(op::Complete{transfer(id), ok}); }

 protected:
  [[nodiscard]] std::string name(RequestId id) const { return prefix_ + std::to_string(id); }
  [[nodiscard]] static std::string name(LeaseId id) { return "held." + std::to_string(id); }

 private:
  /// @throws what it calls unusable; what it returns goes back to the caller
  virtual Result perform(const Operation& operation) = 0;
  /// Of the transfer that was started last.
  [[nodiscard]] std::string transfer(RequestId id) const {
    return name(id) + "." + std::to_string(transfers_.at(id));
  }

  std::string prefix_;
  bool reuses_;
  bool looked_up_ = false;                        // the last lookup was performed
  std::uint32_t num_requests_ = 0;                // handles given so far, each counted once
  std::vector<RequestId> unused_;                 // of these
  std::map<RequestId, std::uint64_t> transfers_;  // of each request, so far
  std::uint32_t num_leases_ = 0;                  // so far
};

}  // namespace kvproof::bench
