// SPDX-License-Identifier: Apache-2.0
// A manager with a real cache behind its blocks, which only the kernels touch. The rows of a step
// go through slot_mapping and reshape_and_cache, forks through copy_blocks, swaps through
// swap_blocks, and every request attends over its pages and over a contiguous cache of its own.
//
// Model:   the K and V of a token are a function of all tokens up to it and of its group. Paged and
//          contiguous attention see the same rows in the same order, so their outputs are equal bit
//          for bit, also if a prefix was found instead of computed.
// Leaves out: Mamba, chunked and cross attention, which no kernel here reads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "properties/caller/caller_book.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/snapshot.h"
#include "reference/subject.h"

namespace kvproof::properties {

/// The implementation of each operation that moves and reads the cache.
struct DataPath {
  const kernels::Implementation<kernels::SlotMappingParams>* slot_mapping = nullptr;
  const kernels::Implementation<kernels::ReshapeAndCacheParams>* reshape_and_cache = nullptr;
  const kernels::Implementation<kernels::CopyBlocksParams>* copy_blocks = nullptr;
  const kernels::Implementation<kernels::SwapBlocksParams>* swap_blocks = nullptr;
  const kernels::Implementation<kernels::PagedDecodeParams>* paged_decode = nullptr;
  const kernels::Implementation<kernels::ContiguousDecodeParams>* contiguous_decode = nullptr;
  const kernels::Implementation<kernels::PagedPrefillParams>* paged_prefill = nullptr;
  const kernels::Implementation<kernels::ContiguousPrefillParams>* contiguous_prefill = nullptr;
};

/// A mistake of the caller of the kernels, made when it has an effect. Each must be noticed.
enum class DriveFault { none, fork_copy_skipped, swap_out_skipped, swap_in_skipped, slot_shifted };

class ServedWorld final : public Subject {
 public:
  struct Counts {
    std::uint64_t written_tokens = 0;
    std::uint64_t prefilled_queries = 0;
    std::uint64_t decoded_queries = 0;
    std::uint64_t found_tokens = 0;  // by prefix hits
    std::uint64_t fork_copies = 0;   // [blocks]
    std::uint64_t swaps_out = 0, swaps_in = 0;
    std::uint64_t preemptions = 0;
  };

  /// @param every after so many operations all requests decode, else only those that the last
  /// operation named
  ServedWorld(std::unique_ptr<Subject> subject, const CacheConfig& config, LayoutOrder order,
              const DataPath& path, std::uint64_t every = 1, DriveFault fault = DriveFault::none);

  Outcome apply(const Operation& operation) override;
  void observe(Snapshot& out) const override { out = state_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// The first mistake as a sentence; nullopt if there was none.
  [[nodiscard]] const std::optional<std::string>& wrong() const { return wrong_; }

 private:
  using Tables = std::vector<std::vector<BlockId>>;
  using Elements = std::vector<kernels::Bf16>;
  struct Group {
    std::int32_t block_size = 0;
    std::int32_t window = 0;  // [tokens]; 0: full attention
    CacheLayout layout;       // of the pool
    CacheLayout apart;        // of the contiguous cache: a block is a request's buffer
    Elements key, value, host_key, host_value, apart_key, apart_value;
  };
  struct Request {
    std::vector<std::uint64_t> digests;  // of the first 1, 2, ... tokens
    std::int32_t buffer = 0;             // of the contiguous cache
  };

  void follow(const Operation& operation, const Result& result);
  void arrive(const op::Arrive& o);
  void append(const op::Append& o);
  void fork(const op::Fork& o);
  void grant(const op::Allocate& o, const Granted& granted);
  void complete(const op::Complete& o);

  void spoil(Group& group, BlockId block);
  void copy(const std::vector<Copy>& copies);
  void write(Group& group, GroupId id, const Request& request, const std::vector<BlockId>& table,
             std::uint32_t from, std::uint32_t to, std::uint32_t drafts);
  void write_apart(Group& group, GroupId id, const Request& request, std::uint32_t to);
  bool attend(const Group& group, const Request& request, const std::vector<BlockId>& table,
              std::int32_t window, std::uint32_t length, const std::int32_t* starts);
  void prefill(Group& group, const Request& request, const std::vector<BlockId>& table,
               std::uint32_t from, std::uint32_t to);
  void decode(const std::string& only);
  [[nodiscard]] bool faulty(DriveFault kind);
  void demand(const kernels::Refusal& refusal);
  void complain(std::string text);

  std::unique_ptr<Subject> subject_;
  CacheConfig config_;
  DataPath path_;
  std::uint64_t every_;
  std::uint64_t operations_ = 0;
  DriveFault fault_;
  int chances_ = 0;  // of the fault so far
  std::vector<Group> groups_;
  std::vector<std::int32_t> free_buffers_;
  std::map<std::string, Request> requests_;
  CallerBook book_;
  Snapshot state_;
  std::uint64_t dirt_ = 0;
  Counts counts_;
  std::optional<std::string> wrong_;
};

}  // namespace kvproof::properties
