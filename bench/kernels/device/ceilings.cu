// SPDX-License-Identifier: Apache-2.0
// What the device's memory and matrix unit can do, its clocks, and the values that benchmarks read:
// device.h.
#include <chrono>

#include "bench/kernels/device/device.h"
#include "kernels/simt/cuda.h"
#include "kernels/simt/warp_matrix.h"
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
    KVPROOF_UNROLL
    for (int n = 0; n < kAtOnce; ++n) {
      if (i + n * step < count) part[n] = from[i + n * step];
    }
    KVPROOF_UNROLL
    for (int n = 0; n < kAtOnce; ++n) {
      seen ^= part[n].words[0] ^ part[n].words[1] ^ part[n].words[2] ^ part[n].words[3];
    }
  }
  if (seen == 0x9E3779B9u) kernels::atomic_add(sink, 1u);  // so that the loads are not thrown away
}

__global__ void __launch_bounds__(kThreads, kBlocksEach)
    copy_kernel(kernels::Bytes16* to, const kernels::Bytes16* from, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += kAtOnce * step) {
    kernels::Bytes16 part[kAtOnce] = {};
    KVPROOF_UNROLL
    for (int n = 0; n < kAtOnce; ++n) {
      if (i + n * step < count) part[n] = from[i + n * step];
    }
    KVPROOF_UNROLL
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
  if (threadIdx.x != 0) return;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += double{kernels::load_element(from, i, type)};
  *out = sum;
}

/// The device's clock ticks in steps of 32 ns to 1 us, so that a clock over 20 us is known to 5 %.
__global__ void clock_kernel(std::uint64_t* to, unsigned num_processors) {
  unsigned processor = blockIdx.x;
  std::uint64_t cycles = 0, ns = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("mov.u32 %0, %%smid;" : "=r"(processor));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles));
#elif !defined(__CUDACC__)
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  cycles = ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
#endif
  if (threadIdx.x != 0 || processor >= num_processors) return;
  to[2 * processor] = cycles;
  to[2 * processor + 1] = ns;
}

constexpr int kWarpProduct = 16 * 8 * 16;  // multiply-adds of one instruction of a warp

/// Adds the same products again and again, from registers alone. Each of the kMultiplyChains sums
/// of a warp waits for itself only. @param operands words of two bf16, shape [words][32 lanes]
__global__ void __launch_bounds__(kMultiplyThreads, kMultiplyBlocks)
    multiply_kernel(const std::uint32_t* operands, float* sums, std::int64_t rounds) {
  const unsigned lane = threadIdx.x % 32;
  std::uint32_t a[4], b[kMultiplyChains][2];
  float c[kMultiplyChains][4] = {};
  KVPROOF_UNROLL
  for (unsigned i = 0; i < 4; ++i) a[i] = operands[32 * i + lane];
  KVPROOF_UNROLL
  for (unsigned n = 0; n < kMultiplyChains; ++n) {
    b[n][0] = operands[32 * (4 + 2 * n) + lane];
    b[n][1] = operands[32 * (5 + 2 * n) + lane];
  }
  KVPROOF_ROLLED
  for (std::int64_t round = 0; round < rounds; ++round) {
    KVPROOF_UNROLL
    for (unsigned n = 0; n < kMultiplyChains; ++n) {
      kernels::multiply_add<kernels::Bf16>(c[n], a, b[n]);
    }
  }
  float sum = 0;
  KVPROOF_UNROLL
  for (const auto& part : c) sum += part[0] + part[1] + part[2] + part[3];
  sums[blockIdx.x * kMultiplyThreads + threadIdx.x] = sum;
}

/// Starts a kernel on the default stream, in one dimension.
template <class Kernel, class... Arguments>
void start(const char* name, Kernel kernel, unsigned blocks, unsigned threads,
           Arguments... arguments) {
  const auto launch = [&]() -> kernels::Refusal {
    KVPROOF_LAUNCH(kernel, (kernels::Dim3{blocks, 1, 1}), (kernels::Dim3{threads, 1, 1}), 0,
                   kernels::Context{}, arguments...);
    return {};
  };
  if (const kernels::Refusal refusal = launch()) {
    throw DeviceError(std::string(name) + ": " + refusal.reason);
  }
}

unsigned blocks_for(std::int64_t count, int num_processors) {
  const std::int64_t needed = (count + kThreads - 1) / kThreads;
  const std::int64_t most = std::int64_t{num_processors} * kBlocksEach;
  return static_cast<unsigned>(needed < 1 ? 1 : needed < most ? needed : most);
}

}  // namespace

void read_all(const void* from, std::size_t bytes, std::uint32_t* sink, int num_processors) {
  const auto count = static_cast<std::int64_t>(bytes / 16);
  start("read_kernel", &read_kernel, blocks_for(count, num_processors), kThreads,
        static_cast<const kernels::Bytes16*>(from), count, sink);
}

void stamp_clocks(std::uint64_t* to, int num_processors) {
  const auto count = static_cast<unsigned>(num_processors);
  start("clock_kernel", &clock_kernel, count, 32, to, count);
}

void copy_all(void* to, const void* from, std::size_t bytes, int num_processors) {
  const auto count = static_cast<std::int64_t>(bytes / 16);
  start("copy_kernel", &copy_kernel, blocks_for(count, num_processors), kThreads,
        static_cast<kernels::Bytes16*>(to), static_cast<const kernels::Bytes16*>(from), count);
}

std::int64_t multiply_all(const void* operands, float* sums, std::int64_t count,
                          int num_processors) {
  const std::int64_t each_round =
      multiply_threads(num_processors) / 32 * kMultiplyChains * kWarpProduct;
  const std::int64_t rounds = (count + each_round - 1) / each_round;
  start("multiply_kernel", &multiply_kernel,
        static_cast<unsigned>(num_processors) * kMultiplyBlocks, kMultiplyThreads,
        static_cast<const std::uint32_t*>(operands), sums, rounds);
  return rounds * each_round;
}

void fill(void* to, std::int64_t count, kernels::ElementType type, std::uint64_t seed) {
  if (count == 0) return;
  start("fill_kernel", &fill_kernel, blocks_for(count, 132), kThreads, to, count, type, seed);
}

double sum_of(const void* from, std::int64_t count, kernels::ElementType type) {
  const DeviceMemory out(sizeof(double));
  start("sum_kernel", &sum_kernel, 1, 32, from, count, type, out.as<double>());
  double sum = 0;
  expect(cudaMemcpy(&sum, out.as<double>(), sizeof(sum), cudaMemcpyDeviceToHost), "sum_kernel");
  return sum;
}

}  // namespace kvproof::bench
