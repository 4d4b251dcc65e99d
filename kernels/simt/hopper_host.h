// SPDX-License-Identifier: Apache-2.0
// hopper.h without CUDA: the same names on the simulated machine, which checks their use.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/simt/async.h"
#include "kernels/simt/cuda.h"
#include "kernels/simt/hopper_types.h"
#include "kernels/simt/matrix_layout.h"

#define KVPROOF_GRID_CONSTANT

namespace kvproof::kernels {

inline bool device_has_hopper() { return true; }
inline int multiprocessors() { return simt::multiprocessors(); }
inline Refusal encode_tensor_map(const TensorShape& shape, TensorMap& out) {
  return simt::encode(shape, out);
}

inline SharedAddress shared_address(const void* shared, KVPROOF_CALLER) {
  return simt::address_of(shared, place);
}

inline void barrier_init(SharedAddress barrier, int arrivals, KVPROOF_CALLER) {
  simt::barrier_init(barrier, arrivals, place);
}
inline void fence_barrier_init(KVPROOF_CALLER) { simt::fence_barrier_init(place); }
inline void barrier_arrive(SharedAddress barrier, KVPROOF_CALLER) {
  simt::barrier_arrive(barrier, 0, place);
}
inline void barrier_expect(SharedAddress barrier, int bytes, KVPROOF_CALLER) {
  simt::barrier_arrive(barrier, bytes, place);
}
inline void barrier_wait(SharedAddress barrier, int parity, KVPROOF_CALLER) {
  simt::barrier_wait(barrier, parity, place);
}
inline bool barrier_ended(SharedAddress barrier, int parity, KVPROOF_CALLER) {
  return simt::barrier_ended(barrier, parity, place);
}
inline void named_sync(int id, int threads, KVPROOF_CALLER) {
  simt::named_barrier(id, threads, true, place);
}
inline void named_arrive(int id, int threads, KVPROOF_CALLER) {
  simt::named_barrier(id, threads, false, place);
}

inline void tensor_prefetch(const TensorMap&) {}
inline void fence_async(KVPROOF_CALLER) { simt::fence_async(place); }
template <int kRank>
inline void tensor_load(SharedAddress to, const TensorMap& map, const std::int32_t (&at)[kRank],
                        SharedAddress barrier, KVPROOF_CALLER) {
  static_assert(kRank == 4 || kRank == 5);
  simt::tensor_load(to, map, at, barrier, place);
}
inline void tensor_store(const TensorMap& map, const std::int32_t (&at)[4], SharedAddress from,
                         KVPROOF_CALLER) {
  simt::tensor_store(map, at, from, place);
}
inline void bulk_commit(KVPROOF_CALLER) { simt::bulk_commit(place); }
template <int kNewest>
inline void bulk_wait_read(KVPROOF_CALLER) {
  simt::bulk_wait(kNewest, false, place);
}
template <int kNewest>
inline void bulk_wait(KVPROOF_CALLER) {
  simt::bulk_wait(kNewest, true, place);
}

template <int kRegisters>
inline void registers_down(KVPROOF_CALLER) {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
  simt::set_registers(kRegisters, false, place);
}
template <int kRegisters>
inline void registers_up(KVPROOF_CALLER) {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
  simt::set_registers(kRegisters, true, place);
}

inline void store_tiles(void* row, const std::uint32_t (&tiles)[4], KVPROOF_CALLER) {
  simt::store_tiles(row, tiles, place);
}

inline void matrix_fence(KVPROOF_CALLER) { simt::matrix_fence(place); }
inline void matrix_commit(KVPROOF_CALLER) { simt::matrix_commit(place); }
template <int kNewest>
inline void matrix_wait(KVPROOF_CALLER) {
  simt::matrix_wait(kNewest, place);
}
template <int kCount>
inline void matrix_hold(float (&)[kCount]) {}

/// @tparam T Bf16 or Fp16
template <class T, Major kMajor, int kCount>
inline void warpgroup_multiply(float (&d)[kCount], MatrixDescriptor a, MatrixDescriptor b, bool add,
                               KVPROOF_CALLER) {
  static_assert(kCount == 32 || kCount == 64 || kCount == 128, "64, 128 or 256 columns");
  simt::multiply({d, kCount, a.bits, nullptr, b.bits, kMajor, __is_same(T, Bf16), add, place});
}
/// The same; a's words must live until the wait.
template <class T, Major kMajor, int kCount>
inline void warpgroup_multiply(float (&d)[kCount], const std::uint32_t (&a)[4], MatrixDescriptor b,
                               bool add, KVPROOF_CALLER) {
  static_assert(kCount == 32 || kCount == 64 || kCount == 128, "64, 128 or 256 columns");
  simt::multiply({d, kCount, 0, a, b.bits, kMajor, __is_same(T, Bf16), add, place});
}

}  // namespace kvproof::kernels
