// SPDX-License-Identifier: Apache-2.0
// Everything that can be run against one subject, with every oracle that applies to it.
//
// Runs:    the directed scenarios, the recorded vectors of the profile that it promises, and the
//          random state machine over the list of configurations. What is not run is named, with the
//          reason. The first failure ends the check and is shrunk.
// Vacuous: a law that applies and never spoke, and a counter that a configuration promises to move
//          and that did not: such a run has shown nothing about it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "properties/check/candidate.h"
#include "properties/configurations.h"
#include "properties/laws.h"
#include "properties/random/runner.h"

namespace kvproof::properties {

struct CheckOptions {
  std::uint64_t seed = 1;
  std::uint64_t operations = 4000;         // at least so many per configuration and profile
  std::vector<const Profile*> profiles;    // empty: those that the subject promises
  std::vector<const Configuration*> rows;  // empty: all of the list
  std::string vectors;                     // folder of recorded traces; empty: none was found
  double shrink_seconds = 30;              // at most, of a foreign subject
  std::function<void(double fraction, const std::string& what)> on_progress =
      [](double, const std::string&) {};
};

struct LawReport {
  std::uint64_t checked = 0;    // steps
  std::uint64_t suspended = 0;  // steps
  bool demanded = false;        // in some run
  bool promised = false;        // some run should have given it something to say
  bool broken = false;
  std::string left_out;  // why, where it was not demanded
};

/// One run of the state machine, or one kind of directed runs.
struct RunReport {
  std::string name;  // of the configuration
  std::string profile;
  std::uint64_t runs = 0;
  Counts counts = {};
  OperationSet declined = {};             // operations that it answered with "unsupported"
  std::string not_run = {};               // the reason; empty when it was
  std::vector<std::string> vacuous = {};  // counters that did not move
};

struct FailureReport {
  Failure failure;                // shrunk
  std::size_t found_after = 0;    // [operations] of the trace before it was shrunk
  std::string where;              // the configuration, the scenario or the vector
  std::string answer;             // to the last operation; empty when there was none
  Snapshot before;                // the last operation
  std::optional<Snapshot> after;  // none when the subject gave none
};

struct CheckReport {
  std::string subject;
  Promises promises;
  Parts shown = 0;
  std::array<LawReport, std::size(kLaws)> laws;
  bool model = false;    // was consulted
  bool content = false;  // was consulted
  std::vector<RunReport> runs;
  Counts counts;
  std::optional<FailureReport> failure;

  [[nodiscard]] bool vacuous() const;
};

/// @throws UnusableSubject
[[nodiscard]] CheckReport check(const Candidate& candidate, const CheckOptions& options);

/// Counters that this configuration promises to move, with a subject like this, and that did not.
[[nodiscard]] std::vector<std::string> idle_counters(const Configuration& row, const Counts& counts,
                                                     bool foreign, const Demands& demands);

}  // namespace kvproof::properties
