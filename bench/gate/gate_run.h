// SPDX-License-Identifier: Apache-2.0
// The gate after the check of the laws: it measures both builds, compares, and judges.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/gate/baseline.h"
#include "bench/gate/gate_report.h"
#include "bench/gate/measures.h"

namespace kvproof::bench {

struct GateOptions {
  Build head;
  Build checked;                     // the laws were checked on it; it must answer as the head does
  std::optional<Build> base;         // what the head is compared with: a build,
  std::optional<Recorded> baseline;  // or the counts of one; neither: it only records
  MeasureOptions measure;
  Rules rules;
  std::uint32_t pairs = 20;            // 0 = time nothing
  std::vector<std::string> workloads;  // empty = all
  std::function<void(double fraction, const std::string& what)> on_progress;
};

/// The head misbehaved, which is a verdict. what() is one line.
class WrongHead : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// @pre a base or a baseline. @throws WrongHead, MeasuredTrouble for the base
[[nodiscard]] GateReport run_gate(const GateOptions& options);

/// The head's counts on all workloads. @throws as run_gate
[[nodiscard]] Recorded record_head(const GateOptions& options);

}  // namespace kvproof::bench
