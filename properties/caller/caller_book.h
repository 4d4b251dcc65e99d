// SPDX-License-Identifier: Apache-2.0
// What the caller of an allocator knows, folded from operations and their answers: its requests,
// transfers, leases and raw blocks. Laws, generators, the content oracle, foreign subjects and
// kernels read it.
//
// Valid:   it tells valid calls from broken ones. An engine's allocator may answer a broken call
//          with anything, so a foreign allocator gets only valid calls, and an adapter need not
//          check them. Our own subjects get all calls.
// Engines: kit/engine_book.h keeps what an engine is told of its requests beside this book, and
//          reads the rest from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/caller/promises.h"
#include "properties/caller/request_record.h"
#include "properties/caller/shared_value.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

class CallerBook {
 public:
  explicit CallerBook(const CacheConfig& config, const Traits& traits = {})
      : CallerBook(SharedValue(config), traits) {}
  CallerBook(SharedValue<CacheConfig> config, const Traits& traits)
      : config_(std::move(config)), traits_(traits) {}

  /// @param state what was shown last
  /// @return why this call would break the caller's side of the contract; nullptr if it is valid
  [[nodiscard]] const char* breach(const Operation& operation, const Snapshot& state) const;

  /// Notes the effect of an operation. @pre it was performed
  void fold(const Operation& operation, const Result& result);

  [[nodiscard]] const std::vector<RequestRecord>& requests() const { return requests_; }  // by name
  [[nodiscard]] const RequestRecord* find(std::string_view name) const;
  [[nodiscard]] RequestRecord* find(std::string_view name);
  /// How far the request of the last operation had come before it.
  [[nodiscard]] const TokenCounts& before() const { return before_; }
  /// In the order of their start.
  [[nodiscard]] const std::vector<TransferRecord>& transfers() const { return transfers_; }
  [[nodiscard]] const TransferRecord* find_transfer(std::string_view name) const;
  /// The transfer that the last operation has settled.
  [[nodiscard]] const std::optional<TransferRecord>& settled() const { return settled_; }
  [[nodiscard]] const std::vector<BlockId>& raw() const { return raw_; }           // sorted
  [[nodiscard]] const std::vector<LeaseState>& leases() const { return leases_; }  // by name
  [[nodiscard]] std::uint32_t arrivals() const { return arrivals_; }  // so far, forks included
  [[nodiscard]] std::uint32_t names() const { return names_; }  // of leases and transfers so far

 private:
  [[nodiscard]] const char* breach_of_request(const Operation& operation, const RequestRecord& r,
                                              const Snapshot& state) const;
  [[nodiscard]] const char* breach_of_truncate(std::uint32_t tokens, const RequestRecord& r) const;
  [[nodiscard]] const char* breach_of_batch(const op::Decode& batch) const;
  [[nodiscard]] const char* breach_of_swap(const std::string& transfer) const;
  [[nodiscard]] bool has(const std::vector<BlockId>& blocks) const;
  [[nodiscard]] bool has_lease(const std::string& name) const;
  void arrive(const op::Arrive& arrive);
  void append(RequestRecord& r, const TokenId* tokens, std::size_t n);
  void allocate(RequestRecord& r, const AllocateArgs& args, const Granted* granted);
  void advance(RequestRecord& r, std::uint32_t computed);
  void fork(const op::Fork& fork, RequestRecord child);
  void start(RequestRecord& r, const std::string& transfer, bool out, const Result& result);
  void fold_request(const Operation& operation, const Result& result, RequestRecord& r);
  void fold_batch(const op::Decode& batch, const Decoded& decoded);
  void fold_raw(const Operation& operation, const Result& result);
  void settle(const op::Complete& complete);

  SharedValue<CacheConfig> config_;
  Traits traits_;
  std::vector<RequestRecord> requests_;  // sorted by name
  TokenCounts before_;
  std::vector<TransferRecord> transfers_;
  std::optional<TransferRecord> settled_;
  std::vector<BlockId> raw_;
  std::vector<LeaseState> leases_;
  std::uint32_t arrivals_ = 0;
  std::uint32_t names_ = 0;
  std::uint64_t losses_ = 0;  // operations that may have taken blocks which a lookup found
};

/// The answer to an operation that a subject is not asked: one that it does not declare, or one
/// that a caller must not ask where only valid calls are made. nullopt = it is asked
[[nodiscard]] std::optional<Outcome> answer_unasked(const Operation& operation,
                                                    const Promises& promises,
                                                    const CallerBook& book, const Snapshot& state);

}  // namespace kvproof::properties
