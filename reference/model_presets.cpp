// SPDX-License-Identifier: Apache-2.0
// The caches of the presets, field by field from the configurations that model_presets.h names.
#include "reference/model_presets.h"

namespace kvproof {
namespace {

constexpr DataType kRows = DataType::bf16;  // every one of these configurations states this type

/// The two tensors of a Mamba-2 layer: the state of each head, and the inputs that the causal
/// convolution still looks back at (conv_kernel - 1 of them, over the inner width and both group
/// projections).
struct Mamba2 {
  std::uint32_t num_heads;
  std::uint32_t head_dim;
  std::uint32_t state_size;
  std::uint32_t num_groups;
  std::uint32_t conv_kernel;
};

KvSpec mamba2(std::uint32_t num_layers, const Mamba2& sizes) {
  const std::uint32_t inner = sizes.num_heads * sizes.head_dim;
  const std::uint32_t width = inner + 2 * sizes.num_groups * sizes.state_size;
  return KvSpec::mamba(num_layers, {{{sizes.num_heads, sizes.head_dim, sizes.state_size}, kRows},
                                    {{sizes.conv_kernel - 1, width}, kRows}});
}

}  // namespace

ModelSpec llama_3_8b() { return {{KvSpec::full(32, 8, 128, kRows)}}; }

ModelSpec llama_3_70b() { return {{KvSpec::full(80, 8, 128, kRows)}}; }

ModelSpec qwen3_8b() { return {{KvSpec::full(36, 8, 128, kRows)}}; }

ModelSpec mistral_7b() {
  return {{KvSpec::sliding_window(4'096, KvSpec::full(32, 8, 128, kRows))}};
}

// 62 layers, every sixth of them global: 10.
ModelSpec gemma_3_27b() {
  return {{KvSpec::full(10, 16, 128, kRows),
           KvSpec::sliding_window(1'024, KvSpec::full(52, 16, 128, kRows))}};
}

ModelSpec gpt_oss_20b() {
  return {{KvSpec::full(12, 8, 64, kRows),
           KvSpec::sliding_window(128, KvSpec::full(12, 8, 64, kRows))}};
}

ModelSpec deepseek_v3() { return {{KvSpec::mla(61, 512, 64, kRows)}}; }

// hybrid_override_pattern has 52 letters: 24 M, 24 - and 4 *.
ModelSpec nemotron_h_8b() {
  return {{KvSpec::full(4, 8, 128, kRows), mamba2(24, {.num_heads = 128,
                                                       .head_dim = 64,
                                                       .state_size = 128,
                                                       .num_groups = 8,
                                                       .conv_kernel = 4})}};
}

ModelSpec mamba_codestral_7b() {
  return {{mamba2(
      64,
      {.num_heads = 128, .head_dim = 64, .state_size = 128, .num_groups = 8, .conv_kernel = 4})}};
}

const ModelPreset* find_model_preset(std::string_view name) {
  for (const ModelPreset& preset : kModelPresets) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

ModelSpec with_rows_in(ModelSpec model, DataType dtype, RowFormat format) {
  for (KvSpec& spec : model.layers) {
    if (spec.kind == LayerKind::mamba) continue;
    spec.dtype = dtype;
    spec.format = format;
  }
  return model;
}

}  // namespace kvproof
