// SPDX-License-Identifier: Apache-2.0
// Decides whether some order of its steps explains a recorded history of the concurrent pool.
//
// Model:   a history is one list of steps per thread, each step with the interval of its call. An
//          order explains it if it keeps every thread's own, puts a call that returned before
//          another began before it, every step is right by pool_model.h, and the pool ends as it
//          was found. Depth-first over the orders; a pair of (how far each thread is, state) is
//          tried once.
// Source:  Wing and Gong, JPDC 1993; the memory of visited pairs is Lowe's (Testing for
//          linearizability, CCPE 2017).
// Refuses: histories with calls that never return, and more than 4 threads or 255 steps of a
//          thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "optimized/concurrent/checks/pool_model.h"

namespace kvproof::properties::concurrency {

inline constexpr std::uint32_t kMostHistoryThreads = 4;

/// Times are ticks of one counter; the steps of one call share them, all others differ.
struct Event {
  Step step;
  std::uint32_t invoked = 0;
  std::uint32_t returned = 0;
};

struct History {
  FreeOrder order = FreeOrder::append;
  PoolState initial;
  std::optional<PoolState> found;           // at rest, after all calls
  std::vector<std::vector<Event>> threads;  // at most kMostHistoryThreads
};

struct Verdict {
  bool linearizable = false;
  // Where the longest order ended: the steps done, and the state that no step can follow.
  std::array<std::uint8_t, kMostHistoryThreads> num_done{};
  PoolState stuck;
};

/// @param remembers false: tries every order, for the tests of this check
[[nodiscard]] Verdict linearize(const History& history, bool remembers = true);

/// The history as lines, one per call, and where the longest order ended.
[[nodiscard]] std::string draw(const History& history, const Verdict& verdict);

}  // namespace kvproof::properties::concurrency
