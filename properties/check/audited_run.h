// SPDX-License-Identifier: Apache-2.0
// One run of a candidate under audit, counted law by law, and the report of a run that failed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "properties/audit/runner.h"
#include "properties/check/candidate.h"
#include "properties/check/check.h"
#include "properties/sources/random/cases.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

class AuditedRun {
 public:
  struct Ended {
    std::string unsupported;   // why it was not run; empty if it was
    bool unexplained = false;  // the subject gives no reason for that
    std::optional<Failure> failure;
    Oracles oracles;
    Demands demands;
    OperationSet declined;     // operations that it declares but does not perform here
    std::uint64_t errors = 0;  // in answer to valid calls
  };

  /// Adds the counts of the laws to the report.
  AuditedRun(const Candidate& candidate, CheckReport& report, std::uint64_t laws_left_out = 0)
      : candidate_(candidate), report_(report), laws_left_out_(laws_left_out) {}

  /// From the next run on these laws are not asked. Bit i: the i-th row of the list.
  void leave_out(std::uint64_t laws) { laws_left_out_ = laws; }

  Ended trace(const CacheConfig& config, std::span<const Operation> operations, Counts& counts);
  /// The subject must also reproduce every recorded answer and state.
  Ended recording(const CacheConfig& config, std::span<const TraceLine> lines, Counts& counts);
  Ended random(const Profile& profile, const Configuration& row, const Case& c, Counts& counts);

 private:
  class Run;

  const Candidate& candidate_;
  CheckReport& report_;
  std::uint64_t laws_left_out_;
};

/// @return why a subject cannot be asked for what has a host tier; empty: it can
[[nodiscard]] std::string why_no_host_tier(const Promises& promises);

/// Removes from a configuration what the subject does not declare. @return the reason if nothing of
/// it is left
[[nodiscard]] std::string fit(Configuration& row, const Promises& promises);

/// Shrinks a failure, for at most so long, and runs what is left once more to prove it.
[[nodiscard]] FailureReport report_failure(const Candidate& candidate, Failure failure,
                                           const std::string& where, Oracles oracles,
                                           double shrink_seconds);

/// Whether the trace of a failure breaks the same laws at the same operation under these oracles.
[[nodiscard]] bool repeats(const Candidate& candidate, const Failure& failure, Oracles oracles);

/// The one trait, or else the two, with which the trace of a failure holds. Empty if there is none,
/// or if the candidate cannot be judged by other traits than its own.
[[nodiscard]] std::string trait_that_words(const Candidate& candidate, const Failure& failure);

[[nodiscard]] std::uint64_t fingerprint(std::string_view text);

}  // namespace kvproof::properties
