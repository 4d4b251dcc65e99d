// SPDX-License-Identifier: Apache-2.0
// Runs histories on fibers, where a seed decides the interleaving too, or all of them are tried.
#pragma once

#include "properties/concurrency/history_run.h"
#include "properties/concurrency/schedule.h"

namespace kvproof::properties {

class HistoryFibers {
 public:
  explicit HistoryFibers(MakePool make_pool) : make_pool_(make_pool) {}

  /// A history under a schedule, both by the seed: how often it changes threads, and when.
  void run_random(std::uint64_t seed);

  /// A history under every schedule of 2 threads of 3 calls with at most that many preemptions, or
  /// up to the first that is wrong.
  void run_every(std::uint64_t seed, std::uint32_t most_preemptions);

  /// One history under one schedule.
  void run(const HistoryPlan& plan, const Choose& choose);

  HistoryReport report;
  History last;

 private:
  MakePool make_pool_;
  Schedule schedule_{kMostHistoryThreads};
};

}  // namespace kvproof::properties
