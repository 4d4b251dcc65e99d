// SPDX-License-Identifier: Apache-2.0
// A lock for critical sections of nanoseconds: one writer, or any number of readers.
//
// Model:   a waiting thread spins for about as long as a section lasts, then yields the core, then
//          sleeps in slices, so that a holder that lost its core gets one again under any
//          scheduler. A waiting writer keeps new readers out. Taking the free lock is one atomic
//          operation.
// Source:  test-and-test-and-set with backoff (Anderson, IEEE TPDS 1990); Sleeper of folly's
//          small locks.
// Leaves out: fairness, recursion, and sections that wait themselves.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kvproof::optimized {

/// Waits between two looks at a lock that is not free.
class Backoff {
 public:
  void wait() {
    if (turn_ < kSpinTurns) {
      for (std::uint32_t i = 0; i < 1U << std::min(turn_, kMaxShift); ++i) pause();
    } else if (turn_ < kSpinTurns + kYieldTurns) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      return;
    }
    ++turn_;
  }

 private:
  static constexpr std::uint32_t kMaxShift = 4;    // 16 pauses are about 300 ns
  static constexpr std::uint32_t kSpinTurns = 20;  // 271 pauses: 5 microseconds, or a run of 64
  static constexpr std::uint32_t kYieldTurns = 64;

  static void pause() {
#if defined(__SSE2__)
    _mm_pause();
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
  }

  std::uint32_t turn_ = 0;
};

/// For std::lock_guard and std::shared_lock.
class SpinLock {
 public:
  void lock() {
    std::uint32_t seen = 0;
    if (take_from(seen)) return;
    for (Backoff backoff;; backoff.wait()) {
      seen = state_.load(std::memory_order_relaxed);
      if ((seen & ~kWanted) == 0 && take_from(seen)) return;
      if ((seen & kWanted) == 0) state_.fetch_or(kWanted, std::memory_order_relaxed);
    }
  }

  /// Forgets that other writers want it, too: they say so again at their next look.
  void unlock() { state_.store(0, std::memory_order_release); }

  void lock_shared() {
    for (Backoff backoff;; backoff.wait()) {
      std::uint32_t seen = state_.load(std::memory_order_relaxed);
      while ((seen & (kWriter | kWanted)) == 0) {
        if (state_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
          return;
        }
      }
    }
  }

  void unlock_shared() { state_.fetch_sub(1, std::memory_order_release); }

 private:
  static constexpr std::uint32_t kWriter = 1U << 31;
  static constexpr std::uint32_t kWanted = 1U << 30;  // by a writer; the bits below count readers

  bool take_from(std::uint32_t seen) {
    return state_.compare_exchange_strong(seen, kWriter, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }

  std::atomic<std::uint32_t> state_{0};
};

}  // namespace kvproof::optimized
