// SPDX-License-Identifier: Apache-2.0
// The type of a suite of `kvproof bench`; bench/suites.h lists the suites.
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
  std::uint32_t fewest_rounds = 11;  // of what is measured in rounds, however long they take
  std::filesystem::path self;        // this program, for suites that start it under another one
  Progress* progress = nullptr;
};

/// A suite names cases and measures those that were selected.
struct Suite {
  std::string_view name;
  std::string_view sentence;
  std::vector<std::string> (*cases)(const BenchOptions& options);
  /// @param selected some of cases(), not empty. Throws std::logic_error when a check fails.
  std::vector<Result> (*run)(std::span<const std::string> selected, const BenchOptions& options);
};

}  // namespace kvproof::bench
