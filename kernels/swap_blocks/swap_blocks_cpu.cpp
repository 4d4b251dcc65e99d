// SPDX-License-Identifier: Apache-2.0
// Run by run, the pairs shared out among the threads.
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/stream_bytes.h"
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

Refusal swap_blocks_stream(const SwapBlocksParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (kNoStreaming) return kNoStreaming;
  if (p.block_bytes == 0) return {};
  for_each_share(context.num_threads, p.num_pairs, [&p](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto* from = static_cast<const char*>(p.from);
      const std::int64_t* pair = p.pairs + 2 * i;
      stream_bytes(static_cast<char*>(p.to) + pair[1] * p.block_bytes,
                   from + pair[0] * p.block_bytes, p.block_bytes,
                   i + 1 < end ? from + pair[2] * p.block_bytes : nullptr);
    }
    end_stream();
  });
  return {};
}

}  // namespace kvproof::kernels
