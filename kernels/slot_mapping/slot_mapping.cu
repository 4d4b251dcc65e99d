// SPDX-License-Identifier: Apache-2.0
// One thread per slot.
#include <cstdint>

#include "kernels/simt/cuda.h"
#include "kernels/slot_mapping/slot_mapping.h"

namespace kvproof::kernels {
namespace {

constexpr int kThreads = 256;

__device__ inline SlotId slot_of_token(const SlotMappingParams& p, std::int64_t token) {
  std::int32_t low = 0, high = p.num_seqs;  // query_starts[low] <= token < query_starts[high]
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    (p.query_starts[middle] <= token ? low : high) = middle;
  }
  const std::int64_t position = p.positions[token];
  if (position < 0) return kPadSlotId;
  const std::int32_t size = p.block_size;
  const std::int64_t column = position / size;
  if (column >= p.table_width) return kPadSlotId;
  const SlotId block = p.block_tables[low * p.table_stride + column];
  if (block < 0) return kPadSlotId;
  return block * size + position % size;
}

__global__ void __launch_bounds__(kThreads) slot_mapping_kernel(const SlotMappingParams p) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < p.num_tokens) {
    p.slots[i] = slot_of_token(p, i);
  } else if (i < p.num_slots) {
    p.slots[i] = kPadSlotId;
  }
}

}  // namespace

Refusal slot_mapping_cuda(const SlotMappingParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  const std::int64_t blocks = (p.num_slots + kThreads - 1) / kThreads;
  if (blocks == 0) return {};
  if (blocks > 0x7FFFFFFF) return {"num_slots: a CUDA grid has no room for 2^31 blocks"};
  KVPROOF_LAUNCH(slot_mapping_kernel, (Dim3{static_cast<unsigned>(blocks), 1, 1}),
                 (Dim3{kThreads, 1, 1}), 0, context, p);
  return {};
}

}  // namespace kvproof::kernels
