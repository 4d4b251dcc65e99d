// SPDX-License-Identifier: Apache-2.0
// The forbidden reads of the seeded faults of the general kernel. Bytes that no query token sees
// have a weight of zero, which hides them unless they are NaN or infinity. What lies beyond an
// array is thrown away, and only a sanitizer sees that it was read.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/attention/attention.h"
#include "kernels/fault.h"
#include "kernels/simt/cuda.h"
#include "kernels/typed.h"

namespace kvproof::kernels {

/// Zero times the first element of the K row behind `end` in its block; zero if there is no row.
template <class Kv>
__device__ inline float unmasked_key(const AttentionParams<Kv>& p, std::int32_t seq,
                                     std::int32_t kv_head, std::int32_t position,
                                     std::int32_t end) {
  const std::int32_t block_size = p.kv.key_layout.block_size;
  if (position / block_size != (end - 1) / block_size) return 0;
  const std::int64_t row = p.kv.key_row(seq, position, kv_head);
  return 0 * load_element(p.kv.key, row, p.shape.cache_type);
}

/// Zero times the V rows that a tile of tokens [begin, end) does not mask: with fault 196 the one
/// behind its end, with 197 the last block's tail, with 199 what lies before its window in the
/// block, with 201 the next sequence's first.
template <class Kv>
__device__ inline float unmasked_values(const AttentionParams<Kv>& p, std::int32_t seq,
                                        std::int32_t kv_head, std::int32_t begin,
                                        std::int32_t end) {
  const std::int32_t block_size = p.kv.key_layout.block_size;
  std::int32_t first = end, last = (end + block_size - 1) / block_size * block_size;
  if (KVPROOF_FAULT(196) && last > end + 1) last = end + 1;
  if (KVPROOF_FAULT(199)) {
    first = begin / block_size * block_size;
    last = begin;
  }
  if (KVPROOF_FAULT(201)) {
    seq = (seq + 1) % p.num_seqs;
    first = 0;
    last = p.seq_lens[seq] > 0 ? 1 : 0;
  }
  float sum = 0;
  for (std::int32_t t = first; t < last; ++t) {
    sum += 0 * load_element(p.kv.value, p.kv.value_row(seq, t, kv_head), p.shape.cache_type);
  }
  return sum;
}

/// Zero times the first element of the block before the one in which a window starts.
template <class Kv>
__device__ inline float followed_block(const AttentionParams<Kv>& p, std::int32_t seq,
                                       std::int32_t kv_head, std::int32_t begin) {
  const std::int32_t before = begin / p.kv.key_layout.block_size * p.kv.key_layout.block_size - 1;
  if (p.shape.window == 0 || before < 0) return 0;
  return 0 * load_element(p.kv.key, p.kv.key_row(seq, before, kv_head), p.shape.cache_type);
}

/// Fault 251: lanes beyond the last head's elements read on.
template <class Kv>
__device__ inline void read_past_query(const AttentionParams<Kv>& p, std::int32_t token,
                                       std::int32_t first_head, std::int32_t num_heads) {
  const std::int64_t past = token * p.query_token_stride +
                            (first_head + num_heads - 1) * p.query_head_stride + p.shape.head_size;
  KVPROOF_FAULTY_READ(
      251, static_cast<const char*>(p.query)[(past + threadIdx.x % 8) * bytes_of(p.shape.type)]);
}

/// Fault 254: the table's entry for the next tile is read before it is known whether there is one.
template <class Kv>
__device__ inline void read_ahead(const AttentionParams<Kv>& p, std::int32_t seq,
                                  std::int32_t position) {
  if constexpr (std::is_same_v<Kv, PagedKv>) {
    KVPROOF_FAULTY_READ(254, p.kv.block_tables[seq * p.kv.table_stride +
                                               position / p.kv.key_layout.block_size]);
  }
}

}  // namespace kvproof::kernels
