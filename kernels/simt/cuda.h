// SPDX-License-Identifier: Apache-2.0
// The vocabulary that kernels are written in: CUDA's own under nvcc, the simt runtime elsewhere.
//
// Use:     __global__, __device__, threadIdx, blockIdx, blockDim, gridDim as in CUDA, and the names
//          below. Every thread of a warp takes part in a warp operation, and every thread of a
//          block in a barrier, so no thread returns early.
// Source:  PTX ISA 8.5: cp.async, ldmatrix, mma.m16n8k16.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include "kernels/simt/cuda_device.h"
#else
#include "kernels/simt/cuda_host.h"
#endif

namespace kvproof::kernels {

/// 16 bytes that move in one instruction.
struct alignas(16) Bytes16 {
  std::uint32_t words[4];
};

#if defined(__CUDACC__)
/// One such move; the address is a multiple of 16.
__device__ inline Bytes16 load16(const void* from) {
  Bytes16 out;
  const uint4 words = *static_cast<const uint4*>(from);
  memcpy(&out, &words, 16);
  return out;
}
__device__ inline void store16(void* to, const Bytes16& bytes) {
  *static_cast<uint4*>(to) =
      make_uint4(bytes.words[0], bytes.words[1], bytes.words[2], bytes.words[3]);
}
#else
// Inlined always: else g++ 12 loses track of what callers initialise.
__attribute__((always_inline)) inline Bytes16 load16(const void* from, KVPROOF_CALLER) {
  simt::about_to_read16(from, "load16", place);
  Bytes16 out;
  std::memcpy(&out, from, 16);
  return out;
}
__attribute__((always_inline)) inline void store16(void* to, const Bytes16& bytes, KVPROOF_CALLER) {
  simt::about_to_write16(to, "store16", place);
  std::memcpy(to, &bytes, 16);
}
#endif

}  // namespace kvproof::kernels
