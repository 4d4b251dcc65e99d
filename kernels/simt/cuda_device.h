// SPDX-License-Identifier: Apache-2.0
// cuda.h under nvcc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/implementation.h"

#define KVPROOF_SHARED(type, name, count) __shared__ type name[count]
#define KVPROOF_DYNAMIC_SHARED(type, name)                                 \
  extern __shared__ __align__(128) unsigned char kvproof_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(kvproof_dynamic_shared)

#define KVPROOF_UNROLL _Pragma("unroll")
#define KVPROOF_UNROLL_BY(count) _Pragma(KVPROOF_TEXT(unroll count))
#define KVPROOF_TEXT(...) #__VA_ARGS__
#define KVPROOF_ROLLED _Pragma("unroll 1")

#define KVPROOF_BARRIER() __syncthreads()
#define KVPROOF_WARP_BARRIER() __syncwarp()
#define KVPROOF_SHUFFLE(value, lane) __shfl_sync(0xFFFFFFFFu, value, lane)
#define KVPROOF_SHUFFLE_XOR(value, mask) __shfl_xor_sync(0xFFFFFFFFu, value, mask)
#define KVPROOF_BALLOT(predicate) __ballot_sync(0xFFFFFFFFu, predicate)

#define KVPROOF_LAUNCH(kernel, grid, block, shared_bytes, context, ...)                     \
  do {                                                                                      \
    const std::size_t kvproof_bytes = (shared_bytes);                                       \
    if (kvproof_bytes > (48u << 10)) {                                                      \
      if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,         \
                               static_cast<int>(kvproof_bytes)) != cudaSuccess)             \
        return ::kvproof::kernels::Refusal{cudaGetErrorString(cudaGetLastError())};         \
    }                                                                                       \
    kernel<<<grid, block, kvproof_bytes, static_cast<cudaStream_t>((context).stream)>>>(    \
        __VA_ARGS__);                                                                       \
    if (const cudaError_t kvproof_error = cudaGetLastError(); kvproof_error != cudaSuccess) \
      return ::kvproof::kernels::Refusal{cudaGetErrorString(kvproof_error)};                \
  } while (false)

namespace kvproof::kernels {

using Dim3 = dim3;

/// Copies between host and device memory in any direction, ordered on the stream.
inline Refusal copy_memory_async(void* to, const void* from, std::size_t bytes,
                                 const Context& context) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
                                            static_cast<cudaStream_t>(context.stream));
  return {error == cudaSuccess ? nullptr : cudaGetErrorString(error)};
}

template <class T>
__device__ inline T atomic_add(T* address, T value) {
  return atomicAdd(address, value);
}
template <class T>
__device__ inline T atomic_max(T* address, T value) {
  return atomicMax(address, value);
}

/// What this thread wrote before is seen by whoever sees what it writes behind.
__device__ inline void thread_fence() { __threadfence(); }

/// 2^x in one instruction; 0 where that is below 2^-126.
__device__ inline float exp2_flushed(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

/// Copies 16 bytes from global to shared memory, both aligned to 16, or writes 16 zero bytes there
/// and reads nothing. The bytes are there after the wait for its group.
__device__ inline void copy_async16(void* shared, const void* global, bool valid) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until all but the newest kNewest committed groups of this thread have landed.
template <int kNewest>
__device__ inline void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
}

}  // namespace kvproof::kernels
