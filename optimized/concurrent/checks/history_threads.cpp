// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/checks/history_threads.h"

#include <algorithm>
#include <thread>

namespace kvproof::properties::concurrency {

namespace {

constexpr std::uint64_t kBatch = 250;  // threads are started once for so many histories

/// A barrier at which all threads wait for each other.
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

HistoryReport run_batch(MakePool make_pool, std::uint64_t first_seed, std::uint32_t num,
                        std::uint32_t num_threads) {
  std::vector<std::unique_ptr<HistoryRun>> runs;
  for (std::uint32_t i = 0; i < num; ++i) {
    runs.push_back(std::make_unique<HistoryRun>(
        HistoryPlan{.make_pool = make_pool, .seed = first_seed + i, .num_threads = num_threads}));
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
    report.add(*runs[i], findings[i]);
  }
  return report;
}

}  // namespace

HistoryReport run_on_threads(MakePool make_pool, std::uint64_t first_seed, std::uint64_t num,
                             std::uint32_t num_threads) {
  HistoryReport report;
  while (report.num_histories < num && report.complaint.empty()) {
    const std::uint64_t batch = std::min(kBatch, num - report.num_histories);
    report.add(run_batch(make_pool, first_seed + report.num_histories,
                         static_cast<std::uint32_t>(batch), num_threads));
  }
  return report;
}

}  // namespace kvproof::properties::concurrency
