// SPDX-License-Identifier: Apache-2.0
// One asynchronous transfer per run.
#include <cstdint>

#include "kernels/simt/cuda.h"
#include "kernels/swap_blocks/swap_blocks.h"

namespace kvproof::kernels {

Refusal swap_blocks_cuda(const SwapBlocksParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (p.block_bytes == 0) return {};
  const std::int64_t bytes = p.block_bytes;
  Refusal failed;
  for_each_run(p.pairs, p.num_pairs, [&](BlockRun run) {
    if (failed) return;
    failed = copy_memory_async(static_cast<char*>(p.to) + run.to * bytes,
                               static_cast<const char*>(p.from) + run.from * bytes,
                               static_cast<std::size_t>(run.count * bytes), context);
  });
  return failed;
}

}  // namespace kvproof::kernels
