// SPDX-License-Identifier: Apache-2.0
// The slots of one tier of a cache: what each holds, and who wrote it.
//
// Model:  a slot holds the identity of a prefix (reference/identity.h). A state block has one slot,
//         whose identity is that of the prefix that it summarises. Blocks of every group have as
//         many slots as the longest block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "reference/identity.h"
#include "reference/ids.h"

namespace kvproof::live {

struct Slot {
  static constexpr std::uint32_t kNobody = 0xffffffffU;

  Identity identity = kUnwritten;
  std::uint32_t at = 0;  // where its writer was: at an event of a run, at a position of its tokens
  std::uint32_t writer = kNobody;  // the number of a request, or of a transfer
};
static_assert(sizeof(Slot) == 16);

class TierSlots {
 public:
  TierSlots(std::size_t blocks, std::uint32_t per_block)
      : per_block_(per_block), slots_(blocks * per_block) {}

  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  /// Whether a block can hold content where block 0 is the null block.
  [[nodiscard]] bool has(BlockId block) const {
    return block != kNullBlock && std::size_t{block} * per_block_ < slots_.size();
  }
  /// @pre the block is one of the tier, here and in what follows
  [[nodiscard]] std::span<Slot> of(std::uint32_t block) {
    return std::span(slots_).subspan(std::size_t{block} * per_block_, per_block_);
  }
  [[nodiscard]] std::span<const Slot> of(std::uint32_t block) const {
    return std::span(slots_).subspan(std::size_t{block} * per_block_, per_block_);
  }

  /// What the block held is gone.
  void clear(BlockId block) {
    if (has(block)) std::ranges::fill(of(block), Slot{});
  }
  void copy(BlockId from, const TierSlots& source, BlockId to) {
    if (!has(to) || !source.has(from)) return;
    const auto what = source.of(from);
    std::memmove(of(to).data(), what.data(), what.size_bytes());
  }

 private:
  std::uint32_t per_block_;
  std::vector<Slot> slots_;  // shape [blocks * per_block]
};

}  // namespace kvproof::live
