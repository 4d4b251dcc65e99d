// SPDX-License-Identifier: Apache-2.0
// Writes the K and V rows of new tokens into their slots, quantising where the cache is fp8.
//
// Model:   cache[slot] = element if the types are equal, else round(element / scale), saturated.
//          A slot below 0 writes nothing. Two tokens never have one slot.
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
  const void* key = nullptr;          // shape [>= num_tokens, num_heads, head_size], type `type`
  const void* value = nullptr;        // shape [>= num_tokens, num_heads, value_head_size]
  std::int64_t key_token_stride = 0;  // [elements]; of a head: its size (heads are dense)
  std::int64_t value_token_stride = 0;
  void* key_cache = nullptr;  // type `cache_type`, rows at key_layout.row_of_slot(slot, head)
  void* value_cache = nullptr;
  CacheLayout key_layout;                // [elements of cache_type]
  CacheLayout value_layout;              // of the same block_size
  const SlotId* slot_mapping = nullptr;  // shape [num_tokens]
  std::int64_t num_tokens = 0;           // of slot_mapping; key and value may be padded beyond
  std::int32_t num_heads = 0;            // KV heads
  std::int32_t head_size = 0;
  std::int32_t value_head_size = 0;
  ElementType type = ElementType::bf16;        // fp32, fp16 or bf16
  ElementType cache_type = ElementType::bf16;  // `type`, or one of fp8
  float key_scale = 1.0F;  // an fp8 element times this is the value it stands for
  float value_scale = 1.0F;
};

[[nodiscard]] Refusal refuse(const ReshapeAndCacheParams& params);

/// Every implementation; the first is the reference.
[[nodiscard]] std::span<const Implementation<ReshapeAndCacheParams>> reshape_and_cache();

}  // namespace kvproof::kernels
