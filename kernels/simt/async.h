// SPDX-License-Identifier: Apache-2.0
// What hopper_host.h asks of the machine: the asynchronous units of a block on fibers.
#pragma once

#include <cstdint>

#include "kernels/simt/hopper_types.h"
#include "kernels/simt/runtime.h"

namespace kvproof::simt {

using kernels::SharedAddress;

/// The address of a byte of this block's shared memory.
[[nodiscard]] SharedAddress address_of(const void* shared, Place place);

void barrier_init(SharedAddress barrier, int arrivals, Place place);
void fence_barrier_init(Place place);
/// @param bytes [expected more]; an arrival in any case
void barrier_arrive(SharedAddress barrier, int bytes, Place place);
void barrier_wait(SharedAddress barrier, int parity, Place place);
[[nodiscard]] bool barrier_ended(SharedAddress barrier, int parity, Place place);
void named_barrier(int id, int threads, bool waits, Place place);
void set_registers(int count, bool up, Place place);

void fence_async(Place place);
void tensor_load(SharedAddress to, const kernels::TensorMap& map, const std::int32_t* at,
                 SharedAddress barrier, Place place);
void tensor_store(const kernels::TensorMap& map, const std::int32_t* at, SharedAddress from,
                  Place place);
void bulk_commit(Place place);
void bulk_wait(int newest, bool written, Place place);

/// One thread's call of a product of its warpgroup.
struct MatrixCall {
  float* d = nullptr;
  int count = 0;  // of its registers
  std::uint64_t a = 0;
  const std::uint32_t* a_registers = nullptr;  // four, or null: `a` is a descriptor
  std::uint64_t b = 0;
  kernels::Major major = kernels::Major::k;
  bool bf16 = true;
  bool add = false;
  Place place{};
};
void multiply(const MatrixCall& call);
void matrix_fence(Place place);
void matrix_commit(Place place);
void matrix_wait(int newest, Place place);

/// The rows of four tiles, see store_tiles().
void store_tiles(void* row, const std::uint32_t (&tiles)[4], Place place);

/// Multiprocessors that kernels are told of: few, so that a block has several tiles to do.
[[nodiscard]] int multiprocessors();

}  // namespace kvproof::simt
