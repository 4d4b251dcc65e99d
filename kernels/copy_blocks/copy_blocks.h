// SPDX-License-Identifier: Apache-2.0
// Copies blocks within each of many caches, all layers at once: a copy-on-write asks for this.
//
// Model:   For each cache and pair, block `from` over block `to`, block_bytes each. No block is
//          written twice, and no pair reads a block that another pair writes.
// Pads:    a pair with an id below 0 on either side copies nothing.
// Source:  vLLM copy_blocks (PR 30967 names its contract).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/implementation.h"
#include "reference/layout.h"

namespace kvproof::kernels {

struct CopyBlocksParams {
  void* const* caches = nullptr;  // shape [num_caches]: K and V of every layer
  std::int32_t num_caches = 0;
  const std::int64_t* pairs = nullptr;  // shape [num_pairs, 2]: from, to
  std::int64_t num_pairs = 0;
  std::int64_t block_stride = 0;  // [bytes] from a block to the next; may exceed block_bytes
  std::int64_t block_bytes = 0;   // [bytes] that belong to a block of one cache
  std::int64_t alignment = 1;  // [bytes] every caches[i] is a multiple of it; the caller says so,
                               // because the addresses themselves may be on the device
};

/// Whether a pair of block ids stands for no copy.
[[nodiscard]] KVPROOF_HOST_DEVICE inline bool is_pad(const std::int64_t* pair) {
  return pair[0] < 0 || pair[1] < 0;
}

[[nodiscard]] Refusal refuse(const CopyBlocksParams& params);

Refusal copy_blocks_reference(const CopyBlocksParams& params, const Context& context);
Refusal copy_blocks_cpu(const CopyBlocksParams& params, const Context& context);
Refusal copy_blocks_stream(const CopyBlocksParams& params, const Context& context);
Refusal copy_blocks_cuda(const CopyBlocksParams& params, const Context& context);
Refusal copy_blocks_vector(const CopyBlocksParams& params, const Context& context);

/// Every implementation; the first is the reference.
[[nodiscard]] std::span<const Implementation<CopyBlocksParams>> copy_blocks();

}  // namespace kvproof::kernels
