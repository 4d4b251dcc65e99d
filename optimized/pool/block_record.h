// SPDX-License-Identifier: Apache-2.0
// The record of one block: its place in the free queue, its holders, its key.
#pragma once

#include <cstdint>

#include "reference/ids.h"

namespace kvproof::optimized {

inline constexpr BlockId kNoBlock{0xffffffffU};

/// With a 128-bit key it is half a cache line, and aligned so that it never straddles two.
template <class Key>
struct alignas(sizeof(Key) == 16 ? 32 : 16) BlockRecord {
  static constexpr std::uint32_t kHashed = 1;     // key is valid and the block is in the index
  static constexpr std::uint32_t kHead = 2;       // the index's chunk names this block
  static constexpr std::uint32_t kShared = 4;     // others carry the same key: ring links are valid
  static constexpr std::uint32_t kTailKeyed = 8;  // carries a second key (tail_keys.h)
  static constexpr std::uint32_t kPartial = 16;   // its key covers a part of it only
  static constexpr std::uint32_t kAtHome = 32;    // its key's first chunk names it
  static constexpr std::uint32_t kSlotShift = 8;  // four bits from here on: its slot in that chunk
  static constexpr std::uint32_t kSlot = 15U << kSlotShift;
  static constexpr std::uint32_t kGroupShift = 12;  // the bits above: group of the key

  /// The flags of a block that its key's first chunk names in a slot.
  [[nodiscard]] static constexpr std::uint32_t at(std::size_t slot) {
    return kAtHome | static_cast<std::uint32_t>(slot) << kSlotShift;
  }

  BlockId prev = kNoBlock;
  BlockId next = kNoBlock;
  std::uint32_t ref_cnt = 0;
  std::uint32_t flags = 0;
  Key key;
};

}  // namespace kvproof::optimized
