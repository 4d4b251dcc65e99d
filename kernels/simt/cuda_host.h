// SPDX-License-Identifier: Apache-2.0
// cuda.h without CUDA: the same names on fibers.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/implementation.h"
#include "kernels/simt/runtime.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define threadIdx (::kvproof::simt::current().thread_index)
#define blockIdx (::kvproof::simt::current().block_index)
#define blockDim (::kvproof::simt::current().block_dim)
#define gridDim (::kvproof::simt::current().grid_dim)

/// The last parameter of a function: where it is called.
#define KVPROOF_CALLER ::kvproof::simt::Place place = ::kvproof::simt::Place::here()
#define KVPROOF_PLACE (::kvproof::simt::Place{__FILE__, __LINE__})

/// Declares `name`, an array of `count` values that the block shares. @param count a constant
#define KVPROOF_SHARED(type, name, count)    \
  static const char name##_key = 0;          \
  auto& name = *static_cast<type(*)[count]>( \
      ::kvproof::simt::shared_memory(&name##_key, sizeof(type) * (count), alignof(type)))
/// The launch's dynamic shared memory, as an array of `type`, aligned to 128 bytes.
#define KVPROOF_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::kvproof::simt::dynamic_shared_memory())

/// Stands before a loop of constant length whose index picks registers.
#define KVPROOF_UNROLL
/// Stands before a loop of which `count` turns may be in flight together.
#define KVPROOF_UNROLL_BY(count)
/// Stands before a loop that must stay a loop, because unrolling it would cost registers.
#define KVPROOF_ROLLED

#define KVPROOF_BARRIER() ::kvproof::simt::block_barrier(KVPROOF_PLACE)
#define KVPROOF_WARP_BARRIER() ::kvproof::simt::warp_barrier(KVPROOF_PLACE)
#define KVPROOF_SHUFFLE(value, lane) ::kvproof::kernels::shuffle(value, lane, KVPROOF_PLACE)
#define KVPROOF_SHUFFLE_XOR(value, mask) \
  ::kvproof::kernels::shuffle(value, ::kvproof::simt::current().lane() ^ (mask), KVPROOF_PLACE)
#define KVPROOF_BALLOT(predicate) ::kvproof::kernels::ballot(predicate, KVPROOF_PLACE)

/// Launches on `context.stream` with `shared_bytes` of dynamic shared memory. Under CUDA the
/// function that contains it must return a Refusal, because a launch may fail.
#define KVPROOF_LAUNCH(kernel, grid, block, shared_bytes, context, ...) \
  (static_cast<void>(context),                                          \
   ::kvproof::simt::launch(grid, block, shared_bytes, [&] { kernel(__VA_ARGS__); }))

namespace kvproof::kernels {

using Dim3 = simt::Dim3;

/// Copies between host and device memory in any direction, ordered on the stream.
inline Refusal copy_memory_async(void* to, const void* from, std::size_t bytes, const Context&) {
  std::memcpy(to, from, bytes);
  return {};
}

template <class T>
inline T shuffle(T value, int lane, simt::Place place) {
  const auto cells = simt::warp_exchange(&value, sizeof(T), place);
  T out;
  std::memcpy(&out, cells[lane & 31], sizeof(T));
  return out;
}

inline std::uint32_t ballot(bool predicate, simt::Place place) {
  const auto cells = simt::warp_exchange(&predicate, 1, place);
  std::uint32_t out = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    out |= std::uint32_t{cells[lane][0] != std::byte{0}} << lane;
  }
  return out;
}

template <class T>
inline T atomic_add(T* address, T value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
template <class T>
inline T atomic_max(T* address, T value) {
  T seen = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (seen < value && !__atomic_compare_exchange_n(address, &seen, value, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
  }
  return seen;
}

/// What this thread wrote before is seen by whoever sees what it writes behind. Here blocks run one
/// after another: a missing fence between blocks shows only on a device.
inline void thread_fence() {}

/// 2^x in one instruction; 0 where that is below 2^-126.
inline float exp2_flushed(float x) {
  const float out = std::exp2(x);
  return out < 0x1p-126F ? 0.0F : out;
}

inline void perform(const simt::PendingCopy& copy) {
  if (copy.from != nullptr) {
    std::memcpy(copy.to, copy.from, copy.bytes);
  } else {
    std::memset(copy.to, 0, copy.bytes);
  }
}

/// Copies 16 bytes from global to shared memory, both aligned to 16, or writes 16 zero bytes there
/// and reads nothing. The bytes are there after the wait for its group.
inline void copy_async16(void* shared, const void* global, bool valid, KVPROOF_CALLER) {
  simt::Thread& self = simt::current();
  const void* const from = valid ? global : nullptr;
  simt::require_aligned(shared, 16, "copy_async16");
  simt::require_aligned(from, 16, "copy_async16");
  if (!self.copies_late) perform({shared, from, 16, place});
  if (self.copies_late || simt::watching) self.copies.push_back({shared, from, 16, place});
  if (simt::watching) simt::note_write(shared, true, false, place);
}
inline void copy_async_commit() {
  simt::Thread& self = simt::current();
  self.copy_groups.push_back(std::move(self.copies));
  self.copies.clear();
}
/// Waits until all but the newest kNewest committed groups of this thread have landed.
template <int kNewest>
inline void copy_async_wait() {
  simt::Thread& self = simt::current();
  while (self.copy_groups.size() > static_cast<std::size_t>(kNewest)) {
    for (const auto& copy : self.copy_groups.front()) {
      if (self.copies_late) perform(copy);
      if (simt::watching) simt::note_write(copy.to, false, true, copy.place);
    }
    self.copy_groups.erase(self.copy_groups.begin());
  }
}

}  // namespace kvproof::kernels
