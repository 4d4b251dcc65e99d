// SPDX-License-Identifier: Apache-2.0
// From block tables to what a kernel takes: padded int32 table rows and one slot per token.
//
// Source:  vLLM v1 worker/block_table.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>

#include "reference/ids.h"
#include "reference/layout.h"

namespace kvproof::optimized {

/// Slots of tokens [first, first + count) of one request; the rest of `out` is kPadSlotId.
/// @param table block ids, at least ceil((first + count) / block_size) of them @param out shape [>=
/// count]
inline void fill_slot_mapping(std::span<const BlockId> table, std::int64_t first,
                              std::int64_t count, std::int32_t block_size, std::span<SlotId> out) {
  if (first < 0 || count < 0 || std::cmp_greater(count, out.size()) ||
      std::cmp_greater(first + count, table.size() * static_cast<std::size_t>(block_size))) {
    throw std::out_of_range("slot mapping: tokens beyond the block table or the output");
  }
  for (std::int64_t i = 0; i < count; ++i) {
    out[static_cast<std::size_t>(i)] = slot_of(table.data(), first + i, block_size);
  }
  std::ranges::fill(out.subspan(static_cast<std::size_t>(count)), kPadSlotId);
}

/// One row of a kernel's block table; entries beyond the table are the null block.
/// @param row shape [max_blocks] @pre table.size() <= row.size()
inline void fill_table_row(std::span<const BlockId> table, std::span<std::int32_t> row) {
  if (table.size() > row.size())
    throw std::out_of_range("block table: more blocks than the row has room");
  const auto rest = std::ranges::transform(table, row.begin(), [](BlockId block) {
                      return static_cast<std::int32_t>(block);
                    }).out;
  std::fill(rest, row.end(), static_cast<std::int32_t>(kNullBlock));
}

}  // namespace kvproof::optimized
