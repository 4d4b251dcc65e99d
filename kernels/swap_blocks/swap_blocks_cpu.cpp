// SPDX-License-Identifier: Apache-2.0
// Run by run, the pairs shared out among the threads.
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/swap_blocks/swap_blocks.h"

namespace kvproof::kernels {

Refusal swap_blocks_cpu(const SwapBlocksParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (p.block_bytes == 0) return {};
  for_each_share(context.num_threads, p.num_pairs, [&p](std::int64_t begin, std::int64_t end) {
    for_each_run(p.pairs + 2 * begin, end - begin, [&p](BlockRun run) {
      std::memcpy(static_cast<char*>(p.to) + run.to * p.block_bytes,
                  static_cast<const char*>(p.from) + run.from * p.block_bytes,
                  static_cast<std::size_t>(run.count * p.block_bytes));
    });
  });
  return {};
}

}  // namespace kvproof::kernels
