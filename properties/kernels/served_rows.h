// SPDX-License-Identifier: Apache-2.0
// The rows of a served world: their sizes and their content, a function of the token's digest.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/element.h"
#include "reference/ids.h"
#include "reference/mix64.h"

namespace kvproof::properties {

inline constexpr std::int32_t kHeads = 4;  // of a query
inline constexpr std::int32_t kKvHeads = 2;
inline constexpr std::int32_t kHeadSize = 32;
// [elements] of K, or of V, of a token.
inline constexpr std::int64_t kRow = std::int64_t{kKvHeads} * kHeadSize;
inline constexpr std::int64_t kQuery = std::int64_t{kHeads} * kHeadSize;

/// `count` elements between -1 and 1, a function of the seed.
inline void fill(std::uint64_t seed, kernels::Bf16* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    seed = mix64(seed + kMixStep);
    out[i] = kernels::from_float<kernels::Bf16>(static_cast<float>(seed >> 40) * 0x1p-23F - 1.0F);
  }
}

[[nodiscard]] inline std::uint64_t of_value(std::uint64_t digest) {
  return mix64(digest ^ 0x5bd1e995U);
}

/// A block table in the form that the kernels take.
[[nodiscard]] inline std::vector<std::int32_t> row_of(const std::vector<BlockId>& table) {
  return {table.begin(), table.end()};
}

}  // namespace kvproof::properties
