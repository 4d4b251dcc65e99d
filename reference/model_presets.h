// SPDX-License-Identifier: Apache-2.0
// The list of model presets: what published models cache. A new preset is its spec and a row here.
//
// Source:  each model's published config.json, named in its row. The values are those of one device
//          that holds the whole model: tensor parallelism divides heads, and a preset does not.
// Leaves out: weights, activations, and multimodal towers.
#pragma once

#include <cstdint>
#include <string_view>

#include "reference/kv_spec.h"

namespace kvproof {

[[nodiscard]] ModelSpec llama_3_8b();
[[nodiscard]] ModelSpec llama_3_70b();
[[nodiscard]] ModelSpec qwen3_8b();
[[nodiscard]] ModelSpec mistral_7b();
[[nodiscard]] ModelSpec gemma_3_27b();
[[nodiscard]] ModelSpec gpt_oss_20b();
[[nodiscard]] ModelSpec deepseek_v3();
[[nodiscard]] ModelSpec nemotron_h_8b();
[[nodiscard]] ModelSpec mamba_codestral_7b();

struct ModelPreset {
  std::string_view name;
  std::string_view sentence;     // the peculiarity of its cache
  std::uint32_t context_tokens;  // the longest context that the configuration allows
  std::string_view source;       // the repository with the config.json
  ModelSpec (*spec)();           // 16-bit elements (bf16)
};

inline constexpr ModelPreset kModelPresets[] = {
    {"llama-3-8b", "grouped-query attention in every layer", 131'072,
     "meta-llama/Llama-3.1-8B (Llama-3-8B: the same cache, 8,192 tokens)", &llama_3_8b},
    {"llama-3-70b", "grouped-query attention in every layer", 131'072,
     "meta-llama/Llama-3.3-70B-Instruct (Llama-3-70B: the same cache, 8,192 tokens)", &llama_3_70b},
    {"qwen3-8b", "grouped-query attention in every layer", 32'768, "Qwen/Qwen3-8B-Base", &qwen3_8b},
    {"mistral-7b-v0.1", "a window of 4,096 tokens in every layer", 32'768,
     "mistralai/Mistral-7B-v0.1", &mistral_7b},
    {"gemma-3-27b", "five layers with a window of 1,024 tokens, then one without", 131'072,
     "google/gemma-3-27b-it (text_config)", &gemma_3_27b},
    {"gpt-oss-20b", "windows of 128 tokens in every other layer", 131'072, "openai/gpt-oss-20b",
     &gpt_oss_20b},
    {"deepseek-v3", "multi-head latent attention: one row of 512 + 64 elements a layer", 163'840,
     "deepseek-ai/DeepSeek-V3", &deepseek_v3},
    {"nemotron-h-8b", "24 Mamba-2 layers, 4 of attention; 24 that cache nothing", 8'192,
     "nvidia/Nemotron-H-8B-Base-8K", &nemotron_h_8b},
    {"mamba-codestral-7b", "Mamba-2 in every layer: no cache that grows", 262'144,
     "mistralai/Mamba-Codestral-7B-v0.1 (tested by its makers up to 256k tokens)",
     &mamba_codestral_7b},
};

[[nodiscard]] const ModelPreset* find_model_preset(std::string_view name);

/// The model with its rows in another type or format; Mamba states keep theirs.
[[nodiscard]] ModelSpec with_rows_in(ModelSpec model, DataType dtype, RowFormat format);

}  // namespace kvproof
