// SPDX-License-Identifier: Apache-2.0
// Runs histories on fibers, where a seed decides the interleaving too, or all of them are tried.
#pragma once

#include <random>

#include "properties/concurrency/history_run.h"
#include "properties/concurrency/schedule.h"

namespace kvproof::properties {

template <class Pool>
class HistoryFibers {
 public:
  /// One history under one schedule.
  void run(const HistoryPlan& plan, const Choose& choose) {
    HistoryRun<Pool> history(plan);
    const bool ended = schedule_.run(
        plan.num_threads, [&](std::uint32_t fiber) { history.run(fiber); }, choose);
    const Finding finding = ended ? history.check() : Finding("everybody waits for somebody");
    report.add(history, finding, plan.seed);
    last = history.history();
  }

  /// A schedule that the seed decides: how often it changes threads as well as when.
  void run_random(std::uint64_t seed) {
    std::minstd_rand random(static_cast<std::uint32_t>(scramble(~seed)));
    const std::uint32_t one_in = 2U << (seed % 4);
    run({.seed = seed, .num_threads = 2 + static_cast<std::uint32_t>(seed % 3)},
        [&](std::uint32_t options, bool forced) {
          const auto drawn = static_cast<std::uint32_t>(random() >> 8);
          if (forced) return drawn % options;
          return drawn % one_in == 0 ? 1 + drawn / one_in % (options - 1) : 0;
        });
  }

  /// Every schedule of 2 threads of 3 calls with at most that many preemptions, or up to the first
  /// that is wrong.
  void run_every(std::uint64_t seed, std::uint32_t most_preemptions) {
    EveryWay ways(most_preemptions);
    do {
      run({.seed = seed, .num_threads = 2, .most_calls = 3},
          [&](std::uint32_t options, bool forced) { return ways.choose(options, forced); });
    } while (report.complaint.empty() && ways.next());
  }

  HistoryReport report;
  History last;

 private:
  Schedule schedule_{kMostHistoryThreads};
};

}  // namespace kvproof::properties
