// SPDX-License-Identifier: Apache-2.0
// What the launchers of the tuned kernels ask of K and V: paged and contiguous caches as one form.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"

namespace kvproof::kernels {

/// Whether rows of 16-byte pieces begin where 16 bytes move in one instruction.
inline bool is_aligned(const void* base, const CacheLayout& layout, std::int64_t bytes) {
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(base));
  const std::int64_t strides =
      (layout.block_stride | layout.token_stride | layout.head_stride) * bytes;
  return address % 16 == 0 && strides % 16 == 0;
}

inline AttentionParams<PagedKv> as_paged(const AttentionParams<PagedKv>& params) { return params; }

/// Without block tables the kernel treats the sequence as one block.
inline AttentionParams<PagedKv> as_paged(const AttentionParams<ContiguousKv>& params) {
  AttentionParams<PagedKv> out;
  out.shape = params.shape;
  out.kv = {params.kv.key,          params.kv.value, params.kv.key_layout,
            params.kv.value_layout, nullptr,         0};
  out.num_seqs = params.num_seqs;
  out.num_query_tokens = params.num_query_tokens;
  out.query_starts = params.query_starts;
  out.seq_lens = params.seq_lens;
  out.query = params.query;
  out.query_token_stride = params.query_token_stride;
  out.query_head_stride = params.query_head_stride;
  out.output = params.output;
  out.output_token_stride = params.output_token_stride;
  out.output_head_stride = params.output_head_stride;
  out.log_sum_exp = params.log_sum_exp;
  out.lse_token_stride = params.lse_token_stride;
  out.lse_head_stride = params.lse_head_stride;
  out.num_splits = params.num_splits;
  out.split_output = params.split_output;
  out.split_lse = params.split_lse;
  out.split_arrivals = params.split_arrivals;
  return out;
}

}  // namespace kvproof::kernels
