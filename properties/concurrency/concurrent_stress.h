// SPDX-License-Identifier: Apache-2.0
// Many threads at one concurrent pool, each checking what it was given against a record that the
// pool does not see.
//
// Model:   per block, how many references the threads have (one more only after the pool gave it,
//          one less before it gets it back) and what was last written into the block. A taken
//          block had none; a held one keeps its content; one that was acquired holds what its key
//          says. After the threads have joined, counts are equal, the queue is whole, and
//          drained, every block is free and what is still in the index holds what its key says.
// Refuses: proof. It is a search; ThreadSanitizer sees more when `Cell` is not atomic.
#pragma once

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "properties/concurrency/concurrent_stress_thread.h"
#include "properties/concurrency/race_point.h"

namespace kvproof::properties {

/// The pool at rest: exact counts with what the threads still hold, then everything back.
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

/// @tparam Cell std::uint64_t, or an atomic one where the pool is known to be broken
template <class Pool, class Cell>
[[nodiscard]] StressReport stress(const StressPlan& plan) {
  Arena<Pool, Cell> arena(plan);
  std::vector<StressThread<Pool, Cell>> workers;
  for (std::uint32_t i = 0; i < plan.num_threads; ++i) workers.emplace_back(arena, i);
  std::vector<std::thread> threads;
  for (auto& worker : workers) {
    threads.emplace_back([&worker] {
      const SometimesYields yields(1, 1);  // where the pool has race points: broken ones do
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

}  // namespace kvproof::properties
