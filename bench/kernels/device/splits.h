// SPDX-License-Identifier: Apache-2.0
// Into how many splits the benchmarks and the library for Python cut a decode.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvproof::bench {

/// As many splits as let all blocks be resident at once, two on a processor, if there would be
/// clearly too few blocks. One split more is a second wave, in which most processors are idle.
[[nodiscard]] inline std::int32_t decode_splits(std::int32_t batch, std::int32_t num_kv_heads,
                                                std::int32_t context, int num_processors) {
  const std::int32_t slots = 2 * num_processors;
  const std::int32_t blocks = batch * num_kv_heads;
  if (blocks * 4 >= slots * 3) return 1;
  const std::int32_t most = std::max(1, context / 256);
  return std::clamp(slots / blocks, 1, most);
}

/// One block of the latent kernel, of 64 heads, fits a processor: splits, if that many blocks leave
/// some idle.
[[nodiscard]] inline std::int32_t mla_splits(std::int32_t batch, std::int32_t num_heads,
                                             std::int32_t context, int num_processors) {
  const std::int32_t blocks = batch * ((num_heads + 63) / 64);
  return std::clamp(num_processors / blocks, 1, std::max(1, context / 256));
}

}  // namespace kvproof::bench
