// SPDX-License-Identifier: Apache-2.0
// The concurrent pool, compiled once more with a lock that a Schedule understands.
//
// Model:   the sources of the pool are included under other names, so that its lock is
//          ScheduledLock and everything else is the code that ships. Readers can be made not to
//          lock, which the checks must notice.
// Refuses: to compile in a unit that includes concurrent_pool.h itself.
#pragma once

#include <cstdint>

#include "optimized/concurrent/checks/race_point.h"
#include "optimized/concurrent/spin_lock.h"

namespace kvproof::optimized {

/// One writer or any number of readers; a fiber that waits lets another one go on.
class ScheduledLock {
 public:
  static inline bool readers_lock = true;

  void lock() {
    properties::concurrency::RacePoint::here();
    while (state_ != 0) properties::concurrency::RacePoint::waits();
    state_ = kWriter;
  }
  void unlock() {
    state_ = 0;
    properties::concurrency::RacePoint::here();
  }
  void lock_shared() {
    properties::concurrency::RacePoint::here();
    if (!readers_lock) return;
    while (state_ == kWriter) properties::concurrency::RacePoint::waits();
    ++state_;
  }
  void unlock_shared() {
    if (readers_lock) --state_;
    properties::concurrency::RacePoint::here();
  }

 private:
  static constexpr std::uint32_t kWriter = 1U << 31;

  std::uint32_t state_ = 0;
};

}  // namespace kvproof::optimized

#define SpinLock ScheduledLock
#define ConcurrentState ScheduledState
#define ConcurrentPool ScheduledPool
#include "optimized/concurrent/concurrent_pool.h"
#include "optimized/concurrent/concurrent_state.cpp"
#undef SpinLock
#undef ConcurrentState
#undef ConcurrentPool
