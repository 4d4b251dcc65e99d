// SPDX-License-Identifier: Apache-2.0
// Measures one build on one workload, in processes of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "bench/gate/calls.h"
#include "bench/gate/gate_workloads.h"
#include "bench/gate/verdict.h"

namespace kvproof::bench {

/// A build: a name in optimized/subjects.h, or a library.
struct Build {
  std::string subject;  // a name, or the absolute path of a library
  std::string shown;    // its name in output
};

struct MeasureOptions {
  std::filesystem::path program;  // kvproof-measure
  std::filesystem::path folder;   // for files that go away
  std::string profile;            // of the managers
  std::uint64_t seed = 1;
  double limit_seconds = 300;      // of each process
  std::uint64_t memory_bytes = 0;  // that it may take; 0 = no limit
  bool callgrind = true;
};

/// A build did not get through a workload. what() is one line.
class MeasuredTrouble : public std::runtime_error {
 public:
  MeasuredTrouble(const std::string& text, bool usable)
      : std::runtime_error(text), usable_(usable) {}
  /// false if it cannot be opened, or not built for the workload, which is no verdict
  [[nodiscard]] bool usable() const { return usable_; }

 private:
  bool usable_;
};

struct Counted {
  Counts counts;
  std::uint64_t checksum = 0;  // of all its answers
};

/// Whether it has a direct section.
/// @throws MeasuredTrouble, also if its managers cannot be of the profile
[[nodiscard]] bool probe_direct(const Build& build, const MeasureOptions& options);

[[nodiscard]] Counted count(const Build& build, CallStyle way, const GateWorkload& workload,
                            const MeasureOptions& options);

/// The answers alone. @return the checksum
[[nodiscard]] std::uint64_t play_answers(const Build& build, CallStyle way,
                                         const GateWorkload& workload,
                                         const MeasureOptions& options);

/// Pairs of fresh processes, taking turns: A B, B A, ... @return log(head / base) of each pair
[[nodiscard]] std::vector<double> time_pairs(const Build& base, const Build& head, CallStyle way,
                                             const GateWorkload& workload,
                                             const MeasureOptions& options,
                                             std::uint32_t num_pairs);

}  // namespace kvproof::bench
