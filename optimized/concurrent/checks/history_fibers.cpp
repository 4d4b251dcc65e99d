// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/checks/history_fibers.h"

#include "reference/mix64.h"

namespace kvproof::properties::concurrency {

void HistoryFibers::run(const HistoryPlan& plan, const Choose& choose) {
  HistoryRun history(plan);
  const bool ended = schedule_.run(
      plan.num_threads, [&](std::uint32_t fiber) { history.run(fiber); }, choose);
  report.add(history, ended ? history.check() : Finding("everybody waits for somebody"));
  last = history.history();
}

void HistoryFibers::run_random(std::uint64_t seed) {
  std::minstd_rand random(static_cast<std::uint32_t>(mix64(~seed)));
  const std::uint32_t one_in = 2U << (seed % 4);
  run({.make_pool = make_pool_,
       .seed = seed,
       .num_threads = 2 + static_cast<std::uint32_t>(seed % 3)},
      [&](std::uint32_t options, bool forced) {
        const auto drawn = static_cast<std::uint32_t>(random() >> 8);
        if (forced) return drawn % options;
        return drawn % one_in == 0 ? 1 + drawn / one_in % (options - 1) : 0;
      });
}

void HistoryFibers::run_every(std::uint64_t seed, std::uint32_t most_preemptions) {
  EveryWay ways(most_preemptions);
  do {
    run({.make_pool = make_pool_, .seed = seed, .num_threads = 2, .most_calls = 3},
        [&](std::uint32_t options, bool forced) { return ways.choose(options, forced); });
  } while (report.complaint.empty() && ways.next());
}

}  // namespace kvproof::properties::concurrency
