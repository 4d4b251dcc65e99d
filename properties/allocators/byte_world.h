// SPDX-License-Identifier: Apache-2.0
// A manager with real bytes behind its blocks, in the device and in the host tier. A step writes
// the rows that it computes, a block that is handed out anew is spoiled, and after every operation
// each request must be able to read the rows that were computed for it.
//
// Model:   the row of a token is a function of all tokens up to it, its position and its group; a
//          Mamba block holds one state, a function of all tokens so far. Drafts write rubbish.
//          Copies are made when the manager's contract says so: those of an allocation at once,
//          those of a transfer when it completes; a transfer that fails has moved half its bytes.
// Leaves out: external loads; Mamba with drafts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reference/config.h"
#include "reference/operations.h"
#include "reference/snapshot.h"
#include "reference/subject.h"

namespace kvproof::properties {

/// A mistake in the handling of copies. It is made once, with the third copy that matters.
enum class CopyFault {
  none,
  shared_skipped,   // the copy of a block that a fork shares
  shared_reversed,  // to and from exchanged
  shared_late,      // after the step has written
  out_skipped,      // a block of a swap to the host
  out_reversed,
  in_skipped,  // a block of a swap back
  in_reversed,
};

class ByteWorld {
 public:
  struct Counts {
    std::uint64_t checked_rows = 0;
    std::uint64_t shared_copies = 0;
    std::uint64_t swaps_out = 0, swaps_in = 0;    // completed
    std::uint64_t failed_out = 0, failed_in = 0;  // transfers
    std::uint64_t twins = 0;                      // blocks that the other tier had already
    std::uint64_t refused_swaps = 0;
  };

  ByteWorld(std::unique_ptr<Subject> subject, const CacheConfig& config,
            CopyFault fault = CopyFault::none);

  Result apply(const Operation& operation);

  [[nodiscard]] const Snapshot& state() const { return state_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// The first thing that was wrong, as a sentence; nullopt while all is well.
  [[nodiscard]] const std::optional<std::string>& wrong() const { return wrong_; }

 private:
  using Row = std::array<std::byte, 64>;
  using Store = std::vector<std::byte>;  // shape [num_blocks, block_bytes_]

  struct Request {
    std::vector<std::uint64_t> digests;  // of the first 1, 2, ... tokens
    std::uint32_t hit_tokens = 0;        // of the last lookup
    std::uint32_t written = 0;           // [tokens] by a step that is not advanced yet; 0 = none
    std::string transfer;                // in flight; empty = none
    bool leaving = false;
  };
  struct Transfer {
    std::string req;
    bool out = false;
    std::vector<Copy> copies;
  };

  void before(const op::Complete& o);
  template <class Other>
  void before(const Other& /*operation*/) {}

  void after(const op::Arrive& o, const Result& result);
  void after(const op::Append& o, const Result& result);
  void after(const op::Advance& o, const Result& result);
  void after(const op::Lookup& o, const Result& result);
  void after(const op::Allocate& o, const Result& result);
  void after(const op::Take& o, const Result& result);
  void after(const op::Fork& o, const Result& result);
  void after(const op::Pin& o, const Result& result);
  void after(const op::Unpin& o, const Result& result);
  void after(const op::SwapOut& o, const Result& result);
  void after(const op::SwapIn& o, const Result& result);
  void after(const op::Complete& o, const Result& result);
  template <class Other>
  void after(const Other& /*operation*/, const Result& /*result*/) {}

  void add_tokens(Request& request, const std::vector<TokenId>& tokens) const;
  void start(const std::string& name, const std::string& transfer, bool out, const Result& result);
  [[nodiscard]] bool matters(const std::string& name,
                             const std::vector<std::vector<BlockId>>& tables, BlockId to) const;
  [[nodiscard]] bool faulty(CopyFault kind, bool matters);

  [[nodiscard]] static Row row(std::uint64_t digest, std::uint64_t position, GroupId group);
  [[nodiscard]] std::span<std::byte> block(Store& store, BlockId id) const;
  void spoil(Store& store, BlockId id);
  void write(const std::string& name, std::uint32_t from, std::uint32_t to, std::uint32_t drafts);
  void write_state(std::span<std::byte> block, const Row& state) const;

  void check_all();
  void check(const std::string& name, std::uint32_t computed,
             const std::vector<std::vector<BlockId>>& tables, Store& store);
  void check_leases();
  void check_free_counts();
  void complain(std::string text);

  std::unique_ptr<Subject> subject_;
  CacheConfig config_;
  CopyFault fault_;
  std::size_t block_bytes_ = 0;
  Store device_;
  Store host_;
  Snapshot state_;
  std::map<std::string, Request> requests_;
  std::map<std::string, Transfer> transfers_;
  std::map<std::string, std::map<BlockId, Store>> leases_;  // bytes when they were given
  int mattered_ = 0;                                        // copies of the faulty kind so far
  std::uint64_t dirt_ = 0;                                  // makes every spoiling different
  Counts counts_;
  std::optional<std::string> wrong_;
};

}  // namespace kvproof::properties
