// SPDX-License-Identifier: Apache-2.0
// The list of suites of `kvproof bench`. A suite is one row here and one file *_bench.cpp in a
// folder of bench/, which defines the two functions that its row declares: NAME_cases and
// run_NAME_suite.
#pragma once

#include "bench/results/suite.h"

// clang-format off
#define KVPROOF_SUITES(ROW)                                                                       \
  ROW(life_cycle, "one request from arrival to finish, through the cache manager")                \
  ROW(decode_step, "a batch that decodes in lockstep, by one call and by three for each request") \
  ROW(pool, "single operations of the block pool and its hashes")                                 \
  ROW(concurrent_pool, "the concurrent pool on one and two threads, beside one lock for all")     \
  ROW(textbook, "the allocator beside the same structure in Python, in turn")                     \
  ROW(audit, "random operations on pools of 12 blocks under laws, model and content oracle")      \
  ROW(memory, "ways to read and to copy memory, the ceilings of the kernels")                     \
  ROW(paged_decode, "decode attention over a paged cache, as a share of what the memory gives")   \
  ROW(movement, "the movement of cache data, as a share of the fastest copy")                     \
  ROW(serving_cost, "what the serving simulation costs for each block that it touches")           \
  ROW(live, "what the judge of a run costs for each token scheduled and of context")
// clang-format on

namespace kvproof::bench {

#define KVPROOF_DECLARE(name, sentence)                                                       \
  [[nodiscard]] std::vector<std::string> name##_cases(const BenchOptions&);                   \
  [[nodiscard]] std::vector<Result> run_##name##_suite(std::span<const std::string> selected, \
                                                       const BenchOptions&);
KVPROOF_SUITES(KVPROOF_DECLARE)
#undef KVPROOF_DECLARE

#define KVPROOF_SUITE(name, sentence) {#name, sentence, &name##_cases, &run_##name##_suite},
inline constexpr Suite kSuites[] = {KVPROOF_SUITES(KVPROOF_SUITE)};
#undef KVPROOF_SUITE

/// The bodies that callgrind counts in child processes of the two suites: a fixed number of
/// requests or steps of case `name` on a warm pool. @return the process's exit code
int count_life_cycle(const std::string& name, std::uint64_t seed);
int count_decode_step(const std::string& name, std::uint64_t seed);

}  // namespace kvproof::bench
