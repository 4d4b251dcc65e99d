// SPDX-License-Identifier: Apache-2.0
#include "kernels/swap_blocks/swap_blocks.h"

#include <limits>

namespace kvproof::kernels {

Refusal refuse(const SwapBlocksParams& p) {
  if (p.num_pairs < 0) return {"num_pairs: expected 0 or more"};
  if (p.block_bytes < 0) return {"block_bytes: expected 0 or more"};
  if (p.from_blocks < 0 || p.to_blocks < 0) {
    return {"from_blocks, to_blocks: expected 0 or more"};
  }
  if (p.num_pairs == 0 || p.block_bytes == 0) return {};
  if (p.from == nullptr || p.to == nullptr || p.pairs == nullptr) {
    return {"from, to or pairs: missing"};
  }
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / p.block_bytes;
  if (p.from_blocks > most || p.to_blocks > most) return {"block_bytes: a buffer beyond 2^63"};
  for (std::int64_t i = 0; i < p.num_pairs; ++i) {
    if (p.pairs[2 * i] < 0 || p.pairs[2 * i] >= p.from_blocks) {
      return {"pairs: a block beyond the source"};
    }
    if (p.pairs[2 * i + 1] < 0 || p.pairs[2 * i + 1] >= p.to_blocks) {
      return {"pairs: a block beyond the destination"};
    }
  }
  return {};
}

std::span<const Implementation<SwapBlocksParams>> swap_blocks() {
  static constexpr Implementation<SwapBlocksParams> kRows[] = {
      {"reference/bytes", &swap_blocks_reference},
      {"cpu/general", &swap_blocks_cpu},
      {"cpu/streaming", &swap_blocks_stream},
      {"cuda/general", &swap_blocks_cuda},
  };
  return kRows;
}

}  // namespace kvproof::kernels
