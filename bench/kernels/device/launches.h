// SPDX-License-Identifier: Apache-2.0
// How a case finds its kernel, launches it and lays out its block tables.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/kernels/device/device.h"
#include "kernels/implementation.h"

namespace kvproof::bench {

/// A launch of implementation `name` that must not be refused.
template <class Params>
std::function<void()> launch_of(std::span<const kernels::Implementation<Params>> rows,
                                std::string_view name, const Params& params) {
  const auto row = std::ranges::find(rows, name, &kernels::Implementation<Params>::name);
  if (row == rows.end()) throw DeviceError("no implementation " + std::string(name));
  return [row, params] {
    if (const kernels::Refusal refusal = row->launch(params, {})) {
      throw DeviceError(std::string(row->name) + ": " + refusal.reason);
    }
  };
}

/// [blocks] that so many tokens take
[[nodiscard]] constexpr std::int32_t num_blocks(std::int32_t tokens, std::int32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

/// A table of every block of a cache, one sequence after the other. @param each blocks
[[nodiscard]] inline std::vector<std::int32_t> table_of(std::int32_t batch, std::int32_t each,
                                                        bool shuffled) {
  std::vector<std::int32_t> table(static_cast<std::size_t>(batch) * static_cast<std::size_t>(each));
  std::iota(table.begin(), table.end(), 0);
  std::mt19937_64 random(1);
  if (shuffled) std::ranges::shuffle(table, random);
  return table;
}

}  // namespace kvproof::bench
