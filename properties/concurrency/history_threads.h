// SPDX-License-Identifier: Apache-2.0
// Runs many histories on real threads, and checks each.
//
// Model:   the threads of a batch start every history together (they wait for one another without
//          sleeping), pass race points where they sometimes give up their core, and share the
//          checking at the end.
#pragma once

#include <thread>

#include "properties/concurrency/history_run.h"

namespace kvproof::properties {

/// Everybody waits for everybody.
class Meeting {
 public:
  explicit Meeting(std::uint32_t num_threads) : num_threads_(num_threads) {}

  void wait() {
    const std::uint32_t round = round_.load();
    if (arrived_.fetch_add(1) + 1 == num_threads_) {
      arrived_.store(0);
      round_.store(round + 1);
      return;
    }
    while (round_.load() == round) std::this_thread::yield();
  }

 private:
  std::uint32_t num_threads_;
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint32_t> round_{0};
};

/// Histories of seeds [first_seed, first_seed + num), up to the first that is wrong.
template <class Pool>
[[nodiscard]] HistoryReport run_on_threads(std::uint64_t first_seed, std::uint32_t num,
                                           std::uint32_t num_threads) {
  std::vector<std::unique_ptr<HistoryRun<Pool>>> runs;
  for (std::uint32_t i = 0; i < num; ++i) {
    runs.push_back(std::make_unique<HistoryRun<Pool>>(
        HistoryPlan{.seed = first_seed + i, .num_threads = num_threads}));
  }
  std::vector<Finding> findings(num);
  Meeting meeting(num_threads);
  const auto work = [&](std::uint32_t thread) {
    {
      const SometimesYields yields(static_cast<std::uint32_t>(first_seed + thread), 4);
      for (const auto& run : runs) {
        meeting.wait();
        run->run(thread);
      }
    }
    meeting.wait();
    for (std::uint32_t i = thread; i < num; i += num_threads) findings[i] = runs[i]->check();
  };
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < num_threads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();

  HistoryReport report;
  for (std::uint32_t i = 0; i < num && report.complaint.empty(); ++i) {
    report.add(*runs[i], findings[i], first_seed + i);
  }
  return report;
}

}  // namespace kvproof::properties
