// SPDX-License-Identifier: Apache-2.0
// Many threads use one concurrent pool. Each checks the blocks that it gets against a record that
// the pool does not see.
//
// Model:   the record has, per block, how many references the threads have (raised after the pool
//          gave one, lowered before the pool gets it back) and the content last written. A block
//          that is taken had no references; a held block keeps its content; an acquired block holds
//          the content of its key. After the threads have joined, the counts are equal and the
//          queue is whole. After draining, every block is free, and blocks in the index hold the
//          content of their keys.
// Limit:   it is a search and proves nothing; ThreadSanitizer sees more when `Cell` is not atomic.
#pragma once

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "optimized/concurrent/checks/concurrent_stress_thread.h"
#include "optimized/concurrent/checks/race_point.h"

namespace kvproof::properties::concurrency {

/// Checks the pool at rest: first the counts, with the blocks that threads still hold, then once
/// more after all blocks are given back.
template <class Pool, class Cell>
void check_at_rest(Arena<Pool, Cell>& arena, std::vector<StressThread<Pool, Cell>>& threads) {
  arena.pool.audit();
  for (BlockId block = 1; block < arena.plan.num_blocks; ++block) {
    if (arena.pool.ref_cnt(block) != arena.references[block]) {
      throw std::logic_error("block " + std::to_string(block) + " counts " +
                             std::to_string(arena.pool.ref_cnt(block)) +
                             " references, the threads " + std::to_string(arena.references[block]));
    }
  }
  for (auto& thread : threads) thread.drain();
  arena.pool.audit();
  for (BlockId block = 1; block < arena.plan.num_blocks; ++block) {
    if (arena.pool.hashed(block) && arena.content[block] != arena.pool.record(block).key.words[0]) {
      throw std::logic_error("block " + std::to_string(block) + " does not hold what its key says");
    }
  }
  if (arena.pool.num_free() + 1 != arena.plan.num_blocks) {
    throw std::logic_error("drained, " + std::to_string(arena.pool.num_free()) +
                           " blocks are free");
  }
}

/// @tparam Cell std::uint64_t, or its atomic if the pool is known to be broken
template <class Pool, class Cell>
[[nodiscard]] StressReport stress(const StressPlan& plan) {
  Arena<Pool, Cell> arena(plan);
  std::vector<StressThread<Pool, Cell>> workers;
  for (std::uint32_t i = 0; i < plan.num_threads; ++i) workers.emplace_back(arena, i);
  std::vector<std::thread> threads;
  for (auto& worker : workers) {
    threads.emplace_back([&worker] {
      const SometimesYields yields(1, 1);  // has an effect on broken pools, which have race points
      worker.run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (arena.complaint.empty()) {
    try {
      check_at_rest(arena, workers);
    } catch (const std::exception& error) {
      arena.complain(error.what());
    }
  }
  StressReport report;
  report.complaint = arena.complaint;
  for (const auto& worker : workers) {
    report.num_taken += worker.counts.num_taken;
    report.num_refused += worker.counts.num_refused;
    report.num_hits += worker.counts.num_hits;
  }
  return report;
}

}  // namespace kvproof::properties::concurrency
