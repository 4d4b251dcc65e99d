// SPDX-License-Identifier: Apache-2.0
// Block by block, the (cache, pair) products shared out among the threads.
#include <cstring>

#include "kernels/copy_blocks/copy_blocks.h"
#include "kernels/parallel.h"
#include "kernels/stream_bytes.h"

namespace kvproof::kernels {
namespace {

/// The source and the destination of product `i` of caches and pairs; null for a pad.
struct Ends {
  const char* from = nullptr;
  char* to = nullptr;
};
Ends ends_of(const CopyBlocksParams& p, std::int64_t i) {
  auto* const cache = static_cast<char*>(p.caches[i / p.num_pairs]);
  const std::int64_t* pair = p.pairs + 2 * (i % p.num_pairs);
  if (is_pad(pair)) return {};
  return {cache + pair[0] * p.block_stride, cache + pair[1] * p.block_stride};
}

}  // namespace

Refusal copy_blocks_cpu(const CopyBlocksParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (p.block_bytes == 0) return {};
  const auto copy = [&p](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Ends ends = ends_of(p, i);
      if (ends.to == nullptr) continue;
      std::memmove(ends.to, ends.from, static_cast<std::size_t>(p.block_bytes));
    }
  };
  for_each_share(context.num_threads, p.num_caches * p.num_pairs, copy);
  return {};
}

Refusal copy_blocks_stream(const CopyBlocksParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (kNoStreaming) return kNoStreaming;
  if (p.block_bytes == 0) return {};
  const auto copy = [&p](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Ends ends = ends_of(p, i);
      if (ends.to == nullptr) continue;
      stream_bytes(ends.to, ends.from, p.block_bytes,
                   i + 1 < end ? ends_of(p, i + 1).from : nullptr);
    }
    end_stream();
  };
  for_each_share(context.num_threads, p.num_caches * p.num_pairs, copy);
  return {};
}

}  // namespace kvproof::kernels
