// SPDX-License-Identifier: Apache-2.0
// Pair by pair, byte by byte.
#include "kernels/swap_blocks/swap_blocks.h"

namespace kvproof::kernels {

Refusal swap_blocks_reference(const SwapBlocksParams& p, const Context&) {
  if (const Refusal refusal = refuse(p)) return refusal;
  for (std::int64_t i = 0; i < p.num_pairs; ++i) {
    for (std::int64_t byte = 0; byte < p.block_bytes; ++byte) {
      static_cast<unsigned char*>(p.to)[p.pairs[2 * i + 1] * p.block_bytes + byte] =
          static_cast<const unsigned char*>(p.from)[p.pairs[2 * i] * p.block_bytes + byte];
    }
  }
  return {};
}

}  // namespace kvproof::kernels
