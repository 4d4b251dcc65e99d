// SPDX-License-Identifier: Apache-2.0
// What replacements in kernels.patches are too long to say. Bytes that no query token sees have
// a weight of zero, which hides them unless they are NaN or infinity.
#pragma once

#include <cstdint>

#include "reference/layout.h"

namespace kvproof::patched {

/// Zero times the first element of the K row at `position`, if that is in the block of the last
/// token before `end`.
template <class Params>
float unmasked_key(const Params& p, std::int32_t seq, std::int32_t kv_head, std::int32_t position,
                   std::int32_t end) {
  const std::int32_t block_size = p.kv.key_layout.block_size;
  if (position < 0 || position / block_size != (end - 1) / block_size) return 0;
  return 0 * load_element(p.kv.key, p.kv.key_row(seq, position, kv_head), p.shape.cache_type);
}

/// Zero times the V rows [first, last).
template <class Params>
float unmasked_values(const Params& p, std::int32_t seq, std::int32_t kv_head, std::int32_t first,
                      std::int32_t last) {
  float sum = 0;
  for (std::int32_t t = first; t < last; ++t) {
    sum += 0 * load_element(p.kv.value, p.kv.value_row(seq, t, kv_head), p.shape.cache_type);
  }
  return sum;
}

/// Where the block of a position begins.
template <class Params>
std::int32_t block_start(const Params& p, std::int32_t position) {
  return position - position % p.kv.key_layout.block_size;
}

/// The address that results when only its lower half is computed.
inline char* without_carry(char* base, std::int64_t offset) {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const auto low = static_cast<std::uint32_t>(address + static_cast<std::uint64_t>(offset));
  return reinterpret_cast<char*>((address & ~std::uintptr_t{0xFFFFFFFF}) | low);
}

/// Element offset of a row in a cache that is dense.
template <class Side>
std::int64_t dense_row(const Side& side, std::int64_t slot, std::int32_t head,
                       std::int32_t num_heads) {
  return CacheLayout::packed(LayoutOrder::nhd, side.layout.block_size, num_heads, side.head_size)
      .row_of_slot(slot, head);
}

template <class Side>
Side with_scale(Side side, float scale) {
  side.scale = scale;
  return side;
}

}  // namespace kvproof::patched
