// SPDX-License-Identifier: Apache-2.0
// Results in the formats that systems of continuous integration read: JUnit's XML for verdicts, and
// the metric format of Bencher (bencher.dev) for numbers.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "bench/results/result_file.h"

namespace kvproof::bench {

/// A case for each law of a check, each new finding, each space whose states were all visited, the
/// seeds of a deep check, and each workload of a gate.
[[nodiscard]] std::string junit_of(std::span<const Result> results);

/// {"benchmark": {"measure": {"value":...}}}: of a gate the head's counts by workload, else every
/// metric by its experiment and parameters.
[[nodiscard]] std::string bmf_of(std::span<const Result> results);

/// The files that were asked for, opened before anything is measured.
class CiFiles {
 public:
  /// @param junit, bmf paths; empty = none. Throws OutputError.
  CiFiles(const std::string& junit, const std::string& bmf);
  /// Throws OutputError.
  void commit(std::span<const Result> results) const;

 private:
  std::optional<ResultFile> junit_, bmf_;
};

}  // namespace kvproof::bench
