// SPDX-License-Identifier: Apache-2.0
// The vocabulary that kernels are written in: CUDA's own under nvcc, the simt runtime elsewhere.
//
// Use:     __global__, __device__, threadIdx, blockIdx, blockDim, gridDim as in CUDA, and the names
//          below. Every thread of a warp takes part in a warp operation, every thread of a block in
//          a barrier: none returns early.
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

}  // namespace kvproof::kernels
