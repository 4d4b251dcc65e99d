// SPDX-License-Identifier: Apache-2.0
// The parameters that all attention operations share, and which tokens a query sees.
//
// Model:   out = softmax(cap(scale * q . k)) . v over the visible tokens; cap(x) = c * tanh(x / c).
//          Query head h reads KV head h / (num_heads / num_kv_heads). A query token at position p
//          of its sequence sees positions [max(0, p + 1 - window), p]; the last query token of a
//          sequence of n tokens is at position n - 1 (causal, aligned to the end).
// Pads:    a sequence of length 0 pads a batch: its query tokens, if it has any, get zeros and a
//          log-sum-exp of -infinity. Table entries of positions that no query token of the sequence
//          sees (beyond its length, before its window) may hold anything, -1 among it, or not be
//          there. Those of visible positions name blocks; block 0 is one like any other.
// Source:  Kwon et al., SOSP'23, sec. 4.1; Dao, FlashAttention-2 (arXiv:2307.08691);
//          Flash-Decoding for the splits. Soft cap: Gemma 2 (arXiv:2408.00118), sec. 2.
#pragma once

#include <cstdint>

#include "kernels/element.h"
#include "kernels/implementation.h"
#include "reference/layout.h"

namespace kvproof::kernels {

/// The largest head that is served: MLA's latent of 512 and 64 beside it; values are the latent.
inline constexpr std::int32_t kMostKeySize = 576;
inline constexpr std::int32_t kMostValueSize = 512;

/// A K and a V cache that block tables point into. They may be two views of the same memory.
struct PagedKv {
  const void* key = nullptr;    // rows of head_size elements at key_layout.row(block, token, head)
  const void* value = nullptr;  // rows of value_head_size elements at value_layout.row(...)
  CacheLayout key_layout;
  CacheLayout value_layout;                    // of the same block_size
  const std::int32_t* block_tables = nullptr;  // shape [num_seqs, >= ceil(len / block_size)]
  std::int64_t table_stride = 0;               // [entries] from a sequence's row to the next

  [[nodiscard]] KVPROOF_HOST_DEVICE std::int64_t block_of(std::int32_t seq,
                                                          std::int32_t position) const {
    return block_tables[seq * table_stride + position / key_layout.block_size];
  }
  [[nodiscard]] KVPROOF_HOST_DEVICE std::int64_t key_row(std::int32_t seq, std::int32_t position,
                                                         std::int32_t head) const {
    return key_layout.row(block_of(seq, position), position % key_layout.block_size, head);
  }
  [[nodiscard]] KVPROOF_HOST_DEVICE std::int64_t value_row(std::int32_t seq, std::int32_t position,
                                                           std::int32_t head) const {
    return value_layout.row(block_of(seq, position), position % value_layout.block_size, head);
  }
};

/// One buffer per sequence, all of the same capacity: what paging replaced. In each layout a block
/// is a sequence, and block_size its capacity in tokens.
struct ContiguousKv {
  const void* key = nullptr;    // rows of head_size elements at key_layout.row(seq, token, head)
  const void* value = nullptr;  // rows of value_head_size elements
  CacheLayout key_layout;
  CacheLayout value_layout;

  [[nodiscard]] KVPROOF_HOST_DEVICE std::int64_t key_row(std::int32_t seq, std::int32_t position,
                                                         std::int32_t head) const {
    return key_layout.row(seq, position, head);
  }
  [[nodiscard]] KVPROOF_HOST_DEVICE std::int64_t value_row(std::int32_t seq, std::int32_t position,
                                                           std::int32_t head) const {
    return value_layout.row(seq, position, head);
  }
};

struct AttentionShape {
  std::int32_t num_heads = 0;  // of the query; a multiple of num_kv_heads
  std::int32_t num_kv_heads = 0;
  std::int32_t head_size = 0;                  // [elements] of a query and a K row
  std::int32_t value_head_size = 0;            // [elements] of a V and an output row
  ElementType type = ElementType::bf16;        // of query and output: fp32, fp16 or bf16
  ElementType cache_type = ElementType::bf16;  // `type`, or one of fp8
  float scale = 1.0F;                          // of the scores, usually 1 / sqrt(head_size)
  float soft_cap = 0.0F;                       // 0: no cap
  std::int32_t window = 0;  // [tokens] visible at most, the query's own among them; 0: all
  float key_scale = 1.0F;   // an fp8 element times this is its value; 1 for the other types
  float value_scale = 1.0F;
};

/// Attention of a ragged batch of query tokens. Decode: one query token per sequence,
/// query_starts null. Offsets and strides are in elements, 64 bits wide.
template <class Kv>
struct AttentionParams {
  AttentionShape shape;
  Kv kv;
  std::int32_t num_seqs = 0;
  std::int32_t num_query_tokens = 0;           // decode: num_seqs
  const std::int32_t* query_starts = nullptr;  // shape [num_seqs + 1], ascending from 0
  const std::int32_t* seq_lens = nullptr;      // shape [num_seqs] [tokens], the query's own
                                               // included; 0: a pad
  const void* query = nullptr;  // shape [num_query_tokens, num_heads, head_size], type `type`
  std::int64_t query_token_stride = 0;
  std::int64_t query_head_stride = 0;
  void* output = nullptr;  // shape [num_query_tokens, num_heads, value_head_size], type `type`
  std::int64_t output_token_stride = 0;
  std::int64_t output_head_stride = 0;
  float* log_sum_exp = nullptr;  // shape [num_query_tokens, num_heads], natural; null: not wanted
  std::int64_t lse_token_stride = 0;
  std::int64_t lse_head_stride = 0;
  // The visible tokens are split; each split is computed by itself, then all are merged. Scratch
  // memory needs no initial value.
  std::int32_t num_splits = 1;
  float* split_output = nullptr;  // shape [num_query_tokens, num_heads, num_splits,
                                  //        value_head_size]; may be null if num_splits is 1
  float* split_lse = nullptr;     // shape [num_query_tokens, num_heads, num_splits]
  std::uint32_t* split_arrivals = nullptr;  // shape [num_split_arrivals], zeros, and zeros again
                                            // after the launch, of one launch at a time: the kernel
                                            // may merge its splits itself; null: a second one does
};

/// How many counters a launch may need: one for some rows of a sequence and a KV head.
template <class Kv>
[[nodiscard]] inline std::int64_t num_split_arrivals(const AttentionParams<Kv>& p) {
  return (std::int64_t{p.num_query_tokens} + p.num_seqs) * p.shape.num_heads;
}

/// Positions [begin, end) of a sequence.
struct TokenRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// The positions that query token `query` of `num_queries` sees in a sequence of `seq_len` tokens.
[[nodiscard]] KVPROOF_HOST_DEVICE inline TokenRange visible_to(std::int32_t query,
                                                               std::int32_t num_queries,
                                                               std::int32_t seq_len,
                                                               std::int32_t window) {
  const std::int32_t end = seq_len - num_queries + query + 1;
  if (seq_len <= 0 || end <= 0) return {0, 0};
  return {window > 0 && end > window ? end - window : 0, end < seq_len ? end : seq_len};
}

/// The sequence that query token `token` belongs to. @param starts null: one token per sequence
KVPROOF_HOST_DEVICE inline std::int32_t sequence_of(const std::int32_t* starts,
                                                    std::int32_t num_seqs, std::int32_t token) {
  if (starts == nullptr) return token;
  std::int32_t low = 0, high = num_seqs;  // starts[low] <= token < starts[high]
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    (starts[middle] <= token ? low : high) = middle;
  }
  return low;
}

/// The positions that query token `token` of the batch sees.
template <class Kv>
KVPROOF_HOST_DEVICE inline TokenRange visible_of(const AttentionParams<Kv>& p, std::int32_t seq,
                                                 std::int32_t token) {
  const std::int32_t len = p.seq_lens[seq];
  const std::int32_t first = p.query_starts == nullptr ? token : p.query_starts[seq];
  const std::int32_t next = p.query_starts == nullptr ? token + 1 : p.query_starts[seq + 1];
  return visible_to(token - first, next - first, len, p.shape.window);
}

/// Split `split` of `num_splits` of a range, in whole tiles; the last splits may be empty.
[[nodiscard]] KVPROOF_HOST_DEVICE inline TokenRange split_of(TokenRange all, std::int32_t split,
                                                             std::int32_t num_splits,
                                                             std::int32_t tile) {
  const std::int32_t tiles = (all.end - all.begin + tile - 1) / tile;
  const std::int64_t per_split = std::int64_t{(tiles + num_splits - 1) / num_splits} * tile;
  const std::int64_t begin = all.begin + per_split * split;
  const std::int64_t end = begin + per_split;
  return {static_cast<std::int32_t>(begin < all.end ? begin : all.end),
          static_cast<std::int32_t>(end < all.end ? end : all.end)};
}

/// Why no implementation accepts the parameters; empty if some do.
template <class Kv>
[[nodiscard]] Refusal refuse(const AttentionParams<Kv>& params);

// The implementations, for every operation of the family. Each runs with any parameters that
// refuse() lets pass, or says which ones it cannot take.
template <class Kv>
Refusal attention_reference(const AttentionParams<Kv>& params, const Context& context);
template <class Kv>
Refusal attention_cpu_general(const AttentionParams<Kv>& params, const Context& context);
template <class Kv>  // these three: sizes that are multiples of 16
Refusal attention_cpu_avx2(const AttentionParams<Kv>& params, const Context& context);
template <class Kv>
Refusal attention_cpu_avx512_bf16(const AttentionParams<Kv>& params, const Context& context);
template <class Kv>
Refusal attention_cpu_portable(const AttentionParams<Kv>& params, const Context& context);
template <class Kv>
Refusal attention_cuda_general(const AttentionParams<Kv>& params, const Context& context);
template <class Kv>
Refusal attention_cuda_mma(const AttentionParams<Kv>& params, const Context& context);
template <class Kv>
Refusal attention_cuda_wgmma(const AttentionParams<Kv>& params, const Context& context);
/// Decode over bf16 latents of 512 in 576, on a Hopper.
Refusal attention_cuda_latent_wgmma(const AttentionParams<PagedKv>& params, const Context& context);

}  // namespace kvproof::kernels
