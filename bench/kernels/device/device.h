// SPDX-License-Identifier: Apache-2.0
// A CUDA device as a benchmark sees it: memory of its own, ceilings, and times by its own clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/device/runtime.h"
#include "kernels/element.h"

namespace kvproof::bench {

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws a DeviceError that names the failed call.
inline void expect(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw DeviceError(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

/// Plain device memory.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    expect(cudaMalloc(&at_, bytes == 0 ? 1 : bytes), "cudaMalloc");
  }
  /// A copy of `values`.
  template <class T>
  explicit DeviceMemory(const std::vector<T>& values) : DeviceMemory(values.size() * sizeof(T)) {
    expect(cudaMemcpy(at_, values.data(), bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceMemory() { static_cast<void>(cudaFree(at_)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(at_);
  }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  void* at_ = nullptr;
  std::size_t bytes_;
};

// ceilings.cu. All launch on the default stream and do not wait.

/// Reads every byte, 16 at a time. @param bytes a multiple of 16 @param sink 4 bytes on the device
void read_all(const void* from, std::size_t bytes, std::uint32_t* sink, int num_processors);
/// Copies every byte, 16 at a time.
void copy_all(void* to, const void* from, std::size_t bytes, int num_processors);

inline constexpr unsigned kMultiplyThreads = 256;
inline constexpr unsigned kMultiplyBlocks = 2;  // per processor: 16 warps
inline constexpr unsigned kMultiplyChains = 8;  // sums of a warp
/// Elements of bf16 that a product's operands take: 4 words of A and 2 of each B, 32 lanes.
inline constexpr std::int64_t kMultiplyOperands = 2 * 32 * (4 + 2 * kMultiplyChains);
[[nodiscard]] inline std::int64_t multiply_threads(int num_processors) {
  return std::int64_t{num_processors} * kMultiplyBlocks * kMultiplyThreads;
}
/// Multiply-adds of bf16 with the instruction of `cuda/mma`, from registers alone.
/// @param operands kMultiplyOperands elements @param sums one per multiply_threads()
/// @param count the least that are done @return how many are done
std::int64_t multiply_all(const void* operands, float* sums, std::int64_t count,
                          int num_processors);

/// Uniform values in [-1, 1), a function of seed and index.
void fill(void* to, std::int64_t count, kernels::ElementType type, std::uint64_t seed);
/// What the processors' clocks and the device's say: shape [num_processors][cycles, ns]. Those that
/// run no block stay as they are.
void stamp_clocks(std::uint64_t* to, int num_processors);
/// Sum of the elements, by one thread after the other: for a checksum of a few rows.
[[nodiscard]] double sum_of(const void* from, std::int64_t count, kernels::ElementType type);

/// [us] over the rounds
struct Times {
  double median = 0;
  double least = 0;
  double most = 0;
  double cycles = 0;  // median, at the clock that each launch had
};

/// A run for a profiler: so many launches of one kernel of a case, and no times.
struct Probe {
  std::string_view row;  // empty: the first that the case has
  int launches = 1;
};

enum class Cache : std::uint8_t { cold, hot };

/// Times launches in turn, A B A B, so that a change of clocks affects all of them.
class Stopwatch {
 public:
  explicit Stopwatch(int num_processors);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// Cold: L2 holds other, unmodified bytes before every launch. Hot: launches back to back.
  [[nodiscard]] std::vector<Times> time(std::span<const std::function<void()>> launches,
                                        Cache cache, int rounds);
  /// Launches behind other bytes in L2, the only part that a profiler is told to look at.
  void probe(const Probe& probe, std::string_view row, const std::function<void()>& launch);

 private:
  struct Taken {
    double us = 0, cycles = 0;
  };
  [[nodiscard]] Taken once(const std::function<void()>& launch, Cache cache);
  [[nodiscard]] double cycles_per_us() const;

  int num_processors_;
  DeviceMemory flush_, sink_, stamps_;  // before and after a launch
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

}  // namespace kvproof::bench
