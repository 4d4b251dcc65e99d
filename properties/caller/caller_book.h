// SPDX-License-Identifier: Apache-2.0
// The knowledge of the caller of a foreign allocator, which tells valid calls from broken ones.
//
// An engine's allocator may answer a broken call with anything, so a foreign allocator gets only
// valid calls, and an adapter need not check them. Our own subjects get all calls.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "properties/caller/promises.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

class CallerBook {
 public:
  struct Request {
    std::uint32_t num_tokens = 0;
    std::uint32_t computed = 0;
    std::uint64_t scheduled = 0;   // [tokens] that a grant covers
    std::uint64_t published = 0;   // [tokens] whose blocks may be published, or were loaded
    std::uint32_t hit_tokens = 0;  // of the last lookup
    bool hit_fresh = false;        // nothing since then can have taken its blocks
    bool granted = false;
    bool on_host = false;
    std::string transfer;  // in flight; empty = none
  };

  explicit CallerBook(const CacheConfig& config, const Traits& traits = {})
      : config_(config), traits_(traits) {}

  /// @param state what was shown last
  /// @return why this call would break the caller's side of the contract; nullptr if it is valid
  [[nodiscard]] const char* breach(const Operation& operation, const Snapshot& state) const;

  /// Notes the effect of an operation. @pre it was performed
  void fold(const Operation& operation, const Result& result);

  [[nodiscard]] const std::map<std::string, Request>& requests() const { return requests_; }
  [[nodiscard]] const std::vector<BlockId>& raw() const { return raw_; }  // sorted
  [[nodiscard]] std::vector<LeaseState> leases() const;                   // sorted by name

 private:
  struct Transfer {
    std::string req;
    bool out = false;
  };

  [[nodiscard]] const Request* find(const std::string& name) const;
  [[nodiscard]] const char* breach_of_request(const Operation& operation, const Request& r,
                                              const Snapshot& state) const;
  [[nodiscard]] const char* breach_of_truncate(std::uint32_t tokens, const Request& r) const;
  [[nodiscard]] const char* breach_of_batch(const op::Decode& batch) const;
  [[nodiscard]] const char* breach_of_swap(const std::string& transfer) const;
  [[nodiscard]] bool has(const std::vector<BlockId>& blocks) const;
  void fold_request(const Operation& operation, const Result& result, Request& r);
  void fold_batch(const op::Decode& batch, const Decoded& decoded);
  void settle(const op::Complete& complete);

  CacheConfig config_;
  Traits traits_;
  std::map<std::string, Request> requests_;
  std::vector<BlockId> raw_;
  std::map<std::string, std::vector<BlockId>> leases_;
  std::map<std::string, Transfer> transfers_;
};

/// The answer to an operation that a subject is not asked: one that it does not declare, or one
/// that a caller must not ask where only valid calls are made. nullopt = it is asked
[[nodiscard]] std::optional<Outcome> answer_unasked(const Operation& operation,
                                                    const Promises& promises,
                                                    const CallerBook& book, const Snapshot& state);

}  // namespace kvproof::properties
