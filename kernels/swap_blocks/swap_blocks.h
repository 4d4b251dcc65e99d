// SPDX-License-Identifier: Apache-2.0
// Copies blocks between host and device memory, neighbours together.
//
// Model:   For each pair, block `from` of the source over block `to` of the destination. Pairs
//          whose blocks follow one another on both sides become one transfer. No block of the
//          destination is written twice.
// Pads:    none: the pairs are on the host, so a pair with an id below 0 is refused.
// Source:  vLLM v1 swap_blocks.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/implementation.h"

namespace kvproof::kernels {

struct SwapBlocksParams {
  const void* from = nullptr;           // host or device
  void* to = nullptr;                   // another buffer, host or device
  const std::int64_t* pairs = nullptr;  // on the host; shape [num_pairs, 2]: from, to
  std::int64_t num_pairs = 0;
  std::int64_t block_bytes = 0;  // [bytes]; blocks are dense on both sides
  std::int64_t from_blocks = 0;  // [blocks] in each buffer: a pair beyond is refused
  std::int64_t to_blocks = 0;
};

/// One transfer of whole neighbouring blocks.
struct BlockRun {
  std::int64_t from;   // [blocks]
  std::int64_t to;     // [blocks]
  std::int64_t count;  // [blocks]
};

/// Calls f(run) for the fewest transfers that keep the order of the pairs. @param pairs shape
/// [num_pairs, 2]
template <class F>
void for_each_run(const std::int64_t* pairs, std::int64_t num_pairs, F&& f) {
  for (std::int64_t first = 0; first < num_pairs;) {
    BlockRun run{pairs[2 * first], pairs[2 * first + 1], 1};
    for (++first; first < num_pairs && pairs[2 * first] == run.from + run.count &&
                  pairs[2 * first + 1] == run.to + run.count;
         ++first) {
      ++run.count;
    }
    f(run);
  }
}

[[nodiscard]] Refusal refuse(const SwapBlocksParams& params);

Refusal swap_blocks_reference(const SwapBlocksParams& params, const Context& context);
Refusal swap_blocks_cpu(const SwapBlocksParams& params, const Context& context);
Refusal swap_blocks_stream(const SwapBlocksParams& params, const Context& context);
Refusal swap_blocks_cuda(const SwapBlocksParams& params, const Context& context);

/// Every implementation; the first is the reference.
[[nodiscard]] std::span<const Implementation<SwapBlocksParams>> swap_blocks();

}  // namespace kvproof::kernels
