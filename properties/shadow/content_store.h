// SPDX-License-Identifier: Apache-2.0
// The two sides of the content oracle: the rows in the slots of a tier, and the rows that each
// request must read there.
//
// Model:   a row stands for the K and V of one token in one layer group: equal digest, equal bytes.
//          A slot belongs to the request that wrote it last. The contiguous cache holds the digests
//          of each request's tokens, one run per request.
// Leaves out: bytes; a 64-bit digest takes their place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/config.h"
#include "reference/contiguous_cache.h"
#include "reference/mix64.h"

namespace kvproof::properties {

/// The content of one slot.
struct Row {
  static constexpr std::uint32_t kNobody = 0xffffffffU;
  std::uint64_t digest = 0;
  std::uint32_t writer = kNobody;  // index into the oracle's names
  std::uint32_t position = 0;      // [tokens] in the writer's sequence
};

/// Groups have layers of their own, so the same token has other K and V in each group.
[[nodiscard]] constexpr std::uint64_t of_group(std::uint64_t digest, GroupId group) {
  return mix64(digest + (std::uint64_t{group} + 1) * kMixStep);
}

/// All slots of one tier. Blocks of every group have as many rows as the longest block.
class ShadowStore {
 public:
  ShadowStore(std::uint32_t num_blocks, std::uint32_t rows_per_block)
      : num_blocks_(num_blocks),
        rows_per_block_(rows_per_block),
        rows_(std::size_t{num_blocks} * rows_per_block) {}

  /// Whether a block can hold content: it exists and is not the null block.
  [[nodiscard]] bool has(BlockId block) const { return block != kNullBlock && block < num_blocks_; }

  /// @pre has(block), offset < rows_per_block
  [[nodiscard]] const Row& row(BlockId block, std::uint64_t offset) const {
    return rows_[std::size_t{block} * rows_per_block_ + offset];
  }
  [[nodiscard]] Row& row(BlockId block, std::uint64_t offset) {
    return rows_[std::size_t{block} * rows_per_block_ + offset];
  }

  /// @pre has(block)
  [[nodiscard]] std::vector<Row> rows(BlockId block) const {
    const Row* first = &row(block, 0);
    return {first, first + rows_per_block_};
  }

  /// Fills a block with garbage that differs from all other rows.
  void poison(BlockId block) {
    for (std::uint32_t i = 0; has(block) && i < rows_per_block_; ++i) {
      row(block, i) = {garbage(), Row::kNobody, i};
    }
  }

  void copy(BlockId from, const ShadowStore& source, BlockId to) {
    if (!has(to) || !source.has(from)) return;
    for (std::uint32_t i = 0; i < rows_per_block_; ++i) row(to, i) = source.row(from, i);
  }

  [[nodiscard]] std::uint64_t garbage() { return mix64(++garbage_ ^ rows_.size() << 40); }

 private:
  std::uint32_t num_blocks_;
  std::uint32_t rows_per_block_;
  std::vector<Row> rows_;  // shape [num_blocks * rows_per_block]
  std::uint64_t garbage_ = 0;
};

/// The digests of every request's tokens, placed by the contiguous cache that paging replaced.
class ContiguousRows {
 public:
  ContiguousRows();

  /// Makes room for `num_tokens` tokens of a request; the rows that it had move along.
  void place(const std::string& name, std::uint32_t num_tokens);
  void erase(const std::string& name);

  /// @return the first of the request's rows; valid until the next place. @pre it has tokens
  [[nodiscard]] std::uint64_t* rows(const std::string& name);
  [[nodiscard]] const std::uint64_t* rows(const std::string& name) const;

 private:
  struct Tenant {
    std::string name;
    std::uint32_t num_tokens = 0;
    reference::Run run;
  };
  Tenant* find(const std::string& name);
  void rebuild(std::uint64_t capacity);

  reference::ContiguousCache cache_;
  std::vector<std::uint64_t> rows_;  // shape [arena capacity]
  std::vector<Tenant> tenants_;
};

}  // namespace kvproof::properties
