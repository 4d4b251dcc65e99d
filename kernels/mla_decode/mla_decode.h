// SPDX-License-Identifier: Apache-2.0
// Decode attention over a latent cache (MLA): all heads read one row per token, whose first
// elements are the value too.
//
// Model:   A cache row is [latent, rope]; a query head is [latent, rope], the key's up-projection
//          absorbed; out = softmax(scale * q . row) . row[0, latent).
// Pads:    as in attention.h.
// Source:  DeepSeek-V2 (arXiv:2405.04434), sec. 2.1; vLLM v1 cache of 512 + 64 elements.
#pragma once

#include <span>

#include "kernels/attention/attention.h"

namespace kvproof::kernels {

struct MlaDecodeParams {
  const void* cache = nullptr;           // shape [num_blocks, block_size, latent_size + rope_size]
  std::int64_t block_stride = 0;         // [elements]
  std::int64_t token_stride = 0;         // [elements]
  std::int32_t block_size = 0;           // [tokens]
  std::int32_t latent_size = 512;        // [elements]
  std::int32_t rope_size = 64;           // [elements]
  ElementType type = ElementType::bf16;  // of query and output
  ElementType cache_type = ElementType::bf16;  // `type`, or one of fp8
  float cache_scale = 1.0F;                    // what an fp8 element is multiplied by
  float scale = 1.0F;                          // of the scores
  const std::int32_t* block_tables = nullptr;  // shape [num_seqs, >= ceil(len / block_size)]
  std::int64_t table_stride = 0;               // [entries]
  const std::int32_t* seq_lens = nullptr;      // shape [num_seqs] [tokens]
  std::int32_t num_seqs = 0;
  std::int32_t num_heads = 0;
  const void* query = nullptr;   // shape [num_seqs, num_heads, latent_size + rope_size], packed
  void* output = nullptr;        // shape [num_seqs, num_heads, latent_size], packed
  float* log_sum_exp = nullptr;  // shape [num_seqs, num_heads], packed; null: not wanted
  std::int32_t num_splits = 1;
  float* split_output = nullptr;            // shape [num_seqs, num_heads, num_splits, latent_size]
  float* split_lse = nullptr;               // shape [num_seqs, num_heads, num_splits]
  std::uint32_t* split_arrivals = nullptr;  // as in attention.h
};

/// The same as attention with one KV head, K and V two views of the cache.
[[nodiscard]] AttentionParams<PagedKv> as_attention(const MlaDecodeParams& params);

/// Every implementation; the first is the reference in double precision.
[[nodiscard]] std::span<const Implementation<MlaDecodeParams>> mla_decode();

}  // namespace kvproof::kernels
