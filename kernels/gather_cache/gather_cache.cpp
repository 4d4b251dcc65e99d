// SPDX-License-Identifier: Apache-2.0
#include "kernels/gather_cache/gather_cache.h"

#include <limits>

namespace kvproof::kernels {

Refusal refuse(const GatherCacheParams& p) {
  if (is_fp8(p.type) && p.type != p.cache_type) {
    return {"type: expected fp32, fp16 or bf16, or the cache's own type"};
  }
  if (p.cache_type != p.type && !is_fp8(p.cache_type)) {
    return {"cache_type: expected the output's type or one of fp8"};
  }
  if (p.cache_type == p.type && p.scale != 1.0F) {
    return {"scale: expected 1 where bits are moved"};
  }
  if (p.num_heads < 1 || p.head_size < 1) {
    return {"num_heads, head_size: expected 1 or more"};
  }
  if (std::int64_t{p.num_heads} * p.head_size > std::numeric_limits<std::int32_t>::max()) {
    return {"num_heads, head_size: a token has more than 2^31 - 1 elements"};
  }
  if (p.layout.block_size < 1) return {"block_size: expected 1 or more tokens"};
  if (p.table_stride < 0) return {"table_stride: expected 0 or more entries"};
  if (p.num_seqs < 0 || p.num_tokens < 0) return {"num_seqs, num_tokens: expected 0 or more"};
  if (p.num_tokens == 0) return {};
  if (p.num_seqs == 0) return {"num_tokens: tokens of no sequence"};
  if (p.cache == nullptr || p.block_tables == nullptr || p.starts == nullptr || p.out == nullptr) {
    return {"cache, block_tables, starts or out: missing"};
  }
  return {};
}

std::span<const Implementation<GatherCacheParams>> gather_cache() {
  static constexpr Implementation<GatherCacheParams> kRows[] = {
      {"reference/double", &gather_cache_reference}, {"cpu/general", &gather_cache_cpu},
      {"cpu/streaming", &gather_cache_stream},       {"cuda/general", &gather_cache_cuda},
      {"cuda/vector", &gather_cache_vector},
  };
  return kRows;
}

}  // namespace kvproof::kernels
