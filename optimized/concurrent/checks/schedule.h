// SPDX-License-Identifier: Apache-2.0
// A scheduler that takes every decision from its arguments: fibers that change at race points.
//
// Model:   one operating system thread; a fiber runs until it passes a race point, where `choose`
//          says which fiber goes on; it cannot be one that waits. The same choices give the same
//          run, so that interleavings can be drawn from a seed, read from bytes, or enumerated.
// Source:  stateless search as in CHESS (Musuvathi and Qadeer, PLDI 2007), which also found that
//          few preemptions reach most bugs.
// Leaves out: races inside of code without race points, and weak memory. Real threads and
//          ThreadSanitizer look for those.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "reference/support/fiber.h"

namespace kvproof::properties::concurrency {

/// Returns which of `options` to take. 0 stays with the fiber; `forced` if it cannot go on.
using Choose = std::function<std::uint32_t(std::uint32_t options, bool forced)>;

class Schedule {
 public:
  explicit Schedule(std::uint32_t most_fibers);

  /// Runs body(0) to body(num - 1) to their ends. Bodies do not throw.
  /// @return false if at some point all fibers waited; they are then left where they are
  [[nodiscard]] bool run(std::uint32_t num, const std::function<void(std::uint32_t)>& body,
                         const Choose& choose);

 private:
  static constexpr std::uint32_t kMostWaits = 10'000;  // so many in a row: no fiber can go on

  static void enter(void* context);
  static void passed(void* context, bool waits);
  /// The fiber that `choose` takes among those that are not done, counted from `now_` on.
  [[nodiscard]] std::uint32_t pick(bool forced) const;

  std::deque<Fiber> fibers_;
  std::uint32_t num_ = 0;
  std::uint32_t num_running_ = 0;
  std::uint32_t now_ = 0;
  std::uint32_t num_waits_ = 0;
  const std::function<void(std::uint32_t)>* body_ = nullptr;
  const Choose* choose_ = nullptr;
};

/// Enumerates all sequences of choices with at most `most_preemptions` choices against staying.
class EveryWay {
 public:
  explicit EveryWay(std::uint32_t most_preemptions) : most_preemptions_(most_preemptions) {}

  [[nodiscard]] std::uint32_t choose(std::uint32_t options, bool forced) {
    if (at_ == path_.size()) {
      path_.push_back({0, forced || num_preemptions_ < most_preemptions_ ? options : 1});
    }
    const Decision& decision = path_[at_++];
    if (!forced && decision.taken > 0) ++num_preemptions_;
    return decision.taken;
  }

  /// Goes on to the next sequence. @return false if that was the last one
  [[nodiscard]] bool next() {
    at_ = num_preemptions_ = 0;
    while (!path_.empty() && path_.back().taken + 1 == path_.back().options) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().taken;
    return true;
  }

 private:
  struct Decision {
    std::uint32_t taken;
    std::uint32_t options;
  };

  std::uint32_t most_preemptions_;
  std::uint32_t num_preemptions_ = 0;
  std::uint32_t at_ = 0;
  std::vector<Decision> path_;
};

}  // namespace kvproof::properties::concurrency
