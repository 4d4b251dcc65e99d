// SPDX-License-Identifier: Apache-2.0
// The inside of the simulated machine: what its parts know of each other. Kernels see runtime.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/simt/clocks.h"
#include "kernels/simt/runtime.h"
#include "reference/mix64.h"
#include "reference/support/fiber.h"

#if defined(KVPROOF_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>

extern "C" {  // of the sanitizer's runtime
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif
#if defined(KVPROOF_SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace kvproof::simt {

/// While one lives, ThreadSanitizer ignores the accesses and frees of this thread: the machine's
/// own memory is not the kernel's, and shared memory is there before a block starts.
struct Unobserved {
#if defined(KVPROOF_SIMT_TSAN)
  Unobserved() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unobserved() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  ~Unobserved() {}  // not trivial, so that no compiler calls the guard an unused variable
#endif
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
#if !defined(KVPROOF_SIMT_TSAN)
  Unobserved() {}
#endif
};

inline void order_before([[maybe_unused]] void* what) {
#if defined(KVPROOF_SIMT_TSAN)
  __tsan_release(what);
#endif
}
inline void order_after([[maybe_unused]] void* what) {
#if defined(KVPROOF_SIMT_TSAN)
  __tsan_acquire(what);
#endif
}
/// AddressSanitizer reports whoever touches these bytes, until they are allowed again.
inline void forbid([[maybe_unused]] const void* bytes, [[maybe_unused]] std::size_t count) {
#if defined(KVPROOF_SIMT_ASAN)
  ASAN_POISON_MEMORY_REGION(bytes, count);
#endif
}
inline void allow([[maybe_unused]] const void* bytes, [[maybe_unused]] std::size_t count) {
#if defined(KVPROOF_SIMT_ASAN)
  ASAN_UNPOISON_MEMORY_REGION(bytes, count);
#endif
}

struct DrawnNumbers {
  std::uint64_t state;
  std::uint64_t next() { return next_mix64(state); }
  bool one_in(std::uint64_t n) { return next() % n == 0; }
};

/// Threads that wait for each other: a block's, a warp's, a warpgroup's, or those of a named
/// barrier.
struct Meeting {
  int expected = 0;
  int arrived = 0;
  std::uint64_t round = 0;
  Place place{};       // where the first thread of this round waits
  Clock clock;         // what came before this round's arrivals, in a block that is watched
  char order[2] = {};  // orders even and odd rounds apart: a thread ahead may be in the next one
};

struct Warp {
  Meeting meeting;
  std::byte cells[2][kWarpSize][32];
};

enum class Waiting : std::uint8_t { no, block, warp, warpgroup, named, phase, registers, turn };

struct Runner {
  Thread thread;
  Fiber fiber;
  const Meeting* meeting = nullptr;  // it waits for the end of this round,
  std::uint64_t round = 0;
  Waiting waiting = Waiting::no;
  bool ended = false;
  int exchanges = 0;
  Place place{};
  bool (*ready)(const Runner& self) = nullptr;  // or, without a meeting, until this holds
  const void* what = nullptr;                   // for `ready`: a barrier
  int number = 0;                               // and its parity, or a count of registers
};

struct Shared {
  std::unique_ptr<std::byte, decltype(&std::free)> allocated{nullptr, &std::free};
  std::byte* bytes = nullptr;
  std::size_t size = 0;
  std::uint32_t address = 0;  // as the block's instructions name it
};

class AsyncMachine;

struct Machine {
  Schedule schedule;
  std::vector<std::unique_ptr<Runner>> runners;  // kept from launch to launch
  std::vector<Warp> warps;
  Meeting barrier;
  std::map<const void*, Shared> shared;  // by key; null: dynamic
  std::uint32_t next_address = 0;        // of the next static array
  std::size_t num_threads = 0;
  std::uint64_t block_number = 0;
  std::uint64_t pass = 0;  // of the scheduler over all warps
  Runner* running = nullptr;
  const std::function<void()>* kernel = nullptr;
  std::optional<std::string> broken;
  std::shared_ptr<AsyncMachine> async;  // null until the block uses it
};

extern Machine the_machine __attribute__((visibility("hidden")));  // there is one
[[nodiscard]] inline Machine& machine() { return the_machine; }

/// "op.cu:40"
[[nodiscard]] std::string text_of(Place place);

/// Pauses the running thread until `ready` holds. @pre `what` and `number` are what it reads
void wait_until(Waiting kind, bool (*ready)(const Runner&), const void* what, int number,
                Place place);
/// Arrives, and if `waits` pauses until all have arrived. Tells the sanitizer.
void meet(Meeting& meeting, Waiting kind, Place place, bool waits = true);

}  // namespace kvproof::simt
