// SPDX-License-Identifier: Apache-2.0
// For the checks of kernels: a seeded stream of numbers to draw from, and memory of exactly the
// bytes asked for, so that AddressSanitizer (host) or memcheck (device) sees an access past them.
//
// Findings: a check returns a Finding (reference/support/say.h): nothing, or one sentence. It knows
//           no test framework: the same source runs plain, with faults, sanitized, on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reference/mix64.h"
#include "reference/support/say.h"

#if defined(KVPROOF_CUDA)
#include <cuda_runtime_api.h>
#else
#include <sys/mman.h>

#include "kernels/simt/runtime.h"
#endif

namespace kvproof::properties {

/// A seeded stream of numbers.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() { return next_mix64(state_); }
  /// [low, high]
  std::int32_t between(std::int32_t low, std::int32_t high) {
    return low + static_cast<std::int32_t>(next() % (static_cast<std::uint64_t>(high - low) + 1));
  }
  bool one_in(std::int32_t n) { return between(1, n) == 1; }
  /// [-1, 1)
  float unit() { return static_cast<float>(next() >> 40) * 0x1p-23F - 1.0F; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[next() % values.size()];
  }

 private:
  std::uint64_t state_;
};

/// Bytes that host and device see, aligned to 64, not initialised.
class Memory {
 public:
  explicit Memory(std::size_t bytes = 0) : bytes_(bytes) {
#if defined(KVPROOF_CUDA)
    std::size_t free = 0, total = 0;  // more managed memory than is free can hang the device
    void* at = nullptr;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess || bytes >= free ||
        cudaMallocManaged(&at, bytes + (bytes == 0)) != cudaSuccess) {
      throw std::bad_alloc();
    }
    at_ = static_cast<std::byte*>(at);
#else
    void* at = nullptr;
    if (posix_memalign(&at, 64, bytes) != 0) throw std::bad_alloc();
    at_ = static_cast<std::byte*>(at);
#endif
  }
  /// Address space far larger than the memory: it reads as zeros, and only written pages take room.
  [[nodiscard]] static Memory sparse(std::size_t bytes) {
#if defined(KVPROOF_CUDA)
    return Memory(bytes);  // managed memory takes room only where it is touched
#else
    Memory out;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    std::free(out.at_);
    out.at_ = static_cast<std::byte*>(at);
    out.bytes_ = bytes;
    out.mapped_ = true;
    return out;
#endif
  }
  ~Memory() {
#if defined(KVPROOF_CUDA)
    static_cast<void>(cudaFree(at_));
#else
    if (mapped_) {
      munmap(at_, bytes_);
    } else {
      std::free(at_);
    }
#endif
  }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }

  [[nodiscard]] std::byte* data() const { return at_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(at_);
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {at_, bytes_}; }
  [[nodiscard]] std::vector<std::byte> copy() const { return {at_, at_ + bytes_}; }
  void set(std::span<const std::byte> from) const {
    if (!from.empty()) std::memcpy(at_, from.data(), from.size());
  }

 private:
  std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
  bool mapped_ = false;
};

/// The values of a vector in memory of their own.
template <class T>
[[nodiscard]] Memory memory_of(const std::vector<T>& values) {
  Memory out(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

/// Where two equally long ranges differ first, or their length.
[[nodiscard]] inline std::size_t first_difference(std::span<const std::byte> a,
                                                  std::span<const std::byte> b) {
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return a.size();
  std::size_t i = 0;
  while (a[i] == b[i]) ++i;
  return i;
}

/// Sets the order in which the executor runs threads and blocks and lands copies from here on.
inline void draw_schedule([[maybe_unused]] std::uint64_t seed) {
#if !defined(KVPROOF_CUDA)
  simt::set_schedule({seed});
#endif
}

/// Waits for what was launched. @return what went wrong on the device, empty on a host
[[nodiscard]] inline std::string wait_for_device() {
#if defined(KVPROOF_CUDA)
  const cudaError_t error = cudaDeviceSynchronize();
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
#else
  return {};
#endif
}

}  // namespace kvproof::properties
