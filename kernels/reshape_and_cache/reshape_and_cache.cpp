// SPDX-License-Identifier: Apache-2.0
#include "kernels/reshape_and_cache/reshape_and_cache.h"

#include <cmath>
#include <limits>

namespace kvproof::kernels {
namespace {

bool stands_for_a_value(float scale) { return scale > 0 && std::isfinite(scale); }

Refusal refuse_types(const ReshapeAndCacheParams& p) {
  if (is_fp8(p.type)) return {"type: new tokens are fp32, fp16 or bf16"};
  if (p.cache_type != p.type && !is_fp8(p.cache_type)) {
    return {"cache_type: expected the type of the new tokens or one of fp8"};
  }
  if (!is_fp8(p.cache_type) && (p.key_scale != 1.0F || p.value_scale != 1.0F)) {
    return {"key_scale, value_scale: expected 1 where the cache is not fp8"};
  }
  if (!stands_for_a_value(p.key_scale) || !stands_for_a_value(p.value_scale)) {
    return {"key_scale, value_scale: expected above 0 and finite"};
  }
  return {};
}

bool too_wide(std::int32_t heads, std::int32_t head_size) {
  return std::int64_t{heads} * head_size > std::numeric_limits<std::int32_t>::max();
}

}  // namespace

Refusal refuse(const ReshapeAndCacheParams& p) {
  if (const Refusal refusal = refuse_types(p)) return refusal;
  if (p.num_heads < 1 || p.head_size < 1 || p.value_head_size < 1) {
    return {"num_heads, head_size, value_head_size: expected 1 or more"};
  }
  if (too_wide(p.num_heads, p.head_size) || too_wide(p.num_heads, p.value_head_size)) {
    return {"num_heads, head_size: a token has more than 2^31 - 1 elements"};
  }
  if (p.key_layout.block_size < 1) return {"block_size: expected 1 or more tokens"};
  if (p.key_layout.block_size != p.value_layout.block_size) return {"block_size: K and V differ"};
  if (p.num_tokens < 0) return {"num_tokens: expected 0 or more"};
  if (p.num_tokens > p.num_rows) return {"num_tokens: more slots than rows of key and value"};
  if (p.num_tokens == 0) return {};
  if (p.key == nullptr || p.value == nullptr || p.key_cache == nullptr ||
      p.value_cache == nullptr || p.slot_mapping == nullptr) {
    return {"key, value, key_cache, value_cache or slot_mapping: missing"};
  }
  return {};
}

std::span<const Implementation<ReshapeAndCacheParams>> reshape_and_cache() {
  static constexpr Implementation<ReshapeAndCacheParams> kRows[] = {
      {"reference/double", &reshape_and_cache_reference}, {"cpu/general", &reshape_and_cache_cpu},
      {"cpu/streaming", &reshape_and_cache_stream},       {"cpu/avx2", &reshape_and_cache_avx2},
      {"cpu/avx512_vbmi", &reshape_and_cache_vbmi},       {"cuda/general", &reshape_and_cache_cuda},
      {"cuda/vector", &reshape_and_cache_vector},
  };
  return kRows;
}

}  // namespace kvproof::kernels
