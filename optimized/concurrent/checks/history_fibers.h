// SPDX-License-Identifier: Apache-2.0
// Runs histories on fibers: a seed decides the interleaving, too, or all interleavings are tried.
#pragma once

#include "optimized/concurrent/checks/history_run.h"
#include "optimized/concurrent/checks/schedule.h"

namespace kvproof::properties::concurrency {

class HistoryFibers {
 public:
  explicit HistoryFibers(MakePool make_pool) : make_pool_(make_pool) {}

  /// A history under a schedule. The seed decides both: how often threads change, and when.
  void run_random(std::uint64_t seed);

  /// A history of 2 threads with 3 calls each, under every schedule with at most so many
  /// preemptions, up to the first wrong one.
  void run_every(std::uint64_t seed, std::uint32_t most_preemptions);

  /// One history under one schedule.
  void run(const HistoryPlan& plan, const Choose& choose);

  HistoryReport report;
  History last;

 private:
  MakePool make_pool_;
  Schedule schedule_{kMostHistoryThreads};
};

}  // namespace kvproof::properties::concurrency
