// SPDX-License-Identifier: Apache-2.0
// The part of CUDA's runtime that the benchmark calls. Without CUDA the CPU stands in, so that the
// cases run on fibers (kernels/simt) and a test sees whether they hand the kernels what they mean.
#pragma once

#if defined(__CUDACC__) || defined(KVPROOF_CUDA)
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#else
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>

using cudaError_t = int;
using cudaEvent_t = std::chrono::steady_clock::time_point*;
inline constexpr cudaError_t cudaSuccess = 0;
inline constexpr cudaError_t cudaErrorMemoryAllocation = 2;
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr { cudaDevAttrL2CacheSize, cudaDevAttrMultiProcessorCount };

inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "out of memory";
}
inline cudaError_t cudaMalloc(void** to, std::size_t bytes) {
  *to = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *to == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
inline cudaError_t cudaFree(void* at) {
  std::free(at);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  std::memset(at, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrL2CacheSize ? 1 << 20 : 1;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaProfilerStart() { return cudaSuccess; }
inline cudaError_t cudaProfilerStop() { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new std::chrono::steady_clock::time_point();
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event) {
  *event = std::chrono::steady_clock::now();
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  *milliseconds = std::chrono::duration<float, std::milli>(*stop - *start).count();
  return cudaSuccess;
}
#endif
