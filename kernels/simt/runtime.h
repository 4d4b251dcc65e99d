// SPDX-License-Identifier: Apache-2.0
// Executes CUDA kernels on the CPU: every thread of a block is a fiber, blocks run one by one.
//
// Model:   A block's threads run until they wait (barrier, warp operation) or end. The order in
//          which waiting threads go on, the order of the blocks, and whether an asynchronous copy
//          lands at once or at its wait, are drawn from the schedule's seed.
//          Hopper's asynchronous units (hopper.h) act late, too, and their rules are checked by
//          vector clocks: what no barrier orders is an error in every schedule.
// Refuses: thread blocks that are not whole warps, and warp operations of a part of a warp.
// Leaves out: clusters; the order of memory between blocks; reads of shared memory by a plain
//          expression, which nobody notes; the registers that a compiler would take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvproof::simt {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

constexpr int kWarpSize = 32;
constexpr std::size_t kMostSharedBytes = 227 << 10;  // of a block's dynamic memory, as Hopper has

/// A kernel broke a rule of the machine: barriers that do not meet, a bad launch.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A place in a kernel's source.
struct Place {
  const char* file;
  int line;
  /// Where it is called; as a default argument, where that function is called.
  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// An asynchronous copy that was started and not awaited yet.
struct PendingCopy {
  void* to;
  const void* from;  // null: zeros
  std::size_t bytes;
  Place place;
};

/// The state of a thread of a kernel.
struct Thread {
  Dim3 thread_index, block_index, block_dim, grid_dim;
  int linear = 0;  // in its block
  bool copies_late = false;
  std::vector<std::vector<PendingCopy>> copy_groups;  // committed, oldest first
  std::vector<PendingCopy> copies;                    // not committed yet
  [[nodiscard]] int lane() const { return linear % kWarpSize; }
};

/// The thread that runs now. @pre inside a kernel
[[nodiscard]] Thread& current();

struct Schedule {
  std::uint64_t seed = 0;  // 0: threads and blocks in order, copies at once
};
void set_schedule(Schedule schedule);

/// Ends the launch with a KernelError. @pre inside a kernel
[[noreturn]] void fail(const std::string& what);

/// Fails unless the address is a multiple of `alignment`, as the device would.
inline void require_aligned(const void* address, std::uintptr_t alignment, const char* who) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment == 0) return;
  fail(std::string(who) + ": an address that is no multiple of " + std::to_string(alignment));
}

/// Runs `kernel` once per thread. After a KernelError nothing of the launch is left.
void launch(Dim3 grid, Dim3 block, std::size_t dynamic_shared_bytes,
            const std::function<void()>& kernel);

/// Whether the running block uses the asynchronous units (hopper.h): then accesses to shared memory
/// that its instructions name are noted.
extern bool watching __attribute__((visibility("hidden")));
void note_write(const void* to, bool begins, bool ends, Place place);
void note_read(const void* from, Place place);

/// What every access of 16 bytes checks: one branch in a block that is not watched.
inline void about_to_read16(const void* from, const char* who, Place place) {
  if ((reinterpret_cast<std::uintptr_t>(from) % 16 | std::uintptr_t{watching}) == 0) return;
  require_aligned(from, 16, who);
  note_read(from, place);
}
inline void about_to_write16(const void* to, const char* who, Place place) {
  if ((reinterpret_cast<std::uintptr_t>(to) % 16 | std::uintptr_t{watching}) == 0) return;
  require_aligned(to, 16, who);
  note_write(to, true, true, place);
}

// The vocabulary of cuda.h calls these functions.
void block_barrier(Place place);
void warp_barrier(Place place);

/// Gives `bytes` (at most 32) of every lane to all other lanes. @return shape [32] of 32-byte
/// cells, valid until the next exchange of this thread
[[nodiscard]] const std::byte (*warp_exchange(const void* mine, std::size_t bytes,
                                              Place place))[32];

/// Memory of this block, the same for every thread that names the same key. It has exactly so many
/// bytes and is not initialised (it is filled with a NaN pattern).
[[nodiscard]] void* shared_memory(const void* key, std::size_t bytes, std::size_t alignment);
[[nodiscard]] void* dynamic_shared_memory();

}  // namespace kvproof::simt
