// SPDX-License-Identifier: Apache-2.0
// How many bytes a model's KV cache takes: per token, per page, per request.
//
// Model:   a model is a list of layers with equal caches (KvSpec, one per kind and size). Attention
//          stores one key row and one value row per KV head and token; MLA one latent row in place
//          of all of them; Mamba one state per block, however many tokens the block has. A page
//          is one layer's share of one block.
// Source:  Kwon et al., SOSP'23, sec. 3 (arXiv:2309.06180); DeepSeek-V2, sec. 2.1
//          (arXiv:2405.04434); vLLM v1 kv_cache_interface.py (page_size_bytes,
//          max_memory_usage_bytes) and the admission caps of single_type_kv_cache_manager.py.
// Leaves out: parameters, activations, and all other memory that is not cache.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "reference/config.h"

namespace kvproof {

enum class DataType { fp32, fp16, bf16, fp8_e4m3, fp8_e5m2, int8 };

[[nodiscard]] std::uint32_t size_of(DataType type);
[[nodiscard]] std::string_view to_string(DataType type);

/// How the elements of a row are stored.
enum class RowFormat {
  plain,       // every element in the data type
  fp8_ds_mla,  // MLA: latent in fp8 with an fp32 scale per 128 elements, rotary part in 16 bits
};

/// One tensor of a recurrent state.
struct StateTensor {
  std::vector<std::uint32_t> shape;
  DataType dtype = DataType::bf16;

  bool operator==(const StateTensor&) const = default;
};

struct RequestLimits {
  std::uint64_t max_tokens = 0;        // longest request
  std::uint64_t in_flight_tokens = 0;  // computed at once at most (a prefill chunk)
  std::uint64_t encoder_tokens = 0;    // for cross attention
};

/// Layers whose caches are equal. MHA, GQA and MQA differ only in num_kv_heads.
struct KvSpec {
  std::uint32_t num_layers = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t key_head_size = 0;    // [elements]; MLA: latent and rotary part together
  std::uint32_t value_head_size = 0;  // [elements]; 0 for MLA: the latent row serves as both
  DataType dtype = DataType::fp16;
  LayerKind kind = LayerKind::full;
  std::uint32_t window_tokens = 0;   // of a sliding window, or of a local chunk
  std::uint32_t compress_ratio = 1;  // MLA: tokens that share one stored row
  std::uint32_t rotary_size = 0;     // [elements] of the key row that are not compressed (MLA)
  RowFormat format = RowFormat::plain;
  std::vector<StateTensor> state;          // Mamba: of one layer
  MambaMode mamba_mode = MambaMode::none;  // Mamba
  std::uint32_t num_speculative = 0;       // Mamba: further states for draft tokens

  /// Full attention. 80 layers * 8 heads * (128 + 128) * 2 B = 327,680 B per token (Llama-3-70B).
  [[nodiscard]] static KvSpec full(std::uint32_t num_layers, std::uint32_t num_kv_heads,
                                   std::uint32_t head_size, DataType dtype);

  /// Multi-head latent attention: one row of latent + rotary elements per layer, shared by all
  /// heads. 61 layers * (512 + 64) * 2 B = 70,272 B per token (DeepSeek-V3).
  [[nodiscard]] static KvSpec mla(std::uint32_t num_layers, std::uint32_t latent_size,
                                  std::uint32_t rotary_size, DataType dtype);

  /// Attention to the last `window` tokens, the current one among them.
  [[nodiscard]] static KvSpec sliding_window(std::uint32_t window, KvSpec attention);

  /// Attention within chunks of `chunk` tokens.
  [[nodiscard]] static KvSpec chunked_local(std::uint32_t chunk, KvSpec attention);

  /// Attention to an encoder's tokens.
  [[nodiscard]] static KvSpec cross(KvSpec attention);

  /// Recurrent layers with a state of these tensors each.
  [[nodiscard]] static KvSpec mamba(std::uint32_t num_layers, std::vector<StateTensor> state,
                                    MambaMode mode = MambaMode::none,
                                    std::uint32_t num_speculative = 0);

  /// Of all layers, until tokens leave a window. 0 for Mamba: its state does not grow.
  [[nodiscard]] std::uint64_t bytes_per_token() const;

  /// @param block_size [tokens per block]. All layers.
  [[nodiscard]] std::uint64_t bytes_per_block(std::uint32_t block_size) const;

  /// The bytes of a request of `tokens` tokens in whole blocks. @pre block_size > 0
  [[nodiscard]] std::uint64_t paged_bytes(std::uint64_t tokens, std::uint32_t block_size) const;

  /// Of one layer in one block. @pre compress_ratio divides block_size
  [[nodiscard]] std::uint64_t page_bytes(std::uint32_t block_size) const;

  /// The most blocks that one request ever holds: its share of the admission check. For a window
  /// this counts the tokens in flight, and one block more because a window may begin inside a
  /// block; a chunk never does. @pre block_size divides the chunk
  [[nodiscard]] std::uint64_t worst_case_blocks(std::uint32_t block_size,
                                                const RequestLimits& limits) const;

  /// The blocks that a request holds while it decodes its token number `tokens`; blocks that left
  /// the window were given back. @param encoder_tokens for cross attention
  [[nodiscard]] std::uint64_t blocks_held(std::uint32_t block_size, std::uint64_t tokens,
                                          std::uint64_t encoder_tokens = 0) const;

  /// The bytes of live rows at that time, without regard to blocks. All layers.
  [[nodiscard]] std::uint64_t live_bytes(std::uint64_t tokens,
                                         std::uint64_t encoder_tokens = 0) const;

  /// The bytes of one buffer for the longest request: a row for each of its tokens, or a ring for
  /// the window and the tokens in flight. All layers.
  [[nodiscard]] std::uint64_t contiguous_bytes(const RequestLimits& limits) const;

  bool operator==(const KvSpec&) const = default;

 private:
  [[nodiscard]] std::uint64_t row_bytes() const;    // one token in one layer
  [[nodiscard]] std::uint64_t state_bytes() const;  // one layer
  [[nodiscard]] std::uint64_t first_live_token(std::uint64_t tokens) const;
  /// The most tokens that have to be kept; nullopt if all have to be.
  [[nodiscard]] std::uint64_t reach(const RequestLimits& limits) const;
};

/// A whole model: its layers, grouped by equal caches. Layers without a cache are left out.
struct ModelSpec {
  std::vector<KvSpec> layers;

  [[nodiscard]] std::uint32_t num_layers() const;
  [[nodiscard]] std::uint64_t bytes_per_token() const;

  /// The bytes that a token takes until the request ends: the layers that forget are left out.
  [[nodiscard]] std::uint64_t lasting_bytes_per_token() const;

  [[nodiscard]] std::uint64_t live_bytes(std::uint64_t tokens,
                                         std::uint64_t encoder_tokens = 0) const;
  [[nodiscard]] std::uint64_t contiguous_bytes(const RequestLimits& limits) const;
};

}  // namespace kvproof
