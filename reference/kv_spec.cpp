// SPDX-License-Identifier: Apache-2.0
#include "reference/kv_spec.h"

#include <algorithm>
#include <utility>

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

// ---- making -------------------------------------------------------------------------------------

KvSpec KvSpec::full(std::uint32_t num_layers, std::uint32_t num_kv_heads, std::uint32_t head_size,
                    DataType dtype) {
  KvSpec spec;
  spec.num_layers = num_layers;
  spec.num_kv_heads = num_kv_heads;
  spec.key_head_size = head_size;
  spec.value_head_size = head_size;
  spec.dtype = dtype;
  return spec;
}

KvSpec KvSpec::mla(std::uint32_t num_layers, std::uint32_t latent_size, std::uint32_t rotary_size,
                   DataType dtype) {
  KvSpec spec = full(num_layers, 1, latent_size + rotary_size, dtype);
  spec.kind = LayerKind::mla;
  spec.value_head_size = 0;
  spec.rotary_size = rotary_size;
  return spec;
}

KvSpec KvSpec::sliding_window(std::uint32_t window, KvSpec attention) {
  attention.kind = LayerKind::sliding_window;
  attention.window_tokens = window;
  return attention;
}

KvSpec KvSpec::chunked_local(std::uint32_t chunk, KvSpec attention) {
  attention.kind = LayerKind::chunked_local;
  attention.window_tokens = chunk;
  return attention;
}

KvSpec KvSpec::cross(KvSpec attention) {
  attention.kind = LayerKind::cross;
  return attention;
}

KvSpec KvSpec::mamba(std::uint32_t num_layers, std::vector<StateTensor> state, MambaMode mode,
                     std::uint32_t num_speculative) {
  KvSpec spec;
  spec.num_layers = num_layers;
  spec.kind = LayerKind::mamba;
  spec.state = std::move(state);
  spec.mamba_mode = mode;
  spec.num_speculative = num_speculative;
  return spec;
}

// ---- bytes --------------------------------------------------------------------------------------

std::uint64_t KvSpec::row_bytes() const {
  if (format == RowFormat::fp8_ds_mla) {  // 512 + 4 * 4 + 64 * 2 = 656 B for DeepSeek-V3
    const std::uint64_t latent = key_head_size - rotary_size;
    return latent + ceil_div<std::uint64_t>(latent, 128) * 4 + std::uint64_t{rotary_size} * 2;
  }
  const std::uint64_t row = std::uint64_t{key_head_size} + value_head_size;
  return num_kv_heads * row * size_of(dtype);
}

std::uint64_t KvSpec::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const StateTensor& tensor : state) {
    std::uint64_t elements = 1;
    for (const std::uint32_t extent : tensor.shape) elements *= extent;
    bytes += elements * size_of(tensor.dtype);
  }
  return bytes;
}

std::uint64_t KvSpec::bytes_per_token() const {
  if (kind == LayerKind::mamba || kind == LayerKind::cross) return 0;
  return num_layers * row_bytes() / compress_ratio;
}

std::uint64_t KvSpec::page_bytes(std::uint32_t block_size) const {
  if (kind == LayerKind::mamba) return state_bytes();
  return row_bytes() * (block_size / compress_ratio);
}

std::uint64_t KvSpec::bytes_per_block(std::uint32_t block_size) const {
  return num_layers * page_bytes(block_size);
}

std::uint64_t KvSpec::paged_bytes(std::uint64_t tokens, std::uint32_t block_size) const {
  return blocks_held(block_size, tokens) * bytes_per_block(block_size);
}

// ---- blocks of one request ----------------------------------------------------------------------

std::uint64_t KvSpec::reach(const RequestLimits& limits) const {
  if (kind == LayerKind::cross) return limits.encoder_tokens;
  std::uint64_t kept = limits.max_tokens;
  if (kind == LayerKind::sliding_window) kept = window_tokens - 1 + limits.in_flight_tokens;
  if (kind == LayerKind::chunked_local) kept = window_tokens + limits.in_flight_tokens;
  return std::min(kept, limits.max_tokens);
}

std::uint64_t KvSpec::worst_case_blocks(std::uint32_t block_size,
                                        const RequestLimits& limits) const {
  if (kind == LayerKind::mamba && mamba_mode != MambaMode::all) {
    return (mamba_mode == MambaMode::align ? 2 : 1) + num_speculative;
  }
  const std::uint64_t blocks = ceil_div<std::uint64_t>(reach(limits), block_size);
  if (kind == LayerKind::sliding_window) return blocks + 1;
  return kind == LayerKind::mamba ? blocks + num_speculative : blocks;
}

// The token that is being decoded is not computed yet: tokens - 1 are.
std::uint64_t KvSpec::first_live_token(std::uint64_t tokens) const {
  if (tokens == 0) return 0;
  const std::uint64_t computed = tokens - 1;
  if (kind == LayerKind::sliding_window) {
    return computed + 1 > window_tokens ? computed + 1 - window_tokens : 0;
  }
  if (kind == LayerKind::chunked_local) return computed / window_tokens * window_tokens;
  return 0;
}

std::uint64_t KvSpec::blocks_held(std::uint32_t block_size, std::uint64_t tokens,
                                  std::uint64_t encoder_tokens) const {
  if (kind == LayerKind::cross) return ceil_div<std::uint64_t>(encoder_tokens, block_size);
  if (tokens == 0) return 0;
  const std::uint64_t reached = ceil_div<std::uint64_t>(tokens, block_size);
  if (kind == LayerKind::mamba) {
    if (mamba_mode == MambaMode::all) return reached + num_speculative;
    return std::min<std::uint64_t>(mamba_mode == MambaMode::align ? 2 : 1, reached) +
           num_speculative;
  }
  return reached - first_live_token(tokens) / block_size;
}

std::uint64_t KvSpec::live_bytes(std::uint64_t tokens, std::uint64_t encoder_tokens) const {
  if (kind == LayerKind::mamba) return tokens == 0 ? 0 : num_layers * state_bytes();
  const std::uint64_t live =
      kind == LayerKind::cross ? encoder_tokens : tokens - first_live_token(tokens);
  return num_layers * ceil_div<std::uint64_t>(live, compress_ratio) * row_bytes();
}

std::uint64_t KvSpec::contiguous_bytes(const RequestLimits& limits) const {
  if (kind == LayerKind::mamba) return num_layers * state_bytes() * (1 + num_speculative);
  return num_layers * ceil_div<std::uint64_t>(reach(limits), compress_ratio) * row_bytes();
}

// ---- a whole model ------------------------------------------------------------------------------

std::uint32_t ModelSpec::num_layers() const {
  std::uint32_t sum = 0;
  for (const KvSpec& spec : layers) sum += spec.num_layers;
  return sum;
}

std::uint64_t ModelSpec::bytes_per_token() const {
  std::uint64_t sum = 0;
  for (const KvSpec& spec : layers) sum += spec.bytes_per_token();
  return sum;
}

std::uint64_t ModelSpec::lasting_bytes_per_token() const {
  std::uint64_t sum = 0;
  for (const KvSpec& spec : layers) {
    const bool forgets =
        spec.kind == LayerKind::sliding_window || spec.kind == LayerKind::chunked_local;
    if (!forgets) sum += spec.bytes_per_token();
  }
  return sum;
}

std::uint64_t ModelSpec::live_bytes(std::uint64_t tokens, std::uint64_t encoder_tokens) const {
  std::uint64_t sum = 0;
  for (const KvSpec& spec : layers) sum += spec.live_bytes(tokens, encoder_tokens);
  return sum;
}

std::uint64_t ModelSpec::contiguous_bytes(const RequestLimits& limits) const {
  std::uint64_t sum = 0;
  for (const KvSpec& spec : layers) sum += spec.contiguous_bytes(limits);
  return sum;
}

}  // namespace kvproof
