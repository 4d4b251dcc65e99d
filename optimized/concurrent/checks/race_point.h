// SPDX-License-Identifier: Apache-2.0
// Race points: places between two halves of an operation where another thread may come in.
//
// Model:   code under test calls here() between its halves and waits() where it cannot go on. The
//          source of interleaving sets `passed` for each thread to decide what happens then:
//          nothing, the thread yields its core, or another fiber runs (schedule.h).
// Callers: locks, counts, ranges and broken pools of the tests; no code of optimized/ calls it.
#pragma once

namespace kvproof::properties::concurrency {

struct RacePoint {
  using Passed = void (*)(void* context, bool waits);

  static void here() {
    if (passed != nullptr) passed(context, false);
  }
  static void waits() {
    if (passed != nullptr) passed(context, true);
  }

  static inline thread_local Passed passed = nullptr;
  static inline thread_local void* context = nullptr;
  static inline thread_local bool on_fibers = false;  // a lock must not wait for another fiber
};

}  // namespace kvproof::properties::concurrency
