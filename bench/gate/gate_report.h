// SPDX-License-Identifier: Apache-2.0
// The findings of the gate: a table for people, results for machines, a comment for a pull request.
#pragma once

#include <string>
#include <vector>

#include "bench/gate/verdict.h"
#include "bench/results/result_file.h"

namespace kvproof::bench {

struct TimeReport {
  std::vector<double> log_ratios;  // head / base, one per pair
  Verdict verdict = Verdict::cannot_tell;

  [[nodiscard]] double ratio() const;
};

struct WorkloadReport {
  std::string workload;
  std::vector<Comparison> counts;
  std::optional<TimeReport> time;
  WorkloadVerdict verdict;
};

struct GateReport {
  std::string head;
  std::string base;
  std::vector<std::string> notes;  // limits of the verdict
  std::vector<WorkloadReport> workloads;

  /// The first of worse, cannot tell, better, same that any workload has.
  [[nodiscard]] Verdict verdict() const;
};

/// A row for each measure and time of each workload, each note and each workload, and one for all.
[[nodiscard]] std::vector<Result> results_of(const GateReport& report, const Rules& rules);

/// One line and a table, in Markdown.
[[nodiscard]] std::string summary(const GateReport& report);

/// The same for a head that broke a law or crashed.
[[nodiscard]] std::string broken_summary(const std::string& head, const std::string& what);

}  // namespace kvproof::bench
