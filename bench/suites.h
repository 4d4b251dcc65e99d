// SPDX-License-Identifier: Apache-2.0
// What a suite of `kvproof bench` is. THE LIST of them is in bench_main.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/results/progress.h"
#include "bench/results/result_file.h"

namespace kvproof::bench {

struct BenchOptions {
  bool smoke = false;  // tiny sizes: enough to see that it works, no number to quote
  std::uint64_t seed = 0;
  double min_seconds_per_case = 0;
  std::filesystem::path self;  // this program, for suites that start it under another one
  Progress* progress = nullptr;
};

/// A suite measures the cases that were selected out of those that it names.
struct Suite {
  std::string_view name;
  std::string_view sentence;
  std::vector<std::string> (*cases)(const BenchOptions& options);
  /// @param selected some of cases(), not empty. Throws std::logic_error when a check fails.
  std::vector<Result> (*run)(std::span<const std::string> selected, const BenchOptions& options);
};

/// pool_bench.cpp: operations of the block pool, and the block hash, under Google Benchmark.
[[nodiscard]] std::vector<std::string> pool_bench_cases(const BenchOptions& options);
[[nodiscard]] std::vector<Result> run_pool_bench(std::span<const std::string> selected,
                                                 const BenchOptions& options);

/// concurrent_bench.cpp: the concurrent pool on one and two threads, beside BlockPool under one
/// lock.
[[nodiscard]] std::vector<std::string> concurrent_bench_cases(const BenchOptions& options);
[[nodiscard]] std::vector<Result> run_concurrent_bench(std::span<const std::string> selected,
                                                       const BenchOptions& options);

/// audit_bench.cpp: random operations on small pools under the oracles of properties/.
[[nodiscard]] std::vector<std::string> audit_bench_cases(const BenchOptions& options);
[[nodiscard]] std::vector<Result> run_audit_bench(std::span<const std::string> selected,
                                                  const BenchOptions& options);

/// kernels/attention_bench.cpp: decode attention beside what the memory gives.
[[nodiscard]] std::vector<std::string> paged_decode_bench_cases(const BenchOptions& options);
[[nodiscard]] std::vector<Result> run_paged_decode_bench(std::span<const std::string> selected,
                                                         const BenchOptions& options);

/// kernels/movement_bench.cpp: the movement of data beside the fastest copy.
[[nodiscard]] std::vector<std::string> movement_bench_cases(const BenchOptions& options);
[[nodiscard]] std::vector<Result> run_movement_bench(std::span<const std::string> selected,
                                                     const BenchOptions& options);

/// kernels/memory_bench.cpp: ways to read and to copy, the ceilings of the kernels.
[[nodiscard]] std::vector<std::string> memory_bench_cases(const BenchOptions& options);
[[nodiscard]] std::vector<Result> run_memory_bench(std::span<const std::string> selected,
                                                   const BenchOptions& options);

/// textbook/textbook_bench.cpp: the allocator beside the same structure in Python. No cases where
/// there is no python3.
[[nodiscard]] std::vector<std::string> textbook_bench_cases(const BenchOptions& options);
[[nodiscard]] std::vector<Result> run_textbook_bench(std::span<const std::string> selected,
                                                     const BenchOptions& options);

/// serving/cost_bench.cpp: what the serving simulation costs for each block that it touches.
[[nodiscard]] std::vector<std::string> serving_cost_bench_cases(const BenchOptions& options);
[[nodiscard]] std::vector<Result> run_serving_cost_bench(std::span<const std::string> selected,
                                                         const BenchOptions& options);

}  // namespace kvproof::bench
