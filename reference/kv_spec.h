// SPDX-License-Identifier: Apache-2.0
// How many bytes a model's KV cache takes: per token, per block, per request.
//
// Model:   one token costs, in every layer, one key row and one value row per KV head; MLA stores
//          one latent row in place of all of them.
// Source:  Kwon et al., SOSP'23, sec. 3 (arXiv:2309.06180); DeepSeek-V2, sec. 2.1
//          (arXiv:2405.04434).
// Refuses: parameters, activations, anything that is not cached.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvproof {

enum class DataType { fp32, fp16, bf16, fp8_e4m3, fp8_e5m2, int8 };

/// Bytes of one element.
[[nodiscard]] std::uint32_t size_of(DataType type);
[[nodiscard]] std::string_view to_string(DataType type);

/// The cached part of a decoder. MHA, GQA and MQA differ only in num_kv_heads.
struct KvSpec {
  std::uint32_t num_layers = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t key_head_size = 0;    // [elements]
  std::uint32_t value_head_size = 0;  // [elements]; 0 for MLA: the latent row serves as both
  DataType dtype = DataType::fp16;

  /// Full attention. 80 layers * 8 heads * (128 + 128) * 2 B = 327,680 B per token (Llama-3-70B).
  [[nodiscard]] static KvSpec full(std::uint32_t num_layers, std::uint32_t num_kv_heads,
                                   std::uint32_t head_size, DataType dtype);

  /// Multi-head latent attention: one row of latent + rotary elements per layer, shared by all
  /// heads. 61 layers * (512 + 64) * 2 B = 70,272 B per token (DeepSeek-V3).
  [[nodiscard]] static KvSpec mla(std::uint32_t num_layers, std::uint32_t latent_size,
                                  std::uint32_t rotary_size, DataType dtype);

  [[nodiscard]] std::uint64_t bytes_per_token() const;

  /// @param block_size [tokens per block]. All layers.
  [[nodiscard]] std::uint64_t bytes_per_block(std::uint32_t block_size) const;

  /// What a request of `tokens` tokens occupies in whole blocks. @pre block_size > 0
  [[nodiscard]] std::uint64_t paged_bytes(std::uint64_t tokens, std::uint32_t block_size) const;
};

}  // namespace kvproof
