// SPDX-License-Identifier: Apache-2.0
#include "kernels/copy_blocks/copy_blocks.h"

namespace kvproof::kernels {

Refusal refuse(const CopyBlocksParams& p) {
  if (p.num_caches < 0 || p.num_pairs < 0) return {"num_caches, num_pairs: expected 0 or more"};
  if (p.block_bytes < 0) return {"block_bytes: expected 0 or more"};
  if (p.block_stride < p.block_bytes) return {"block_stride: blocks overlap"};
  if (p.alignment < 1) return {"alignment: expected 1 or more bytes"};
  if (p.num_caches == 0 || p.num_pairs == 0 || p.block_bytes == 0) return {};
  if (p.caches == nullptr || p.pairs == nullptr) return {"caches or pairs: missing"};
  return {};
}

std::span<const Implementation<CopyBlocksParams>> copy_blocks() {
  static constexpr Implementation<CopyBlocksParams> kRows[] = {
      {"reference/bytes", &copy_blocks_reference}, {"cpu/general", &copy_blocks_cpu},
      {"cpu/streaming", &copy_blocks_stream},      {"cuda/general", &copy_blocks_cuda},
      {"cuda/vector", &copy_blocks_vector},
  };
  return kRows;
}

}  // namespace kvproof::kernels
