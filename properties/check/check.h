// SPDX-License-Identifier: Apache-2.0
// Runs everything against one subject, with every oracle that applies to it.
//
// Runs:    the published keys of its block hash, if that is named, the directed scenarios, the
//          recorded vectors of the profile that it promises, the regressions, and the random state
//          machine over the list of configurations and over drawn ones (the swarm).
//          The report names the runs that were left out, with the reason. A failure ends its run
//          and is shrunk; others go on until as many distinct findings are there as were asked for.
// Vacuous: a law that applies but was never checked, and a counter that a configuration promises to
//          move and that did not move: the run has shown nothing about it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "properties/audit/runner.h"
#include "properties/caller/configurations.h"
#include "properties/check/candidate.h"
#include "properties/check/features.h"
#include "properties/check/findings.h"
#include "properties/laws/laws.h"

namespace kvproof::properties {

struct CheckOptions {
  std::uint64_t seed = 1;
  /// Each configuration and profile gets at least so many, those in which bugs were found late
  /// twice as many, drawn configurations kSwarmShare times as many.
  std::uint64_t operations = 4000;
  std::vector<const Profile*> profiles;    // empty: the profiles that the subject promises
  std::vector<const Configuration*> rows;  // empty: all rows of the list, and kSwarm
  std::string vectors;                     // folder of recorded traces; empty: not found
  std::string regressions;     // folder of traces that broke an allocator; empty: not found
  bool waits = true;           // goes on, up to eight times as long, until all counters have moved
  bool shrinks = true;         // makes the traces of failures short
  double shrink_seconds = 30;  // that this may take if the subject is foreign
  std::size_t findings = 1;    // it ends after so many distinct ones
  std::vector<KnownFinding> known = {};    // findings that are expected
  std::uint64_t laws_left_out = 0;         // bit i: the i-th law is not asked
  std::vector<std::string> required = {};  // laws that must be evaluated
  std::uint64_t least_operations = 0;      // rows are run again until there are so many
  std::function<void(double fraction, const std::string& what)> on_progress =
      [](double, const std::string&) {};
};

inline constexpr std::uint64_t kSwarmShare = 10;

struct LawReport : LawCount {
  bool demanded = false;  // some run demanded it
  bool promised = false;  // some run should have evaluated it
  std::string left_out;   // the reason if it was not demanded
};

/// One run of the state machine, or one kind of directed runs.
struct RunReport {
  std::string name;  // of the configuration
  std::string profile;
  std::uint64_t runs = 0;
  Counts counts = {};
  std::string not_run = {};               // the reason; empty if it was run
  bool answered = false;                  // the subject itself says so, with unsupported
  bool unexplained = false;               // and gives no reason
  std::vector<std::string> vacuous = {};  // counters that did not move
  std::string cut = {};                   // why there are fewer operations than asked for
};

/// Errors in answer to valid calls, over a whole run in which nobody objects to them.
struct Errors {
  std::uint64_t count = 0;
  std::uint64_t calls = 0;  // valid calls that were made
  std::string first;        // "append: full"
};

struct CheckReport {
  std::string subject;
  Promises promises;
  Parts shown = 0;
  std::array<LawReport, kStateLaws.size()> laws;
  bool model = false;                // the model was consulted
  bool content = false;              // the content oracle was consulted
  Beside beside;                     // what it was compared with
  std::string assumed_profile = {};  // whose policy was demanded, as the subject names none
  std::vector<RunReport> runs;
  Counts counts;
  FeaturePairs pairs;  // of the random runs
  /// Why it declined each operation, and how often.
  std::array<std::map<std::string, std::uint64_t>, kNumOperations> declined;
  Errors errors;
  std::vector<FailureReport> findings;
  std::vector<KnownFinding> gone;   // known findings that did not occur
  std::vector<std::string> silent;  // laws that were required and not evaluated
  bool stopped = false;             // there were findings enough before the last run

  /// The first finding that is not known; nullptr if there is none. What may follow from others
  /// decides nothing: the known ones that it stands behind are accepted with it.
  [[nodiscard]] const FailureReport* failure() const;
  [[nodiscard]] std::size_t num_known() const;
  /// Those that are not known, and that may follow from others.
  [[nodiscard]] std::size_t num_behind() const;
  [[nodiscard]] std::size_t laws_evaluated() const;
  [[nodiscard]] std::size_t rows_run() const;  // how many of the list of configurations
  [[nodiscard]] bool vacuous() const;
  /// The operations that it declined in more than half of its calls.
  [[nodiscard]] std::vector<std::string_view> not_exercised() const;
};

/// @throws UnusableSubject
[[nodiscard]] CheckReport check(const Candidate& candidate, const CheckOptions& options);

/// The counters that this configuration should have moved with this subject, and did not.
[[nodiscard]] std::vector<std::string> idle_counters(const Configuration& row, const Counts& counts,
                                                     bool foreign, const Demands& demands);

}  // namespace kvproof::properties
