// SPDX-License-Identifier: Apache-2.0
#include "reference/kv_spec.h"

#include "reference/ids.h"

namespace kvproof {

std::uint32_t size_of(DataType type) {
  switch (type) {
    case DataType::fp32: return 4;
    case DataType::fp16:
    case DataType::bf16: return 2;
    case DataType::fp8_e4m3:
    case DataType::fp8_e5m2:
    case DataType::int8: return 1;
  }
  return 0;
}

std::string_view to_string(DataType type) {
  switch (type) {
    case DataType::fp32: return "fp32";
    case DataType::fp16: return "fp16";
    case DataType::bf16: return "bf16";
    case DataType::fp8_e4m3: return "fp8_e4m3";
    case DataType::fp8_e5m2: return "fp8_e5m2";
    case DataType::int8: return "int8";
  }
  return "unnamed";
}

KvSpec KvSpec::full(std::uint32_t num_layers, std::uint32_t num_kv_heads, std::uint32_t head_size,
                    DataType dtype) {
  return {num_layers, num_kv_heads, head_size, head_size, dtype};
}

KvSpec KvSpec::mla(std::uint32_t num_layers, std::uint32_t latent_size, std::uint32_t rotary_size,
                   DataType dtype) {
  return {num_layers, 1, latent_size + rotary_size, 0, dtype};
}

std::uint64_t KvSpec::bytes_per_token() const {
  const std::uint64_t row = std::uint64_t{key_head_size} + value_head_size;
  return num_layers * std::uint64_t{num_kv_heads} * row * size_of(dtype);
}

std::uint64_t KvSpec::bytes_per_block(std::uint32_t block_size) const {
  return bytes_per_token() * block_size;
}

std::uint64_t KvSpec::paged_bytes(std::uint64_t tokens, std::uint32_t block_size) const {
  return ceil_div<std::uint64_t>(tokens, block_size) * bytes_per_block(block_size);
}

}  // namespace kvproof
