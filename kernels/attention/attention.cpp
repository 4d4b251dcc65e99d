// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include <type_traits>

namespace kvproof::kernels {
namespace {

Refusal refuse_shape(const AttentionShape& s) {
  if (s.num_kv_heads < 1 || s.num_heads < 1) return {"num_heads, num_kv_heads: expected 1 or more"};
  if (s.num_heads % s.num_kv_heads != 0) {
    return {"num_heads: expected a multiple of num_kv_heads"};
  }
  if (s.head_size < 1 || s.head_size > kMostKeySize) return {"head_size: expected 1 to 576"};
  if (s.value_head_size < 1 || s.value_head_size > kMostValueSize) {
    return {"value_head_size: expected 1 to 512"};
  }
  if (is_fp8(s.type)) return {"type: a query is fp32, fp16 or bf16"};
  if (s.cache_type != s.type && !is_fp8(s.cache_type)) {
    return {"cache_type: expected the query's type or one of fp8"};
  }
  if (!is_fp8(s.cache_type) && (s.key_scale != 1.0F || s.value_scale != 1.0F)) {
    return {"key_scale, value_scale: expected 1 where the cache is not fp8"};
  }
  if (s.window < 0) return {"window: expected 0 (all) or more tokens"};
  if (!(s.soft_cap >= 0)) return {"soft_cap: expected 0 (none) or more"};
  return {};
}

template <class Kv>
Refusal refuse_kv(const Kv& kv) {
  if (kv.key_layout.block_size < 1) return {"block_size: expected 1 or more tokens"};
  if (kv.key_layout.block_size != kv.value_layout.block_size) {
    return {"block_size: K and V differ"};
  }
  if constexpr (std::is_same_v<Kv, PagedKv>) {
    if (kv.block_tables == nullptr) return {"block_tables: missing"};
    if (kv.table_stride < 0) return {"table_stride: expected 0 or more entries"};
  }
  return {};
}

}  // namespace

template <class Kv>
Refusal refuse(const AttentionParams<Kv>& params) {
  if (const Refusal refusal = refuse_shape(params.shape)) return refusal;
  if (params.num_seqs < 0 || params.num_query_tokens < 0) {
    return {"num_seqs, num_query_tokens: expected 0 or more"};
  }
  if (params.num_query_tokens == 0) return {};
  if (params.seq_lens == nullptr || params.query == nullptr || params.output == nullptr ||
      params.kv.key == nullptr || params.kv.value == nullptr) {
    return {"seq_lens, query, output, K or V: missing"};
  }
  if (params.query_starts == nullptr && params.num_query_tokens != params.num_seqs) {
    return {"num_query_tokens: expected num_seqs where there are no query_starts"};
  }
  if (params.num_splits < 1) return {"num_splits: expected 1 or more"};
  if (params.num_splits > 1 && (params.split_output == nullptr || params.split_lse == nullptr)) {
    return {"split_output, split_lse: missing, and num_splits is above 1"};
  }
  return refuse_kv(params.kv);
}

template Refusal refuse(const AttentionParams<PagedKv>&);
template Refusal refuse(const AttentionParams<ContiguousKv>&);

}  // namespace kvproof::kernels
