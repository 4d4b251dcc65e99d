// SPDX-License-Identifier: Apache-2.0
// One block per (pair, cache, part of a block): byte by byte, or 16 bytes at a time.
#include <cstdint>

#include "kernels/copy_blocks/copy_blocks.h"
#include "kernels/simt/cuda.h"

namespace kvproof::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kMoves = 4;  // a thread has so many moves under way
constexpr std::int64_t kPartBytes = std::int64_t{kThreads} * kMoves * 16;

/// Where this thread block reads and writes, and how many bytes of the block follow.
struct Part {
  const char* from;
  char* to;
  std::int64_t bytes;
};

__device__ inline Part part_of(const CopyBlocksParams& p, std::int64_t part) {
  const std::int64_t* pair = p.pairs + std::int64_t{blockIdx.x} * 2;
  auto* const cache = static_cast<char*>(p.caches[blockIdx.y]);
  const std::int64_t begin = part * kPartBytes;
  const std::int64_t left = p.block_bytes - begin;
  return {cache + (pair[0] * p.block_stride + begin), cache + (pair[1] * p.block_stride + begin),
          left < kPartBytes ? left : kPartBytes};
}

/// Whether this thread block's pair is a pad.
__device__ inline bool is_skipped(const CopyBlocksParams& p) {
  const std::int64_t* pair = p.pairs + std::int64_t{blockIdx.x} * 2;
  return is_pad(pair);
}

__device__ inline std::int64_t parts_of(const CopyBlocksParams& p) {
  return (p.block_bytes + kPartBytes - 1) / kPartBytes;
}

__global__ void __launch_bounds__(kThreads) copy_blocks_kernel(const CopyBlocksParams p) {
  if (is_skipped(p)) return;
  const std::int64_t parts = parts_of(p);
  for (std::int64_t n = blockIdx.z; n < parts; n += gridDim.z) {
    const Part part = part_of(p, n);
    for (std::int64_t i = threadIdx.x; i < part.bytes; i += kThreads) part.to[i] = part.from[i];
  }
}

__global__ void __launch_bounds__(kThreads) copy_blocks_vector_kernel(const CopyBlocksParams p) {
  if (is_skipped(p)) return;
  const std::int64_t parts = parts_of(p);
  for (std::int64_t n = blockIdx.z; n < parts; n += gridDim.z) {
    const Part part = part_of(p, n);
    Bytes16 moved[kMoves];
    for (int i = 0; i < kMoves; ++i) {
      const std::int64_t offset = (std::int64_t{i} * kThreads + threadIdx.x) * 16;
      if (offset < part.bytes) moved[i] = load16(part.from + offset);
    }
    for (int i = 0; i < kMoves; ++i) {
      const std::int64_t offset = (std::int64_t{i} * kThreads + threadIdx.x) * 16;
      if (offset < part.bytes) store16(part.to + offset, moved[i]);
    }
  }
}

Refusal refuse_launch(const CopyBlocksParams& p) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (p.num_pairs > 0x7FFFFFFF) return {"num_pairs: a CUDA grid has no room for 2^31"};
  if (p.num_caches > 65535) return {"num_caches: a CUDA grid has no room for more than 65,535"};
  return {};
}

bool nothing_to_do(const CopyBlocksParams& p) {
  return p.num_pairs == 0 || p.num_caches == 0 || p.block_bytes == 0;
}

Dim3 grid_of(const CopyBlocksParams& p) {
  const std::int64_t parts = (p.block_bytes + kPartBytes - 1) / kPartBytes;
  return Dim3{static_cast<unsigned>(p.num_pairs), static_cast<unsigned>(p.num_caches),
              static_cast<unsigned>(parts < 65535 ? parts : 65535)};
}

}  // namespace

Refusal copy_blocks_cuda(const CopyBlocksParams& p, const Context& context) {
  if (const Refusal refusal = refuse_launch(p)) return refusal;
  if (nothing_to_do(p)) return {};
  KVPROOF_LAUNCH(copy_blocks_kernel, grid_of(p), (Dim3{kThreads, 1, 1}), 0, context, p);
  return {};
}

Refusal copy_blocks_vector(const CopyBlocksParams& p, const Context& context) {
  if (const Refusal refusal = refuse_launch(p)) return refusal;
  if (nothing_to_do(p)) return {};
  if (p.alignment % 16 != 0) return {"alignment: the caches are not aligned to 16 bytes"};
  if (p.block_bytes % 16 != 0 || p.block_stride % 16 != 0) {
    return {"block_bytes, block_stride: no multiples of 16 bytes"};
  }
  KVPROOF_LAUNCH(copy_blocks_vector_kernel, grid_of(p), (Dim3{kThreads, 1, 1}), 0, context, p);
  return {};
}

}  // namespace kvproof::kernels
