// SPDX-License-Identifier: Apache-2.0
// The lists of cards and of models for the serving simulation. Adding one is one row.
//
// Source:  the makers' data sheets (dense 16-bit rates, without sparsity) and the models' published
//          config.json, with weights and cache in 16 bits and full attention in every layer.
// Leaves out: measured rates. A row is a limit; StepTime has the share of it that is reached.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvproof::bench {

struct Card {
  std::string_view name;
  double bytes_per_second;       // of its memory
  double flops_per_second;       // dense, 16-bit
  double link_bytes_per_second;  // to the host, one direction
  std::string_view source;
};

inline constexpr Card kCards[] = {
    {"a10", 600e9, 125e12, 31.5e9, "NVIDIA A10 data sheet: GDDR6, PCIe 4.0 x16"},
    {"a100-40g", 1'555e9, 312e12, 31.5e9, "NVIDIA A100 data sheet: 40 GB SXM, PCIe 4.0 x16"},
    {"a100-80g", 2'039e9, 312e12, 31.5e9, "NVIDIA A100 data sheet: 80 GB SXM, PCIe 4.0 x16"},
    {"l40s", 864e9, 362e12, 31.5e9, "NVIDIA L40S data sheet: GDDR6, PCIe 4.0 x16"},
    {"h100", 3'350e9, 989e12, 63e9, "NVIDIA H100 data sheet: SXM5, PCIe 5.0 x16"},
    {"h200", 4'800e9, 989e12, 63e9, "NVIDIA H200 data sheet: SXM5, PCIe 5.0 x16"},
    {"gb200", 8'000e9, 2'500e12, 63e9,
     "NVIDIA GB200 NVL72 data sheet, one of its GPUs; the link as PCIe 5.0 x16"},
    {"mi300x", 5'300e9, 1'307e12, 63e9, "AMD Instinct MI300X data sheet: PCIe 5.0 x16"},
};

/// The numbers of a model that decide what a step computes, reads and keeps.
struct ServedModel {
  std::string_view name;
  double parameters;              // each token is multiplied with so many
  double weight_bytes;            // read by every step
  std::uint32_t attention_width;  // layers x query heads x head size
  double kv_bytes_per_token;      // of all layers: 2 x layers x KV heads x head size x 2 bytes
};

inline constexpr ServedModel kServedModels[] = {
    {"llama-3-8b", 8.03e9, 16.06e9, 32 * 32 * 128, 2.0 * 32 * 8 * 128 * 2},
    {"llama-3-70b", 70.6e9, 141.2e9, 80 * 64 * 128, 2.0 * 80 * 8 * 128 * 2},
    {"qwen3-8b", 8.19e9, 16.38e9, 36 * 32 * 128, 2.0 * 36 * 8 * 128 * 2},
    {"qwen2.5-7b", 7.62e9, 15.23e9, 28 * 28 * 128, 2.0 * 28 * 4 * 128 * 2},
    {"opt-13b", 12.85e9, 25.7e9, 40 * 40 * 128, 2.0 * 40 * 40 * 128 * 2},
};

[[nodiscard]] constexpr const Card* find_card(std::string_view name) {
  for (const Card& row : kCards) {
    if (row.name == name) return &row;
  }
  return nullptr;
}
[[nodiscard]] constexpr const ServedModel* find_served_model(std::string_view name) {
  for (const ServedModel& row : kServedModels) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace kvproof::bench
