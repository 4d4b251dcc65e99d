// SPDX-License-Identifier: Apache-2.0
// Writes the K and V rows of new tokens into their slots, quantising where the cache is fp8.
//
// Model:   cache[slot] = element if the types are equal, else round(element / scale), saturated;
//          the quotient is rounded to fp32 first. Two tokens never have one slot.
// Pads:    a token whose slot is below 0, wherever it stands among the others, and rows beyond
//          num_tokens: nothing of the caches is written, and their K and V are not read.
// Source:  vLLM v1 reshape_and_cache_flash; MLA's concatenation is the same operation on two views
//          of one cache (K the latent part, V the rope part).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/element.h"
#include "kernels/implementation.h"
#include "reference/ids.h"
#include "reference/layout.h"

namespace kvproof::kernels {

struct ReshapeAndCacheParams {
  const void* key = nullptr;          // shape [num_rows, num_heads, head_size], type `type`
  const void* value = nullptr;        // shape [num_rows, num_heads, value_head_size]
  std::int64_t num_rows = 0;          // of key and value; those beyond num_tokens are padding
  std::int64_t key_token_stride = 0;  // [elements]; of a head: its size (heads are dense)
  std::int64_t value_token_stride = 0;
  void* key_cache = nullptr;  // type `cache_type`, rows at key_layout.row_of_slot(slot, head)
  void* value_cache = nullptr;
  CacheLayout key_layout;                // [elements of cache_type]
  CacheLayout value_layout;              // of the same block_size
  const SlotId* slot_mapping = nullptr;  // shape [num_tokens]
  std::int64_t num_tokens = 0;           // of slot_mapping; at most num_rows
  std::int32_t num_heads = 0;            // KV heads
  std::int32_t head_size = 0;
  std::int32_t value_head_size = 0;
  ElementType type = ElementType::bf16;        // fp32, fp16 or bf16
  ElementType cache_type = ElementType::bf16;  // `type`, or one of fp8
  float key_scale = 1.0F;  // an fp8 element times this is the value it stands for
  float value_scale = 1.0F;
};

/// The K half or the V half of the operation.
struct CacheSide {
  const void* rows;           // of the new tokens
  std::int64_t token_stride;  // [elements]
  void* cache;
  CacheLayout layout;
  std::int32_t head_size;
  float scale;
};
[[nodiscard]] KVPROOF_HOST_DEVICE inline CacheSide key_side(const ReshapeAndCacheParams& p) {
  return {p.key, p.key_token_stride, p.key_cache, p.key_layout, p.head_size, p.key_scale};
}
[[nodiscard]] KVPROOF_HOST_DEVICE inline CacheSide value_side(const ReshapeAndCacheParams& p) {
  return {p.value,        p.value_token_stride, p.value_cache,
          p.value_layout, p.value_head_size,    p.value_scale};
}

[[nodiscard]] Refusal refuse(const ReshapeAndCacheParams& params);

Refusal reshape_and_cache_reference(const ReshapeAndCacheParams& params, const Context& context);
Refusal reshape_and_cache_cpu(const ReshapeAndCacheParams& params, const Context& context);
Refusal reshape_and_cache_stream(const ReshapeAndCacheParams& params, const Context& context);
Refusal reshape_and_cache_avx2(const ReshapeAndCacheParams& params, const Context& context);
Refusal reshape_and_cache_vbmi(const ReshapeAndCacheParams& params, const Context& context);
Refusal reshape_and_cache_cuda(const ReshapeAndCacheParams& params, const Context& context);
Refusal reshape_and_cache_vector(const ReshapeAndCacheParams& params, const Context& context);

/// Every implementation; the first is the reference.
[[nodiscard]] std::span<const Implementation<ReshapeAndCacheParams>> reshape_and_cache();

}  // namespace kvproof::kernels
