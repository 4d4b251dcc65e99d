// SPDX-License-Identifier: Apache-2.0
// What the device's memory can do, and the values that benchmarks read: see device.h.
#include "bench/kernels/device/device.h"
#include "kernels/simt/cuda.h"
#include "kernels/typed.h"
#include "reference/mix64.h"

namespace kvproof::bench {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kBlocksEach = 4;  // per processor: all 2,048 threads
constexpr int kAtOnce = 4;           // 16-byte loads in flight per thread

__global__ void __launch_bounds__(kThreads, kBlocksEach)
    read_kernel(const kernels::Bytes16* from, std::int64_t count, std::uint32_t* sink) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  std::uint32_t seen = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += kAtOnce * step) {
    kernels::Bytes16 part[kAtOnce] = {};
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      if (i + n * step < count) part[n] = from[i + n * step];
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      seen ^= part[n].words[0] ^ part[n].words[1] ^ part[n].words[2] ^ part[n].words[3];
    }
  }
  if (seen == 0x9E3779B9u) atomicAdd(sink, 1u);  // so that the loads are not thrown away
}

__global__ void __launch_bounds__(kThreads, kBlocksEach)
    copy_kernel(kernels::Bytes16* to, const kernels::Bytes16* from, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += kAtOnce * step) {
    kernels::Bytes16 part[kAtOnce] = {};
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      if (i + n * step < count) part[n] = from[i + n * step];
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      if (i + n * step < count) to[i + n * step] = part[n];
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    fill_kernel(void* to, std::int64_t count, kernels::ElementType type, std::uint64_t seed) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const std::uint64_t mixed = mix64(seed + static_cast<std::uint64_t>(i) * kMixStep);
    const float value = static_cast<float>(mixed >> 40) * 0x1p-23F - 1.0F;
    kernels::store_element(to, i, type, value);
  }
}

__global__ void sum_kernel(const void* from, std::int64_t count, kernels::ElementType type,
                           double* out) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += double{kernels::load_element(from, i, type)};
  *out = sum;
}

unsigned blocks_for(std::int64_t count, int num_processors) {
  const std::int64_t needed = (count + kThreads - 1) / kThreads;
  const std::int64_t most = std::int64_t{num_processors} * kBlocksEach;
  return static_cast<unsigned>(needed < 1 ? 1 : needed < most ? needed : most);
}

}  // namespace

void read_all(const void* from, std::size_t bytes, std::uint32_t* sink, int num_processors) {
  const auto count = static_cast<std::int64_t>(bytes / 16);
  read_kernel<<<blocks_for(count, num_processors), kThreads>>>(
      static_cast<const kernels::Bytes16*>(from), count, sink);
  expect(cudaGetLastError(), "read_kernel");
}

void copy_all(void* to, const void* from, std::size_t bytes, int num_processors) {
  const auto count = static_cast<std::int64_t>(bytes / 16);
  copy_kernel<<<blocks_for(count, num_processors), kThreads>>>(
      static_cast<kernels::Bytes16*>(to), static_cast<const kernels::Bytes16*>(from), count);
  expect(cudaGetLastError(), "copy_kernel");
}

void fill(void* to, std::int64_t count, kernels::ElementType type, std::uint64_t seed) {
  if (count == 0) return;
  fill_kernel<<<blocks_for(count, 132), kThreads>>>(to, count, type, seed);
  expect(cudaGetLastError(), "fill_kernel");
}

double sum_of(const void* from, std::int64_t count, kernels::ElementType type) {
  const DeviceMemory out(sizeof(double));
  sum_kernel<<<1, 1>>>(from, count, type, out.as<double>());
  double sum = 0;
  expect(cudaMemcpy(&sum, out.as<double>(), sizeof(sum), cudaMemcpyDeviceToHost), "sum_kernel");
  return sum;
}

}  // namespace kvproof::bench
