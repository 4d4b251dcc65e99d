// SPDX-License-Identifier: Apache-2.0
// The integers that every part of a paged KV cache passes around, and the two reserved values.
//
// Source: the field's names (vLLM v1, FlashInfer); reference/README.md gives each a line.
#pragma once

#include <cstdint>

namespace kvproof {

using BlockId = std::uint32_t;  // index of a fixed-size block of the pool, 0 .. num_blocks-1
using GroupId = std::uint32_t;  // index of a layer group (layers that share one block table)
using TokenId = std::int32_t;   // one token of a vocabulary
using SlotId = std::int64_t;    // block_id * block_size + offset: where one token's K and V live

inline constexpr BlockId kNullBlock = 0;  // fills gaps in tables; never queued, hashed, evicted
inline constexpr SlotId kPadSlotId = -1;  // a padded token: kernels write nothing for it

/// Ceiling division of non-negative integers. @pre b > 0
template <class Integer>
[[nodiscard]] constexpr Integer ceil_div(Integer a, Integer b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace kvproof
