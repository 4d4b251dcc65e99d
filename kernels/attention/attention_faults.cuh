// SPDX-License-Identifier: Apache-2.0
// The forbidden reads of the seeded faults of the general kernel: bytes that no query token sees,
// with a weight of zero, which hides them unless they are NaN or infinity.
#pragma once

#include <cstdint>

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

}  // namespace kvproof::kernels
