// SPDX-License-Identifier: Apache-2.0
// Random runs of a pool by several threads, and the verdict about each.
//
// Model:   a seed decides everything except the interleaving, which comes from fibers, whose
//          schedule is chosen (schedule.h), or from real threads. Thread 0 makes some calls before
//          the others begin, so that they meet content. A run of few calls on few blocks is a
//          history: it must be linearizable (linearizability.h). After a long run on many blocks
//          the references must be those that the threads hold; drained, every block must be free,
//          and blocks in the index must hold the content of their keys.
// Limit:   a search, which proves nothing; ThreadSanitizer sees more of a long run.
#pragma once

#include <mutex>

#include "optimized/concurrent/checks/client.h"
#include "optimized/concurrent/checks/schedule.h"

namespace kvproof::properties::concurrency {

struct Plan {
  MakePool make = nullptr;
  std::uint64_t seed = 1;
  std::uint32_t num_threads = 2;
  std::uint32_t most_calls = 8;  // of one thread of a history; at least 3
  // Of a long run. 129 blocks are few, so that threads meet; there are more keys than blocks, so
  // that content is evicted all the time.
  std::uint32_t num_calls = 0;  // per thread; 0: a history
  std::uint32_t num_blocks = 129;
  FreeOrder order = FreeOrder::unhashed_first;
};

class Run {
 public:
  explicit Run(const Plan& plan);

  void run(std::uint32_t thread) { calls_of(thread, num_calls_); }

  /// Called after all threads have ended. @return what is wrong
  [[nodiscard]] Finding check();

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] History& history() { return history_; }
  [[nodiscard]] const std::vector<Client>& clients() const { return clients_; }

 private:
  void calls_of(std::uint32_t thread, std::uint32_t num);
  [[nodiscard]] Finding check_history();
  [[nodiscard]] Finding check_counts();

  Plan plan_;
  std::uint32_t num_calls_ = 0;
  History history_;
  Field field_;
  std::vector<Client> clients_;
  std::mutex mutex_;
  std::string thrown_;  // under mutex_
};

/// Runs, and the sum of their outcomes up to the first wrong one.
class Runner {
 public:
  explicit Runner(MakePool make) : make_(make) {}

  std::string complaint;  // empty if all were right
  std::uint64_t bad_seed = 0;
  std::uint64_t num_runs = 0;
  std::uint64_t num_calls = 0;
  // Shows that something happened: calls that overlapped with calls of other threads, and answers.
  std::uint64_t num_overlapping = 0;
  std::uint64_t num_hits = 0;
  std::uint64_t num_refused = 0;
  std::uint64_t blocks_in_order = 0;  // Client::blocks_in_order of all threads
  History last;

  [[nodiscard]] bool whole() const { return complaint.empty(); }

  /// One run under one schedule; the pool is the runner's.
  void on_fibers(Plan plan, const Choose& choose);

  /// A history under a schedule. The seed decides both: how often threads change, and when.
  void on_random_fibers(std::uint64_t seed);

  /// A history of 2 threads with 3 calls each, under every schedule with at most so many
  /// preemptions.
  void on_every_schedule(std::uint64_t seed, std::uint32_t most_preemptions);

  /// Runs of the seeds [plan.seed, plan.seed + num) on real threads, which start every run
  /// together.
  void on_threads(Plan plan, std::uint64_t num);

 private:
  void add(Run& run, const Finding& finding);

  MakePool make_;
  Schedule schedule_{kMostHistoryThreads};
};

}  // namespace kvproof::properties::concurrency
