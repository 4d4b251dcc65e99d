// SPDX-License-Identifier: Apache-2.0
// Gathers ragged token ranges of one layer's cache, K or V, into one dense array, and dequantises
// them if asked to.
//
// Model:   out[starts[s] + i] = cache row of position first_positions[s] + i of sequence s, for i
//          in [0, starts[s + 1] - starts[s]).
// Pads:    an entry below 0 within the range stands for a block that was given back: its rows of
//          out become zeros. Entries outside of the range are not read.
// Source:  vLLM v1 cp_gather_cache and gather_and_maybe_dequant_cache.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/element.h"
#include "kernels/implementation.h"
#include "reference/layout.h"

namespace kvproof::kernels {

struct GatherCacheParams {
  const void* cache = nullptr;  // type `cache_type`, rows at layout.row(block, token, head)
  CacheLayout layout;
  const std::int32_t* block_tables = nullptr;     // shape [num_seqs, >= blocks of the range]
  std::int64_t table_stride = 0;                  // [entries]
  const std::int32_t* first_positions = nullptr;  // shape [num_seqs] [tokens], need not be block
                                                  // aligned; null: 0 for each
  const std::int64_t* starts = nullptr;  // shape [num_seqs + 1], ascending from 0 [rows of out]
  std::int32_t num_seqs = 0;
  std::int64_t num_tokens = 0;  // starts[num_seqs]
  void* out = nullptr;          // shape [num_tokens, num_heads, head_size], packed, type `type`
  std::int32_t num_heads = 0;
  std::int32_t head_size = 0;
  ElementType type = ElementType::bf16;        // equal to cache_type: bits are moved
  ElementType cache_type = ElementType::bf16;  // or one of fp8
  float scale = 1.0F;  // an fp8 element times this is its value, if the types differ
};

/// The sequence that row `row` of out belongs to: the last that starts there or before.
[[nodiscard]] KVPROOF_HOST_DEVICE inline std::int32_t sequence_of_row(const GatherCacheParams& p,
                                                                      std::int64_t row) {
  std::int32_t low = 0, high = p.num_seqs;  // starts[low] <= row < starts[high]
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    (p.starts[middle] <= row ? low : high) = middle;
  }
  return low;
}

[[nodiscard]] Refusal refuse(const GatherCacheParams& params);

Refusal gather_cache_reference(const GatherCacheParams& params, const Context& context);
Refusal gather_cache_cpu(const GatherCacheParams& params, const Context& context);
Refusal gather_cache_stream(const GatherCacheParams& params, const Context& context);
Refusal gather_cache_cuda(const GatherCacheParams& params, const Context& context);
Refusal gather_cache_vector(const GatherCacheParams& params, const Context& context);

/// Every implementation; the first is the reference.
[[nodiscard]] std::span<const Implementation<GatherCacheParams>> gather_cache();

}  // namespace kvproof::kernels
