// SPDX-License-Identifier: Apache-2.0
// Where an element of the cache lies. The only address arithmetic of the project, host and device.
//
// Model:   K and V caches have shape [num_blocks, block_size, num_heads, head_size] (NHD) or
//          [num_blocks, num_heads, block_size, head_size] (HND); strides are run-time values, so
//          packed, interleaved and sliced views are the same code.
// Source:  FlashInfer's NHD and HND (docs/tutorials/kv_layout); vLLM v1 slot_mapping.
#pragma once

#include <cstdint>

#include "reference/ids.h"

#if defined(__CUDACC__)
#define KVPROOF_HOST_DEVICE __host__ __device__
#else
#define KVPROOF_HOST_DEVICE
#endif

namespace kvproof {

enum class LayoutOrder { nhd, hnd };

/// Offsets in elements from the start of one cache (K or V). 64 bits: 65,536 blocks * 16 tokens * 8
/// heads * 128 elements is 2^30 already.
struct CacheLayout {
  std::int64_t block_stride = 0;  // [elements] from a block to the next
  std::int64_t token_stride = 0;  // [elements] from a token of a block to the next
  std::int64_t head_stride = 0;   // [elements] from a head to the next
  std::int32_t block_size = 0;    // [tokens per block]

  /// The densely packed layout of that order.
  [[nodiscard]] KVPROOF_HOST_DEVICE static constexpr CacheLayout packed(LayoutOrder order,
                                                                        std::int32_t block_size,
                                                                        std::int32_t num_heads,
                                                                        std::int32_t head_size) {
    const std::int64_t block = std::int64_t{block_size} * num_heads * head_size;
    if (order == LayoutOrder::nhd) {
      return {block, std::int64_t{num_heads} * head_size, head_size, block_size};
    }
    return {block, head_size, std::int64_t{block_size} * head_size, block_size};
  }

  /// Element offset of row (block, token of the block, head). The row's elements follow one
  /// another.
  [[nodiscard]] KVPROOF_HOST_DEVICE constexpr std::int64_t row(std::int64_t block,
                                                               std::int32_t token,
                                                               std::int32_t head) const {
    return block * block_stride + token * token_stride + head * head_stride;
  }

  /// The same by slot. @pre slot >= 0
  [[nodiscard]] KVPROOF_HOST_DEVICE constexpr std::int64_t row_of_slot(SlotId slot,
                                                                       std::int32_t head) const {
    return row(slot / block_size, static_cast<std::int32_t>(slot % block_size), head);
  }
};

/// The slot of token `position` of a request. @param table block ids, shape [ceil(tokens /
/// block_size)]
[[nodiscard]] constexpr SlotId slot_of(const BlockId* table, std::int64_t position,
                                       std::int32_t block_size) {
  return SlotId{table[position / block_size]} * block_size + position % block_size;
}

}  // namespace kvproof
