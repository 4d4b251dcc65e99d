// SPDX-License-Identifier: Apache-2.0
// One random history of a pool: its size, the calls of its threads, and the state at the end.
//
// Model:   a seed decides everything except the interleaving. Thread 0 makes some calls before the
//          others begin, so that they meet content. The caller runs the threads:
//          history_threads.h or history_fibers.h.
#pragma once

#include <mutex>

#include "optimized/concurrent/checks/history_client.h"
#include "reference/support/say.h"

namespace kvproof::properties::concurrency {

struct HistoryPlan {
  MakePool make_pool;
  std::uint64_t seed = 1;
  std::uint32_t num_threads = 2;
  std::uint32_t most_calls = 8;  // of one thread; at least 3
};

class HistoryRun {
 public:
  explicit HistoryRun(const HistoryPlan& plan);

  void run(std::uint32_t thread) { calls_of(thread, num_calls_); }

  /// Called after all threads have ended. @return the complaint, or an empty text
  [[nodiscard]] Finding check();

  [[nodiscard]] const HistoryPlan& plan() const { return plan_; }
  [[nodiscard]] const History& history() const { return history_; }
  [[nodiscard]] std::uint64_t num_visited() const { return num_visited_; }
  [[nodiscard]] std::uint32_t num_calls() const { return num_calls_ * plan_.num_threads; }

 private:
  void calls_of(std::uint32_t thread, std::uint32_t num);

  HistoryPlan plan_;
  std::uint32_t num_calls_ = 0;
  History history_;
  Field field_;
  std::vector<HistoryClient> clients_;
  std::mutex mutex_;
  std::string thrown_;  // under mutex_
  std::uint64_t num_visited_ = 0;
};

/// The outcome of a number of histories.
struct HistoryReport {
  std::string complaint;  // about the first wrong history; empty if all were right
  std::uint64_t bad_seed = 0;
  std::uint64_t num_histories = 0;  // up to the first wrong one
  std::uint64_t num_calls = 0;
  std::uint64_t num_visited = 0;  // states of the search
  // Shows that something happened: calls that overlapped with calls of other threads, and answers.
  std::uint64_t num_overlapping = 0;
  std::uint64_t num_hits = 0;
  std::uint64_t num_refused = 0;

  void add(const HistoryRun& run, const Finding& finding);
  void add(const HistoryReport& other);
};

}  // namespace kvproof::properties::concurrency
