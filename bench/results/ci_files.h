// SPDX-License-Identifier: Apache-2.0
// The files that a verb writes of its rows: the result file, and the formats that systems of
// continuous integration read: JUnit's XML and SARIF 2.1.0 for verdicts, and the metric format of
// Bencher (bencher.dev) for numbers. All are made from columns; reasons are copied, not read.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "bench/results/result_file.h"

namespace kvproof::bench {

/// A case for each row with a verdict.
[[nodiscard]] std::string junit_of(std::span<const Result> results);

/// A rule for each law and a result for each finding, of which those that are known are suppressed.
/// Where a verb has no rows of findings, each other row that is broken or worse is a result.
[[nodiscard]] std::string sarif_of(const Parameters& environment, std::span<const Result> results);

/// {"benchmark": {"measure": {"value":...}}}: of a gate the head's counts by workload, else every
/// metric by its experiment and parameters.
[[nodiscard]] std::string bmf_of(std::span<const Result> results);

/// Paths; empty = none.
struct OutputPaths {
  std::string json = {};
  std::string junit = {};
  std::string sarif = {};
  std::string bmf = {};
};

/// The files that were asked for, opened before anything is measured.
class OutputFiles {
 public:
  /// @throws OutputError
  explicit OutputFiles(const OutputPaths& paths);
  /// @throws OutputError
  void commit(const Parameters& environment, std::span<const Result> results) const;

 private:
  std::optional<ResultFile> json_, junit_, sarif_, bmf_;
};

}  // namespace kvproof::bench
