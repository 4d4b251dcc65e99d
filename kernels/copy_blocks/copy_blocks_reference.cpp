// SPDX-License-Identifier: Apache-2.0
// Byte by byte.
#include "kernels/copy_blocks/copy_blocks.h"

namespace kvproof::kernels {

Refusal copy_blocks_reference(const CopyBlocksParams& p, const Context&) {
  if (const Refusal refusal = refuse(p)) return refusal;
  for (std::int32_t i = 0; i < p.num_caches && p.block_bytes > 0; ++i) {
    auto* const cache = static_cast<unsigned char*>(p.caches[i]);
    for (std::int64_t pair = 0; pair < p.num_pairs; ++pair) {
      if (is_pad(p.pairs + 2 * pair)) continue;
      const std::int64_t from = p.pairs[2 * pair], to = p.pairs[2 * pair + 1];
      for (std::int64_t byte = 0; byte < p.block_bytes; ++byte) {
        cache[to * p.block_stride + byte] = cache[from * p.block_stride + byte];
      }
    }
  }
  return {};
}

}  // namespace kvproof::kernels
